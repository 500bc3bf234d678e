"""Finding a place for one gang on the board, without a solver: on free nodes, or by having others make room.

The search on free nodes is complete for one gang: where free capacity holds it, a place is found.
"""

from __future__ import annotations

import heapq
from functools import cached_property

import numpy as np

from solver.board import Board, Move, Parts
from solver.buddy import NODE, NONE, Gang, gang_of
from solver.evictable import Evictable, Held, plus
from solver.state import FOREVER_S, Bools, Floats, Ints

GROUPS_TRIED = 8
"""Domains in which making room is priced out in full, cheapest estimate first."""


def find_free(board: Board, j: int) -> Parts | None:
    """Return a place for the whole gang on free capacity, on nodes held for others if it can, or None."""
    w = board.state.workloads
    if w.gpus[j] > np.maximum(board.free_gpus, 0).sum():
        return None
    slots = board.free_slots(j)
    held = np.where(board.hold_s < FOREVER_S, slots, 0)
    if (
        w.allocated[j] and held.any()
    ):  # allocated work that ends in time leaves the other nodes to what does not
        parts = choose(board, j, held)
        if parts is not None:
            return parts
    return choose(board, j, slots)


def choose(board: Board, j: int, slots: Ints, free_gpus: Ints | None = None) -> Parts | None:
    """Choose nodes for gang `j` among `slots` replicas per node (int64[N]), or None where it does not fit.

    The tightest domain that holds the gang; in it, whole domains before pieces of several, and the nodes
    that are left with the least, of what is free on the board or of `free_gpus` (int64[N]).
    """
    gang, free = gang_of(board.state, j), board.free_gpus if free_gpus is None else free_gpus
    slots = slots if gang.fused == 1 else slots // gang.fused
    preferred, key = int(board.state.workloads.preferred[j]), group_key(board, gang.required)
    found = None
    if preferred != NONE and gang.segment == gang.pieces:  # a preferred domain, inside the required one
        inside = group_key(board, preferred)
        both = inside if gang.required < 0 else _shared(inside, key)
        found = _in_one(board, slots, both, gang.pieces, gang.size, free)
    if found is None and gang.segment < gang.pieces:
        found = _in_segments(board, slots, key, gang, free)
    elif found is None:
        found = _in_one(board, slots, key, gang.pieces, gang.size, free)
    return None if found is None else [(n, k * gang.fused) for n, k in found]


def group_key(board: Board, level: int) -> Ints:
    """Return the group of each node at a level and in one pool, int64[N]; -1 where it has no such level."""
    if level not in board.group_keys:
        n = board.state.nodes
        if level == NODE:
            key = np.arange(n.count)
        elif level < 0:
            key = n.pool
        else:
            key = np.where(n.domain[level] >= 0, n.domain[level] * len(n.pool_cluster) + n.pool, -1)
        board.group_keys[level] = key
    return board.group_keys[level]


def _shared(a: Ints, b: Ints) -> Ints:
    """Return the group of nodes that share both groups, int64[N]; -1 where a node lacks one of them."""
    both = (a >= 0) & (b >= 0)
    out = np.full(len(a), -1, dtype=np.int64)
    out[both] = np.unique(a[both] * (int(b.max(initial=0)) + 1) + b[both], return_inverse=True)[1]
    return out


def _capacity(slots: Ints, key: Ints) -> Ints:
    """Return the slots of each group, int64; nodes without one (-1) count nowhere."""
    return np.bincount(key + 1, slots)[1:].astype(np.int64)


def _in_one(board: Board, slots: Ints, key: Ints, pieces: int, size: int, free: Ints) -> Parts | None:
    capacity = _capacity(slots, key)
    enough = (capacity >= pieces).nonzero()[0]
    if not len(enough):
        return None
    group = enough[capacity[enough].argmin()]
    nodes = ((key == group) & (slots > 0)).nonzero()[0]
    return _fill(board, nodes, slots[nodes], free[nodes], pieces, size)


def _in_segments(board: Board, slots: Ints, key: Ints, gang: Gang, free: Ints) -> Parts | None:
    """Choose whole segments, each in one domain of `key`, all in one pool."""
    pieces = gang.pieces
    capacity, pool = _whole_segments(board, slots, key, gang.segment)
    for p in range(len(board.state.nodes.pool_cluster)):
        mine = np.where(pool == p, capacity, 0)
        if mine.sum() < pieces:
            continue
        out: Parts = []
        left = pieces
        for group in _tightest_first(mine, left):
            take = min(left, int(mine[group]))
            nodes = ((key == group) & (slots > 0)).nonzero()[0]
            out += _fill(board, nodes, slots[nodes], free[nodes], take, gang.size)
            left -= take
        return out
    return None


def _whole_segments(board: Board, slots: Ints, key: Ints, segment: int) -> tuple[Ints, Ints]:
    """Return the pieces that each group takes in whole segments, and its pool (-1: no nodes), int64 both."""
    capacity = _capacity(slots, key) // segment * segment
    pool = np.full(len(capacity), -1, dtype=np.int64)
    inside = key >= 0
    pool[key[inside]] = board.state.nodes.pool[inside]
    return capacity, pool


def _tightest_first(capacity: Ints, wanted: int) -> list[int]:
    """Return groups for `wanted` pieces: the largest, and last the tightest that takes what is left.

    Together they have capacity (int64 by group) for as many.
    """
    turn = np.argsort(-capacity, kind="stable")
    sorted_capacity = capacity[turn]
    left = wanted - (np.cumsum(sorted_capacity) - sorted_capacity)
    whole = int(np.argmax(sorted_capacity >= left))  # so many are taken whole
    enough = np.flatnonzero(
        sorted_capacity == sorted_capacity[whole:][sorted_capacity[whole:] >= left[whole]].min()
    )
    return [*turn[:whole].tolist(), int(turn[max(int(enough[0]), whole)])]


def _fill(board: Board, nodes: Ints, room: Ints, free: Ints, pieces: int, size: int) -> Parts:
    """Give out nodes of one group that together have room for all pieces; int64 arrays of the same nodes."""
    if pieces == 1:  # the node that is left with the least
        return [(int(nodes[free.argmin()]), 1)]
    levels = board.state.nodes.domain
    inner = levels[-1][nodes] + 1 if len(levels) else np.zeros(len(nodes), dtype=np.int64)
    capacity = np.bincount(inner, room).astype(np.int64)
    domains = _tightest_first(capacity, pieces)
    rank = np.full(len(capacity), len(domains))
    rank[domains] = np.arange(len(domains))
    turn = np.lexsort((free, free - room * size, rank[inner]))
    room = room[turn]
    takes = np.minimum(room, pieces - (np.cumsum(room) - room))
    some = (takes > 0).nonzero()[0]
    return list(zip(nodes[turn[some]].tolist(), takes[some].tolist(), strict=True))


# --- having others make room -----------------------------------------------------------------------------


def find_by_eviction(board: Board, j: int, may: Bools, cost: Floats) -> Move | None:
    """Return the cheapest way found to start gang `j` by evicting some of `may`, or None.

    Parameters
    ----------
    may : bool[W]
        Standing interruptible work that may be evicted for `j`.
    cost : float64[W], GPU-hours
        What evicting each costs.
    """
    parts = find_free(board, j)
    return Move(parts, []) if parts else make_room(board, j, Evictable(board, may, cost))


def make_room(board: Board, j: int, evictable: Evictable, most: float = np.inf) -> Move | None:
    """Return the cheapest way found to start gang `j`, which fits nowhere, by evicting some of `evictable`.

    None where there is none for less than `most` GPU-hours.
    """
    search = _Search(board, j, evictable)
    moves = [move for group in search.groups() if (move := search.run(group, most))]
    return min(moves, key=lambda move: sum(evictable.cost[move.victims]), default=None)


class _Search:
    """Grows a set of victims in one group of nodes until the gang fits, cheapest node first."""

    def __init__(self, board: Board, j: int, evictable: Evictable) -> None:
        w = board.state.workloads
        self.board, self.j, self.evictable = board, j, evictable
        self.replicas, self.gang = int(w.replicas[j]), gang_of(board.state, j)
        self.each = (int(w.gpus_per_replica[j]), int(w.cpus_milli[j]), int(w.memory_bytes[j]))
        self.key = group_key(board, self.gang.required)
        self.eligible = board.eligible(j)
        self.free = board.free
        self.most = board.slots(j, *evictable.and_free(board)) * self.eligible
        self.chosen: set[int] = set()

    @cached_property
    def slots(self) -> Ints:
        """Replicas that each node takes as it stands, int64[N]."""
        return self.board.slots(self.j, *self.free) * self.eligible

    def groups(self) -> list[Ints]:
        """Return node sets in each of which the gang would fit, those with the most free slots first."""
        gang, key = self.gang, self.key
        slots = self.most if gang.fused == 1 else self.most // gang.fused
        if gang.segment < gang.pieces:  # whole segments: the pool is the group, `choose` has the last word
            capacity, _ = _whole_segments(self.board, slots, key, gang.segment)
            keep = key >= 0
            keep[keep] = capacity[key[keep]] > 0
            key = np.where(keep, self.board.state.nodes.pool, -1)
        enough = (_capacity(slots, key) >= gang.pieces).nonzero()[0]
        if len(enough) > 1:
            ready = _capacity(self.slots // gang.fused, key)
            enough = enough[np.lexsort((enough, -ready[enough]))][:GROUPS_TRIED]
        return [((key == g) & (slots > 0)).nonzero()[0] for g in enough.tolist()]

    def run(self, nodes: Ints, most: float) -> Move | None:
        """Return a move in this group, with no victim that the start does not need."""
        self.chosen = set()
        bids, unit = self._lowest_bids(nodes)
        if not self._choose_first(nodes, bids, unit) and not self._choose(nodes, bids, unit):
            return None
        dear = min((self.evictable.charge[r] for r in self.chosen), default=0.0) >= most  # one has to go
        return None if dear else self._settle()

    def _lowest_bids(self, nodes: Ints) -> tuple[Floats, Floats]:
        """Return what a replica on each node costs at least, and the cost per GPU evicted there.

        The true price of a node is worked out only when this makes it the cheapest.
        """
        prices, held = self.evictable.prices, self.evictable.gpus
        most, unit = self.most[nodes], prices.unit[nodes]
        missing = most * self.each[0] - self.free[0][nodes]
        bids = np.zeros(len(nodes))
        some = (missing > 0).nonzero()[0]
        at = nodes[some]
        bids[some] = prices.at_least(at, missing[some], held[at]) / most[some]
        return bids, unit

    def _choose_first(self, nodes: Ints, bids: Floats, unit: Floats) -> bool:
        """Choose victims on the node that seems cheapest if it can hold the gang at that price."""
        lowest = bids.min()
        cheapest = (bids == lowest).nonzero()[0]
        n = int(nodes[cheapest[unit[cheapest].argmax()]])
        if self.most[n] < self.replicas:
            return False
        cost, victims = self.evictable.on(n).cover(self._missing(n, self.replicas), self.chosen)
        if cost / self.replicas > lowest:
            return False
        self.chosen.update(victims)
        return True

    def _choose(self, nodes: Ints, bids: Floats, unit: Floats) -> bool:
        """Choose victims node by node, the cheapest next, until there is room for all replicas."""
        left, fused = self.replicas, self.gang.fused
        heap = list(zip(bids.tolist(), (-unit).tolist(), nodes.tolist(), strict=True))
        heapq.heapify(heap)
        while heap and left > 0:
            bid, per_gpu, n = heapq.heappop(heap)
            k = min(left, self.most.item(n)) // fused * fused
            if k == 0:
                continue
            cost, victims = self.evictable.on(n).cover(self._missing(n, k), self.chosen)
            price = cost / k
            if heap and price > heap[0][0] and price > bid:
                heapq.heappush(heap, (price, per_gpu, n))
                continue
            self.chosen.update(victims)
            left -= k
        return left <= 0

    def _missing(self, n: int, k: int) -> Held:
        """Return what node `n` lacks for `k` replicas, those chosen gone."""
        gpus, cpus, memory = self.each
        missing = plus((k * gpus, k * cpus, k * memory), self._free_on(n), -1)
        here = self.evictable.on(n).of
        for r in self.chosen.intersection(here):
            missing = plus(missing, here[r][2:], -1)
        return missing

    def _settle(self) -> Move | None:
        """Place the gang with the chosen victims gone, then drop whom it does not need, dearest first."""
        evictable, victims = self.evictable, set(self.chosen)
        room: dict[int, Held] = {}
        for r in victims:
            for n in evictable.nodes(r):
                room[n] = plus(room.get(n) or self._free_on(n), evictable.on(n).of[r][2:])
        if len(room) == self.gang.pieces == 1:  # there, and nobody in vain
            return Move([(n, self.replicas) for n in room], sorted(victims))
        slots = self.slots.copy()
        for n, have in room.items():
            slots[n] = self._slots(n, have)
        if not self.holds(slots):
            return None
        for r in sorted(victims, key=lambda r: (-evictable.cost[r], r)):
            if len(victims) == 1:  # it does not fit without any
                break
            less = {n: plus(room[n], evictable.on(n).of[r][2:], -1) for n in evictable.nodes(r)}
            beside = slots.copy()
            for n, have in less.items():
                beside[n] = self._slots(n, have)
            if self.holds(beside):
                slots = beside
                room.update(less)
                victims.remove(r)
        free_gpus = self.free[0].copy()
        for n, have in room.items():
            free_gpus[n] = have[0]
        parts = choose(self.board, self.j, slots, free_gpus)
        return None if parts is None else Move(parts, sorted(victims))

    def _free_on(self, n: int) -> Held:
        gpus, cpus, memory = self.free
        return gpus.item(n), cpus.item(n), memory.item(n)

    def _slots(self, n: int, have: Held) -> int:
        """Return the replicas that node `n` takes with so much free."""
        if not self.eligible[n]:
            return 0
        fit = (amount // each for amount, each in zip(have, self.each, strict=True) if each)
        return max(min(self.replicas, *fit), 0)

    def holds(self, slots: Ints) -> bool:
        """Tell whether `choose` finds a place among these slots."""
        gang = self.gang
        if gang.segment < gang.pieces:
            capacity = _capacity(*_whole_segments(self.board, slots, self.key, gang.segment))
        else:
            capacity = _capacity(slots if gang.fused == 1 else slots // gang.fused, self.key)
        return bool((capacity >= gang.pieces).any())
