"""The world of one round in frozen arrays, with shapes and units.

Symbols used all over `solver/`: N nodes, W workloads, V budget tree nodes, L topology levels (outermost
first, the node itself not counted), P pools (a pool is one GPU type of one cluster: a gang never mixes
either), R reservations. A `Spread` holds many placements, CSR-like.

Times are int64 epoch seconds, capacity is GPUs, use is in micro budget units: one GPU of charge 1.0 for one
second is `MICRO`. Every sum of these is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, wraps
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MICRO = 1_000_000
"""Micro budget units in one GPU-second of charge 1.0."""

FOREVER_S = np.iinfo(np.int64).max // 4
"""A time that never comes, far from overflow when a duration is added."""


Worked = TypeVar("Worked")


class NodeState(IntEnum):
    """Health of a node: `up`, `draining` (starts nothing new) or `down` (runs nothing)."""

    UP = 0
    DRAINING = 1
    DOWN = 2


class Status(IntEnum):
    """Where a workload stands when the round begins."""

    PENDING = 0
    RUNNING = 1
    STOPPING = 2


class Action(IntEnum):
    """What the round decides for a workload."""

    START = 0
    KEEP = 1
    PREEMPT = 2
    WAIT = 3
    REJECT = 4


class Level(IntEnum):
    """Topology wishes that are not an index into the levels."""

    NONE = -1
    UNKNOWN = -2
    NODE = -3


class Backend(IntEnum):
    """Rungs of the ladder that can produce a plan."""

    GREEDY = 0
    EXACT = 1


@dataclass(frozen=True)
class Spread:
    """Placements of many gangs: gang i stands on `node[ptr[i]:ptr[i+1]]` with `gpus` GPUs on each.

    Attributes
    ----------
    ptr : int64[K+1]
    node : int64[M]
        Node index of each part.
    gpus : int64[M]
        GPUs of each part, GPUs.
    replicas : int64[M]
        Replicas of each part.
    """

    ptr: Ints
    node: Ints
    gpus: Ints
    replicas: Ints

    def part(self, i: int) -> slice:
        """Return the slice of gang `i` in the flat arrays."""
        return slice(int(self.ptr[i]), int(self.ptr[i + 1]))

    @staticmethod
    def of(parts: list[list[tuple[int, int, int]]]) -> Spread:
        """Build from one list of (node, gpus, replicas) for each gang."""
        ptr = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([len(p) for p in parts], out=ptr[1:])
        flat = np.array([x for p in parts for x in p], dtype=np.int64).reshape(-1, 3)
        return Spread(ptr, flat[:, 0].copy(), flat[:, 1].copy(), flat[:, 2].copy())


@dataclass(frozen=True)
class Nodes:
    """The inventory, in a fixed order (cluster, location, name).

    Attributes
    ----------
    gpus : int64[N], GPUs
    pool : int64[N]
        Pool of the node: its (cluster, GPU type).
    state : int64[N], `NodeState`
    cpus_milli : int64[N], thousandths of a CPU
        0 where CPUs are not counted.
    memory_bytes : int64[N], bytes
        0 where memory is not counted.
    domain : int64[L, N]
        Domain of the node at each level, numbered over all clusters; -1 where its cluster has no such level.
    pool_cluster : int64[P]
    pool_type : int64[P]
    """

    gpus: Ints
    pool: Ints
    state: Ints
    cpus_milli: Ints
    memory_bytes: Ints
    domain: Ints
    pool_cluster: Ints
    pool_type: Ints

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self.gpus)

    @cached_property
    def up(self) -> Bools:
        """Which may start something, bool[N]."""
        healthy: Bools = self.state == int(NodeState.UP)  # numpy takes 5 us longer to compare with a member
        return healthy

    @cached_property
    def down(self) -> Bools:
        """Which run nothing, bool[N]."""
        dead: Bools = self.state == int(NodeState.DOWN)
        return dead


@dataclass(frozen=True)
class Workloads:
    """Every workload of the snapshot, in a fixed order (by id).

    Attributes
    ----------
    leaf : int64[W]
        Budget tree node charged, a leaf; -1 where the allocation is unknown.
    replicas, gpus_per_replica : int64[W]
    cpus_milli, memory_bytes : int64[W]
        Wanted by each replica; 0 = nothing asked.
    allocated : bool[W]
        Charged and protectable; False = unallocated.
    min_runtime_s, time_limit_s : int64[W], seconds
        Effective protection of a start; the limit is FOREVER_S where there is none.
    resumable : bool[W]
    submitted_s, started_s, protected_until_s : int64[W], epoch seconds
        `protected_until_s` is 0 for what nothing protects; `started_s` is 0 for pending work.
    priority : int64[W]
        Sorts inside an allocation only; higher goes first.
    status : int64[W], `Status`
    required, preferred : int64[W]
        Index of a level, or `Level.NONE`, `Level.NODE`, `Level.UNKNOWN`.
    segment : int64[W]
        Replicas that must share one required domain; 0 = the whole gang.
    pool_ok : bool[W, P]
        Pools whose cluster and GPU type the workload accepts.
    debug : bool[W]
        Counts as a debug workload.
    placement : Spread over W
        Where running and stopping work stands; empty for pending work.
    """

    leaf: Ints
    replicas: Ints
    gpus_per_replica: Ints
    cpus_milli: Ints
    memory_bytes: Ints
    allocated: Bools
    min_runtime_s: Ints
    time_limit_s: Ints
    resumable: Bools
    submitted_s: Ints
    started_s: Ints
    protected_until_s: Ints
    priority: Ints
    status: Ints
    required: Ints
    preferred: Ints
    segment: Ints
    pool_ok: Bools
    debug: Bools
    placement: Spread

    @property
    def count(self) -> int:
        """Number of workloads."""
        return len(self.leaf)

    @cached_property
    def pending(self) -> Bools:
        """What waits, bool[W]."""
        waits: Bools = self.status == int(Status.PENDING)
        return waits

    @cached_property
    def running(self) -> Bools:
        """What runs and was not told to stop, bool[W]."""
        runs: Bools = self.status == int(Status.RUNNING)
        return runs

    @cached_property
    def stopping(self) -> Bools:
        """What was preempted and still stands, bool[W]."""
        leaves: Bools = self.status == int(Status.STOPPING)
        return leaves

    @cached_property
    def gpus(self) -> Ints:
        """GPUs of each whole gang, int64[W]."""
        return self.replicas * self.gpus_per_replica

    @cached_property
    def owner(self) -> Ints:
        """Workload of each part of `placement`, int64[M]."""
        return np.repeat(np.arange(self.count), np.diff(self.placement.ptr))

    @cached_property
    def kind(self) -> Ints:
        """Kind of each pending workload, int64[W], -1 for the rest: of one kind are all alike to a search."""
        pending = np.flatnonzero(self.pending)
        columns = [
            column[pending]
            for column in (
                self.replicas, self.gpus_per_replica, self.cpus_milli, self.memory_bytes, self.required,
                self.segment, self.min_runtime_s, self.allocated, *self.pool_ok.T,
            )
        ]  # fmt: skip
        turn = np.lexsort(columns)
        new = np.zeros(len(pending), dtype=bool)
        for column in columns:
            ordered = column[turn]
            new[1:] |= ordered[1:] != ordered[:-1]
        out = np.full(self.count, -1, dtype=np.int64)
        out[pending[turn]] = np.cumsum(new)
        return out


@dataclass(frozen=True)
class Budgets:
    """The budget tree, parents before their children; node 0 is the root (the whole of the clusters).

    Attributes
    ----------
    parent : int64[V]
        -1 for the root.
    is_leaf : bool[V]
    usage : int64[V], micro budget units
        Delivered in the window; inner nodes hold the sum of their leaves.
    entitled : int64[V], micro budget units
        Share integrated over the window, at least an hour's; inner nodes hold the sum of their leaves.
    share_ppb : int64[V]
        Share of the clusters in parts per billion, rounded down; 0 = unallocated only.
    limit_gpus : int64[V], GPUs
        Hard cap on what the subtree holds at once; -1 where there is none.
    """

    parent: Ints
    is_leaf: Bools
    usage: Ints
    entitled: Ints
    share_ppb: Ints
    limit_gpus: Ints

    @property
    def count(self) -> int:
        """Number of tree nodes, the root included."""
        return len(self.parent)

    def path(self, v: int) -> list[int]:
        """Return the tree nodes from `v` up to the root, both included."""
        out = []
        while v >= 0:
            out.append(v)
            v = int(self.parent[v])
        return out

    def subtree_sums(self, leaf: Ints, amount: Ints) -> Ints:
        """Return exact sums over every subtree of amounts at leaves, int64[V]; unknown leaves (-1) apart."""
        known = leaf >= 0
        own = np.zeros(self.count, dtype=np.int64)
        np.add.at(own, leaf[known], amount[known])
        sums, parent = own.tolist(), self.parent.tolist()
        for v in range(self.count - 1, 0, -1):  # parents come before their children
            sums[parent[v]] += sums[v]
        return np.array(sums, dtype=np.int64)

    def limited_by(self) -> Bools:
        """Return for every tree node the limits that bind it, bool[V, number of limits]."""
        limited = np.flatnonzero(self.limit_gpus >= 0)
        out = np.zeros((self.count, len(limited)), dtype=bool)
        for v in range(self.count):  # parents come before their children
            if self.parent[v] >= 0:
                out[v] = out[self.parent[v]]
            out[v, limited == v] = True
        return out


@dataclass(frozen=True)
class Promises:
    """Reservations carried from the previous plan.

    Attributes
    ----------
    workload : int64[R]
    start_s : int64[R], epoch seconds
    placement : Spread over R
    """

    workload: Ints
    start_s: Ints
    placement: Spread


@dataclass(frozen=True)
class Policy:
    """The choices of a site, in the solver's units.

    Attributes
    ----------
    order : str
        `budget` (owed by leaf, then the surplus by tree), `fair_tree` or `leaf`.
    band : float
        Running work counts as within its share up to 1 + band.
    commitment_s : int
        Seconds of use that a start commits in advance.
    worth_s : int
        H of docs/formulation.md: seconds of use that a GPU given out is worth at price 1.
    restart_cost_s : int
        Work that a resumable workload loses when it is preempted, per GPU held.
    lane_gpus : int
        GPUs that debug workloads may take ahead of the order; 0 = no lane.
    max_preempted_gpus : int
        Brake on preempted GPUs per round; -1 = none.
    charge_micro : int64[P], micro budget units
        What one GPU-second of each pool costs.
    due_s : int
        A reservation that falls due within so many seconds is honoured in this round.
    keep_whole : float
        Weight of keeping nodes and domains whole, where starts have places of their choice; 1 is the model's.
    reservations : int
        Gangs that may be promised a later start at once; 0 = plan-ahead is off.
    horizon_s : int
        No later start than so many seconds ahead is promised.
    hold_cost : float
        Weight of the cost of holding nodes for a promise; 1 = at the price at the cut-off of the money.
    patience_s : int
        Who has waited so many seconds is held for whatever it costs.
    """

    order: str = "budget"
    band: float = 0.05
    commitment_s: int = 3600
    worth_s: int = 8 * 3600
    restart_cost_s: int = 600
    lane_gpus: int = 0
    max_preempted_gpus: int = -1
    charge_micro: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    due_s: int = 60
    keep_whole: float = 1.0
    reservations: int = 0
    horizon_s: int = 8 * 3600
    hold_cost: float = 1.0
    patience_s: int = 8 * 3600


@dataclass(frozen=True)
class SolveParams:
    """How hard to try.

    Attributes
    ----------
    backend : str
        `auto`, `greedy`, `highs`, `cp-sat`, or the name of a solver that PuLP knows.
    time_limit_s : float
        For all exact solves of the round together.
    gap : float
        Relative gap at which an answer counts as optimal.
    """

    backend: str = "auto"
    time_limit_s: float = 20.0
    gap: float = 0.001


def once(work: Callable[[State], Worked]) -> Callable[[State], Worked]:
    """Have what a function makes of a state made once, as nothing in a state ever changes."""

    @wraps(work)
    def known(state: State) -> Worked:
        known_by = state.__dict__
        if work.__qualname__ not in known_by:
            known_by[work.__qualname__] = answer = work(state)
            if isinstance(answer, np.ndarray):
                answer.flags.writeable = False
        found: Worked = known_by[work.__qualname__]
        return found

    return known


@dataclass(frozen=True)
class State:
    """All that a round decides on; nothing in it ever changes."""

    now_s: int
    nodes: Nodes
    workloads: Workloads
    budgets: Budgets
    promises: Promises
    policy: Policy

    @cached_property
    def protected(self) -> Bools:
        """Running allocated work inside its min runtime, bool[W]."""
        w = self.workloads
        inside: Bools = w.running & (w.protected_until_s > self.now_s)
        return inside
