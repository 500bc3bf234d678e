"""Who may be evicted where: what stands on each node, what it holds there, and what evicting it costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solver.board import Amounts, Board
from solver.shares import lost_hours
from solver.state import Bools, Floats, Ints

Held = tuple[int, int, int]
"""GPUs, CPUs and memory on one node."""


def plus(a: Held, b: Sequence[int], sign: int = 1) -> Held:
    """Return a + b, or a - b where `sign` is -1."""
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


@dataclass(frozen=True)
class Prices:
    """What evicting costs on each node, float64[N], GPU-hours.

    Attributes
    ----------
    least, unit
        Of the cheapest workload, and of the cheapest GPU; infinite where there is none.
    total, dearest
        Of all that holds GPUs, and of the dearest GPU.
    """

    least: Floats
    unit: Floats
    total: Floats
    dearest: Floats

    @staticmethod
    def of(node: Ints, cost: Floats, gpus: Ints, count: int) -> Prices:
        """Return the prices of `count` nodes from the parts that stand on them."""
        out = Prices(np.full(count, np.inf), np.full(count, np.inf), np.zeros(count), np.zeros(count))
        per_gpu = cost / np.maximum(gpus, 1)
        np.minimum.at(out.least, node, cost)
        np.minimum.at(out.unit, node, per_gpu)
        np.add.at(out.total, node, np.where(gpus > 0, cost, 0.0))
        np.maximum.at(out.dearest, node, per_gpu)
        return out

    def update(self, n: int, here: Tenants) -> None:
        """Work out the prices of node `n` anew, as only `here` still stand there."""
        cheapest, by_gpu = here.cheapest, here.cheapest_by_gpu
        self.least[n], self.unit[n] = (
            (cheapest[0].cost, by_gpu[0].cost_per_gpu) if here.of else (np.inf, np.inf)
        )
        self.total[n] = sum(t.cost for t in cheapest if t.gpus)
        self.dearest[n] = by_gpu[-1].cost_per_gpu if here.of else 0.0

    def at_least(self, nodes: Ints, gpus: Ints, held_gpus: Ints) -> Floats:
        """Return what freeing `gpus` of the GPUs held on each of `nodes` costs at least, float64.

        No less than the cheapest workload there, than so many of the cheapest GPUs, and than all that is
        held but for the dearest GPUs that may stay.
        """
        cheapest = np.maximum(self.least[nodes], self.unit[nodes] * gpus)
        out: Floats = np.maximum(cheapest, self.total[nodes] - self.dearest[nodes] * (held_gpus - gpus))
        return out


class Evictable:
    """Work that may be evicted, node by node: what it holds, and what evicting it costs.

    Attributes
    ----------
    count : int
        Workloads.
    charge : float64[W], GPU-hours
        What evicting each is charged: it decides whether anybody goes.
    cost : float64[W], GPU-hours
        The charge and the work that would be lost: it chooses who goes.
    gpus, cpus, memory : int64[N]
        What it holds on each node.
    """

    def __init__(self, board: Board, may: Bools, charge: Floats) -> None:
        w, p = board.state.workloads, board.state.workloads.placement
        self.count, self.charge = int(np.count_nonzero(may)), charge
        self.cost: Floats = charge + lost_hours(board.state)
        self._placement = p
        part = np.flatnonzero(may[board.owner])
        node, owner, reps = p.node[part], board.owner[part], p.replicas[part]
        held = (reps * w.gpus_per_replica[owner], reps * w.cpus_milli[owner], reps * w.memory_bytes[owner])
        self._part = (node, owner, *held)
        self.gpus, self.cpus, self.memory = (np.zeros(board.state.nodes.count, dtype=np.int64) for _ in held)
        for total, amount in zip((self.gpus, self.cpus, self.memory), held, strict=True):
            np.add.at(total, node, amount)
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

    @cached_property
    def prices(self) -> Prices:
        """What freeing GPUs of each node costs at least; worked out when first asked for."""
        node, owner, gpus, *_ = self._part
        return Prices.of(node, self.cost[owner], gpus, len(self.gpus))

    def on(self, n: int) -> Tenants:
        """Return who of it stands on node `n`."""
        if n not in self._on:
            ptr, part = self._by_node
            held: dict[int, Held] = {}
            for r, *more in part[:, ptr[n] : ptr[n + 1]].T.tolist():
                held[r] = plus(held.get(r, (0, 0, 0)), more)
            self._on[n] = Tenants(Tenant(float(self.cost[r]), r, *amounts) for r, amounts in held.items())
        return self._on[n]

    def evict(self, r: int) -> None:
        """Take note that `r` has been evicted."""
        self.count, prices = self.count - 1, self.prices
        for n in self.nodes(r):
            here = self.on(n)
            tenant = here.evict(r)
            self.gpus[n] -= tenant.gpus
            self.cpus[n] -= tenant.cpus
            self.memory[n] -= tenant.memory
            prices.update(n, here)

    def nodes(self, r: int) -> set[int]:
        """Return the nodes on which `r` stands."""
        return set(self._placement.node[self._placement.part(r)].tolist())
