"""The greedy rung: in fair-share order, each on the tightest free place, or on the cheapest victims."""

from __future__ import annotations

import numpy as np

from solver.board import Board
from solver.placing import find_by_eviction, find_free
from solver.shares import BEYOND, WITHIN, eviction_gpus, regret
from solver.state import Bools, Floats, Ints, Status


def greedy(board: Board, js: Ints) -> Board:
    """Return a copy of the board on which pending work `js` (int64, in order) was given its turn."""
    out = board.copy()
    for tier in (WITHIN, BEYOND):
        serve(out, js[board.order.tier[js] == tier])
    return out


def serve(board: Board, js: Ints) -> None:
    """Give pending work `js` of one tier (int64, in order) its turn on this board."""
    order, gpus = board.order, board.state.workloads.gpus
    hopeless: set[tuple[int, ...]] = set()
    cost = eviction_cost(board, int(js[0])) if len(js) else np.zeros(0)  # the same for all of one tier
    for j in js.tolist():
        if board.standing[j]:
            continue
        kind = (*kind_of(board, j), int(order.band[j]))
        if kind in hopeless or board.limit_room(j) < gpus[j]:
            continue
        if not start_free(board, j) and not start_by_eviction(
            board, j, victims_for(board, j), cost, worth(board, j)
        ):
            hopeless.add(kind)  # room only shrinks as the order goes on


def kind_of(board: Board, j: int) -> tuple[int, ...]:
    """Return what makes two workloads alike for a search."""
    w = board.state.workloads
    return (
        int(w.replicas[j]), int(w.gpus_per_replica[j]), int(w.cpus_milli[j]), int(w.memory_bytes[j]),
        int(w.required[j]), int(w.segment[j]), int(w.min_runtime_s[j]), int(w.allocated[j]),
        *w.pool_ok[j].tolist(),
    )  # fmt: skip


def worth(board: Board, j: int) -> float:
    """Return price x GPUs x H of a workload, GPU-hours."""
    hours = board.state.policy.worth_s / 3600
    return float(board.order.price[j] * board.state.workloads.gpus[j] * hours)


def victims_for(board: Board, j: int) -> Bools:
    """Return whom `j` may evict, bool[W]: interruptible work of later bands, never of an earlier tier."""
    order = board.order
    running = board.state.workloads.status == Status.RUNNING
    later = (order.band > order.band[j]) & (order.tier >= order.tier[j])
    may: Bools = board.standing & board.interruptible & running & later
    return may


def eviction_cost(board: Board, j: int) -> Floats:
    """Return what each eviction costs, float64[W], GPU-hours: a restart, in the same tier worth too."""
    order, policy = board.order, board.state.policy
    same = order.tier == order.tier[j]
    going_on = order.price * board.state.workloads.gpus * (policy.worth_s / 3600)
    restart = eviction_gpus(board.state, order, int(order.tier[j])) * (policy.restart_cost_s / 3600)
    return (restart + np.where(same, going_on, LATER_TIER * regret(board.state, order))).astype(np.float64)


LATER_TIER = 0.001
"""Among victims of later tiers the one worth least goes; it does not decide whether one goes."""


def start_free(board: Board, j: int) -> bool:
    """Start `j` on free nodes, if its limits allow; tell whether."""
    if board.limit_room(j) < board.state.workloads.gpus[j]:
        return False
    parts = find_free(board, j)
    if parts is not None:
        board.start(j, parts)
    return parts is not None


def start_by_eviction(board: Board, j: int, may: Bools, cost: Floats, most: float) -> bool:
    """Start `j` by evicting some of `may` for less than `most` GPU-hours; tell whether."""
    w = board.state.workloads
    if not may.any() or board.brake_room() <= 0 or board.limit_room(j) < w.gpus[j]:
        return False
    move = find_by_eviction(board, j, may, cost)
    if move is None or sum(float(cost[r]) for r in move.victims) >= most:
        return False
    if int(w.gpus[move.victims].sum()) > board.brake_room():
        return False
    for r in move.victims:
        board.evict(r, int(board.order.tier[j]))
    board.start(j, move.parts)
    return True
