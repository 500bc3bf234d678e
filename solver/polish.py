"""The end of every rung: no victim without need or right, then whatever still fits."""

from __future__ import annotations

import heapq

import numpy as np

from solver.board import Board
from solver.feasible import hopeful
from solver.greedy import fill, start_free
from solver.shares import BEYOND, UNALLOCATED, WITHIN
from solver.state import Ints, Status

MOVED_AT_MOST = 8
"""Starts that are placed anew, at most, to spare one victim."""


def polish(board: Board, js: Ints, unallocated: Ints) -> Board:
    """Return the board with needless victims given back and free capacity filled.

    Parameters
    ----------
    js : int64
        Pending allocated work, sorted by the order.
    unallocated : int64
        Pending unallocated work.
    """
    give_back(board)
    clear_squatters(board)
    for tier in (WITHIN, BEYOND):  # no later victim is spared where earlier work could start
        board = spare_victims(board, tier)
        fill(board, js[board.order.tier[js] == tier])
    board = spare_victims(board, UNALLOCATED)
    fill_unallocated(board, unallocated)
    return board


def _best_first(board: Board) -> list[int]:
    order = board.order
    return sorted(board.victims, key=lambda r: (order.tier[r], order.position[r], r))


def give_back(board: Board) -> None:
    """Restore every victim whose place is still free, the best of the order first."""
    for r in _best_first(board):
        if board.place_is_free(r):
            board.restore(r)


def clear_squatters(board: Board) -> None:
    """Take back starts in the place of a victim that ranks before all of them, and restore the victim."""
    order = board.order
    for r in _best_first(board):
        if r not in board.victims or board.gainers(r):
            continue
        there = {j for n, _ in board.parts(r) for j in board.tenants.get(n, ())}
        for j in sorted(there, key=lambda j: (-order.position[j], j)):
            if board.place_is_free(r):
                break
            board.cancel(j)
        give_back(board)


def spare_victims(board: Board, upto: int = UNALLOCATED) -> Board:
    """Restore victims of tiers up to `upto` whose gainers fit elsewhere without evicting anybody."""
    for r in _best_first(board):
        if r not in board.victims or board.order.tier[r] > upto:  # given back when another one was spared
            continue
        gainers = board.gainers(r)
        if len(gainers) > MOVED_AT_MOST or not _room_elsewhere(board, r, gainers):
            continue
        trial = board.copy()
        for j in gainers:
            trial.cancel(j)
        if not trial.place_is_free(r):
            continue
        trial.restore(r)
        if all(start_free(trial, j) for j in gainers):
            board = trial
            give_back(board)
    return board


def _room_elsewhere(board: Board, r: int, gainers: list[int]) -> bool:
    """Tell whether the GPUs that gainers take on the nodes of `r` could be free elsewhere at all."""
    nodes = [n for n, _ in board.parts(r)]
    size = board.state.workloads.gpus_per_replica
    taken = sum(k * int(size[j]) for j in gainers for n, k in board.starts[j] if n in nodes)
    spare_gpus = int(board.free_gpus.sum() - board.free_gpus[nodes].sum())
    return spare_gpus >= min(taken, int(board.state.workloads.gpus[r]))


def fill_unallocated(board: Board, js: Ints) -> None:
    """Start unallocated work where nothing else stands: the allocation that holds the least of it first."""
    w = board.state.workloads
    hopes = hopeful(board, js[~board.standing[js]], board.free)
    if not len(hopes):
        return
    may_fit, least_gpus = set(hopes.tolist()), int(w.gpus_per_replica[hopes].min())
    held: dict[int, int] = {}
    for j in np.flatnonzero(board.standing & ~w.allocated & (w.status == Status.RUNNING)).tolist():
        held[int(w.leaf[j])] = held.get(int(w.leaf[j]), 0) + int(w.gpus[j])
    turn = np.lexsort((js, w.submitted_s[js], -w.priority[js]))
    queues: dict[int, list[int]] = {}
    for j, leaf in zip(js[turn[::-1]].tolist(), w.leaf[js[turn[::-1]]].tolist(), strict=True):
        queues.setdefault(leaf, []).append(j)
    heap = [(held.get(leaf, 0), int(w.submitted_s[q[-1]]), q[-1], leaf) for leaf, q in queues.items()]
    heapq.heapify(heap)
    hopeless: set[tuple[int, int]] = set()
    while heap and board.free_gpus.max() >= least_gpus:
        gpus, _, j, leaf = heapq.heappop(heap)
        queues[leaf].pop()
        if j in may_fit:
            like = (int(w.kind[j]), leaf if board.limit_room(j) < w.gpus[j] else -1)
            if like not in hopeless and start_free(board, j):
                gpus += int(w.gpus[j])
            else:
                hopeless.add(like)
        if queues[leaf]:
            j = queues[leaf][-1]
            heapq.heappush(heap, (gpus, int(w.submitted_s[j]), j, leaf))
