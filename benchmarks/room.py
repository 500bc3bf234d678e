"""Seats for the gangs of a cluster in mid-flight: who stands on which nodes, and what is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.gangs import ONE_LEAF, PREFER_BLOCK, WHOLE_LEAVES, Gangs, Ints, Rng

Seats = list[list[tuple[int, int]]]
"""For each gang the (node, replicas) of its parts."""


@dataclass
class Room:
    """What is left on every node while gangs are seated, its leaf and its cluster, int64[N] each."""

    gpus: Ints
    cpus: Ints
    memory_gib: Ints
    leaf: Ints
    cluster: Ints

    def seat_all(self, rng: Rng, gangs: Gangs) -> tuple[Gangs, Seats]:
        """Seat gangs in their order, whole leaves before the rest; return those that found room."""
        seats: dict[int, list[tuple[int, int]]] = {}
        for j in np.argsort(-gangs.topology.clip(PREFER_BLOCK), kind="stable").tolist():
            parts = self._seat(rng, gangs, j)
            if parts:
                seats[j] = parts
        kept = sorted(seats)
        return gangs.take(np.array(kept, dtype=np.int64)), [seats[j] for j in kept]

    def _seat(self, rng: Rng, gangs: Gangs, j: int) -> list[tuple[int, int]]:
        """Return (node, replicas) of gang `j`, or nothing where it does not fit."""
        want, each = int(gangs.replicas[j]), int(gangs.each[j])
        slots = self._slots(each, int(gangs.cpus[j]), int(gangs.memory_gib[j]))
        if want == 1:
            can = np.flatnonzero(slots)
            chosen = can[rng.integers(can.size)][None] if can.size else can
        else:
            chosen = self._nodes(rng, slots, want, int(gangs.topology[j]))
        if not chosen.size:
            return []
        before = np.cumsum(slots[chosen]) - slots[chosen]
        part = np.minimum(slots[chosen], want - before).clip(0)
        if part.sum() < want:
            return []
        self.gpus[chosen] -= part * each
        self.cpus[chosen] -= part * int(gangs.cpus[j])
        self.memory_gib[chosen] -= part * int(gangs.memory_gib[j])
        return [(n, k) for n, k in zip(chosen.tolist(), part.tolist(), strict=True) if k]

    def _nodes(self, rng: Rng, slots: Ints, want: int, wish: int) -> Ints:
        """Return nodes of one cluster, taken at random, to fill in this order; none where it does not fit."""
        clusters = int(self.cluster[-1]) + 1
        for cluster in rng.permutation(clusters) if clusters > 1 else [0]:
            here = np.where(self.cluster == cluster, slots, 0)
            if here.sum() >= want:
                return _nodes_by_leaf(rng, here, self.leaf, want, wish)
        return np.zeros(0, dtype=np.int64)

    def _slots(self, each: int, cpus: int, memory_gib: int) -> Ints:
        """Replicas that every node still holds, int64[N]."""
        slots = self.gpus // each
        if cpus:
            slots = np.minimum(slots, self.cpus // cpus)
        if memory_gib:
            slots = np.minimum(slots, self.memory_gib // memory_gib)
        return slots


def _nodes_by_leaf(rng: Rng, slots: Ints, leaf: Ints, want: int, wish: int) -> Ints:
    """Return nodes to fill in this order: leaves at random, as many and as whole as the wish asks."""
    per_leaf = np.bincount(leaf, weights=slots).astype(np.int64)
    least = {ONE_LEAF: want, WHOLE_LEAVES: int(np.bincount(leaf).max())}.get(wish, 1)
    leaves = rng.permutation(np.flatnonzero(per_leaf >= least))
    leaves = leaves[: max(1, int(np.searchsorted(np.cumsum(per_leaf[leaves]), want)) + 1)]
    rank = np.full(len(per_leaf), -1)
    rank[leaves] = np.arange(len(leaves))
    nodes = np.flatnonzero((slots > 0) & (rank[leaf] >= 0))
    return nodes[np.argsort(rank[leaf[nodes]], kind="stable")]
