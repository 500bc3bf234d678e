"""Our own policy, by the very code that `plan` runs: `solver.decide` on the state of the round.

`budget-greedy` takes the greedy rung. `budget` has the exact solver in the loop: it is called where greedy
left a funded gang waiting that the capacity which may be given away could hold, or would promise a later
start, at most once in `EXACT_EVERY_S`; elsewhere greedy stands. How often each made the plan is in the
summary.

Between rounds the hot path places allocated work that arrives, as `gangplan place` does. It must not take
what others have waited for longer: unless it is debug work, it is asked only while nothing has come free
since the last round.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from planner.errors import PlanRejectedError
from planner.place import standing_board
from planner.simulation.policies.base import Promised, Round, Setting, Verdict
from solver.board import Board
from solver.decide import Outcome, decide
from solver.feasible import Reject
from solver.hotpath import place
from solver.state import SolveParams, State

EXACT_EVERY_S = 900
"""Simulated seconds between two calls of the exact solver, at least."""


class BudgetGreedy:
    """The greedy rung in every round."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def decide(self, round_: Round) -> Verdict:
        """Decide one round as `plan --backend greedy` does."""
        return _verdict(round_, _decide(round_.state, SolveParams("greedy")))

    def arrive(self, round_: Round) -> Verdict | None:
        """Place the newest workload beside what stands, as `place` does."""
        began_s = time.perf_counter()
        placed = place(standing_board(round_.state), round_.state)
        if placed.parts is None:
            return None
        return Verdict(placed.board, solve_s=time.perf_counter() - began_s)


class Budget(BudgetGreedy):
    """The exact solver where it may better the greedy plan."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.next_exact_s = 0

    def decide(self, round_: Round) -> Verdict:
        """Decide one round as `plan` does, with the exact rung where it may matter."""
        greedy = _decide(round_.state, SolveParams("greedy"))
        now_s = round_.state.now_s
        may_matter = _left_waiting(greedy.board) or _promises_anew(greedy.board)
        if now_s < self.next_exact_s or not may_matter:
            return _verdict(round_, greedy)
        self.next_exact_s = now_s + EXACT_EVERY_S
        chosen = self.setting.site.solver
        params = SolveParams(chosen.backend, chosen.time_limit_s, chosen.gap)
        exact = _verdict(round_, _decide(round_.state, params))
        return replace(exact, solve_s=exact.solve_s + greedy.seconds)


def _decide(state: State, params: SolveParams) -> Outcome:
    """Decide one round; what can never run here the engine has refused when it was submitted."""
    return decide(state, params, rejected=np.full(state.workloads.count, int(Reject.NO)))


def _promises_anew(board: Board) -> bool:
    """Tell whether a start is promised that was not promised before: the best of them are worth a solve."""
    return not set(board.settled()) <= set(board.state.promises.workload.tolist())


def _left_waiting(board: Board) -> bool:
    """Tell whether somebody in the money waits whom free and interruptible capacity could hold."""
    w = board.state.workloads
    stays = board.standing & board.interruptible
    loose = int(board.free_gpus.sum()) + int(w.gpus[stays].sum())
    waits = w.pending & ~board.standing & w.allocated & board.order.in_money
    return bool((w.gpus[waits] <= loose).any())


def _verdict(round_: Round, outcome: Outcome) -> Verdict:
    if outcome.broken:
        raise PlanRejectedError([f"at {round_.state.now_s} s: {b.rule}: {b.detail}" for b in outcome.broken])
    board, w = outcome.board, round_.state.workloads
    money = np.flatnonzero(w.pending & ~board.standing & outcome.order.in_money)
    return Verdict(
        board,
        tuple(Promised(j, *board.promised[j]) for j in board.settled()),
        tuple(money.tolist()),
        outcome.backend,
        outcome.seconds,
        tuple((j, int(why)) for j, why in sorted(outcome.book.moved.items())),
    )
