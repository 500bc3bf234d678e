"""OR-Tools CP-SAT, fed with arrays: the independent witness of HiGHS.

Symbols: c objective, k whole objective that CP-SAT sees, s scale; B bound that CP-SAT proves on k @ x.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

# The wrapper `cp_model` would load pandas (0.4 s); ortools is pinned exactly, so its core is safe to use.
from ortools.sat.python import cp_model_helper as sat

from solver.linear import (
    LinearModel,
    Solution,
    checked_answer,
    infeasible,
    no_answer,
    trivial_answer,
)
from solver.state import Bools, Floats, Ints

_SEED = 1
_OBJECTIVE_BITS = 50
"""|k| @ |x| stays near 2^50: exact in int64 and in float64, and precise to 2^-50 of the largest objective."""

_MOST_BITS = 500
"""Objectives so small that they would need more are nothing; the scale itself must stay a float."""

_NO_BOUND = 2**63 - 1


def solve(
    model: LinearModel,
    *,
    time_limit_s: float,
    gap: float,
    start: Floats | None = None,
    workers: int = 1,
) -> Solution:
    """Maximise `model` with CP-SAT, every column taken as whole.

    Parameters
    ----------
    time_limit_s : float, seconds
        Building the model counts.
    gap : float
        Relative gap at which to stop.
    start : float64[n], optional
        A hint: CP-SAT may lose it, so its value is no floor for the answer's.
    workers : int
        One worker gives the same answer every time unless the clock strikes; more do not.
    """
    began = time.monotonic()
    trivial = trivial_answer(model)
    if trivial is not None:
        return trivial
    free = model.lower < model.upper  # what is fixed is a constant, and may be too large to scale
    scale = _scale(model, free)
    whole = np.rint(np.where(free, model.objective, 0.0) * scale)
    offset = model.value(np.where(free, 0.0, model.lower)) * scale
    problem = _problem(model, whole.astype(np.int64), offset, start)
    search: Any = sat.SolveWrapper()
    search.set_parameters(_parameters(time_limit_s - (time.monotonic() - began), gap, workers))
    response = search.solve(problem)
    seconds = time.monotonic() - began
    if response.status == sat.INFEASIBLE:
        return infeasible(seconds)
    if response.status not in (sat.OPTIMAL, sat.FEASIBLE):
        return no_answer(f"CP-SAT: {_reason(response, problem)}", seconds)
    bound = _bound(model, whole / scale, scale, response)
    return checked_answer(model, np.array(response.solution, dtype=float), bound, gap, seconds)


def _scale(model: LinearModel, free: Bools) -> float:
    """Return the power of two s that keeps |c| @ |x| · s within 2^50 (1 where nothing is to be scaled)."""
    most = _largest(model, np.where(free, model.objective, 0.0))
    return 2.0 ** min(_OBJECTIVE_BITS - math.frexp(most)[1], _MOST_BITS) if most > 0 else 1.0


def _largest(model: LinearModel, coefficients: Floats) -> float:
    return float(np.abs(coefficients) @ np.maximum(np.abs(model.lower), np.abs(model.upper)))


def _problem(model: LinearModel, objective: Ints, offset: float, start: Floats | None) -> sat.CpModelProto:
    """Fill the protocol buffer itself: three times as fast as variables and linear expressions."""
    problem = sat.CpModelProto()
    add_variable, add_row = problem.variables.add, problem.constraints.add
    for domain in np.stack([model.lower, model.upper], axis=1).astype(np.int64).tolist():
        add_variable().domain.extend(domain)
    ends = model.matrix.indptr.tolist()
    columns = model.matrix.indices.tolist()
    coefficients = model.matrix.data.astype(np.int64).tolist()
    for row, domain in enumerate(_row_domains(model)):
        linear, terms = add_row().linear, slice(ends[row], ends[row + 1])
        linear.vars.extend(columns[terms])
        linear.coeffs.extend(coefficients[terms])
        linear.domain.extend(domain)
    used = np.flatnonzero(objective)
    problem.objective.vars.extend(used.tolist())
    problem.objective.coeffs.extend((-objective[used]).tolist())  # CP-SAT minimises
    problem.objective.scaling_factor = -1.0
    problem.objective.offset = -offset
    if start is not None:
        problem.solution_hint.vars.extend(range(len(start)))
        problem.solution_hint.values.extend(np.rint(start).astype(np.int64).tolist())
    return problem


def _row_domains(model: LinearModel) -> list[list[int]]:
    lower = [-_NO_BOUND if b == -math.inf else int(b) for b in model.row_lower.tolist()]
    upper = [_NO_BOUND if b == math.inf else int(b) for b in model.row_upper.tolist()]
    return [list(pair) for pair in zip(lower, upper, strict=True)]


def _parameters(time_limit_s: float, gap: float, workers: int) -> sat.SatParameters:
    parameters = sat.SatParameters()
    parameters.max_time_in_seconds = max(0.0, time_limit_s)
    parameters.relative_gap_limit = gap
    parameters.num_workers = workers
    parameters.random_seed = _SEED
    parameters.log_search_progress = False
    parameters.catch_sigint_signal = False  # else Python never learns of a Ctrl-C
    return parameters


def _bound(model: LinearModel, seen: Floats, scale: float, response: sat.CpSolverResponse) -> float:
    """Return an upper bound on c @ x + offset, given B >= k @ x.

    c @ x = k @ x / s + (c - k / s) @ x <= B / s + sum over columns of the larger of (c - k / s) · lower
    and (c - k / s) · upper; then a hair is added for the sums of floats.
    """
    proven = -response.inner_objective_lower_bound
    if proven == 0 and response.status != sat.OPTIMAL:
        return math.inf  # 0 is also what CP-SAT says when it has proven nothing
    missed = model.objective - seen
    rounding = float(np.maximum(missed * model.lower, missed * model.upper).sum())
    hair = 2.0**-_OBJECTIVE_BITS * (_largest(model, model.objective) + abs(model.offset))
    return model.offset + proven / scale + rounding + hair


def _reason(response: sat.CpSolverResponse, problem: sat.CpModelProto) -> str:
    if response.status == sat.UNKNOWN:
        return "no point within the time"
    return sat.CpSatHelper.validate_model(problem).partition("\n")[0] or response.status.name.lower()
