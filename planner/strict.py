"""One strict reader for YAML and JSON that knows where everything stands and reports all faults at once."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner.errors import InputError
from planner.holes import Holes
from planner.rights import unreadable
from planner.scan import (
    LONGEST_NUMBER,
    JsonPlaces,
    Loc,
    Position,
    ScanError,
    check_characters,
    json_events,
    number,
    place,
    yaml_events,
)
from planner.tree import MAX_DEPTH, MAX_ENTRIES, Tree, grow
from planner.words import printable, shown

MAX_FAULTS = 200
"""Faults that are told."""

MAX_KEPT = 2_000
"""Faults that are kept, and counted; a file with more has one cause."""

MAX_BYTES = 1 << 28
MAX_YAML_CHARACTERS = 8_000_000
"""What is longer was written by a program, which can write JSON: that is read many times faster."""

_PLAIN_KEY = re.compile(r"[^\s:\"]+(?: [^\s:\"]+)*")
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file; InputError where there is none."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError([f"{path}: {unreadable(error)}"]) from None
    if len(raw) > MAX_BYTES:
        raise InputError([f"{path}:1:1: file: is larger than 256 MiB, write less"])
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        line, column = place(before, len(before))
        fault = f"is not UTF-8 text (byte 0x{raw[error.start]:02x}), save it as UTF-8"
        raise InputError([f"{path}:{line}:{column}: file: {fault}"]) from None


def parse(text: str, name: str) -> Document:
    """Read YAML or JSON text into a mapping; InputError where nothing can be made of it.

    What starts with a bracket is tried as JSON first; a name that ends in `.json` can be nothing else.
    Faults that leave the rest readable (duplicate keys, aliases) wait in the document for `finish`.
    """
    document = Document(name)
    text = text.removeprefix("\ufeff")
    try:
        check_characters(text)
        first = text.lstrip()[:1]
        json_like = name.endswith(".json") or (first and first in "{[")
        if not (first and json_like and _read_json(document, text)):
            _read_yaml(document, text)
    except ScanError as error:
        raise InputError([f"{name}:{error.line}:{error.column}: file: {error.fault}"]) from None
    return document


@dataclass
class Document:
    """A file under examination, and what is wrong with it.

    `fault` takes places in the file as it is. `contradiction` takes places in what is left once the holes
    (malformed entries) are out, and keeps silent about anything that is malformed anyway.
    """

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    holes: Holes = field(default_factory=Holes)
    _places: Tree | JsonPlaces = field(default_factory=Tree)
    _faults: list[tuple[Position, Loc, str]] = field(default_factory=list)
    _broken: set[Loc] = field(default_factory=set)
    _tainted: set[Loc] = field(default_factory=set)

    def take(self, tree: Tree) -> None:
        """Hold what was read by events; InputError where reading had to stop."""
        self._places = tree
        for position, loc, text in tree.faults:
            self._note(position, loc, text)
        if not tree.complete or tree.root is None:
            self.finish()
        self.data = tree.root or {}

    def take_json(self, data: dict[str, Any], text: str) -> None:
        """Hold faultless JSON."""
        self.data, self._places = data, JsonPlaces(text)

    def fault(self, loc: Loc, text: str) -> None:
        """Note a fault, unless this very place has one already."""
        if loc not in self._broken:
            self._note(self.locate(loc), loc, text)

    def _note(self, position: Position, loc: Loc, text: str) -> None:
        """Keep a fault, and remember that its place is malformed."""
        self._faults.append((position, loc, text))
        self._broken.add(loc)
        self._tainted.update(loc[:i] for i in range(len(loc) + 1))

    def contradiction(self, loc: Loc, text: str, *others: Loc) -> None:
        """Note that well-formed values do not go together; `others` are places it hangs on as well."""
        if len(self._faults) < MAX_KEPT and all(self.sound(place) for place in (loc, *others)):
            real = self.holes.original(loc)
            self._faults.append((self.locate(real), real, text))

    def sound(self, loc: Loc) -> bool:
        """Say whether nothing at, below or above a place is malformed."""
        real = self.holes.original(loc)
        return real not in self._tainted and not any(real[:i] in self._broken for i in range(1, len(real)))

    def locate(self, loc: Loc) -> Position:
        """Return where a key or list entry stands, or the nearest thing above it that is there."""
        return self._places.locate(loc)

    def finish(self) -> None:
        """Raise all faults as one InputError, in the order of the file; do nothing if there is none."""
        if not self._faults:
            return
        found = sorted(set(self._faults), key=lambda fault: (fault[0], key_path(fault[1]), fault[2]))
        lines = [
            f"{self.name}:{line}:{column}: {key_path(loc)}: {text}"
            for (line, column), loc, text in found[:MAX_FAULTS]
        ]
        if len(found) > MAX_FAULTS:
            line, column = found[MAX_FAULTS][0]
            rest = f"at least {len(found) - MAX_FAULTS} more faults from here on, mend the first ones"
            lines.append(f"{self.name}:{line}:{column}: file: {rest}")
        raise InputError(lines)


def key_path(loc: Loc) -> str:
    """Write a place as people do: `budgets[1].children[0].weight`."""
    steps = (f"[{s}]" if isinstance(s, int) else f".{_key(s)}" for s in loc)
    return "".join(steps).removeprefix(".") or "file"


def _key(key: str) -> str:
    """Return a key as it stands in a place: in quotes where it would not be seen to begin or to end."""
    return printable(key[:80]) if _PLAIN_KEY.fullmatch(key) else shown(key)


# -- reading -----------------------------------------------------------------------------------------


def _read_json(document: Document, text: str) -> bool:
    """Read JSON at full speed, or by events where there is something to complain about.

    Returns False where it is not JSON, and may be YAML.
    """
    odd = _HALF_PAIR.search(text) is not None

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal odd
        found = dict(items)
        odd = odd or len(found) != len(items)
        return found

    def literal(token: str) -> Any:
        nonlocal odd
        value = number(token)
        odd = odd or value is None
        return value

    def whole(token: str) -> Any:
        return int(token) if len(token) <= LONGEST_NUMBER else literal(token)

    try:
        data = json.loads(
            text,
            object_pairs_hook=pairs,
            parse_float=literal,
            parse_constant=literal,
            parse_int=whole,
        )
    except RecursionError:
        odd, data = True, {}
    except json.JSONDecodeError as error:
        if not document.name.endswith(".json"):
            return False
        fault = f"is not JSON ({error.msg}), check the quotes, commas and brackets here"
        raise ScanError(error.lineno, error.colno, fault) from None
    if odd or not isinstance(data, dict) or _oversized(data):
        document.take(grow(json_events(text)))
    else:
        document.take_json(data, text)
    return True


def _oversized(data: Any) -> bool:
    """Say whether lists and mappings nest too deep or hold too much."""
    level: list[Any] = [data]
    for _ in range(MAX_DEPTH):
        if any(len(box) > MAX_ENTRIES for box in level):
            return True
        inner = (box.values() if isinstance(box, dict) else box for box in level)
        level = [x for values in inner for x in values if isinstance(x, dict | list)]
    return bool(level)


def _read_yaml(document: Document, text: str) -> None:
    """Read YAML by its events."""
    if len(text) > MAX_YAML_CHARACTERS:
        limit = f"{MAX_YAML_CHARACTERS // 1_000_000} million characters"
        raise ScanError(1, 1, f"is more than {limit} of YAML, write JSON instead")
    document.take(grow(yaml_events(text)))
