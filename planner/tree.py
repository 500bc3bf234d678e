"""Events to plain data, with the place of every key and entry beside it; no recursion, whatever the depth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from planner.scan import Event, Loc, Position, ScanError, resolve

MAX_DEPTH = 64
"""Levels of lists and mappings; a budget tree takes two for each of its own."""

MAX_ENTRIES = 100_000
"""Entries of one list or mapping."""

MAX_FAULTS = 1_000
"""Faults after which reading stops."""

EMPTY = "is empty, write `key: value` lines"


@dataclass
class Tree:
    """A mapping as it was read.

    Attributes
    ----------
    root : dict or None
        None until the file turned out to hold a mapping. Of a duplicate key the last value stays.
    marks : dict of int to dict
        For each container, by identity: where its keys or entries stand.
    faults : list of (Position, Loc, str)
        What is wrong with it.
    complete : bool
        False where reading had to stop; the last fault says why.
    """

    root: dict[str, Any] | None = None
    start: Position = (1, 1)
    marks: dict[int, dict[str | int, Position]] = field(default_factory=dict)
    faults: list[tuple[Position, Loc, str]] = field(default_factory=list)
    complete: bool = True

    def locate(self, loc: Loc) -> Position:
        """Return where a key or an entry stands, or the nearest thing above it that is there."""
        here: Any = self.root
        found = self.start
        for step in loc:
            marks = self.marks.get(id(here), {})
            if step not in marks:
                break
            found, here = marks[step], here[step]
        return found


def grow(events: Iterable[Event]) -> Tree:
    """Make a tree of events, as far as that can be done."""
    builder = _Builder()
    tree = builder.tree
    try:
        for event in events:
            builder.take(event)
    except ScanError as error:
        stop: ScanError | None = error
    else:
        stop = ScanError(1, 1, EMPTY) if tree.root is None else None
    if stop:
        tree.faults.append(((stop.line, stop.column), (), stop.fault))
        tree.complete = False
    return tree


class _Builder:
    """The containers that are open while a file is read, and the key that awaits its value in each."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.open: list[dict[str, Any] | list[Any]] = []
        self.keys: list[str | None] = []

    def take(self, event: Event) -> None:
        """Add one event."""
        kind = event.kind
        if kind in "}]":
            self.open.pop()
            self.keys.pop()
            self._done()
        elif self.open and self.keys[-1] is None and isinstance(self.open[-1], dict):
            self._take_key(event)
        elif kind in "{[":
            self._open(event)
        else:
            self._place(resolve(event.text) if kind == "plain" else event.text, event)
            self._done()

    def _done(self) -> None:
        """Forget the key whose value is complete."""
        if self.keys:
            self.keys[-1] = None

    def _open(self, event: Event) -> None:
        """Open a container as the value of its place."""
        if len(self.open) == MAX_DEPTH:
            fault = f"nests deeper than {MAX_DEPTH} levels, flatten it"
            raise ScanError(event.line, event.column, fault)
        box: dict[str, Any] | list[Any] = {} if event.kind == "{" else []
        self._place(box, event)
        self.open.append(box)
        self.keys.append(None)
        self.tree.marks[id(box)] = {}

    def _take_key(self, event: Event) -> None:
        """Keep the key of the entry that comes next."""
        position, fault = (event.line, event.column), event.fault
        if event.kind in "{[":
            raise ScanError(*position, "a key is a list or a mapping, write a plain word")
        self.keys[-1] = event.text
        marks = self.tree.marks[id(self.open[-1])]
        if event.text in marks:
            fault = f"is written twice, first in line {marks[event.text][0]}, keep one"
        marks[event.text] = position
        if fault:
            self._fault(position, fault)

    def _place(self, value: Any, event: Event) -> None:
        """Put a value into the innermost open container."""
        position = (event.line, event.column)
        if not self.open:
            self._plant(value, event)
        elif len(box := self.open[-1]) >= MAX_ENTRIES:
            raise ScanError(
                *position, f"is one entry more than the {MAX_ENTRIES} that a list or mapping may hold"
            )
        elif isinstance(box, list):
            self.tree.marks[id(box)][len(box)] = position
            box.append(value)
        else:
            key = self.keys[-1]
            assert key is not None
            box[key] = value
        if event.fault:
            self._fault(position, event.fault)

    def _plant(self, value: Any, event: Event) -> None:
        """Take the outermost value, which must be a mapping."""
        if not isinstance(value, dict):
            lone = "is a list or a single value, write `key: value` lines"
            raise ScanError(event.line, event.column, EMPTY if value is None else lone)
        self.tree.root, self.tree.start = value, (event.line, event.column)

    def _fault(self, position: Position, fault: str) -> None:
        """Keep a fault of the entry that is being read."""
        if len(self.tree.faults) == MAX_FAULTS:
            raise ScanError(*position, "has more faults from here on, mend the first ones")
        self.tree.faults.append((position, self._here(), fault))

    def _here(self) -> Loc:
        """Return the place of the entry that is being read."""
        return tuple(
            len(box) - 1 if isinstance(box, list) else str(key)
            for box, key in zip(self.open, self.keys, strict=True)
        )
