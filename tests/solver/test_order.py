"""The order against progressive filling as docs/contract.md tells it, turn by turn and in fractions."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from solver.shares import commitments, rank
from solver.state import NodeState, State, Status
from tests.solver.seeded import instance_state, random_state
from tests.solver.worlds import worlds


class Filling:
    """All that a turn depends on, worked out anew for every turn."""

    def __init__(self, world: State, candidates: list[int], placeable: list[int]) -> None:
        self.world, self.waiting, self.placeable = world, set(candidates), set(placeable)
        w, n = world.workloads, world.nodes
        self.commit = commitments(world).tolist()
        self.granted = [j for j in range(w.count) if world.protected[j] and w.allocated[j] and w.leaf[j] >= 0]
        fixed = world.protected | (w.status == Status.STOPPING)
        free = n.gpus.copy()
        for j in np.flatnonzero(fixed).tolist():
            part = w.placement.part(j)
            for i, gpus in zip(w.placement.node[part], w.placement.gpus[part], strict=True):
                free[i] -= gpus
        healthy = n.state == NodeState.UP
        self.room = [int(free[healthy & (n.pool == p)].sum()) for p in range(len(n.pool_cluster))]

    def ratio(self, v: int) -> Fraction | float:
        """Return use over entitlement of a budget tree node, granted commitments included."""
        b, w = self.world.budgets, self.world.workloads
        below = [j for j in self.granted if v in b.path(int(w.leaf[j]))]
        use = int(b.usage[v]) + sum(self.commit[j] for j in below)
        return Fraction(use, int(b.entitled[v])) if b.entitled[v] else float("inf")

    def head(self, v: int) -> int:
        """Return who goes first in one leaf: claims, priority, what its eviction loses, submit, number."""
        w, claimed = self.world.workloads, set(self.world.promises.workload.tolist())
        mine = [j for j in self.waiting if w.leaf[j] == v]
        return min(
            mine, key=lambda j: (j not in claimed, -w.priority[j], -self.sunk_s(j), w.submitted_s[j], j)
        )

    def sunk_s(self, j: int) -> int:
        """Return the seconds beyond a restart that a run which is not resumable would lose."""
        w = self.world.workloads
        if w.status[j] != Status.RUNNING or w.resumable[j]:
            return 0
        return max(0, self.world.now_s - int(w.started_s[j]) - self.world.policy.restart_cost_s)

    def age(self, v: int) -> tuple:
        """Return by what heads that wait under tree nodes of equal ratio are compared."""
        w, claimed = self.world.workloads, set(self.world.promises.workload.tolist())
        heads = [self.head(leaf) for leaf in self.leaves() if v in self.world.budgets.path(leaf)]
        return min((j not in claimed, int(w.submitted_s[j]), j) for j in heads)

    def leaves(self) -> set[int]:
        return {int(self.world.workloads.leaf[j]) for j in self.waiting}

    def next_leaf(self) -> int:
        b, order = self.world.budgets, self.world.policy.order
        first = min(self.leaves(), key=lambda v: (self.ratio(v), self.age(v)))
        if order == "leaf" or (order == "budget" and self.ratio(first) <= 1):
            return first
        v = 0
        while True:
            wanting = {c for leaf in self.leaves() for c in b.path(leaf) if b.parent[c] == v}
            if not wanting:
                return v
            v = min(wanting, key=lambda c: (self.ratio(c), self.age(c)))

    def turns(self) -> Iterator[tuple[int, float]]:
        w = self.world.workloads
        while self.waiting:
            leaf = self.next_leaf()
            j = self.head(leaf)
            yield j, float(self.ratio(leaf))
            self.waiting.remove(j)
            pools = np.flatnonzero(w.pool_ok[j]).tolist()
            pool = max(pools, key=lambda p: self.room[p]) if pools else None
            if j in self.placeable and pool is not None and self.room[pool] >= w.gpus[j]:
                self.room[pool] -= int(w.gpus[j])
                self.granted.append(j)


def obeys(world: State) -> None:
    """Compare, with every third workload not placeable."""
    w = world.workloads
    wants = w.allocated & (w.leaf >= 0) & (w.status != Status.STOPPING) & ~world.protected
    placeable = np.arange(w.count) % 3 > 0
    expected = list(
        Filling(world, np.flatnonzero(wants).tolist(), np.flatnonzero(placeable).tolist()).turns()
    )
    order = rank(world, np.flatnonzero(wants), placeable)
    if world.policy.order == "fair_tree":
        expected.sort(key=lambda turn: turn[1] > 1)
    assert order.sequence.tolist() == [j for j, _ in expected]
    assert order.ratio[order.sequence].tolist() == [ratio for _, ratio in expected]


@settings(max_examples=60)
@given(worlds())
def test_every_turn_goes_to_whom_the_contract_says_in_tiny_worlds(world):
    obeys(world)


def test_every_turn_goes_to_whom_the_contract_says_in_random_worlds():
    for seed in range(120):
        obeys(random_state(seed))


@pytest.mark.parametrize("seed", [1, 2])
def test_every_turn_goes_to_whom_the_contract_says_in_a_cluster_in_mid_flight(seed):
    obeys(instance_state(16, 60, seed))
