"""The end of every rung: no victim without need or right, then whatever still fits."""

from __future__ import annotations

import heapq

import numpy as np

from solver.board import Board
from solver.feasible import hopeful
from solver.greedy import fill, start_free
from solver.shares import BEYOND, UNALLOCATED, WITHIN
from solver.state import Ints

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
        settle_victims(board, tier)
        fill(board, js[board.order.tier[js] == tier])
    settle_victims(board)
    if board.release_nodes():  # not before: who is taken back needs what it was promised again
        fill(board, js)
    fill_unallocated(board, unallocated)
    return board


def _best_first(board: Board) -> list[int]:
    order, rs = board.order, np.array(list(board.victims), dtype=np.int64)
    best_first: list[int] = rs[np.lexsort((rs, order.position[rs], order.tier[rs]))].tolist()
    return best_first


def give_back(board: Board) -> None:
    """Restore every victim whose place is still free, the best of the order first."""
    if not board.victims:
        return
    p, mine = board.state.workloads.placement, np.zeros(board.state.workloads.count, dtype=bool)
    mine[list(board.victims)] = True
    part = np.flatnonzero(mine[board.owner])
    mine[board.owner[part[board.free_gpus[p.node[part]] < p.gpus[part]]]] = False  # most of them, at a glance
    for r in _best_first(board):
        if mine[r] and board.place_is_free(r):
            board.restore(r)


def clear_squatters(board: Board) -> None:
    """Take back starts in the place of a victim that ranks before all of them, and restore the victim."""
    order, starts = board.order, -1
    # Who is taken back may have been the only one that another victim made room for.
    while len(board.starts) != starts:
        starts = len(board.starts)
        for r in _best_first(board):
            if r not in board.victims or board.gainers(r):
                continue
            there = {j for n, _ in board.parts(r) for j in board.tenants.get(n, ())}
            there.update(board.under(board.exceeded(r)))
            for j in sorted(there, key=lambda j: (-order.position[j], j)):
                if board.place_is_free(r):
                    break
                board.cancel(j)
            give_back(board)


def settle_victims(board: Board, upto: int = UNALLOCATED) -> None:
    """Spare victims of tiers up to `upto`, and clear squatters, until neither makes room for the other."""
    before = (-1, -1)
    while (len(board.starts), len(board.victims)) != before:  # who is spared may leave room for the next
        before = len(board.starts), len(board.victims)
        spare_victims(board, upto)
        clear_squatters(board)


def spare_victims(board: Board, upto: int = UNALLOCATED) -> None:
    """Restore victims of tiers up to `upto` whose gainers fit elsewhere without evicting anybody."""
    for r in _best_first(board):
        if r not in board.victims or board.order.tier[r] > upto:  # given back when another one was spared
            continue
        gainers = board.gainers(r)
        few = len(gainers) <= MOVED_AT_MOST
        if few and _room_elsewhere(board, r, gainers) and _changed_places(board, r, gainers):
            give_back(board)


def _changed_places(board: Board, r: int, gainers: list[int]) -> bool:
    """Give victim `r` its place back and start its gainers elsewhere, or change nothing; tell which."""
    tier, places, changed = board.victims[r], {j: board.starts[j] for j in gainers}, False
    for j in gainers:
        board.cancel(j)
    if board.place_is_free(r):
        board.restore(r)
        changed = all(start_free(board, j) for j in gainers)
        if not changed:
            for j in board.starts.keys() & places:
                board.cancel(j)
            board.evict(r, tier)
    if not changed:
        for j, parts in places.items():
            board.start(j, parts)
    return changed


def _room_elsewhere(board: Board, r: int, gainers: list[int]) -> bool:
    """Tell whether the GPUs that gainers take on the nodes of `r` could be free elsewhere at all."""
    if not board.free_gpus.any():
        return False
    nodes = {n for n, _ in board.parts(r)}
    size = board.state.workloads.gpus_per_replica
    taken = sum(k * size.item(j) for j in gainers for n, k in board.starts[j] if n in nodes)
    elsewhere = np.zeros(board.state.nodes.count, dtype=bool)
    for j in gainers:
        elsewhere |= board.eligible(j)
    elsewhere[list(nodes)] = False
    spare_gpus = int(board.free_gpus[elsewhere].sum())
    return spare_gpus >= min(taken, int(board.state.workloads.gpus[r]))


def fill_unallocated(board: Board, js: Ints) -> None:
    """Start unallocated work where nothing else stands: the allocation that holds the least of it first."""
    w = board.state.workloads
    hopes = hopeful(board, js[~board.standing[js]], board.free)
    if not len(hopes):
        return
    may_fit, least_gpus = set(hopes.tolist()), int(w.gpus_per_replica[hopes].min())
    holds = np.flatnonzero(board.standing & ~w.allocated & w.running & (w.leaf >= 0))
    held = np.bincount(w.leaf[holds], w.gpus[holds], board.state.budgets.count).astype(np.int64).tolist()
    turn = np.lexsort((js, w.submitted_s[js], -w.priority[js]))
    queues: dict[int, list[int]] = {}
    for j, leaf in zip(js[turn[::-1]].tolist(), w.leaf[js[turn[::-1]]].tolist(), strict=True):
        queues.setdefault(leaf, []).append(j)
    heap = [(held[leaf], int(w.submitted_s[q[-1]]), q[-1], leaf) for leaf, q in queues.items()]
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
