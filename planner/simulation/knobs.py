"""Knobs: keys of a site file that a comparison sets from outside, `fair_share.carry_overdraft=false,true`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from planner.errors import InputError
from planner.model.site import Site
from planner.scan import Loc, resolve
from planner.site import load_site, site_of
from planner.strict import key_path, parse, read_text

_STEP = re.compile(r"([^\s.\[\]]+)((?:\[[0-9]{1,9}\])*)")
_PLAIN = re.compile(r"[\w./%+-][\w./:%+-]*")
_POSITION = re.compile(r"[^:]*:[0-9]+:[0-9]+: ")


@dataclass(frozen=True)
class Knob:
    """A key of the site file and the value that it gets.

    Attributes
    ----------
    loc : tuple
        Place of the key in the file.
    value : object
        As the strict reader reads it.
    """

    loc: Loc
    value: Any

    @property
    def key(self) -> str:
        """Return the key as people write it."""
        return key_path(self.loc)

    @property
    def said(self) -> str:
        """Return the value as YAML in one line."""
        return _said(self.value)

    def __str__(self) -> str:
        return f"{self.key}={self.said}"


def read_knobs(settings: Sequence[str]) -> list[tuple[Knob, ...]]:
    """Return all combinations of settings, each `KEY=VALUE[,VALUE...]`; InputError with every fault."""
    axes, faults, seen = [], [], dict[Loc, str]()
    for setting in settings:
        try:
            axes.append(_axis(setting))
        except InputError as error:
            faults += error.messages
            continue
        loc = axes[-1][0].loc
        faults += [f"--set {setting}: {fault}" for fault in _overlaps(loc, seen)]
        seen[loc] = setting
    if faults:
        raise InputError(faults)
    return list(product(*axes))


def site_with(path: Path, knobs: Sequence[Knob]) -> Site:
    """Read a site file with these keys set; a fault that the file alone has not is blamed on its knob."""
    site = load_site(path)
    if not knobs:
        return site
    document = parse(read_text(path), "site")
    for knob in knobs:
        try:
            document.data = _put(document.data, knob.loc, knob.value)
        except LookupError:
            fault = "the file has no place for this key, write the path of one that it may have"
            raise InputError([f"--set {knob}: {fault}"]) from None
    try:
        return site_of(document)
    except InputError as error:
        raise InputError([_blamed(message, knobs) for message in error.messages]) from None


def _overlaps(loc: Loc, seen: Mapping[Loc, str]) -> Iterator[str]:
    """Say which settings before this one set the same key, one around it or one inside it."""
    for other, setting in seen.items():
        if loc[: len(other)] != other[: len(loc)]:
            continue
        if loc == other:
            fix = "write all values behind one, with commas between"
            yield f"{key_path(loc)} is set by --set {setting} already, {fix}"
            continue
        outer, inner = sorted((loc, other), key=len)
        fix = f"write it into the value of {key_path(outer)}, and that alone"
        yield f"{key_path(inner)} lies inside {key_path(outer)} (see --set {setting}), {fix}"


def _axis(setting: str) -> list[Knob]:
    """Return the knobs of one setting, one for each value."""
    key, given, text = setting.partition("=")
    steps = [_STEP.fullmatch(step) for step in key.split(".")]
    if not all(steps):
        fault = "names no key, write a path such as fair_share.band or budgets[0].weight"
        raise InputError([f"--set {setting}: {fault}"])
    loc: Loc = ()
    for step in steps:
        assert step is not None
        loc = (*loc, step[1], *map(int, re.findall("[0-9]+", step[2])))
    try:
        document = parse(f"{{values: [{text}]}}", "values")
        document.finish()
    except InputError as error:
        raise InputError(
            [f"--set {setting}: {_POSITION.sub('', m, count=1)}" for m in error.messages]
        ) from None
    values = document.data["values"]
    if not given or not values or len(document.data) > 1:
        raise InputError([f"--set {setting}: holds no value, write {key}=VALUE or {key}=VALUE,VALUE"])
    return [Knob(loc, value) for value in values]


def _put(data: Any, loc: Loc, value: Any) -> Any:
    """Return the data with a value at a place; LookupError where there is no such place."""
    if not loc:
        return value
    step, below = loc[0], loc[1:]
    if isinstance(step, int):
        if not isinstance(data, list) or step >= len(data):
            raise LookupError
        return [*data[:step], _put(data[step], below, value), *data[step + 1 :]]
    if data is not None and not isinstance(data, dict):
        raise LookupError
    held = data or {}
    return {**held, step: _put(held.get(step), below, value)}


def _blamed(message: str, knobs: Sequence[Knob]) -> str:
    """Name the knobs at or around the place of a fault, or all where it is elsewhere."""
    fault = _POSITION.sub("", message, count=1)
    place = fault.partition(": ")[0]
    near = [knob for knob in knobs if place.startswith(knob.key) or knob.key.startswith(place)]
    return f"{' '.join(f'--set {knob}' for knob in near or knobs)}: {fault}"


def _said(value: Any) -> str:
    """Return a value as YAML in one line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_said(key)}: {_said(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_said, value)) + "]"
    if isinstance(value, str) and (not _PLAIN.fullmatch(value) or resolve(value) != value):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
