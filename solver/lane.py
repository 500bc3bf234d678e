"""The debug lane: a few GPUs on which debug workloads of any allocation start ahead of the order."""

from __future__ import annotations

import numpy as np

from solver.board import Board
from solver.greedy import start_by_eviction, start_free, worth
from solver.shares import UNALLOCATED, WITHIN
from solver.state import Floats, Ints, Status

LATER_FIRST = 0.001
"""Of victims that cost the same, those of later tiers go."""


def run_lane(board: Board, js: Ints) -> list[int]:
    """Start pending debug workloads among `js` while the lane has GPUs; return those started.

    The allocation with the least lane use goes first, then the oldest workload. Debug work that runs inside
    its min runtime fills the lane, however it came to start.
    """
    state, w = board.state, board.state.workloads
    inside = np.flatnonzero(w.debug & state.protected & (w.status == Status.RUNNING))
    room = state.policy.lane_gpus - int(w.gpus[inside].sum())
    used: dict[int, int] = {}
    for j in inside.tolist():
        used[int(w.leaf[j])] = used.get(int(w.leaf[j]), 0) + int(w.gpus[j])
    waiting = [j for j in js.tolist() if w.debug[j] and not board.standing[j]]
    started: list[int] = []
    while waiting and room > 0:
        j = min(waiting, key=lambda j: (used.get(int(w.leaf[j]), 0), int(w.submitted_s[j]), j))
        waiting.remove(j)
        if w.gpus[j] > min(room, board.limit_room(j)):
            continue
        if _start(board, j):
            started.append(j)
            board.ahead.add(j)
            room -= int(w.gpus[j])
            used[int(w.leaf[j])] = used.get(int(w.leaf[j]), 0) + int(w.gpus[j])
    return started


def _start(board: Board, j: int) -> bool:
    """Start a debug workload; its victims are unallocated work, then beyond-share, then within-share work.

    As everywhere, the restarts of its victims must cost less than its own start is worth, here at no less
    than the price of an allocation at its share.
    """
    w, order = board.state.workloads, board.order
    may = board.standing & board.interruptible & (w.status == Status.RUNNING)
    at_share = float(w.gpus[j] * board.state.policy.worth_s / 3600)
    most = max(worth(board, j), at_share)
    restart = w.gpus * (board.state.policy.restart_cost_s / 3600)
    cost: Floats = (restart * (1 + LATER_FIRST * (UNALLOCATED - order.tier))).astype(np.float64)
    if start_free(board, j):
        return True
    for tier in range(UNALLOCATED, WITHIN - 1, -1):
        if start_by_eviction(board, j, may & (order.tier >= tier) & (cost < most), cost, most):
            return True
    return False
