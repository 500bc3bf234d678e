"""Finding a place for one gang on the board, without a solver: on free nodes, or by having others make room.

The search on free nodes is complete for one gang: where free capacity holds it, a place is found.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solver.board import Amounts, Board, Move, Parts
from solver.buddy import NODE, NONE, Gang, gang_of
from solver.state import Bools, Floats, Ints

GROUPS_TRIED = 8
"""Domains in which making room is priced out in full, cheapest estimate first."""


def find_free(board: Board, j: int) -> Parts | None:
    """Return a place for the whole gang on free capacity, or None."""
    if board.state.workloads.gpus[j] > np.maximum(board.free_gpus, 0).sum():
        return None
    return choose(board, j, board.free_slots(j))


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
    enough = np.flatnonzero(capacity >= pieces)
    if not len(enough):
        return None
    group = enough[capacity[enough].argmin()]
    nodes = np.flatnonzero((key == group) & (slots > 0))
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
            nodes = np.flatnonzero((key == group) & (slots > 0))
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
    some = np.flatnonzero(takes > 0)
    return list(zip(nodes[turn[some]].tolist(), takes[some].tolist(), strict=True))


# --- having others make room -----------------------------------------------------------------------------


Held = tuple[int, int, int]
"""GPUs, CPUs and memory on one node."""


def _plus(a: Held, b: Sequence[int], sign: int = 1) -> Held:
    return a[0] + sign * b[0], a[1] + sign * b[1], a[2] + sign * b[2]


class Tenant(NamedTuple):
    """What one workload holds on one node, and what evicting it costs in GPU-hours."""

    cost: float
    workload: int
    gpus: int
    cpus: int
    memory: int

    @property
    def cost_per_gpu(self) -> float:
        """Cost of each GPU that its eviction frees on this node."""
        return self.cost / max(self.gpus, 1)


class Tenants:
    """Who may be evicted on one node."""

    def __init__(self, tenants: Iterable[Tenant]) -> None:
        self.of = {t.workload: t for t in tenants}
        self.cheapest = sorted(self.of.values())
        self.cheapest_by_gpu = sorted(self.of.values(), key=lambda t: (t.cost_per_gpu, t.workload))
        self._known: dict[Held, tuple[float, list[int]]] = {}

    def evict(self, r: int) -> Tenant:
        """Take workload `r` out; return what it held."""
        tenant = self.of.pop(r)
        self.cheapest.remove(tenant)
        self.cheapest_by_gpu.remove(tenant)
        self._known = {}
        return tenant

    def cover(self, missing: Held, gone: set[int]) -> tuple[float, list[int]]:
        """Return a small, cheap set of tenants but `gone` that hold what is missing; first what it costs."""
        if max(missing) <= 0:
            return 0.0, []
        if not gone.isdisjoint(self.of):
            return self._cover(missing, gone)
        if missing not in self._known:
            self._known[missing] = self._cover(missing, gone)
        return self._known[missing]

    def _cover(self, missing: Held, gone: set[int]) -> tuple[float, list[int]]:
        gpus, cpus, memory = missing
        alone = None
        for t in self.cheapest:
            if t.gpus >= gpus and t.cpus >= cpus and t.memory >= memory and t.workload not in gone:
                alone = t
                break
        together = []
        for t in self.cheapest_by_gpu:
            if t.workload not in gone:
                together.append(t)
                gpus, cpus, memory = gpus - t.gpus, cpus - t.cpus, memory - t.memory
                if gpus <= 0 and cpus <= 0 and memory <= 0:
                    break
        for t in sorted(together, key=lambda t: (-t.cost, t.workload)):
            if gpus + t.gpus <= 0 and cpus + t.cpus <= 0 and memory + t.memory <= 0:
                together.remove(t)
                gpus, cpus, memory = gpus + t.gpus, cpus + t.cpus, memory + t.memory
        cost = sum(t.cost for t in together)
        if alone is not None and alone.cost <= cost:
            return alone.cost, [alone.workload]
        return cost, [t.workload for t in together]


class Evictable:
    """Work that may be evicted, node by node: what it holds, and what evicting it costs.

    Attributes
    ----------
    count : int
        Workloads.
    cost : float64[W], GPU-hours
        What evicting each costs.
    gpus, cpus, memory : int64[N]
        What it holds on each node.
    least, unit : float64[N], GPU-hours
        Least cost of evicting any of it there, in all and per GPU freed; infinite where it holds none.
    """

    def __init__(self, board: Board, may: Bools, cost: Floats) -> None:
        w, p = board.state.workloads, board.state.workloads.placement
        self.count, self.cost = int(np.count_nonzero(may)), cost
        self._placement = p
        part = np.flatnonzero(may[board.owner])
        node, owner, reps = p.node[part], board.owner[part], p.replicas[part]
        held = (reps * w.gpus_per_replica[owner], reps * w.cpus_milli[owner], reps * w.memory_bytes[owner])
        nodes = board.state.nodes.count
        self.gpus, self.cpus, self.memory = (np.zeros(nodes, dtype=np.int64) for _ in held)
        for total, amount in zip((self.gpus, self.cpus, self.memory), held, strict=True):
            np.add.at(total, node, amount)
        self.least: Floats = np.full(nodes, np.inf)
        self.unit: Floats = np.full(nodes, np.inf)
        np.minimum.at(self.least, node, cost[owner])
        np.minimum.at(self.unit, node, cost[owner] / np.maximum(held[0], 1))
        self._part = (node, owner, *held)
        self._on: dict[int, Tenants] = {}

    def and_free(self, board: Board) -> Amounts:
        """Return GPUs, CPUs and memory of each node that it holds or nothing holds."""
        return board.free_gpus + self.gpus, board.free_cpus + self.cpus, board.free_memory + self.memory

    @cached_property
    def _by_node(self) -> tuple[list[int], Ints]:
        """Return where the parts of each node begin, and the parts: owner, GPUs, CPUs and memory."""
        node, *part = self._part
        turn = np.argsort(node, kind="stable")
        ptr = np.searchsorted(node[turn], np.arange(len(self.gpus) + 1))
        return ptr.tolist(), np.vstack(part)[:, turn]

    def on(self, n: int) -> Tenants:
        """Return who of it stands on node `n`."""
        if n not in self._on:
            ptr, part = self._by_node
            held: dict[int, Held] = {}
            for r, *more in part[:, ptr[n] : ptr[n + 1]].T.tolist():
                held[r] = _plus(held.get(r, (0, 0, 0)), more)
            self._on[n] = Tenants(Tenant(float(self.cost[r]), r, *amounts) for r, amounts in held.items())
        return self._on[n]

    def evict(self, r: int) -> None:
        """Take note that `r` has been evicted."""
        self.count -= 1
        for n in self.nodes(r):
            here = self.on(n)
            tenant = here.evict(r)
            self.gpus[n] -= tenant.gpus
            self.cpus[n] -= tenant.cpus
            self.memory[n] -= tenant.memory
            self.least[n] = here.cheapest[0].cost if here.of else np.inf
            self.unit[n] = here.cheapest_by_gpu[0].cost_per_gpu if here.of else np.inf

    def nodes(self, r: int) -> set[int]:
        """Return the nodes on which `r` stands."""
        return set(self._placement.node[self._placement.part(r)].tolist())


def find_by_eviction(board: Board, j: int, may: Bools, cost: Floats) -> Move | None:
    """Return the cheapest way found to start gang `j` by evicting some of `may`, or None.

    Parameters
    ----------
    may : bool[W]
        Standing interruptible work that may be evicted for `j`.
    cost : float64[W], GPU-hours
        What evicting each costs.
    """
    return make_room(board, j, Evictable(board, may, cost))


def make_room(board: Board, j: int, evictable: Evictable, most: float = np.inf) -> Move | None:
    """Return the cheapest way found to start gang `j` by evicting some of `evictable`, or None.

    Beyond `most` GPU-hours any way is as bad as none.
    """
    search = _Search(board, j, evictable)
    if search.holds(search.slots):
        return Move(choose(board, j, search.slots) or [], [])
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
        self.slots = board.slots(j, *self.free) * self.eligible
        self.most = board.slots(j, *evictable.and_free(board)) * self.eligible
        self.chosen: set[int] = set()

    def groups(self) -> list[Ints]:
        """Return node sets in each of which the gang would fit, those with the most free slots first."""
        gang, key, slots = self.gang, self.key, self.most // self.gang.fused
        if gang.segment < gang.pieces:  # whole segments: the pool is the group, `choose` has the last word
            capacity, _ = _whole_segments(self.board, slots, key, gang.segment)
            keep = key >= 0
            keep[keep] = capacity[key[keep]] > 0
            key = np.where(keep, self.board.state.nodes.pool, -1)
        enough = np.flatnonzero(_capacity(slots, key) >= gang.pieces)
        if len(enough) > 1:
            ready = _capacity(self.slots // gang.fused, key)
            enough = enough[np.lexsort((enough, -ready[enough]))][:GROUPS_TRIED]
        return [np.flatnonzero((key == g) & (slots > 0)) for g in enough.tolist()]

    def run(self, nodes: Ints, most: float) -> Move | None:
        """Return a move in this group, with no victim that the start does not need."""
        self.chosen = set()
        left, fused = self.replicas, self.gang.fused
        heap = self._lowest_bids(nodes)
        heapq.heapify(heap)
        while heap and left > 0:
            bid, unit, n = heapq.heappop(heap)
            k = min(left, self.most.item(n)) // fused * fused
            if k == 0:
                continue
            cost, victims = self.evictable.on(n).cover(self._missing(n, k), self.chosen)
            price = cost / k
            if heap and price > heap[0][0] and price > bid:
                heapq.heappush(heap, (price, unit, n))
                continue
            self.chosen.update(victims)
            left -= k
        dear = min((self.evictable.cost[r] for r in self.chosen), default=0.0) >= most  # one has to go
        return None if left > 0 or dear else self._settle()

    def _lowest_bids(self, nodes: Ints) -> list[tuple[float, float, int]]:
        """Return for each node what a replica there costs at least, and the node.

        The true price of a node is worked out only when this makes it the cheapest.
        """
        most = self.most[nodes]
        missing = most * self.each[0] - self.free[0][nodes]
        bids = np.zeros(len(nodes))
        some = np.flatnonzero(missing > 0)
        least, unit = self.evictable.least[nodes[some]], self.evictable.unit[nodes[some]]
        bids[some] = np.maximum(least, unit * missing[some]) / most[some]
        return list(zip(bids.tolist(), (-self.evictable.unit[nodes]).tolist(), nodes.tolist(), strict=True))

    def _missing(self, n: int, k: int) -> Held:
        """Return what node `n` lacks for `k` replicas, those chosen gone."""
        gpus, cpus, memory = self.each
        missing = _plus((k * gpus, k * cpus, k * memory), self._free_on(n), -1)
        here = self.evictable.on(n).of
        for r in self.chosen.intersection(here):
            missing = _plus(missing, here[r][2:], -1)
        return missing

    def _settle(self) -> Move | None:
        """Place the gang with the chosen victims gone, then drop whom it does not need, dearest first."""
        evictable, victims = self.evictable, set(self.chosen)
        room: dict[int, Held] = {}
        for r in victims:
            for n in evictable.nodes(r):
                room[n] = _plus(room.get(n) or self._free_on(n), evictable.on(n).of[r][2:])
        slots = self.slots.copy()
        for n, have in room.items():
            slots[n] = self._slots(n, have)
        if not self.holds(slots):
            return None
        for r in sorted(victims, key=lambda r: (-evictable.cost[r], r)):
            if len(victims) == 1:  # it does not fit without any
                break
            less = {n: _plus(room[n], evictable.on(n).of[r][2:], -1) for n in evictable.nodes(r)}
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
