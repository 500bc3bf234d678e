"""Finding a place for one gang on the board, without a solver: on free nodes, or by having others make room.

The search on free nodes is complete for one gang: where free capacity holds it, a place is found.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np

from solver.board import Board, Move, Parts
from solver.buddy import NODE, NONE, gang_of
from solver.state import Bools, Floats, Ints

GROUPS_TRIED = 8
"""Domains in which making room is priced out in full, cheapest estimate first."""


def find_free(board: Board, j: int) -> Parts | None:
    """Return a place for the whole gang on free capacity, or None."""
    return choose(board, j, board.free_slots(j))


def choose(board: Board, j: int, slots: Ints) -> Parts | None:
    """Choose nodes for gang `j` among `slots` replicas per node (int64[N]), or None where it does not fit.

    The tightest domain that holds the gang; in it, whole domains before pieces of several, and the nodes
    that are left with the least.
    """
    gang = gang_of(board.state, j)
    slots = slots if gang.fused == 1 else slots // gang.fused
    preferred, key = int(board.state.workloads.preferred[j]), group_key(board, gang.required)
    found = None
    if preferred != NONE and gang.segment == gang.pieces:  # a preferred domain, inside the required one
        inside = group_key(board, preferred)
        both = inside if gang.required < 0 else _shared(inside, key)
        found = _in_one(board, slots, both, gang.pieces, gang.size)
    if found is None and gang.segment < gang.pieces:
        found = _in_segments(board, slots, key, gang.pieces, gang.segment, gang.size)
    elif found is None:
        found = _in_one(board, slots, key, gang.pieces, gang.size)
    return None if found is None else [(n, k * gang.fused) for n, k in found]


def group_key(board: Board, level: int) -> Ints:
    """Return the group of each node at a level and in one pool, int64[N]; -1 where it has no such level."""
    n = board.state.nodes
    if level == NODE:
        return np.arange(n.count)
    if level < 0:
        return n.pool
    key: Ints = n.domain[level] * len(n.pool_cluster) + n.pool
    return np.where(n.domain[level] >= 0, key, -1)


def _shared(a: Ints, b: Ints) -> Ints:
    """Return the group of nodes that share both groups, int64[N]; -1 where a node lacks one of them."""
    both = (a >= 0) & (b >= 0)
    out = np.full(len(a), -1, dtype=np.int64)
    out[both] = np.unique(a[both] * (int(b.max(initial=0)) + 1) + b[both], return_inverse=True)[1]
    return out


def _capacity(slots: Ints, key: Ints) -> Ints:
    inside = key >= 0
    sums = np.bincount(key[inside], slots[inside], int(key.max(initial=-1)) + 1)
    return sums.astype(np.int64)


def _in_one(board: Board, slots: Ints, key: Ints, pieces: int, size: int) -> Parts | None:
    capacity = _capacity(slots, key)
    enough = np.flatnonzero(capacity >= pieces)
    if not len(enough):
        return None
    group = int(enough[np.argmin(capacity[enough])])
    return _fill(board, np.flatnonzero((key == group) & (slots > 0)), slots, pieces, size)


def _in_segments(board: Board, slots: Ints, key: Ints, pieces: int, segment: int, size: int) -> Parts | None:
    """Choose whole segments, each in one domain of `key`, all in one pool."""
    pool = board.state.nodes.pool
    capacity = _capacity(slots, key) // segment * segment
    first = np.full(len(capacity), -1, dtype=np.int64)
    first[key[key >= 0][::-1]] = pool[key >= 0][::-1]
    for p in range(len(board.state.nodes.pool_cluster)):
        mine = np.flatnonzero((first == p) & (capacity > 0))
        if capacity[mine].sum() < pieces:
            continue
        out: Parts = []
        left = pieces
        for group in _tightest_first(dict(zip(mine.tolist(), capacity[mine].tolist(), strict=True)), left):
            take = min(left, int(capacity[group]))
            out += _fill(board, np.flatnonzero((key == group) & (slots > 0)), slots, take, size)
            left -= take
            if not left:
                return out
    return None


def _tightest_first(capacity: dict[int, int], wanted: int) -> Iterable[int]:
    """Yield domains for `wanted` pieces: the largest ones, and last the tightest that takes what is left."""
    left = dict(capacity)
    while wanted > 0 and left:
        enough = [g for g, c in left.items() if c >= wanted]
        group = min(enough, key=lambda g: (left[g], g)) if enough else max(left, key=lambda g: (left[g], -g))
        wanted -= left.pop(group)
        yield group


def _fill(board: Board, nodes: Ints, slots: Ints, pieces: int, size: int) -> Parts:
    """Give out nodes of one group that together have slots for all pieces."""
    if pieces == 1:  # the node that is left with the least
        return [(int(nodes[np.lexsort((nodes, board.free_gpus[nodes]))[0]]), 1)]
    levels = board.state.nodes.domain
    inner = levels[-1][nodes] if len(levels) else np.zeros(len(nodes), dtype=np.int64)
    capacity = {int(d): int(slots[nodes[inner == d]].sum()) for d in np.unique(inner)}
    out: Parts = []
    for d in _tightest_first(capacity, pieces) if len(capacity) > 1 else capacity:
        here = nodes[inner == d]
        here = here[np.lexsort((here, board.free_gpus[here], board.free_gpus[here] - slots[here] * size))]
        for n in here.tolist():
            take = min(pieces, int(slots[n]))
            out.append((n, take))
            pieces -= take
            if not pieces:
                return out
    return out


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
    w = board.state.workloads
    part = np.flatnonzero(may[board.owner])
    p = w.placement
    node, owner, reps = p.node[part], board.owner[part], p.replicas[part]
    gpus, cpus, memory = board.free_gpus.copy(), board.free_cpus.copy(), board.free_memory.copy()
    np.add.at(gpus, node, p.gpus[part])
    np.add.at(cpus, node, reps * w.cpus_milli[owner])
    np.add.at(memory, node, reps * w.memory_bytes[owner])
    most = board.slots(j, gpus, cpus, memory)
    most[~board.eligible(j)] = 0
    unit = np.full(len(most), np.inf)
    np.minimum.at(unit, node, cost[owner] / np.maximum(p.gpus[part], 1))
    missing = np.maximum(np.minimum(most, w.replicas[j]) * w.gpus_per_replica[j] - board.free_gpus, 0)
    least = np.where(missing > 0, unit, 0.0) * missing / np.maximum(most, 1)
    turn = np.argsort(node, kind="stable")
    occupants = (node[turn], owner[turn])
    best: tuple[float, Move] | None = None
    for group in _groups_worth_trying(board, j, most):
        move = _Search(board, j, occupants, cost).run(group, most, least)
        if move is not None:
            price = sum(float(cost[r]) for r in move.victims)
            if best is None or price < best[0]:
                best = (price, move)
    return best[1] if best else None


def _groups_worth_trying(board: Board, j: int, most: Ints) -> list[Ints]:
    """Return node sets in each of which the gang would fit, those with the most free slots first."""
    gang = gang_of(board.state, j)
    key = group_key(board, gang.required)
    free, slots = board.free_slots(j) // gang.fused, most // gang.fused
    if gang.segment < gang.pieces:  # whole segments: the pool is the group, `choose` has the last word
        capacity = _capacity(slots, key) // gang.segment * gang.segment
        keep = key >= 0
        keep[keep] = capacity[key[keep]] > 0
        key = np.where(keep, board.state.nodes.pool, -1)
    capacity = _capacity(slots, key)
    ready = _capacity(free, key)
    enough = np.flatnonzero(capacity >= gang.pieces)
    enough = enough[np.lexsort((enough, -ready[enough]))][:GROUPS_TRIED]
    return [np.flatnonzero((key == g) & (slots > 0)) for g in enough.tolist()]


class _Search:
    """Grows a set of victims in one group of nodes until the gang fits, cheapest node first."""

    def __init__(self, board: Board, j: int, occupants: tuple[Ints, Ints], cost: Floats) -> None:
        w = board.state.workloads
        self.board, self.j, self.occupants, self.cost = board, j, occupants, cost
        self.each = (int(w.gpus_per_replica[j]), int(w.cpus_milli[j]), int(w.memory_bytes[j]))
        self.chosen: list[int] = []
        self.fused = gang_of(board.state, j).fused

    def run(self, nodes: Ints, most: Ints, least: Floats) -> Move | None:
        """Return a move in this group, with no victim that the start does not need.

        `least` bounds what a replica on each node costs from below, float64[N]: the true price of a node is
        worked out only when the bound makes it the cheapest.
        """
        wanted = int(self.board.state.workloads.replicas[self.j])
        heap = list(zip(least[nodes].tolist(), nodes.tolist(), strict=True))
        heapq.heapify(heap)
        left = wanted
        while heap and left > 0:
            bid = heapq.heappop(heap)
            n = bid[1]
            k = min(left, int(most[n])) // self.fused * self.fused
            if k == 0:
                continue
            fresh = self._bid(n, k)
            if heap and fresh[0] > heap[0][0] and fresh[0] > bid[0]:
                heapq.heappush(heap, fresh)
                continue
            self.chosen += self._victims_on(n, k)
            left -= k
        return self._settle() if left <= 0 else None

    def _bid(self, n: int, k: int) -> tuple[float, int]:
        """Return what room for `k` replicas on node `n` costs per replica, beside the victims chosen."""
        return sum(float(self.cost[r]) for r in self._victims_on(n, k)) / max(k, 1), n

    def _held(self, r: int, n: int) -> tuple[int, int, int]:
        w = self.board.state.workloads
        reps = sum(k for node, k in self.board.parts(r) if node == n)
        return reps * int(w.gpus_per_replica[r]), reps * int(w.cpus_milli[r]), reps * int(w.memory_bytes[r])

    def _victims_on(self, n: int, k: int) -> list[int]:
        """Return a small, cheap set of further victims on node `n` that makes room for `k` replicas there."""
        board = self.board
        free = [int(x[n]) for x in (board.free_gpus, board.free_cpus, board.free_memory)]
        low, high = np.searchsorted(self.occupants[0], (n, n + 1))
        held = {r: self._held(r, n) for r in self.occupants[1][low:high].tolist()}
        for r in held:
            if r in self.chosen:
                free = [f + h for f, h in zip(free, held[r], strict=True)]
        missing = [k * e - f for e, f in zip(self.each, free, strict=True)]
        if max(missing) <= 0:
            return []
        others = sorted((r for r in held if r not in self.chosen), key=lambda r: (self.cost[r], r))
        alone = [r for r in others if all(h >= m for h, m in zip(held[r], missing, strict=True))]
        by_gpu = sorted(others, key=lambda r: (self.cost[r] / max(held[r][0], 1), r))
        together: list[int] = []
        for r in by_gpu:
            if max(missing) <= 0:
                break
            together.append(r)
            missing = [m - h for m, h in zip(missing, held[r], strict=True)]
        for r in sorted(together, key=lambda r: (-self.cost[r], r)):
            if all(m + h <= 0 for m, h in zip(missing, held[r], strict=True)):
                together.remove(r)
                missing = [m + h for m, h in zip(missing, held[r], strict=True)]
        if alone and self.cost[alone[0]] <= sum(self.cost[r] for r in together):
            return [alone[0]]
        return together

    def _settle(self) -> Move | None:
        """Place the gang with the chosen victims gone, then drop whom it does not need, dearest first."""
        trial = self.board.copy()
        for r in self.chosen:
            trial.evict(r, 0)
        parts = find_free(trial, self.j)
        if parts is None:
            return None
        for r in sorted(self.chosen, key=lambda r: (-self.cost[r], r)):
            trial.restore(r)
            other = find_free(trial, self.j)
            if other is None:
                trial.evict(r, 0)
            else:
                parts = other
        return Move(parts, sorted(trial.victims.keys() - self.board.victims.keys()))
