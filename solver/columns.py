"""What the columns of a tier's model stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.clearing import Ways
from solver.state import Bools, Floats, Ints


@dataclass(frozen=True)
class Columns:
    """Column indices of the families, and what each column stands for.

    Attributes
    ----------
    start : int64[J]
        One for each of `Problem.starters()`.
    place, unit, place_class, place_domain : int64[Y]
        place[c, d] counts in units of so many pieces; d is a domain or a sea.
    whole : bool[Y]
        A unit is a whole gang.
    keep : int64[K]
        One for each possible victim; -1 for those whose whole node is cleared in ways.
    clear : int64[O]
        One for each way to clear a node.
    ways : Ways
    gone_ptr : int64[K+1]
    gone_column, gone_sign : int64[M]
        Victim r makes room if `kept[r]` + the sum of its `gone_sign` x columns is 1.
    """

    start: Ints
    place: Ints
    unit: Ints
    place_class: Ints
    place_domain: Ints
    whole: Bools
    keep: Ints
    clear: Ints
    ways: Ways
    gone_ptr: Ints
    gone_column: Ints
    gone_sign: Ints

    @property
    def kept(self) -> Ints:
        """The constant of each victim: 1 where it has a column that says that it stays, int64[K]."""
        out: Ints = (self.keep >= 0).astype(np.int64)
        return out

    def gone(self, x: Floats) -> Ints:
        """Read an answer: 1 for each victim that makes room, int64[K]."""
        victim = np.repeat(np.arange(len(self.keep)), np.diff(self.gone_ptr))
        moved = np.bincount(victim, self.gone_sign * x[self.gone_column], len(self.keep))
        out: Ints = np.rint(self.kept + moved).astype(np.int64)
        return out

    def gone_terms(self, victims: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the terms of `gone` of some victims: position in `victims`, column and sign of each."""
        counts = np.diff(self.gone_ptr)[victims]
        which = np.repeat(np.arange(len(victims)), counts)
        first = np.repeat(self.gone_ptr[victims] - np.cumsum(counts) + counts, counts)
        at = first + np.arange(len(which))
        return which, self.gone_column[at], self.gone_sign[at]


def gone_columns(keep: Ints, clear: Ints, ways: Ways, victim_of_part: Ints) -> tuple[Ints, Ints, Ints]:
    """Return `gone_ptr`, `gone_column` and `gone_sign`."""
    stays = np.flatnonzero(keep >= 0)
    by_way = np.flatnonzero(keep[victim_of_part[ways.part]] < 0)
    victim = np.concatenate((stays, victim_of_part[ways.part[by_way]]))
    column = np.concatenate((keep[stays], clear[ways.way[by_way]]))
    sign = np.concatenate((np.full(len(stays), -1), np.ones(len(by_way), dtype=np.int64)))
    turn = np.argsort(victim, kind="stable")
    ptr = np.concatenate(([0], np.cumsum(np.bincount(victim, minlength=len(keep)))))
    return ptr.astype(np.int64), column[turn], sign[turn]
