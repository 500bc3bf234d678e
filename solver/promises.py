"""Promises: those of the previous plan are kept, or moved for a reason; a gang that lost a node gets one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from solver.ahead import Claims, claims_of, gentlest_start, left_at
from solver.board import Amounts, Board, Parts, leaving
from solver.greedy import eviction_cost
from solver.placing import group_key
from solver.shares import BEYOND
from solver.state import Level, State


class Moved(IntEnum):
    """Why a promise could not be kept as it was."""

    NODE_LOST = 0
    TAKEN = 1
    OVER_LIMIT = 2
    BRAKED = 3
    MISFIT = 4
    STILL_LEAVING = 5
    BEYOND_BRAKE = 6


LAPSED = (Moved.OVER_LIMIT, Moved.BEYOND_BRAKE)
"""Nothing is held for who could not start even if its nodes came free."""


@dataclass
class Book:
    """What became of the promises that this round found; the board knows those that outlive it.

    Attributes
    ----------
    moved : dict of int to Moved
        Carried promises that were not kept, and why; they may have a new, later one.
    met : list of int
        Workloads that started by their promise in this round.
    """

    moved: dict[int, Moved] = field(default_factory=dict)
    met: list[int] = field(default_factory=list)


def keep_promises(board: Board) -> Book:
    """Honour what falls due, carry the rest, and promise failed gangs their next start, on this board."""
    state, book = board.state, Book()
    p, w = state.promises, state.workloads
    failed = _failed(state)
    if not len(p.workload) and not failed:
        return book
    claims = claims_of(board, np.zeros(w.count, dtype=bool))
    homeless: list[int] = []
    for i in np.lexsort((p.workload, p.start_s)).tolist():
        j = int(p.workload[i])
        if w.running[j]:
            continue
        leaves = w.stopping[j]
        ranked = board.order.position[j] < len(board.order.sequence)
        if not leaves and not ranked:  # unallocated, or it can never run here
            book.moved[j] = Moved.MISFIT
            continue
        part = p.placement.part(i)
        nodes, reps = p.placement.node[part].tolist(), p.placement.replicas[part].tolist()
        parts = list(zip(nodes, reps, strict=True))
        start_s = int(p.start_s[i])
        if leaves and start_s < state.now_s + state.policy.due_s:
            start_s, book.moved[j] = state.now_s + state.policy.due_s, Moved.STILL_LEAVING
        carried = _carry(board, book, claims, j, parts, start_s)
        if carried is None and book.moved[j] not in LAPSED:
            homeless.append(j)
        claims = carried or claims
    for j in homeless + failed:  # after all that can be kept: a promise moves for its own reasons only
        claims = _anew(board, book, claims, j)
    return book


def _anew(board: Board, book: Book, claims: Claims, j: int) -> Claims:
    """Start a gang that has no place, or promise it its next one; return the claims with its own."""
    state, w = board.state, board.state.workloads
    found = gentlest_start(board, j, claims) if _within_limits(board, j) else None
    if found is None:
        return claims
    start_s, parts = found
    if start_s <= state.now_s and w.pending[j]:
        stopped = _start_there(board, j, parts, evicting=True)
        if stopped is None:
            book.met.append(j)
            return claims.plus(j, parts, state.now_s + max(int(w.min_runtime_s[j]), 1))
        if stopped in LAPSED:
            book.moved[j] = stopped
            return claims
    return _write(board, claims, j, parts, start_s)


def _failed(state: State) -> list[int]:
    """Return the allocated gangs that lost a node."""
    w, down = state.workloads, state.nodes.down
    return [
        j
        for j in leaving(state).tolist()
        if w.allocated[j] and w.leaf[j] >= 0 and down[w.placement.node[w.placement.part(j)]].any()
    ]


def _carry(board: Board, book: Book, claims: Claims, j: int, parts: Parts, start_s: int) -> Claims | None:
    """Start a promised gang if it is due (or free already), else carry its promise.

    Returns the claims with its own, or None where it can be neither: the book says why.
    """
    state = board.state
    trouble = _trouble(board, claims, j, parts, max(start_s, state.now_s))
    if not _within_limits(board, j):
        trouble = Moved.OVER_LIMIT
    if trouble is None:
        if state.workloads.stopping[j]:  # it cannot start before it has left
            return _write(board, claims, j, parts, start_s)
        due = start_s < state.now_s + state.policy.due_s
        ends_s = state.now_s + max(int(state.workloads.min_runtime_s[j]), 1)
        clear = all(ends_s <= board.hold_s[n] for n, _ in parts)  # of promises to others that come before
        stopped = _start_there(board, j, parts, evicting=due) if clear else Moved.TAKEN
        if stopped is None:
            book.met.append(j)
            return claims.plus(j, parts, ends_s)
        if start_s > state.now_s:  # what is in its way now will have ended by then
            return _write(board, claims, j, parts, start_s)
        trouble = stopped
    book.moved[j] = trouble
    return None


def _within_limits(board: Board, j: int) -> bool:
    """Tell whether a gang has room under its limits, beside what stands and what is promised to others."""
    gpus = int(board.state.workloads.gpus[j])
    return board.limit_room(j) + (gpus if board.standing[j] else 0) >= gpus


def _write(board: Board, claims: Claims, j: int, parts: Parts, start_s: int) -> Claims:
    board.promise(j, start_s, parts)
    return claims.plus(j, parts, start_s + max(int(board.state.workloads.min_runtime_s[j]), 1))


def _trouble(board: Board, claims: Claims, j: int, parts: Parts, time_s: int) -> Moved | None:
    """Return what stands in the way of a promise at its time, None where nothing does."""
    if not _whole(board, j, parts):
        return Moved.MISFIT
    if any(not board.usable[n] for n, _ in parts):
        return Moved.NODE_LOST
    return None if _fits(board, j, parts, left_at(board, claims, time_s)) else Moved.TAKEN


def _whole(board: Board, j: int, parts: Parts) -> bool:
    """Tell whether a promised place is what the gang asks for: whole, one pool, its level and segments."""
    n, w = board.state.nodes, board.state.workloads
    node, reps = np.array(parts, dtype=np.int64).reshape(-1, 2).T
    pools = n.pool[node]
    if reps.sum() != w.replicas[j] or (pools != pools[0]).any() or not w.pool_ok[j][pools[0]]:
        return False
    key = group_key(board, int(w.required[j]))[node]
    if w.required[j] == Level.NONE:
        return True
    segment = int(w.segment[j]) or int(w.replicas[j])
    return bool((key >= 0).all() and (np.bincount(key, reps) % segment == 0).all())


def _start_there(board: Board, j: int, parts: Parts, *, evicting: bool) -> Moved | None:
    """Start `j` exactly where it was promised, evicting interruptible work there if its time has come.

    Returns what stands in the way; None when it has started.
    """
    w = board.state.workloads
    fits = _fits(board, j, parts, board.free)
    if not fits and not evicting:
        return Moved.TAKEN
    trial = board.copy()
    if not fits:
        nodes = [n for n, _ in parts]
        there = np.unique(board.owner[np.isin(w.placement.node, nodes)])
        may = [r for r in there.tolist() if board.standing[r] and board.interruptible[r]]
        cost = eviction_cost(board, j)
        for r in sorted(may, key=lambda r: (-int(board.order.tier[r]), float(cost[r]), r)):
            trial.evict(r, min(int(board.order.tier[j]), BEYOND))
            if _fits(trial, j, parts, trial.free):
                break
        if not _fits(trial, j, parts, trial.free):
            return Moved.TAKEN
    trial.start(j, parts)
    trial.ahead.add(j)
    for r in sorted(trial.victims.keys() - board.victims.keys()):
        if trial.place_is_free(r):
            trial.restore(r)
    if trial.brake_room() < 0:
        alone = trial.preempted_gpus - board.preempted_gpus <= board.state.policy.max_preempted_gpus
        return Moved.BRAKED if alone else Moved.BEYOND_BRAKE
    board.adopt(trial)
    return None


def _fits(board: Board, j: int, parts: Parts, free: Amounts) -> bool:
    """Tell whether each part of a place is free."""
    w = board.state.workloads
    node, reps = np.array(parts, dtype=np.int64).reshape(-1, 2).T
    wanted = (w.gpus_per_replica[j], w.cpus_milli[j], w.memory_bytes[j])
    return all(bool((have[node] >= reps * each).all()) for have, each in zip(free, wanted, strict=True))
