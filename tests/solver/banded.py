"""Worlds of four allocations, one in each of four bands of ratio, for the tests of the rungs."""

from __future__ import annotations

import numpy as np

from solver.board import Board
from solver.state import Status
from tests.solver.factories import state
from tests.solver.oracles import order_of

PAST = {"min_runtime_h": 1, "started_h_ago": 5}
ASK = {"min_runtime_h": 1}
SHARES = {"low": 0.25, "mid": 0.25, "high": 0.25, "over": 0.25}
BANDS = {
    "shares": SHARES,
    "ratios": {"low": 0.1, "mid": 0.4, "high": 0.9, "over": 2.0},
    "entitled_gpu_h": dict.fromkeys(SHARES, 10**6),
}


def board_of(nodes, workloads, **more) -> Board:
    """Return the board as a round finds it."""
    world = state(nodes, workloads, **BANDS | more)
    return Board(world, order_of(world))


def pending_of(board: Board) -> np.ndarray:
    """Return what waits, in order."""
    sequence = board.order.sequence
    return sequence[board.state.workloads.status[sequence] == Status.PENDING]
