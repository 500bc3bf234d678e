"""The greedy rung: in fair-share order, each on the tightest free place, or on the cheapest victims."""

from __future__ import annotations

import numpy as np

from solver.board import Board
from solver.evictable import Evictable
from solver.feasible import hopeful
from solver.holds import patient, worth_a_promise
from solver.placing import find_free, make_room
from solver.reserve import reserve
from solver.shares import BEYOND, WITHIN, eviction_gpus, regret
from solver.state import Bools, Floats, Ints


def greedy(board: Board, js: Ints) -> Board:
    """Return a copy of the board on which pending work `js` (int64, in order) was given its turn."""
    out = board.copy()
    for tier in (WITHIN, BEYOND):
        serve(out, js[board.order.tier[js] == tier])
    return out


def serve(board: Board, js: Ints) -> None:
    """Give pending work `js` of one tier (int64, in order) its turn on this board."""
    js = js[~board.standing[js]]
    if not len(js):
        return
    cost = eviction_cost(board, int(js[0]))  # the same for all of one tier
    for band in np.split(js, np.flatnonzero(np.diff(board.order.band[js])) + 1):  # all may evict the same
        may = victims_for(board, int(band[0]))
        if may.any():
            _serve_band(board, band, Evictable(board, may, cost))
        elif worth_a_promise(board, band).any():
            _serve_band(board, band, None)
        else:
            fill(board, band)


def _serve_band(board: Board, js: Ints, evictable: Evictable | None) -> None:
    """Give pending work of one band its turn.

    Room only shrinks from turn to turn: what is like what found none is passed over. Who finds none may be
    promised a later start, before anybody after it takes the nodes.
    """
    w = board.state.workloads
    hopeless, unpromised = set[int](), set[tuple[int, ...]]()
    some_hope = hopeful(board, js, board.free if evictable is None else evictable.and_free(board))
    for j in js[np.isin(js, some_hope) | worth_a_promise(board, js)].tolist():
        kind = board.like(j)
        if kind not in hopeless:
            if start_free(board, j) or board.limit_room(j) < w.gpus[j]:
                continue
            if evictable is not None and start_by_eviction(board, j, evictable, worth(board, j)):
                continue
            hopeless.add(kind)
        claim = (kind, int(w.leaf[j]), int(patient(board.state, j)))
        if claim not in unpromised and not reserve(board, j):
            unpromised.add(claim)


def fill(board: Board, js: Ints) -> None:
    """Start, in the order given, whatever fits without a victim."""
    hopeless: set[tuple[int, tuple[int, ...]]] = set()
    for j in hopeful(board, js[~board.standing[js]], board.free).tolist():
        like = (board.like(j), board.limited_by(j))
        if like not in hopeless and not start_free(board, j):
            hopeless.add(like)


def worth(board: Board, j: int) -> float:
    """Return price x GPUs x H of a workload, GPU-hours."""
    hours = board.state.policy.worth_s / 3600
    return float(board.order.price[j] * board.state.workloads.gpus[j] * hours)


def victims_for(board: Board, j: int) -> Bools:
    """Return whom `j` may evict, bool[W]: interruptible work of later bands, never of an earlier tier."""
    order = board.order
    later = (order.band > order.band[j]) & (order.tier >= order.tier[j])
    may: Bools = board.standing & board.interruptible & later
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


def start_by_eviction(board: Board, j: int, evictable: Evictable, most: float) -> bool:
    """Start `j` by evicting some of `evictable` for less than `most` GPU-hours; tell whether.

    Those who had to go are taken out of `evictable`.
    """
    gpus = board.state.workloads.gpus
    if not evictable.count or board.brake_room() <= 0 or board.limit_room(j) < gpus[j]:
        return False
    move = make_room(board, j, evictable, most)
    if move is None or sum(float(evictable.charge[r]) for r in move.victims) >= most:
        return False
    if int(gpus[move.victims].sum()) > board.brake_room():
        return False
    for r in move.victims:
        board.evict(r, int(board.order.tier[j]))
        evictable.evict(r)
    board.start(j, move.parts)
    return True
