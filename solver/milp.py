"""HiGHS, fed with arrays: the stronger of the two exact back ends."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import highspy
import numpy as np

from solver.branch import Box, branch
from solver.linear import (
    LinearModel,
    Solution,
    checked_answer,
    infeasible,
    no_answer,
    trivial_answer,
)
from solver.state import Bools, Floats

MOST_RELAXED = 200
"""Where so many relaxations prove nothing, the relaxation is far from whole, and HiGHS has cuts for that."""

WITHIN_GAP = 0.25
"""Share of the gap for the best point between bounds; the rest is for what lies outside."""

_SEED = 1
_ROWWISE = int(highspy.MatrixFormat.kRowwise)
_MAXIMISE = int(highspy.ObjSense.kMaximize)
_HAS_POINT = int(highspy.SolutionStatus.kSolutionStatusFeasible)
_NO_POINT_EXISTS = (
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,  # columns are bounded, so this says the same
)


def solve(
    model: LinearModel,
    *,
    time_limit_s: float,
    gap: float,
    start: Floats | None = None,
    branching: bool = False,
    within: Box | None = None,
) -> Solution:
    """Maximise `model` with HiGHS on one thread, the same way every time unless the clock strikes.

    Parameters
    ----------
    time_limit_s : float, seconds
        HiGHS may overrun it inside presolve: a hard deadline is the business of `solver.isolate`.
    gap : float
        Relative gap at which to stop.
    start : float64[n], optional
        A feasible point to warm-start from.
    branching : bool
        Use only the simplex method of HiGHS, in a branch and bound of our own: far faster where the
        relaxation is nearly whole, and soon at its end where it is not.
    within : (float64[n], float64[n]), optional
        Look for a point between these column bounds only; nothing is proven of the model then.

    Raises
    ------
    RuntimeError
        Where HiGHS refuses the model, an option or the run.
    """
    began = time.monotonic()
    trivial = trivial_answer(model)
    if trivial is not None:
        return trivial
    # The number of threads is fixed when a thread first runs HiGHS; somebody else may have been there.
    highspy.Highs.resetThreadScheduler(False)
    if branching:
        return _branched(model, began, time_limit_s, gap, start)
    highs = _new()
    options: dict[str, Any] = {"mip_rel_gap": gap, "mip_abs_gap": 0.0, "mip_detect_symmetry": False}
    if within is not None:  # presolve is slow, and worth it where there is much to take out
        options |= {"mip_rel_gap": WITHIN_GAP * gap, "presolve": "on"}
    for name, value in options.items():
        _do(highs.setOptionValue(name, value))
    lower, upper = (model.lower, model.upper) if within is None else within
    _load(highs, replace(model, lower=lower, upper=upper), model.integer)
    if start is not None and ((lower <= start) & (start <= upper)).all():
        columns = np.arange(len(start), dtype=np.int32)
        highs.setSolution(len(start), columns, start)  # a start it cannot use is only a warning
    _do(highs.setOptionValue("time_limit", max(0.0, time_limit_s - (time.monotonic() - began))))
    _do(highs.run())
    return _answer(highs, model, gap, time.monotonic() - began, proves=within is None)


def _branched(
    model: LinearModel, began: float, time_limit_s: float, gap: float, start: Floats | None
) -> Solution:
    relaxation = Relaxation(model, began + time_limit_s)
    found = branch(model, relaxation.solve, gap, MOST_RELAXED, start, details=False, aside=relaxation.aside)
    seconds = time.monotonic() - began
    if found.bound == -math.inf:
        return infeasible(seconds)
    if found.x is None:
        answer = no_answer("HiGHS: no whole point among the relaxations that there was time for", seconds)
        return replace(answer, bound=found.bound, likely=found.likely)
    return replace(checked_answer(model, found.x, found.bound, gap, seconds), likely=found.likely)


class Relaxation:
    """The linear relaxation of a model, solved again and again from where it stood."""

    def __init__(self, model: LinearModel, deadline: float) -> None:
        self.highs, self.deadline = _new(), deadline
        self.lower, self.upper = model.lower.copy(), model.upper.copy()
        _load(self.highs, model, np.zeros(len(model.objective), dtype=bool))

    def solve(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats] | None:
        """Return a point and duals between column bounds, or None where there is none."""
        moved = np.flatnonzero((lower != self.lower) | (upper != self.upper)).astype(np.int32)
        if len(moved):
            _do(self.highs.changeColsBounds(len(moved), moved, lower[moved], upper[moved]))
            self.lower, self.upper = lower.copy(), upper.copy()
        left_s = self.deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        _do(self.highs.setOptionValue("time_limit", self.highs.getRunTime() + left_s))
        _do(self.highs.run())
        status = self.highs.getModelStatus()
        if status in _NO_POINT_EXISTS:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise TimeoutError
        solution = self.highs.getSolution()
        return np.array(solution.col_value), np.array(solution.row_dual)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let what is solved inside leave no trace: the next relaxation goes on from the one before."""
        basis = self.highs.getBasis()
        yield
        _do(self.highs.setBasis(basis))


def _new() -> highspy.Highs:
    _say_hello()
    highs = highspy.Highs()
    options = {"output_flag": False, "threads": 1, "random_seed": _SEED, "presolve": "off"}
    for name, value in options.items():
        _do(highs.setOptionValue(name, value))
    return highs


def _load(highs: highspy.Highs, model: LinearModel, integer: Bools) -> None:
    rows, columns = model.shape
    matrix = model.matrix
    _do(
        highs.passModel(
            columns,
            rows,
            matrix.nnz,
            _ROWWISE,
            _MAXIMISE,
            model.offset,
            model.objective,
            model.lower,
            model.upper,
            model.row_lower,
            model.row_upper,
            matrix.indptr[:-1].astype(np.int32),
            matrix.indices.astype(np.int32),
            matrix.data,
            integer.astype(np.int32),
        )
    )


def _answer(
    highs: highspy.Highs, model: LinearModel, gap: float, seconds: float, *, proves: bool
) -> Solution:
    status = highs.getModelStatus()
    info = highs.getInfo()
    if status in _NO_POINT_EXISTS and proves:
        return infeasible(seconds)
    if info.primal_solution_status != _HAS_POINT:
        return no_answer(f"HiGHS: {highs.modelStatusToString(status).lower()}, no point", seconds)
    bound = info.mip_dual_bound if proves else math.inf
    if proves and not model.integer.any():  # a plain LP has no such bound
        optimal = status == highspy.HighsModelStatus.kOptimal
        bound = info.objective_function_value if optimal else math.inf
    return checked_answer(model, np.array(highs.getSolution().col_value), bound, gap, seconds)


def _do(status: highspy.HighsStatus) -> None:
    """Raise where HiGHS reports an error; warnings (a time limit is one) pass."""
    if status == highspy.HighsStatus.kError:
        raise RuntimeError("HiGHS refused the model, an option or the run")


@cache
def _say_hello() -> None:
    """Make the first HiGHS object of this process, which prints a banner that nothing can switch off."""
    with _stdout_to_nowhere():
        highspy.Highs()


@contextmanager
def _stdout_to_nowhere() -> Iterator[None]:
    kept = os.dup(1)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
