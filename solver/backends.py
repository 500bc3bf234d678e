"""The exact back ends by name: whatever goes wrong in one of them costs quality, never the round."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from solver import isolate
from solver.linear import LinearModel, Solution, checked_answer, no_answer
from solver.state import Floats

_THROUGH_PULP = ("cbc", "gurobi", "cplex", "xpress", "copt", "scip", "glpk", "mosek")

_MODULES = {
    "highs": "solver.milp",
    "cp-sat": "solver.cpsat",
    **dict.fromkeys(_THROUGH_PULP, "solver.modelers"),
}
"""Imported when first asked for: nobody should wait for a solver that is not used."""

_AUTO = ("highs", "cp-sat")
"""HiGHS is the stronger one; CP-SAT shares no code with it."""

SHARE = {"branching": 0.5, "within": 0.8, "whole": 1.0}
"""HiGHS is asked up to three kinds of questions until it has proven its answer, and each gets so much of the
time that is left: by our branching; within the parts that this found likely; the whole, on its own."""

NAMES = ("auto", *_MODULES)
"""What `solve` takes as a name."""

_GRACE_S = 1.0
_GRACE_SHARE = 0.1
"""Solvers look at the clock now and then; an answer that comes a little late is worth the wait."""

_LEAST_S = 0.05
"""Less time than this is not worth asking a second back end."""

BackEnd = Callable[..., Solution]


def warm(names: Iterable[str]) -> None:
    """Import the back ends of these names, so that no solve has to wait for it.

    Names of what is not there are passed over: `solve` will say so.
    """
    for name in names:
        for each in _AUTO if name == "auto" else (name,):
            with suppress(Exception):
                _back_end(each)


def solve(
    model: LinearModel,
    name: str,
    time_limit_s: float,
    gap: float,
    start: Floats | None = None,
    isolated: bool = True,
) -> Solution:
    """Maximise `model` with the back end of that name; any failure is a Solution of status `unknown`.

    `auto` asks HiGHS and, where that fails or says that no point exists, CP-SAT for the time that is left.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    time_limit_s : float, seconds
        An isolated back end is killed a second, or a tenth of the limit, after it.
    gap : float
        Relative gap at which an answer counts as optimal.
    start : float64[n], optional
        A feasible point to start from. It is a hint, not a floor: the answer may be worse.
    isolated : bool
        Solve in a child process. Without it a solver that aborts or hangs takes this process along.
    """
    began = time.monotonic()
    answers: list[Solution] = []
    for each in _AUTO if name == "auto" else (name,):
        left_s = time_limit_s - (time.monotonic() - began)
        if answers and left_s < _LEAST_S:
            break
        answers.append(_ask(each, model, left_s, gap, start, isolated))
        if answers[-1].x is not None:
            break
    notes = "; ".join(answer.note for answer in answers if answer.note)
    return replace(_most_telling(answers), note=notes, seconds=time.monotonic() - began)


def _most_telling(answers: list[Solution]) -> Solution:
    """Return the last answer that knew anything: only the last one can have a point."""
    return [answers[0], *(answer for answer in answers if answer.status != "unknown")][-1]


def _ask(
    name: str,
    model: LinearModel,
    time_limit_s: float,
    gap: float,
    start: Floats | None,
    isolated: bool,
) -> Solution:
    """Ask one back end, HiGHS several questions: what one of them found is not lost in the next."""
    began = time.monotonic()
    try:
        back_end = _back_end(name)
    except Exception as error:  # a broken installation raises what it likes
        return replace(no_answer(f"{error}"), backend=name)
    known: Solution | None = None
    questions: list[tuple[str, dict[str, Any]]] = [("whole", {})]
    if name == "highs":
        questions.insert(0, ("branching", {"branching": True}))
    while questions and (known is None or known.status not in ("optimal", "infeasible")):
        question, how = questions.pop(0)
        limit_s = SHARE[question] * max(0.0, time_limit_s - (time.monotonic() - began))
        start = start if known is None or known.x is None else known.x
        call = partial(back_end, model, time_limit_s=limit_s, gap=gap, start=start, **how)
        deadline_s = limit_s + max(_GRACE_S, _GRACE_SHARE * limit_s)
        outcome = isolate.run(call, (), deadline_s) if isolated else _in_process(call)
        answer = outcome.value
        if not isinstance(answer, Solution):
            answer = no_answer(f"{name}: {outcome.note or 'answered with something else'}", outcome.seconds)
            return replace(known or answer, backend=name)
        questions[:0] = [("within", {"within": part}) for part in answer.likely]
        if answer.x is not None:  # checked here too: the child's memory is not to be trusted
            answer = checked_answer(model, answer.x, answer.bound, gap, answer.seconds)
        known = answer if known is None else _better(model, known, answer, gap)
    assert known is not None
    return replace(known, backend=name)


def _better(model: LinearModel, one: Solution, other: Solution, gap: float) -> Solution:
    """Return the better point of two answers to one model, with the better bound."""
    best = one if one.objective > other.objective else other
    if best.x is None:
        return other if other.status == "infeasible" else replace(other, bound=min(one.bound, other.bound))
    return checked_answer(model, best.x, min(one.bound, other.bound), gap, one.seconds + other.seconds)


def _back_end(name: str) -> BackEnd:
    """Return the function of that name; LookupError or ImportError where there is none."""
    if name not in _MODULES:
        raise LookupError(f"no back end is called {name!r}; there are {', '.join(NAMES)}")
    solve_with: BackEnd = importlib.import_module(_MODULES[name]).solve
    return partial(solve_with, solver=name) if name in _THROUGH_PULP else solve_with


def _in_process(call: Callable[[], Solution]) -> isolate.Outcome[Solution]:
    began = time.monotonic()
    try:
        return isolate.Outcome(call(), "", time.monotonic() - began)
    except Exception as error:
        note = f"{type(error).__name__}: {error}"
        return isolate.Outcome(None, note, time.monotonic() - began)
