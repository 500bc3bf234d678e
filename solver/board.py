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
from solver.state import FOREVER_S, Bools, Ints, Level, Spread, State, once

Parts = list[tuple[int, int]]
"""Where a gang stands: (node, replicas) pairs."""

Amounts = tuple[Ints, Ints, Ints]
"""GPUs, CPUs (thousandths) and bytes of memory on each node, int64[N] each."""

UNCOUNTED = np.int64(1) << 50
"""Free CPUs or memory of a node on which they are not counted."""


@dataclass
class Move:
    """A start that could be made: where, and who would have to make room for it."""

    parts: Parts
    victims: list[int]


@once
def leaving(state: State) -> Ints:
    """Return the running work that may not stay, int64: unprotected on draining nodes, all on nodes down."""
    w = state.workloads
    sick = np.flatnonzero(~state.nodes.up[w.placement.node])
    if not len(sick):
        return sick
    owner = w.owner[sick]
    gone = state.nodes.down[w.placement.node[sick]] | ~state.protected[owner]
    return np.unique(owner[w.running[owner] & gone])


def _paths(state: State) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return for every budget tree node the nodes from it up to the root, and those of them with a limit.

    One entry more, the last, is empty: that of work whose allocation is unknown (-1).
    """
    limit = state.budgets.limit_gpus.tolist()
    paths: list[tuple[int, ...]] = [()] * (state.budgets.count + 1)
    for v, parent in enumerate(state.budgets.parent.tolist()):  # parents come before their children
        paths[v] = (v, *paths[parent])
    return paths, [tuple(v for v in path if limit[v] >= 0) for path in paths]


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
    promised : dict of int to (int, Parts)
        Later starts promised, time in epoch seconds and place; one that has started since counts no more.
    hold_s : int64[N], epoch seconds
        Protection of a start must end by then on this node, because it is promised to somebody.
    """

    def __init__(self, state: State, order: Order) -> None:
        n, w = state.nodes, state.workloads
        self.state, self.order = state, order
        self.usable: Bools = n.up
        self.owner: Ints = w.owner
        self.standing: Bools = ~w.pending
        self.starts: dict[int, Parts] = {}
        self.tenants: dict[int, tuple[int, ...]] = {}
        self.victims: dict[int, int] = {}
        self.ahead: set[int] = set()
        self.promised: dict[int, tuple[int, Parts]] = {}
        self.hold_s: Ints = np.full(n.count, FOREVER_S, dtype=np.int64)
        self.interruptible: Bools = w.running & ~state.protected
        self.free_gpus: Ints = n.gpus.copy()
        self.free_cpus: Ints = np.where(n.cpus_milli > 0, n.cpus_milli, UNCOUNTED)
        self.free_memory: Ints = np.where(n.memory_bytes > 0, n.memory_bytes, UNCOUNTED)
        reps, node = w.placement.replicas, w.placement.node
        np.subtract.at(self.free_gpus, node, w.placement.gpus)
        np.subtract.at(self.free_cpus, node, reps * w.cpus_milli[self.owner])
        np.subtract.at(self.free_memory, node, reps * w.memory_bytes[self.owner])
        for free in (self.free_gpus, self.free_cpus, self.free_memory):
            free[~self.usable] = 0
        self._paths, self._limited = _paths(state)
        held = np.where(self.standing, w.gpus, 0)
        self.held_gpus: Ints = state.budgets.subtree_sums(w.leaf, held)
        self.held_before: Ints = self.held_gpus.copy()
        self.preempted_gpus = 0
        self.group_keys: dict[int, Ints] = {}  # of solver.placing
        self._may_use: dict[tuple[bytes, int], Bools] = {}
        for r in leaving(state).tolist():
            self._lift(r)

    def copy(self) -> Board:
        """Return a board on which moves do not touch this one."""
        twin = Board.__new__(Board)
        twin.__dict__.update(self.__dict__)
        for name in ("standing", "hold_s", "free_gpus", "free_cpus", "free_memory", "held_gpus"):
            setattr(twin, name, getattr(self, name).copy())
        for name in ("starts", "tenants", "victims", "ahead", "promised"):
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
        if j in self.promised:
            self._hold_nodes_for(j)

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

    def promise(self, j: int, start_s: int, parts: Parts) -> None:
        """Promise `j` a later start, and hold its nodes for it; the caller has made sure that it will fit."""
        self.promised[j] = start_s, parts
        self._hold_nodes_for(j)

    def release_nodes(self) -> bool:
        """Hold no longer the nodes of who was promised them and has started; tell whether there is any."""
        if len(self.settled()) == len(self.promised):
            return False
        self.hold_s[:] = FOREVER_S
        for j in self.settled():
            self._hold_nodes_for(j)
        return True

    def _hold_nodes_for(self, j: int) -> None:
        start_s, parts = self.promised[j]
        for n, _ in parts:
            self.hold_s[n] = min(int(self.hold_s[n]), start_s)

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
                if cpus:
                    self.free_cpus[node] += sign * reps * cpus
                if memory:
                    self.free_memory[node] += sign * reps * memory

    def _hold(self, j: int, sign: int) -> None:
        w = self.state.workloads
        gpus = sign * int(w.gpus[j])
        for v in self._paths[int(w.leaf[j])]:
            self.held_gpus[v] += gpus

    # --- questions ---------------------------------------------------------------------------------------

    @property
    def free(self) -> Amounts:
        """What nothing stands on."""
        return self.free_gpus, self.free_cpus, self.free_memory

    def eligible(self, j: int) -> Bools:
        """Return the nodes on which a replica of `j` may ever start in this round, bool[N]."""
        w, policy = self.state.workloads, self.state.policy
        key = (w.pool_ok[j].tobytes(), int(w.required[j]))
        if key not in self._may_use:
            self._may_use[key] = self._accepted(j)
        ends_s = self.state.now_s + (int(w.min_runtime_s[j]) if w.allocated[j] else policy.due_s)
        # unallocated work keeps off what is promised for the next round
        ok: Bools = ends_s <= self.held_until_s(j)
        ok &= self._may_use[key]
        return ok

    def held_until_s(self, j: int) -> Ints:
        """Return when each node is promised to somebody else than `j`, int64[N], epoch seconds."""
        if j not in self.promised:
            return self.hold_s
        mine = [n for n, _ in self.promised[j][1]]
        out = self.hold_s.copy()
        out[mine] = FOREVER_S
        for i, (start_s, parts) in self.promised.items():
            if i != j:
                both = [n for n, _ in parts if n in mine]
                out[both] = np.minimum(out[both], start_s)
        return out

    def like(self, j: int) -> int:
        """Return a number that pending work shares with what may stand where it may: a promise sets apart."""
        return -1 - j if j in self.promised else int(self.state.workloads.kind[j])

    def _accepted(self, j: int) -> Bools:
        n, w = self.state.nodes, self.state.workloads
        ok: Bools = self.usable & w.pool_ok[j][n.pool]
        if w.required[j] >= 0:
            ok &= n.domain[w.required[j]] >= 0
        elif w.required[j] == Level.UNKNOWN:
            ok[:] = False
        return ok

    def slots(self, j: int, gpus: Ints, cpus: Ints, memory: Ints) -> Ints:
        """Return how many replicas of `j` each node takes with so much free, int64[N]; eligibility apart."""
        w = self.state.workloads
        out = np.full(len(gpus), w.replicas[j])
        for free, wanted in ((gpus, w.gpus_per_replica), (cpus, w.cpus_milli), (memory, w.memory_bytes)):
            each = wanted.item(j)
            if each:
                np.minimum(out, free // each, out=out)
        np.maximum(out, 0, out=out)
        return out

    def free_slots(self, j: int) -> Ints:
        """Return how many replicas of `j` each node takes as it stands, int64[N]."""
        slots = self.slots(j, *self.free)
        slots *= self.eligible(j)
        return slots

    def limit_room(self, j: int) -> int:
        """Return the GPUs that limits above `j` still allow it; 0 where the subtree was over its limit."""
        limit, room = self.state.budgets.limit_gpus, int(UNCOUNTED)
        for v in self.limited_by(j):
            over = self.held_before[v] > limit[v]
            room = min(room, 0 if over else self.limit_left(v, j))
        return room

    def limit_left(self, v: int, j: int = -1) -> int:
        """Return the GPUs that a limit leaves of what stands and of what is promised to others than `j`."""
        gpus, ahead = self.state.workloads.gpus, [i for i in self.settled() if i != j]
        promised = sum(int(gpus[i]) for i in ahead if v in self.limited_by(i))
        return int(self.state.budgets.limit_gpus[v] - self.held_gpus[v]) - promised

    def limited_by(self, j: int) -> tuple[int, ...]:
        """Return the budget tree nodes with a limit that `j` counts under, from its leaf up."""
        return self._limited[int(self.state.workloads.leaf[j])]

    def brake_room(self) -> int:
        """Return the GPUs that may still be preempted in this round."""
        most = self.state.policy.max_preempted_gpus
        return int(UNCOUNTED) if most < 0 else most - self.preempted_gpus

    def place_is_free(self, r: int) -> bool:
        """Tell whether evicted work could have its place back as the board stands."""
        w = self.state.workloads
        if self.exceeded(r):
            return False
        size, cpus, memory = (int(x[r]) for x in (w.gpus_per_replica, w.cpus_milli, w.memory_bytes))
        return all(
            self.usable[node]
            and self.free_gpus[node] >= reps * size
            and self.free_cpus[node] >= reps * cpus
            and self.free_memory[node] >= reps * memory
            for node, reps in self.parts(r)
        )

    def exceeded(self, r: int) -> set[int]:
        """Return the limits (budget tree nodes) that giving `r` back would exceed, beyond what was held."""
        limit, gpus = self.state.budgets.limit_gpus, int(self.state.workloads.gpus[r])

        def left(v: int) -> int:
            """Return what a limit leaves; of one that was exceeded before, what was held."""
            over = self.held_before[v] > limit[v]
            return int(self.held_before[v] - self.held_gpus[v]) if over else self.limit_left(v)

        return {v for v in self.limited_by(r) if gpus > left(v)}

    def gainers(self, r: int) -> list[int]:
        """Return the allocated starts that victim `r` made room for, best of the order first.

        They stand on its nodes and rank before it (or go ahead of the order); failing that, it made room
        under a limit above both that would be exceeded. Empty: nobody has a right to its place.
        """
        w, order = self.state.workloads, self.order
        band = order.band.item(r)

        def entitled(js: Iterable[int]) -> list[int]:
            return [j for j in js if w.allocated.item(j) and (order.band.item(j) < band or j in self.ahead)]

        found = entitled({j for n, _ in self.parts(r) for j in self.tenants.get(n, ())})
        if not found:
            found = entitled(self.under(self.exceeded(r)))
        return sorted(sorted(found), key=order.position.item)

    def under(self, limits: set[int]) -> list[int]:
        """Return the starts that count under any of these limits (budget tree nodes)."""
        return [j for j in self.starts if limits.intersection(self.limited_by(j))] if limits else []

    def settled(self) -> list[int]:
        """Return the workloads that are promised a start later than this round, sorted."""
        return sorted(j for j in self.promised if j not in self.starts)

    def objective(self) -> tuple[float, float, float]:
        """Return the worth of each tier in GPU-hours: price x GPUs x H of what stands, less restarts paid.

        The common objective of all rungs (docs/formulation.md, "Objective"); compared tier by tier.
        """
        state, order = self.state, self.order
        w, hour = state.workloads, 3600.0
        counted = self.standing & (self.interruptible | w.pending)
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
        js = sorted(self.starts)
        flat = [part for j in js for part in sorted(self.starts[j])]
        node, reps = np.array(flat, dtype=np.int64).reshape(-1, 2).T.copy()
        count = np.zeros(w.count, dtype=np.int64)
        count[js] = [len(self.starts[j]) for j in js]
        ptr = np.concatenate(([0], np.cumsum(count)))
        return Spread(ptr, node, reps * np.repeat(w.gpus_per_replica, count), reps)
