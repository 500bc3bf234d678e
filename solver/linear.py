"""One linear model in sparse arrays, and an answer to it: what formulations make, back ends solve."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from solver.state import Bools, Floats, Ints

SolveStatus = Literal["optimal", "feasible", "infeasible", "unknown"]

TOLERANCE = 1e-6
"""Largest violation of a row or a bound that counts as none; relative to it, the slack of a gap."""


@dataclass(frozen=True)
class Block:
    """Consecutive rows or columns of one family, named `family[label,label,...]`.

    Attributes
    ----------
    family : str
        As in docs/formulation.md.
    labels : int64[K, D]
        Index tuple of each of the K rows or columns.
    """

    family: str
    labels: Ints

    def names(self) -> Iterator[str]:
        """Yield the name of each row or column."""
        for label in self.labels.tolist():
            yield f"{self.family}[{','.join(map(str, label))}]"


@dataclass(frozen=True)
class LinearModel:
    """Maximise offset + objective @ x, row_lower <= matrix @ x <= row_upper, lower <= x <= upper.

    The coefficients of the matrix and all finite bounds are whole numbers, so that CP-SAT can take them.
    A model that breaks this, or whose sizes do not agree, cannot be made (ValueError).

    Attributes
    ----------
    objective : float64[n]
    offset : float
    lower, upper : float64[n]
        Finite.
    integer : bool[n]
        Where False the column may be fractional, and has a whole value in some optimum all the same.
    matrix : csr_array float64[m, n]
        Brought to canonical form in place: sorted, no duplicates, no stored zeros.
    row_lower, row_upper : float64[m]
        May be infinite.
    rows, columns : tuple of Block
        The families, in order; their sizes add up to m and n.
    """

    objective: Floats
    offset: float
    lower: Floats
    upper: Floats
    integer: Bools
    matrix: csr_array
    row_lower: Floats
    row_upper: Floats
    rows: tuple[Block, ...]
    columns: tuple[Block, ...]

    def __post_init__(self) -> None:
        self.matrix.sum_duplicates()
        self.matrix.eliminate_zeros()
        faults = [fault for ok, fault in self._promises() if not ok]
        if faults:
            raise ValueError(f"not a linear model: {'; '.join(faults)}")

    def _promises(self) -> Iterator[tuple[bool, str]]:
        """Yield each promise of the class docstring: whether it is kept, and what to say if not."""
        m, n = self.shape
        by_column = (self.lower, self.upper, self.integer)
        yield all(len(a) == n for a in by_column), "one length for all that is by column"
        yield len(self.row_upper) == m, "one length for all that is by row"
        yield self.matrix.shape == (m, n), f"the matrix is {self.matrix.shape}, not {(m, n)}"
        yield sum(len(b.labels) for b in self.rows) == m, "row families do not add up to the rows"
        yield sum(len(b.labels) for b in self.columns) == n, "column families do not add up"
        yield (
            bool(np.isfinite(self.objective).all() and math.isfinite(self.offset)),
            "objective must be finite",
        )
        yield _whole(self.lower) and _whole(self.upper), "bounds of columns must be whole, finite"
        yield _whole(self.matrix.data), "coefficients must be whole and finite"
        for bounds, none in ((self.row_lower, -np.inf), (self.row_upper, np.inf)):
            yield _whole(bounds[bounds != none]), f"bounds of rows must be whole, or {none} for none"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.row_lower), len(self.objective)

    def value(self, x: Floats) -> float:
        """Return the objective at `x`."""
        return float(self.offset + self.objective @ x)

    def violation(self, x: Floats) -> float:
        """Return the largest amount by which `x` breaks a row or a bound; 0 when feasible.

        Infinite for what is not a point at all: the wrong length, or not finite.
        """
        if x.shape != self.objective.shape or not np.isfinite(x).all():
            return math.inf
        worst = [0.0]
        if len(x):
            worst += [float(np.max(self.lower - x)), float(np.max(x - self.upper))]
            if self.integer.any():
                worst.append(float(np.max(np.abs(x - np.rint(x))[self.integer])))
        if len(self.row_lower):
            activity = self.matrix @ x
            worst += [float(np.max(self.row_lower - activity)), float(np.max(activity - self.row_upper))]
        return max(worst)


@dataclass(frozen=True)
class Solution:
    """An answer of a back end; `x` is None unless the status is `optimal` or `feasible`.

    `optimal` means: proven within the gap that was asked for. `objective` is -inf where there is no `x`.
    `bound` is an upper bound on the objective, never below `objective` (infinite where the back end proved
    none; -inf when infeasible). `note` says what went wrong, in one sentence, or is empty. `backend` is the
    name of the solver that answered, also under `auto`. `likely` are lower and upper bounds of the columns
    between which better points are likely, the narrowest first, where the back end can tell.
    """

    status: SolveStatus
    x: Floats | None
    objective: float
    bound: float
    seconds: float
    note: str = ""
    backend: str = ""
    likely: tuple[tuple[Floats, Floats], ...] = ()


def no_answer(note: str, seconds: float = 0.0) -> Solution:
    """Return a Solution that knows nothing, and why."""
    return Solution("unknown", None, -math.inf, math.inf, seconds, note)


def infeasible(seconds: float = 0.0, note: str = "") -> Solution:
    """Return the answer that no point satisfies the model."""
    return Solution("infeasible", None, -math.inf, -math.inf, seconds, note)


def trivial_answer(model: LinearModel) -> Solution | None:
    """Answer what needs no solver: crossing bounds, and models whose rows hold no column; else None."""
    if np.any(model.lower > model.upper) or np.any(model.row_lower > model.row_upper):
        return infeasible()
    if model.matrix.nnz:
        return None
    x = np.where(model.objective > 0, model.upper, model.lower)
    if model.violation(x) > 0:
        return infeasible()
    return Solution("optimal", x, model.value(x), model.value(x), 0.0)


def checked_answer(model: LinearModel, x: Floats, bound: float, gap: float, seconds: float) -> Solution:
    """Turn a back end's point and bound into a Solution, believing neither.

    Integer columns are rounded; where continuous ones then miss a row by a hair, they are rounded too
    (they have a whole value in some optimum). A point that still breaks the model gives `unknown`. A bound
    below the objective is no bound. `gap` is relative to the larger of bound and objective.
    """
    if x.shape != model.objective.shape or not np.isfinite(x).all():
        return no_answer("the solver's answer is not a point of this model", seconds)
    whole = np.clip(np.rint(x), model.lower, model.upper)
    for point in (np.where(model.integer, whole, np.clip(x, model.lower, model.upper)), whole):
        violation = model.violation(point)
        if violation <= TOLERANCE:
            return _proven(model.value(point), point + 0.0, bound, gap, seconds)  # + 0.0: no -0.0
    return no_answer(f"the solver's answer breaks the model by {violation:.3g}", seconds)


def _proven(objective: float, x: Floats, bound: float, gap: float, seconds: float) -> Solution:
    slack = TOLERANCE * max(1.0, abs(objective))
    if not objective - slack <= bound < math.inf:
        return Solution("feasible", x, objective, math.inf, seconds)
    bound = max(bound, objective)
    optimal = bound - objective <= gap * max(abs(bound), abs(objective)) + slack
    return Solution("optimal" if optimal else "feasible", x, objective, bound, seconds)


def _whole(values: Floats) -> bool:
    return bool(np.array_equal(values, np.rint(values)) and np.isfinite(values).all())
