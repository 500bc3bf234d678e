"""The debug lane: a few GPUs on which debug workloads of any allocation start ahead of the order."""

from __future__ import annotations

import numpy as np

from solver.board import Board
from solver.evictable import Evictable
from solver.feasible import hopeful
from solver.greedy import start_by_eviction, start_free, worth
from solver.shares import UNALLOCATED, WITHIN
from solver.state import Bools, Floats, Ints

LATER_FIRST, LEAST_WORTH_FIRST = 1e-3, 1e-7
"""Of victims that cost the same, those of later tiers go, and of one tier those worth least."""


def run_lane(board: Board, js: Ints) -> list[int]:
    """Start pending debug workloads among `js` while the lane has GPUs; return those started.

    The allocation with the least lane use goes first, then the oldest workload. Debug work that runs inside
    its min runtime fills the lane, however it came to start.
    """
    state, w = board.state, board.state.workloads
    inside = np.flatnonzero(w.debug & state.protected & w.running)
    room = state.policy.lane_gpus - int(w.gpus[inside].sum())
    used: dict[int, int] = {}
    for j in inside.tolist():
        used[int(w.leaf[j])] = used.get(int(w.leaf[j]), 0) + int(w.gpus[j])
    waiting = _hopeful(board, js[w.debug[js] & ~board.standing[js]]) if room > 0 else []
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


def _hopeful(board: Board, js: Ints) -> list[int]:
    """Return those of `js` that would fit if all that is interruptible made room."""
    anybody = Evictable(board, _may(board), np.zeros(board.state.workloads.count))
    return hopeful(board, js, anybody.and_free(board)).tolist() if len(js) else []


def _may(board: Board) -> Bools:
    may: Bools = board.standing & board.interruptible
    return may


def _start(board: Board, j: int) -> bool:
    """Start a debug workload; its victims are unallocated work, then beyond-share, then within-share work.

    As everywhere, the restarts of its victims must cost less than its own start is worth, here at no less
    than the price of an allocation at its share.
    """
    if start_free(board, j):
        return True
    w, order = board.state.workloads, board.order
    may = _may(board)
    at_share = float(w.gpus[j] * board.state.policy.worth_s / 3600)
    most = max(worth(board, j), at_share)
    restart = w.gpus * (board.state.policy.restart_cost_s / 3600)
    cost: Floats = restart * (1 + LATER_FIRST * (UNALLOCATED - order.tier) + LEAST_WORTH_FIRST * order.price)
    for tier in range(UNALLOCATED, WITHIN - 1, -1):
        evictable = Evictable(board, may & (order.tier >= tier) & (cost < most), cost)
        if start_by_eviction(board, j, evictable, most):
            return True
    return False
