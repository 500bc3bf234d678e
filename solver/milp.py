"""HiGHS, fed with arrays: the stronger of the two exact back ends."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import highspy
import numpy as np

from solver.linear import (
    LinearModel,
    Solution,
    checked_answer,
    infeasible,
    no_answer,
    trivial_answer,
)
from solver.state import Floats

_SEED = 1
_ROWWISE = int(highspy.MatrixFormat.kRowwise)
_MAXIMISE = int(highspy.ObjSense.kMaximize)
_HAS_POINT = int(highspy.SolutionStatus.kSolutionStatusFeasible)
_NO_POINT_EXISTS = (
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,  # columns are bounded, so this says the same
)


def solve(model: LinearModel, *, time_limit_s: float, gap: float, start: Floats | None = None) -> Solution:
    """Maximise `model` with HiGHS on one thread, the same way every time unless the clock strikes.

    Parameters
    ----------
    time_limit_s : float, seconds
        HiGHS may overrun it inside presolve: a hard deadline is the business of `solver.isolate`.
    gap : float
        Relative gap at which to stop.
    start : float64[n], optional
        A feasible point to warm-start from.

    Raises
    ------
    RuntimeError
        Where HiGHS refuses the model, an option or the run.
    """
    began = time.monotonic()
    trivial = trivial_answer(model)
    if trivial is not None:
        return trivial
    highs = _new(gap)
    _load(highs, model)
    if start is not None:
        columns = np.arange(len(start), dtype=np.int32)
        highs.setSolution(len(start), columns, start)  # a start it cannot use is only a warning
    _do(highs.setOptionValue("time_limit", max(0.0, time_limit_s - (time.monotonic() - began))))
    # The number of threads is fixed when a thread first runs HiGHS; somebody else may have been there.
    highspy.Highs.resetThreadScheduler(False)
    _do(highs.run())
    return _answer(highs, model, gap, time.monotonic() - began)


def _new(gap: float) -> highspy.Highs:
    _say_hello()
    highs = highspy.Highs()
    options = {
        "output_flag": False,
        "threads": 1,
        "random_seed": _SEED,
        "presolve": "on",
        "mip_rel_gap": gap,
        "mip_abs_gap": 0.0,
    }
    for name, value in options.items():
        _do(highs.setOptionValue(name, value))
    return highs


def _load(highs: highspy.Highs, model: LinearModel) -> None:
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
            model.integer.astype(np.int32),
        )
    )


def _answer(highs: highspy.Highs, model: LinearModel, gap: float, seconds: float) -> Solution:
    status = highs.getModelStatus()
    info = highs.getInfo()
    if status in _NO_POINT_EXISTS:
        return infeasible(seconds)
    if info.primal_solution_status != _HAS_POINT:
        return no_answer(f"HiGHS: {highs.modelStatusToString(status).lower()}, no point", seconds)
    bound = info.mip_dual_bound
    if not model.integer.any():  # a plain LP has no such bound
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
