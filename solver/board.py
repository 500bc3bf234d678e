"""The board of one round: what stands on which node as decisions are taken; all else in `solver/` is frozen.

Greedy, seating, the debug lane and the polish move pieces on it by the same few moves, each of which keeps
the free capacity, the limits and the brake in step. A copy is cheap, so a rung tries on its own copy.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from solver.shares import BEYOND, UNALLOCATED, WITHIN, Order, eviction_gpus
from solver.state import FOREVER_S, Bools, Ints, Level, NodeState, Spread, State, Status

Parts = list[tuple[int, int]]
"""Where a gang stands: (node, replicas) pairs."""

UNCOUNTED = np.int64(1) << 50
"""Free CPUs or memory of a node on which they are not counted."""


@dataclass
class Move:
    """A start that could be made: where, and who would have to make room for it."""

    parts: Parts
    victims: list[int]


def leaving(state: State) -> Ints:
    """Return the running work that may not stay, int64: unprotected on draining nodes, all on nodes down."""
    w, p = state.workloads, state.workloads.placement
    owner = np.repeat(np.arange(w.count), np.diff(p.ptr))
    health = state.nodes.state[p.node]
    gone = (health == NodeState.DOWN) | ((health == NodeState.DRAINING) & ~state.protected[owner])
    return np.unique(owner[(w.status[owner] == Status.RUNNING) & gone])


class Board:
    """Free capacity, standing work, starts and victims; made of a state and its order.

    Attributes
    ----------
    free_gpus, free_cpus, free_memory : int64[N]
        What nothing stands on; 0 on nodes that may start nothing.
    standing : bool[W]
        Running work that still stands, and what has been started.
    starts : dict of int to Parts
    tenants : dict of int to tuple of int
        Starts on each node.
    victims : dict of int to int
        Evicted running work, and the tier that it made room for.
    ahead : set of int
        Starts that the order does not judge: promised ones, and those of the debug lane.
    hold_s : int64[N], epoch seconds
        Protection of a start must end by then on this node, because it is promised to somebody.
    """

    def __init__(self, state: State, order: Order) -> None:
        n, w = state.nodes, state.workloads
        self.state, self.order = state, order
        self.usable: Bools = n.state == NodeState.UP
        self.owner: Ints = np.repeat(np.arange(w.count), np.diff(w.placement.ptr))
        self.standing: Bools = w.status != Status.PENDING
        self.starts: dict[int, Parts] = {}
        self.tenants: dict[int, tuple[int, ...]] = {}
        self.victims: dict[int, int] = {}
        self.ahead: set[int] = set()
        self.hold_s: Ints = np.full(n.count, FOREVER_S, dtype=np.int64)
        self.interruptible: Bools = (w.status == Status.RUNNING) & ~state.protected
        self.free_gpus: Ints = n.gpus.copy()
        self.free_cpus: Ints = np.where(n.cpus_milli > 0, n.cpus_milli, UNCOUNTED)
        self.free_memory: Ints = np.where(n.memory_bytes > 0, n.memory_bytes, UNCOUNTED)
        reps, node = w.placement.replicas, w.placement.node
        np.subtract.at(self.free_gpus, node, w.placement.gpus)
        np.subtract.at(self.free_cpus, node, reps * w.cpus_milli[self.owner])
        np.subtract.at(self.free_memory, node, reps * w.memory_bytes[self.owner])
        for free in (self.free_gpus, self.free_cpus, self.free_memory):
            free[~self.usable] = 0
        self.held_gpus: Ints = np.zeros(state.budgets.count, dtype=np.int64)
        for j in np.flatnonzero(self.standing).tolist():
            self._hold(j, 1)
        self.held_before: Ints = self.held_gpus.copy()
        self.preempted_gpus = 0
        for r in leaving(state).tolist():
            self._lift(r)

    def copy(self) -> Board:
        """Return a board on which moves do not touch this one."""
        twin = copy.copy(self)
        for name in ("standing", "hold_s", "free_gpus", "free_cpus", "free_memory", "held_gpus"):
            setattr(twin, name, getattr(self, name).copy())
        for name in ("starts", "tenants", "victims", "ahead"):
            setattr(twin, name, copy.copy(getattr(self, name)))
        return twin

    def adopt(self, trial: Board) -> None:
        """Take over what a copy of this board has tried."""
        self.__dict__.update(trial.__dict__)

    # --- moves -------------------------------------------------------------------------------------------

    def parts(self, j: int) -> Parts:
        """Return where workload `j` stands, or stood before it was evicted."""
        if j in self.starts:
            return self.starts[j]
        p = self.state.workloads.placement
        part = p.part(j)
        return list(zip(p.node[part].tolist(), p.replicas[part].tolist(), strict=True))

    def start(self, j: int, parts: Parts) -> None:
        """Start pending work; the caller has made sure that it fits."""
        self.starts[j] = parts
        for n in {n for n, _ in parts}:
            self.tenants[n] = (*self.tenants.get(n, ()), j)
        self.standing[j] = True
        self._take(j, parts, -1)
        self._hold(j, 1)

    def cancel(self, j: int) -> None:
        """Take back a start of this round."""
        parts = self.starts.pop(j)
        for n in {n for n, _ in parts}:
            self.tenants[n] = tuple(k for k in self.tenants[n] if k != j)
        self._take(j, parts, 1)
        self.standing[j] = False
        self._hold(j, -1)

    def evict(self, r: int, tier: int) -> None:
        """Preempt interruptible work to make room for work of `tier`."""
        self._lift(r)
        self.victims[r] = tier
        self.preempted_gpus += int(self.state.workloads.gpus[r])

    def restore(self, r: int) -> None:
        """Take back an eviction; the caller has made sure that its place is free."""
        self._take(r, self.parts(r), -1)
        self.standing[r] = True
        self._hold(r, 1)
        del self.victims[r]
        self.preempted_gpus -= int(self.state.workloads.gpus[r])

    def _lift(self, r: int) -> None:
        self._take(r, self.parts(r), 1)
        self.standing[r] = False
        self._hold(r, -1)

    def _take(self, j: int, parts: Parts, sign: int) -> None:
        w = self.state.workloads
        size, cpus, memory = (int(x[j]) for x in (w.gpus_per_replica, w.cpus_milli, w.memory_bytes))
        for node, reps in parts:
            if self.usable[node]:
                self.free_gpus[node] += sign * reps * size
                self.free_cpus[node] += sign * reps * cpus
                self.free_memory[node] += sign * reps * memory

    def _hold(self, j: int, sign: int) -> None:
        w = self.state.workloads
        v = int(w.leaf[j])
        while v >= 0:
            self.held_gpus[v] += sign * int(w.gpus[j])
            v = int(self.state.budgets.parent[v])

    # --- questions ---------------------------------------------------------------------------------------

    def eligible(self, j: int) -> Bools:
        """Return the nodes on which a replica of `j` may ever start in this round, bool[N]."""
        n, w = self.state.nodes, self.state.workloads
        ok: Bools = self.usable & w.pool_ok[j][n.pool]
        if w.required[j] >= 0:
            ok &= n.domain[w.required[j]] >= 0
        elif w.required[j] == Level.UNKNOWN:
            ok = np.zeros(n.count, dtype=bool)
        ends_s = self.state.now_s + (int(w.min_runtime_s[j]) if w.allocated[j] else self.state.policy.due_s)
        ok &= ends_s <= self.hold_s  # unallocated work keeps off what is promised for the next round
        return ok

    def slots(self, j: int, gpus: Ints, cpus: Ints, memory: Ints) -> Ints:
        """Return how many replicas of `j` each node takes with so much free, int64[N]; eligibility apart."""
        w = self.state.workloads
        out = np.full(len(gpus), int(w.replicas[j]), dtype=np.int64)
        for free, each in ((gpus, w.gpus_per_replica), (cpus, w.cpus_milli), (memory, w.memory_bytes)):
            if each[j] > 0:
                np.minimum(out, np.maximum(free, 0) // each[j], out=out)
        return out

    def free_slots(self, j: int) -> Ints:
        """Return how many replicas of `j` each node takes as it stands, int64[N]."""
        slots = self.slots(j, self.free_gpus, self.free_cpus, self.free_memory)
        slots[~self.eligible(j)] = 0
        return slots

    def limit_room(self, j: int) -> int:
        """Return the GPUs that the limits above `j` still allow; 0 where the subtree was over its limit."""
        b, room = self.state.budgets, int(UNCOUNTED)
        for v in b.path(int(self.state.workloads.leaf[j])):
            if b.limit_gpus[v] >= 0:
                over = self.held_before[v] > b.limit_gpus[v]
                room = min(room, 0 if over else int(b.limit_gpus[v] - self.held_gpus[v]))
        return room

    def brake_room(self) -> int:
        """Return the GPUs that may still be preempted in this round."""
        most = self.state.policy.max_preempted_gpus
        return int(UNCOUNTED) if most < 0 else most - self.preempted_gpus

    def place_is_free(self, r: int) -> bool:
        """Tell whether evicted work could have its place back as the board stands."""
        w = self.state.workloads
        if self._newly_limited(r):
            return False
        size, cpus, memory = (int(x[r]) for x in (w.gpus_per_replica, w.cpus_milli, w.memory_bytes))
        return all(
            self.usable[node]
            and self.free_gpus[node] >= reps * size
            and self.free_cpus[node] >= reps * cpus
            and self.free_memory[node] >= reps * memory
            for node, reps in self.parts(r)
        )

    def _newly_limited(self, r: int) -> bool:
        """Tell whether giving `r` back would lift a subtree above both its limit and what it held before."""
        b, gpus = self.state.budgets, int(self.state.workloads.gpus[r])
        return any(
            b.limit_gpus[v] >= 0
            and self.held_gpus[v] + gpus > max(int(b.limit_gpus[v]), int(self.held_before[v]))
            for v in b.path(int(self.state.workloads.leaf[r]))
        )

    def gainers(self, r: int) -> list[int]:
        """Return the allocated starts that victim `r` made room for, best of the order first.

        They stand on its nodes and rank before it (or go ahead of the order); failing that, it made room
        under a limit above both. Empty: nobody has a right to its place.
        """
        w, order = self.state.workloads, self.order
        band = int(order.band[r])

        def entitled(js: Iterable[int]) -> list[int]:
            return [j for j in js if w.allocated[j] and (order.band[j] < band or j in self.ahead)]

        found = entitled({j for n, _ in self.parts(r) for j in self.tenants.get(n, ())})
        if not found and self._newly_limited(r):
            b = self.state.budgets
            capped = {v for v in b.path(int(w.leaf[r])) if b.limit_gpus[v] >= 0}
            found = [j for j in entitled(self.starts) if capped.intersection(b.path(int(w.leaf[j])))]
        return sorted(found, key=lambda j: (order.position[j], j))

    def objective(self) -> tuple[float, float, float]:
        """Return the worth of each tier in GPU-hours: price x GPUs x H of what stands, less restarts paid.

        The common objective of all rungs (docs/formulation.md, "Objective"); compared tier by tier.
        """
        state, order = self.state, self.order
        w, hour = state.workloads, 3600.0
        counted = self.standing & (self.interruptible | (w.status == Status.PENDING))
        worth = order.price * w.gpus * (state.policy.worth_s / hour)
        out = [float(worth[counted & (order.tier == t)].sum()) for t in range(UNALLOCATED + 1)]
        for tier in (WITHIN, BEYOND):
            gone = [r for r, t in self.victims.items() if t == tier]
            weighted = eviction_gpus(state, order, tier)[gone]
            out[tier] -= float(weighted.sum() * state.policy.restart_cost_s / hour)
        return out[0], out[1], out[2]

    def spread(self) -> Spread:
        """Return the starts as a Spread over all workloads."""
        w = self.state.workloads
        return Spread.of(
            [
                [(n, k * int(w.gpus_per_replica[j]), k) for n, k in sorted(self.starts.get(j, []))]
                for j in range(w.count)
            ]
        )
