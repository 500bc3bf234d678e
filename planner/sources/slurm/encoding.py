"""Slurm's JSON and text, whatever its version: what is a number, a state, a list of GPUs.

Up to 22.05 numbers are plain, and `null` or a huge value means "not set"; from 23.02 they are objects
`{"set": true, "infinite": false, "number": 5}`. States are a word, or a list of words.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from planner.hostlist import expand

UNSET = (0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF)
"""Slurm's NO_VAL and INFINITE, in 32 and 64 bits."""

_NOTES = re.compile(r"\([^()]*\)")
_GPU = re.compile(r"(?:gres[:/])?gpu(?:[:=]([^:=,]+))??(?:[:=](\d+))?")
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def number(value: Any) -> int | None:
    """Return a whole number; None where it is not set or has no bound."""
    if isinstance(value, dict):
        if value.get("infinite") or not value.get("set", True):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    whole = int(value)
    return None if whole in UNSET else whole


def words(value: Any) -> frozenset[str]:
    """Return the words of a state, in capitals."""
    parts = value if isinstance(value, list) else [value]
    return frozenset(
        word.strip("*~#!%$@^-").upper() for p in parts if isinstance(p, str) for word in p.split("+") if word
    )


def text(value: Any) -> str:
    """Return a text; a list is joined by commas, an object gives its `list`."""
    if isinstance(value, dict):
        value = value.get("list")
    if isinstance(value, list):
        return ",".join(v for v in value if isinstance(v, str))
    return value if isinstance(value, str) else ""


def gpus_of(tres: str) -> Counter[str]:
    """Return the GPUs in `gpu:h100:8(IDX:0-7)`, `gres/gpu:8` or `gres/gpu=16,gres/gpu:h100=16`, by type.

    GPUs without a type stand under an empty one, unless types are named beside them: these repeat the sum.
    """
    found = Counter[str]()
    for part in _NOTES.sub("", tres).split(","):
        match = _GPU.fullmatch(part.strip())
        if match:
            kind, count = match[1] or "", match[2]
            found[kind] += 1 if count is None else int(count)
    if len(found) > 1 and "=" in tres:
        del found[""]
    return found


def nodes_of(hostlist: Any) -> tuple[str, ...]:
    """Return the names in a hostlist; none in an empty one."""
    names = text(hostlist)
    return tuple(expand(names)) if names and names not in ("(null)", "None assigned") else ()


def tasks_of(array: str, most: int) -> tuple[int, ...]:
    """Return the first tasks of a pending array, from `0,2,5-9:2%3`."""
    tasks: list[int] = []
    for part in array.partition("%")[0].split(","):
        match = _RANGE.fullmatch(part)
        if match:
            low = int(match[1])
            high = int(match[2] or low)
            tasks += range(low, high + 1, int(match[3] or 1))[: most - len(tasks)]
    return tuple(tasks)


def fields(line: str) -> dict[str, str]:
    """Return the `Key=value` pairs of one line that `scontrol -o` printed."""
    pairs = (word.partition("=") for word in line.split())
    return {key: value for key, mark, value in pairs if mark}
