"""The round as a table of contents: rank, promise, debug lane, greedy, exact, polish, check, best."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from solver import backends
from solver.board import Board
from solver.check import Broken, check
from solver.exact import Report, exact
from solver.feasible import Reject, candidates, placeable, rejections
from solver.forecast import forecasts
from solver.foresee import foresee
from solver.greedy import greedy
from solver.holds import worth, worth_a_promise
from solver.lane import run_lane
from solver.linear import LinearModel, Solution
from solver.plan import Decisions, SolverReport
from solver.polish import polish
from solver.promises import Book, keep_promises
from solver.shares import Order, rank
from solver.state import Action, Floats, Ints, SolveParams, Spread, State

AHEAD_SHARE = 0.4
"""Share of the time kept for promises, and for starts beside them, where a gang may be promised one."""

ROUNDING = 1e-9
"""Objectives that differ by less, relatively, are the same sum in another order."""


@dataclass(frozen=True)
class Outcome:
    """A decided round, and what explanations are made of.

    Attributes
    ----------
    decisions : Decisions
    backend : str
        Which rung made the plan: `greedy`, or the name of the exact back end.
    seconds : float
    order : Order
    board : Board
        As the plan leaves it.
    book : Book
        Promises kept, moved and made.
    rejected : int64[W], `Reject`
    lane : list of int
        Debug workloads started ahead of the order.
    broken : list of Broken
        Rules that even the best plan breaks; such a plan must not be applied.
    """

    decisions: Decisions
    backend: str
    seconds: float
    order: Order
    board: Board
    book: Book
    rejected: Ints
    lane: list[int]
    _summary: Callable[[], SolverReport]
    broken: list[Broken] = field(default_factory=list)

    @cached_property
    def report(self) -> SolverReport:
        """What the solver line says; a simulation never asks what all of it is worth."""
        return self._summary()

    @cached_property
    def expected_start_s(self) -> Ints:
        """Promised and forecast starts of what waits, int64[W], epoch seconds; -1 where there is none."""
        return forecasts(self.board)


def decide(state: State, params: SolveParams, rejected: Ints | None = None) -> Outcome:
    """Decide one round: the best checked plan that the ladder of solvers finds in time.

    Parameters
    ----------
    rejected : int64[W], `Reject`, or None
        What can never run here, where that is known already; None = it is found out.
    """
    began_s = time.monotonic()
    opened = _open(state, rejected)
    simple = greedy(opened.board, opened.pending)
    plans = [_Candidate("greedy", simple, Report(), opened)]
    if params.backend != "greedy" and len(opened.pending):
        plans += _exact_plans(opened, simple, plans[0], params, began_s + params.time_limit_s)
    best, notes = _best(plans)
    report = best.report if _proves(best.report) else plans[min(1, len(plans) - 1)].report
    backend = report.backend if report.bounds and best.rung != "greedy" and report.backend else "greedy"
    seconds = time.monotonic() - began_s
    return Outcome(
        decisions=best.decisions,
        backend=backend,
        seconds=seconds,
        _summary=partial(_summary, best, report, params, notes, backend, seconds),
        order=opened.board.order,
        board=best.board,
        book=opened.book,
        rejected=opened.rejected,
        lane=opened.lane,
        broken=best.broken,
    )


def _proves(report: Report) -> bool:
    """Tell whether something is proven of every tier; what is of starts beside nobody holds for all plans."""
    return bool(report.bounds) and all(np.isfinite(list(report.bounds.values())))


def _exact_plans(
    opened: _Opened, simple: Board, greedy_plan: _Candidate, params: SolveParams, deadline_s: float
) -> list[_Candidate]:
    """Return the plans of the exact rung: the best starts with promises on top, and others beside promises.

    Where promises made starts give way, the starts are solved anew, so that what lasts too long for a node
    held may start elsewhere, and what ends in time may take its place. Where the greedy plan is still the
    better one, it is for the sake of its promises, and the best starts beside those are better still.
    """
    solve, pending = _back_end(params), opened.pending

    def beside(promising: Board) -> _Candidate:
        held, promised = opened.board.copy(), promising.settled()
        for j in promised:
            held.promise(j, *promising.promised[j])
        others = pending[~np.isin(pending, promised)]
        return _Candidate(params.backend, *exact(held, others, solve, deadline_s, params.gap), opened)

    looks_ahead = bool(worth_a_promise(opened.board, pending).any())
    first_s = deadline_s - (AHEAD_SHARE * params.time_limit_s if looks_ahead else 0.0)
    solved, report = exact(opened.board, pending, solve, first_s, params.gap)
    ahead, notes = foresee(solved, pending, solve, deadline_s, params.gap)
    report.notes += notes
    plans = [_Candidate(params.backend, ahead, report, opened)]
    if ahead.starts.keys() != solved.starts.keys():
        plans.append(beside(ahead))
    if simple.settled() and all(_better(greedy_plan.worth, plan.worth) for plan in plans):
        plans.append(beside(simple))
    return plans


@dataclass
class _Opened:
    """The board as every rung finds it: ranked, promises kept, the debug lane run."""

    rejected: Ints
    board: Board
    book: Book
    lane: list[int]
    pending: Ints
    unallocated: Ints


def _open(state: State, rejected: Ints | None = None) -> _Opened:
    fits = placeable(state)
    rejected = rejections(state, fits=fits) if rejected is None else rejected
    order = rank(state, candidates(state, rejected), fits)
    board = Board(state, order)
    book = keep_promises(board)
    pending, unallocated = _pending(state, order, rejected)
    lane = run_lane(board, pending)
    return _Opened(rejected, board, book, lane, pending[~board.standing[pending]], unallocated)


def opening(state: State) -> tuple[Board, Ints]:
    """Return the board as every rung finds it, and the pending allocated work that it may start, in order."""
    opened = _open(state)
    return opened.board, opened.pending


def _pending(state: State, order: Order, rejected: Ints) -> tuple[Ints, Ints]:
    """Return pending work that can run here: allocated by the order, and unallocated."""
    w = state.workloads
    ranked = order.sequence[w.pending[order.sequence]]
    free = np.flatnonzero(w.pending & ~w.allocated & (rejected == int(Reject.NO)))
    return ranked, free


def _back_end(params: SolveParams) -> Callable[[LinearModel, float, float, Floats | None], Solution]:
    def solve(model: LinearModel, time_limit_s: float, gap: float, start: Floats | None) -> Solution:
        return backends.solve(model, params.backend, time_limit_s, gap, start)

    return solve


class _Candidate:
    """A plan that one rung made, and the rules that it breaks."""

    def __init__(self, rung: str, board: Board, report: Report, opened: _Opened) -> None:
        self.rung, self.report = rung, report
        self.board = polish(board.copy(), opened.pending, opened.unallocated)
        self.decisions = _decisions(self.board, opened.rejected)
        self.broken = check(board.state, self.decisions, set(opened.book.moved))

    @cached_property
    def worth(self) -> tuple[float, ...]:
        """The common objective by tier, GPU-hours, promises included."""
        return worth(self.board)


def _decisions(board: Board, rejected: Ints) -> Decisions:
    w = board.state.workloads
    action = np.full(w.count, int(Action.WAIT))
    action[board.standing & w.running] = Action.KEEP
    action[~board.standing & w.running] = Action.PREEMPT
    action[w.stopping] = Action.PREEMPT
    action[list(board.starts)] = Action.START
    action[rejected != int(Reject.NO)] = Action.REJECT
    promised, start_s, placement = _promises(board)
    victims = {r: board.gainers(r) for r in sorted(board.victims)}
    return Decisions(action, board.spread(), victims, promised, start_s, placement)


def _promises(board: Board) -> tuple[Ints, Ints, Spread]:
    """Return workloads, starts and placements of the promises that outlive the round."""
    js, size = board.settled(), board.state.workloads.gpus_per_replica
    parts = [[(n, k * int(size[j]), k) for n, k in sorted(board.promised[j][1])] for j in js]
    starts = np.array([board.promised[j][0] for j in js], dtype=np.int64)
    return np.array(js, dtype=np.int64), starts, Spread.of(parts)


def _best(plans: list[_Candidate]) -> tuple[_Candidate, list[str]]:
    """Return the best plan that breaks no rule; of two as good, that of the later rung."""
    notes: list[str] = []
    best: _Candidate | None = None
    for plan in plans:
        if plan.broken:
            notes.append(f"the {plan.rung} plan broke a rule and was dropped: {plan.broken[0].rule}")
        elif best is None or not _better(best.worth, plan.worth):
            best = plan
    return best or plans[0], notes


def _better(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """Tell whether objective `a` beats `b`, tier by tier, by more than rounding."""
    for x, y in zip(a, b, strict=True):
        if abs(x - y) > ROUNDING * max(abs(x), abs(y), 1.0):
            return x > y
    return False


def _summary(
    best: _Candidate, report: Report, params: SolveParams, notes: list[str], backend: str, seconds: float
) -> SolverReport:
    tiers = best.board.objective()
    value, promised = sum(tiers[:2]), sum(best.worth) - sum(tiers)
    notes = notes + report.notes
    if not report.bounds:  # nothing was left for an exact solve to decide, or none was asked for
        solved = params.backend != "greedy" and not notes
        status = "optimal" if solved else "greedy"
        return SolverReport(backend, status, value, None, None, seconds, promised, notes)
    # a bound holds given the tiers before; the polish may still better those
    bound = max(sum(report.bounds.get(t, tiers[t]) for t in (0, 1)), value)
    if not np.isfinite(bound):
        status = "greedy" if backend == "greedy" else "feasible"
        return SolverReport(backend, status, value, None, None, seconds, promised, notes)
    gap = (bound - value) / max(abs(bound), 1e-9)
    status = "optimal" if gap <= params.gap else "feasible"
    return SolverReport(backend, status, value, bound, gap, seconds, promised, notes)
