"""What stands where once a plan is applied: the facts that the rules judge."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from solver.plan import Decisions
from solver.state import FOREVER_S, Action, Bools, Ints, Level, NodeState, Spread, State

UNCOUNTED = FOREVER_S
"""Size of what a node does not count: more than all that could be asked for, and far from overflow."""


@dataclass(frozen=True)
class Parts:
    """Parts of many gangs, flat: part k of gang `workload[k]` stands on `node[k]`; all int64[K]."""

    workload: Ints
    node: Ints
    gpus: Ints
    replicas: Ints


@dataclass(frozen=True)
class World:
    """A state, a well-formed plan for it, and what follows from both.

    Attributes
    ----------
    starts, stands, promised : Parts
        What starts; that and all that keeps its place, stopping work too; what is promised a later start.
    size, load : int64[3, N]
        GPUs, thousandths of a CPU and bytes of each node, and how much of them is given out.
    before, held : int64[V], GPUs
        What each budget subtree holds before and after.
    health : int64[W], `NodeState`
        The worst of the nodes that running and stopping work stands on.
    victims : list of int
        Running workloads preempted from healthy nodes: each must make room for someone.
    limited : set of int
        Budget tree nodes with a limit.
    seats : dict of int to set of int
        Nodes of each workload that starts or is promised a start.
    """

    state: State
    plan: Decisions
    starts: Parts
    stands: Parts
    promised: Parts
    size: Ints
    load: Ints
    before: Ints
    held: Ints
    health: Ints
    victims: list[int]
    limited: set[int]
    seats: dict[int, set[int]]
    _limits_above: dict[int, set[int]] = field(default_factory=dict)

    @cached_property
    def starting(self) -> Bools:
        """Who starts, bool[W]."""
        return does(self.plan, Action.START)

    @cached_property
    def kept(self) -> Bools:
        """Who goes on running, bool[W]."""
        return self.state.workloads.running & does(self.plan, Action.KEEP)

    def gainers(self, victim: int) -> list[int]:
        """Return the workloads that `victim` makes room for, best first."""
        return self.plan.victims_for.get(victim, [])

    def limits_above(self, j: int) -> set[int]:
        """Return the budget tree nodes with a limit that workload `j` is charged to."""
        leaf = int(self.state.workloads.leaf[j])
        if leaf not in self._limits_above:
            self._limits_above[leaf] = self.limited.intersection(self.state.budgets.path(leaf))
        return self._limits_above[leaf]


def apply(state: State, plan: Decisions) -> World:
    """Return the world once `plan` is applied to `state`."""
    n, w = state.nodes, state.workloads
    placed = standing(state, ~w.pending)
    stays = w.stopping | (w.running & does(plan, Action.KEEP))
    starts = parts_of(plan.placement, np.arange(w.count), does(plan, Action.START))
    stands = joined(standing(state, stays), starts)
    promised = parts_of(plan.promised_placement, plan.promised, np.ones(len(plan.promised), dtype=bool))
    health = np.zeros(w.count, dtype=np.int64)
    np.maximum.at(health, placed.workload, n.state[placed.node])
    preempted = w.running & does(plan, Action.PREEMPT)
    return World(
        state=state,
        plan=plan,
        starts=starts,
        stands=stands,
        promised=promised,
        size=size_of(state),
        load=np.stack([total(stands.node, row, n.count) for row in amounts(state, stands)]),
        before=held_by(state, placed),
        held=held_by(state, stands),
        health=health,
        victims=np.flatnonzero(preempted & (health == int(NodeState.UP))).tolist(),
        limited=set(np.flatnonzero(state.budgets.limit_gpus >= 0).tolist()),
        seats=_seats(joined(starts, promised)),
    )


def _seats(parts: Parts) -> dict[int, set[int]]:
    seats: dict[int, set[int]] = defaultdict(set)
    for j, node in zip(parts.workload.tolist(), parts.node.tolist(), strict=True):
        seats[j].add(node)
    return dict(seats)


def does(plan: Decisions, action: Action) -> Bools:
    """Tell who is to do this, bool[W]."""
    chosen: Bools = plan.action == int(action)  # numpy takes 5 us longer to compare with a member
    return chosen


def standing(state: State, wanted: Bools) -> Parts:
    """Return where the wanted (bool[W]) of running and stopping work stands."""
    p, owner = state.workloads.placement, state.workloads.owner
    part = np.flatnonzero(wanted[owner])
    return Parts(owner[part], p.node[part], p.gpus[part], p.replicas[part])


def parts_of(spread: Spread, workload: Ints, wanted: Bools) -> Parts:
    """Return the parts of the wanted gangs of `spread`, of which gang i is workload `workload[i]`."""
    length = np.diff(spread.ptr)
    keep = np.repeat(wanted, length)
    owner = np.repeat(workload, length)
    return Parts(owner[keep], spread.node[keep], spread.gpus[keep], spread.replicas[keep])


def joined(*many: Parts) -> Parts:
    """Return the parts of all."""
    fields = ("workload", "node", "gpus", "replicas")
    return Parts(*(np.concatenate([getattr(parts, name) for parts in many]) for name in fields))


def total(index: Ints, amount: Ints, count: int) -> Ints:
    """Return the exact sum of `amount` at each index, int64[count]."""
    out = np.zeros(count, dtype=np.int64)
    np.add.at(out, index, amount)
    return out


def size_of(state: State) -> Ints:
    """Return what each node has to give out, int64[3, N]: GPUs, thousandths of a CPU, bytes."""
    n = state.nodes
    size: Ints = np.stack([n.gpus, n.cpus_milli, n.memory_bytes])
    size[1:][size[1:] == 0] = UNCOUNTED
    return size


def amounts(state: State, parts: Parts) -> Ints:
    """Return what each part takes, int64[3, K]: GPUs, thousandths of a CPU, bytes."""
    w = state.workloads
    cpus_milli, memory_bytes = w.cpus_milli[parts.workload], w.memory_bytes[parts.workload]
    return np.stack([parts.gpus, parts.replicas * cpus_milli, parts.replicas * memory_bytes])


def ask(state: State, j: int) -> tuple[int, int, int]:
    """Return what one replica of workload `j` takes: GPUs, thousandths of a CPU, bytes."""
    w = state.workloads
    return int(w.gpus_per_replica[j]), int(w.cpus_milli[j]), int(w.memory_bytes[j])


def slots(free: Ints, wanted: tuple[int, int, int]) -> Ints:
    """Return how many replicas fit what is free on each node, int64[N]."""
    room: Ints = np.full(free.shape[1], UNCOUNTED)
    for have, want in zip(free, wanted, strict=True):
        if want:
            room = np.minimum(room, have // want)
    return np.maximum(room, 0)


def held_by(state: State, parts: Parts) -> Ints:
    """Return the GPUs that these parts hold in every budget subtree, int64[V]."""
    leaf = state.workloads.leaf[parts.workload]
    known = leaf >= 0
    held = total(leaf[known], parts.gpus[known], state.budgets.count).tolist()
    parent = state.budgets.parent.tolist()
    for v in range(state.budgets.count - 1, 0, -1):  # parents come before their children
        held[parent[v]] += held[v]
    return np.array(held, dtype=np.int64)


def domain_of(state: State, level: Ints, node: Ints) -> Ints:
    """Return the domain of each node at the level beside it, int64[K]; -1 where there is none."""
    domain = np.where(level == int(Level.NODE), node, -1)
    named = level >= 0
    domain[named] = state.nodes.domain[level[named], node[named]]
    return domain
