"""What the columns of a tier's model stand for."""

from __future__ import annotations

from dataclasses import dataclass

from solver.state import Bools, Ints


@dataclass
class Columns:
    """Column indices of the families, and what each column stands for.

    Attributes
    ----------
    start : int64[J]
        One for each of `Problem.starters()`.
    place, unit, place_class, place_domain : int64[Y]
        y[c, d] counts in units of so many pieces.
    whole : bool[Y]
        A unit is a whole gang.
    keep : int64[K]
        One for each possible victim.
    """

    start: Ints
    place: Ints
    unit: Ints
    place_class: Ints
    place_domain: Ints
    whole: Bools
    keep: Ints
