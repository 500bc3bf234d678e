"""The snapshot file: nodes, workloads, use and promises at one moment."""

from __future__ import annotations

from pydantic import Field

from planner.model.workload import Occupancy, WorkloadState
from planner.schema.base import Entry
from planner.schema.cluster import ClusterEntry
from planner.schema.types import (
    Count,
    Cpus,
    Duration,
    Id,
    Memory,
    Name,
    PositiveCount,
    PositiveDuration,
    Priority,
    Time,
    Units,
)


class PlacementEntry(Entry):
    """Part of a gang on one node."""

    node: Name = Field(examples=["saturn-001"])
    """The node."""
    gpus: Count = Field(examples=[8])
    """GPUs held there: a whole number of replicas."""


class TopologyEntry(Entry):
    """Where a gang may or would like to stand."""

    required: Name | None = None
    """The gang (or each segment) stands in one domain of this level."""
    preferred: Name | None = None
    """The gang would like to stand in one domain of this level."""
    segment: PositiveCount | None = None
    """Replicas that share one required domain; null = all of them."""


class WorkloadEntry(Entry):
    """One gang, all or nothing."""

    id: Id = Field(examples=['"1201"'])
    """What the source system calls it; a whole number is taken as text."""
    allocation: Name = Field(examples=["language/pretraining"])
    """The leaf of the budget tree that pays, by its path."""
    replicas: PositiveCount = Field(examples=[16])
    """Pieces of the gang; each fits one node."""
    gpus_per_replica: Count = Field(examples=[8])
    """GPUs of each replica; 0 = a replica of CPUs only."""
    cpus_per_replica: Cpus = 0
    """CPUs of each replica."""
    memory_per_replica: Memory = 0
    """Memory of each replica, such as `512G`."""
    min_runtime: Duration | None = None
    """How long it is protected once it runs; 0s = unallocated, null = the site's default."""
    resumable: bool = True
    """Keeps its progress when it is preempted."""
    submitted: Time = Field(examples=["2026-10-09T12:00:00Z"])
    """When it was submitted."""
    priority: Priority = 0
    """Sorts inside its allocation only; higher goes first."""
    time_limit: PositiveDuration | None = None
    """The longest it may run."""
    gpu_types: list[Name] = Field(default=[])
    """GPU types it accepts; none = any."""
    clusters: list[Name] = Field(default=[])
    """Clusters it accepts; none = any."""
    topology: TopologyEntry | None = None
    """Where it may or would like to stand."""
    state: WorkloadState = Field(examples=["pending"])
    """`pending`, `running` or `stopping` (preempted, still on its nodes)."""
    started: Time | None = None
    """When this run began; running and stopping workloads only."""
    placement: list[PlacementEntry] = Field(default=[])
    """Where it stands; running and stopping workloads only."""
    occupancy: Occupancy | None = None
    """What this run is; null = by its min runtime. Running and stopping workloads only."""


class ReservationEntry(Entry):
    """A promised later start."""

    workload: Id = Field(examples=['"1230"'])
    """Who was promised it."""
    start_at: Time = Field(examples=["2026-10-09T18:00:00Z"])
    """When it starts."""
    placement: list[PlacementEntry] = Field(examples=["[{node: saturn-001, gpus: 8}]"])
    """Where it starts."""


class SnapshotEntry(Entry):
    """All that a round needs to know of the world."""

    time: Time = Field(examples=["2026-10-09T15:20:00Z"])
    """The moment that all this describes."""
    clusters: list[ClusterEntry] = Field(examples=["[{name: saturn, nodes: []}]"])
    """The inventory."""
    workloads: list[WorkloadEntry] = Field(default=[])
    """Everything that waits, runs or is being stopped."""
    usage: dict[Name, Units] = Field(default={})
    """Budget units delivered in the window, by allocation; a ledger takes its place."""
    entitled: dict[Name, Units] | None = None
    """Share integrated over the window, in the same units; null = today's share of the capacity."""
    history: PositiveDuration | None = None
    """How much of the window `usage` covers; null = all of it."""
    reservations: list[ReservationEntry] = Field(default=[])
    """Promises of the previous plan."""
