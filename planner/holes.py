"""Malformed entries taken out of a file's data, and the way back from what remains to the file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from planner.scan import Loc

_GONE = None  # marks the end of a hole among the steps below a place


class Holes:
    """Places of a file that are left out, so that the rest can be looked at as if they were not there."""

    def __init__(self) -> None:
        self.places: set[Loc] = set()
        self._before: dict[Loc, list[int]] = {}  # for each hole of a list: entries left before it

    def add(self, places: Iterable[Loc]) -> None:
        """Leave out more places, given as they stand in the file."""
        self.places.update(places)
        self._before = {}
        for place in sorted(p for p in self.places if p and isinstance(p[-1], int)):
            before = self._before.setdefault(place[:-1], [])
            before.append(int(place[-1]) - len(before))

    def original(self, loc: Loc) -> Loc:
        """Turn a place in what remains into the place in the file: list entries are counted back in."""
        if not self._before:
            return loc
        real: Loc = ()
        for step in loc:
            if isinstance(step, int):
                step += bisect_right(self._before.get(real, ()), step)
            real = (*real, step)
        return real

    def whole(self, loc: Loc) -> bool:
        """Say whether a list, given as it stands in what remains, has all its entries."""
        return self.original(loc) not in self._before

    def cut(self, data: Any) -> Any:
        """Return the data without the holes; what has none is shared, not copied."""
        steps: dict[Any, Any] = {}
        for place in self.places:
            here = steps
            for step in place:
                here = here.setdefault(step, {})
            here[_GONE] = True
        return _copy(data, steps)


def _copy(value: Any, steps: dict[Any, Any]) -> Any:
    """Copy along the steps that lead to holes."""
    if not steps or not isinstance(value, dict | list):
        return value
    items = value.items() if isinstance(value, dict) else enumerate(value)
    kept = [
        (key, _copy(inner, steps.get(key, {}))) for key, inner in items if _GONE not in steps.get(key, {})
    ]
    return dict(kept) if isinstance(value, dict) else [inner for _, inner in kept]
