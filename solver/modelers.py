"""PuLP: the same model for whatever other solver the site owns.

Models are built with what PuLP 3.3 and PuLP 4 both have; what a solve reports differs, and is read in
`_claim` alone. PuLP builds term by term, so this is the slow road. Its word is not taken: its point is
checked, and its claims count only if made before the clock struck (some of its wrappers call what they have
optimal, or the model infeasible, when time has run out).
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pulp
from pulp import constants

from solver.linear import (
    LinearModel,
    Solution,
    checked_answer,
    infeasible,
    no_answer,
    trivial_answer,
)
from solver.lpfile import names
from solver.state import Floats

_CLASSES = {
    "cbc": ("COIN_CMD",),
    "gurobi": ("GUROBI", "GUROBI_CMD"),
    "cplex": ("CPLEX_PY", "CPLEX_CMD"),
    "xpress": ("XPRESS_PY", "XPRESS"),
    "copt": ("COPT", "COPT_CMD"),
    "scip": ("SCIP_PY", "SCIP_CMD"),
    "glpk": ("GLPK_CMD",),
    "mosek": ("MOSEK",),
}
"""PuLP's classes for each solver, the better first: in this process before command line."""

_INSTALL = {
    "cbc": "pip install cbcbox, or put cbc on the PATH",
    "gurobi": "pip install gurobipy, or put gurobi_cl on the PATH; needs a licence",
    "cplex": "pip install cplex, or put cplex on the PATH; needs a licence",
    "xpress": "pip install xpress, or put optimizer on the PATH; needs a licence",
    "copt": "pip install coptpy, or put copt_cmd on the PATH; needs a licence",
    "scip": "pip install pyscipopt, or put scip on the PATH",
    "glpk": "put glpsol on the PATH",
    "mosek": "pip install mosek; needs a licence",
}

NAMES = tuple(_CLASSES)
"""The solvers this back end can be asked for."""

_BOUND_OF: dict[str, Callable[[Any], float]] = {
    "GUROBI": lambda model: model.ObjBound,
    "CPLEX_PY": lambda model: model.solution.MIP.get_best_objective(),
    "XPRESS_PY": lambda model: model.attributes.bestbound,
    "COPT": lambda model: model.BestBnd,
    "SCIP_PY": lambda model: model.getDualbound(),
}
"""Where the solver's own model says what it has proven; PuLP itself does not say."""

_SMALLEST_GAP = 1e-9
"""Some wrappers read a gap of 0 as none given, and fall back to the solver's own."""


def solve(
    model: LinearModel,
    *,
    time_limit_s: float,
    gap: float,
    start: Floats | None = None,
    solver: str = "cbc",
) -> Solution:
    """Maximise `model` with the solver of that name (one of `NAMES`) through PuLP.

    Parameters
    ----------
    time_limit_s : float, seconds
        Building the model counts; a command-line solver may round what is left up to a second.
    gap : float
        Relative gap at which to stop.
    start : float64[n], optional
        Ignored: PuLP's warm starts differ from solver to solver.
    """
    began = time.monotonic()
    trivial = trivial_answer(model)
    if trivial is not None:
        return trivial
    with tempfile.TemporaryDirectory(prefix="gangplan-") as scratch:
        problem, variables = _problem(model)
        left_s = max(0.01, time_limit_s - (time.monotonic() - began))
        engine = _engine(solver, left_s, max(gap, _SMALLEST_GAP), scratch)
        if engine is None:
            return no_answer(f"{solver} is not installed or not licensed: {_INSTALL[solver]}")
        asked = time.monotonic()
        try:
            problem.solve(engine)
        except Exception as error:  # wrappers raise what their solver raises
            return no_answer(f"{solver}: {type(error).__name__}: {error}", time.monotonic() - began)
    claim = _claim(problem) if time.monotonic() - asked < left_s else "time limit"
    bound = _bound(model, problem, engine, gap if claim == "optimal" else math.inf)
    answer = _answer(model, variables, bound, gap, time.monotonic() - began)
    if answer.x is None:
        if claim == "infeasible":
            return infeasible(answer.seconds)
        return replace(answer, note=f"{solver}: {claim}, {answer.note}")
    return answer


def _engine(solver: str, time_limit_s: float, gap: float, scratch: str) -> pulp.LpSolver | None:
    """Return the first PuLP class for `solver` that works here, or None."""
    for name in _CLASSES[solver]:
        try:
            engine = pulp.getSolver(name, msg=False, **_options(name, time_limit_s, gap))
            if engine.available():
                engine.tmpDir = scratch  # where command-line solvers exchange files
                return engine
        except Exception:  # noqa: S112  (a licence that fails is one more way not to be available)
            continue
    return None


def _options(name: str, time_limit_s: float, gap: float) -> dict[str, Any]:
    match name:
        case "COIN_CMD":
            return {"timeLimit": time_limit_s, "gapRel": gap, "path": _cbc_path()}
        case "GLPK_CMD":
            return {"timeLimit": math.ceil(time_limit_s), "options": ["--mipgap", str(gap)]}
        case "COPT_CMD":
            return {"TimeLimit": time_limit_s, "RelGap": gap}
        case "XPRESS_PY":  # PuLP's time limit does not reach Xpress 9; options must be whole
            return {"gapRel": gap, "options": [("TIMELIMIT", math.ceil(time_limit_s))]}
        case "MOSEK":
            return {"timeLimit": time_limit_s, "options": {"MSK_DPAR_MIO_TOL_REL_GAP": gap}}
    return {"timeLimit": time_limit_s, "gapRel": gap}


def _cbc_path() -> str | None:
    """Return the site's CBC, else the one in PuLP 3; None (in PuLP 4) leaves the search to PuLP."""
    bundled = getattr(pulp, "PULP_CBC_CMD", None)
    return shutil.which("cbc") or getattr(bundled, "pulp_cbc_path", None)


def _problem(model: LinearModel) -> tuple[pulp.LpProblem, list[pulp.LpVariable]]:
    problem = pulp.LpProblem("gangplan", pulp.LpMaximize)
    kinds = np.where(model.integer, pulp.LpInteger, pulp.LpContinuous)
    by_column = (names(model.columns), model.lower, model.upper, kinds)
    variables = [
        problem.add_variable(name, float(low), float(high), str(kind))
        for name, low, high, kind in zip(*by_column, strict=True)
    ]
    problem.setObjective(_sum(model.objective, variables))
    matrix = model.matrix
    for i, name in enumerate(names(model.rows)):
        terms = slice(matrix.indptr[i], matrix.indptr[i + 1])
        low, high = float(model.row_lower[i]), float(model.row_upper[i])
        row = _sum(matrix.data[terms], [variables[j] for j in matrix.indices[terms]])
        if low == high:
            problem.addConstraint(row == low, name)
            continue
        if np.isfinite(high):
            problem.addConstraint(row <= high, name)
        if np.isfinite(low):
            problem.addConstraint(row >= low, f"{name}.low")
    return problem, variables


def _sum(coefficients: Floats, variables: list[pulp.LpVariable]) -> pulp.LpAffineExpression:
    terms = zip(coefficients.tolist(), variables, strict=True)
    return pulp.lpSum(coefficient * variable for coefficient, variable in terms)


def _claim(problem: pulp.LpProblem) -> str:
    """Return what PuLP says of the solve: `optimal`, `infeasible` or something else."""
    status = str(constants.LpStatus[problem.status]).lower()
    if status == "optimal" and problem.sol_status != constants.LpSolutionOptimal:
        return "feasible"
    return status


def _bound(model: LinearModel, problem: pulp.LpProblem, engine: pulp.LpSolver, within: float) -> float:
    """Return the proven upper bound, the offset (which PuLP is not told) included.

    Where the solver's own bound is out of reach: the largest optimum of which its point is `within` the gap.
    """
    ask = _BOUND_OF.get(engine.name)
    if ask is not None:
        with suppress(Exception):  # "no bound yet" is an error of the solver's own
            return float(ask(problem.solverModel)) + model.offset
    value = pulp.value(problem.objective)
    if value is None or not within < 1:
        return math.inf
    reached = float(value)
    return model.offset + (reached / (1 - within) if reached > 0 else reached * (1 - within))


def _answer(
    model: LinearModel,
    variables: list[pulp.LpVariable],
    bound: float,
    gap: float,
    seconds: float,
) -> Solution:
    values = [variable.value() for variable in variables]
    if all(value is None for value in values):
        return no_answer("no point", seconds)
    # A column that stands in no row and is worth nothing never reaches the solver.
    x = np.array([low if v is None else v for v, low in zip(values, model.lower, strict=True)])
    return checked_answer(model, x, bound, gap, seconds)
