"""Lists of hosts in the short form that clusters use: `saturn-[001-064,070],login1`."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator

from planner.words import shown

MAX_HOSTS = 100_000
"""Hosts that one hostlist may name; more is a slip of the pen, and would only be noticed as a hang."""

MAX_NAME = 255
_PIECE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})([^0-9]*)", re.DOTALL)
_LIKE = "write it like n[001-064,070] or a1,a2"


class Hosts:
    """The hosts that a hostlist names, in its own order: the last bracket turns fastest; not written out yet.

    Numbers keep the zero padding of the low end. Raises ValueError for what is not a hostlist and for more
    than `MAX_HOSTS` names.
    """

    def __init__(self, text: str) -> None:
        if not text or any(c.isspace() for c in text):
            fault = "has blanks" if text else "is empty"
            raise ValueError(f"hostlist {shown(text)} {fault}, {_LIKE}")
        self._words = [_axes(word, text) for word in _split(text)]
        self._count = sum(math.prod(map(_count, axes)) for axes in self._words)
        if self._count > MAX_HOSTS:
            fix = f"write lists of at most {MAX_HOSTS}"
            raise ValueError(f"hostlist {shown(text)} names {self._count} hosts, {fix}")
        if any(sum(map(_longest, axes)) > MAX_NAME for axes in self._words):
            raise ValueError(f"hostlist {shown(text)} has a name over {MAX_NAME} characters, shorten it")

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        for axes in self._words:
            yield from map("".join, itertools.product(*map(_texts, axes)))

    @property
    def patterns(self) -> Iterator[str]:
        """The names with a 0 for each bracket: what stands around the numbers, once."""
        for axes in self._words:
            yield "".join(axis if isinstance(axis, str) else "0" for axis in axes)


def expand(text: str) -> list[str]:
    """Return the names in a hostlist; ValueError as `Hosts`, before any of them is made."""
    return list(Hosts(text))


_Range = tuple[int, int, int]  # low, high, width
_Axis = str | list[_Range]  # a fixed part of a name, or the numbers in one pair of brackets


def _count(axis: _Axis) -> int:
    """Return how many texts an axis has, without making them."""
    return 1 if isinstance(axis, str) else sum(high - low + 1 for low, high, _ in axis)


def _longest(axis: _Axis) -> int:
    """Return the characters of the longest text of an axis."""
    if isinstance(axis, str):
        return len(axis)
    return max(max(len(str(high)), width) for _, high, width in axis)


def _texts(axis: _Axis) -> list[str]:
    """Return all texts of an axis."""
    if isinstance(axis, str):
        return [axis]
    return [str(n).zfill(width) for low, high, width in axis for n in range(low, high + 1)]


def _split(text: str) -> list[str]:
    """Cut at the commas outside brackets; brackets must pair up and not nest."""
    words, start, inside = [], 0, False
    for i, c in enumerate(text):
        if (c == "[" and inside) or (c == "]" and not inside):
            raise ValueError(f"hostlist {shown(text)} has brackets that do not pair up, {_LIKE}")
        inside = c == "[" or (inside and c != "]")
        if c == "," and not inside:
            words.append(text[start:i])
            start = i + 1
    if inside:
        raise ValueError(f"hostlist {shown(text)} has brackets that do not pair up, {_LIKE}")
    words.append(text[start:])
    if "" in words:
        raise ValueError(f"hostlist {shown(text)} has an empty name between commas, {_LIKE}")
    return words


def _axes(word: str, text: str) -> list[_Axis]:
    """Cut `a[1-2]b[3]` into its fixed and its running parts."""
    parts = re.split(r"\[([^\]]*)\]", word)
    return [_numbers(part, text) if i % 2 else part for i, part in enumerate(parts)]


def _numbers(inner: str, text: str) -> list[_Range]:
    """Read what stands between brackets: `001-064,070`."""
    ranges = []
    for piece in inner.split(","):
        match = _PIECE.fullmatch(piece)
        if not match:
            raise ValueError(f"hostlist {shown(text)}: {shown(piece)} is not a range, {_LIKE}")
        first, last = match.group(1), match.group(2) or match.group(1)
        low, high = int(first), int(last)
        if high < low:
            raise ValueError(f"hostlist {shown(text)}: {piece} runs backwards, write {last}-{first}")
        if last != str(high).zfill(len(first)):
            fix = f"{str(low).zfill(len(last))}-{last}"
            raise ValueError(f"hostlist {shown(text)}: {piece} pads its ends unevenly, write {fix}")
        ranges.append((low, high, len(first)))
    return ranges


def fold(names: Iterable[str]) -> str:
    """Return the shortest usual form of a set of names, for tables; `expand` gives them back.

    Only the last number of a name runs. Names are sorted by stem, then by number, and named once.
    """
    stems: dict[tuple[str, str], list[str]] = {}
    plain = []
    for name in set(names):
        match = _NUMBERED.fullmatch(name)
        if match:
            stems.setdefault((match.group(1), match.group(3)), []).append(match.group(2))
        else:
            plain.append((name, "", name))
    folded = [(head, tail, f"{head}{_ranges(texts)}{tail}") for (head, tail), texts in stems.items()]
    return ",".join(word for _, _, word in sorted(plain + folded))


def _ranges(texts: list[str]) -> str:
    """Return `[001-003,007]` for numbers of one stem, or the bare number where there is only one."""
    if len(texts) == 1:
        return texts[0]
    runs: list[tuple[str, str]] = []
    open_runs: dict[str, int] = {}  # the text that would continue a run -> that run
    for text in sorted(texts, key=lambda t: (int(t), len(t))):
        run = open_runs.pop(text, len(runs))
        if run == len(runs):
            runs.append((text, text))
        else:
            runs[run] = (runs[run][0], text)
        open_runs[str(int(text) + 1).zfill(len(runs[run][0]))] = run
    return "[" + ",".join(low if low == high else f"{low}-{high}" for low, high in runs) + "]"
