"""The plan file: what one round decided."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from planner.model.plan import ActionName
from planner.model.workload import Occupancy
from planner.schema.base import Entry
from planner.schema.snapshot import PlacementEntry, ReservationEntry
from planner.schema.types import Id, Real, Text, Time

Total = Annotated[int, Field(ge=0)]


class ReasonEntry(Entry):
    """Why."""

    code: Text
    """A stable code, for programs."""
    text: Text
    """A sentence, for people."""


class DecisionEntry(Entry):
    """What happens to one workload."""

    workload: Id
    """The workload's id."""
    action: ActionName
    """`start`, `keep`, `preempt`, `wait`, or `reject` (can never run here)."""
    allocation: Text = ""
    """Who pays."""
    gpus: Total = 0
    """GPUs of the whole gang."""
    occupancy: Occupancy | None = None
    """What the run is."""
    placement: list[PlacementEntry] = Field(default=[])
    """Where it stands."""
    protected_until: Time | None = None
    """Nothing preempts it before; null = nothing protects it."""
    expected_start: Time | None = None
    """A forecast, and a promise where there is a reservation; null = none can be made."""
    victims_for: list[Id] = Field(default=[], alias="for")
    """Whom a preempted workload makes room for."""
    lost_gpu_hours: Real | None = None
    """Work that the preemption throws away."""
    reason: ReasonEntry
    """Why."""


class SolverSummaryEntry(Entry):
    """How the plan was made."""

    backend: Text
    """Which rung of the ladder."""
    status: Text
    """What that rung says of its answer."""
    objective: Real
    """Worth of what the plan starts and keeps, in GPU-hours."""
    promised: Real = 0.0
    """Worth of what it promises, in GPU-hours; no part of the objective."""
    bound: Real | None = None
    """No plan is worth more than this; null = nothing is proven."""
    gap: Real | None = None
    """Relative distance from the bound."""
    seconds: Real
    """Wall time of the solve."""
    notes: list[Text] = Field(default=[])
    """What went differently from usual."""


class NodePlanEntry(Entry):
    """A node that is leaving service."""

    node: Text
    """Its name."""
    state: Text
    """Its health."""
    empty_at: Time | None = None
    """When the last protected work on it ends; null = nothing protected is on it."""


class ShareEntry(Entry):
    """One allocation; use is in budget units."""

    allocation: Text
    """Its path."""
    share: Real
    """Part of the clusters that is its own."""
    usage: Real
    """Delivered in the window."""
    entitled: Real
    """Share integrated over the window."""
    ratio: Real | None = None
    """Usage over entitlement; null where nothing is entitled."""
    owed: Real
    """The smaller of share and demand, summed over the hours."""
    delivered: Real
    """What it received of it."""
    running_gpus: Total
    """GPUs that it holds now, allocated."""
    unallocated_gpus: Total = 0
    """GPUs that it holds now, unallocated."""
    pending_gpus: Total
    """GPUs that its pending workloads ask for."""
    rank: Total
    """Its place in the order, 1 = served first."""


class MoveEntry(Entry):
    """A run that would have to leave its place."""

    workload: Id
    """Its id."""
    to: list[PlacementEntry] = Field(default=[])
    """Where it could go on; empty = it would wait."""
    lost_gpu_hours: Real
    """Work that stopping it throws away."""


class AdviceEntry(Entry):
    """How a gang that waits could start now."""

    workload: Id
    """The gang."""
    placement: list[PlacementEntry]
    """Where it could start."""
    moves: list[MoveEntry]
    """What would have to move for that."""
    lost_gpu_hours: Real
    """Work that the moves together throw away."""


class PlanEntry(Entry):
    """The whole decision of a round."""

    time: Time
    """The moment of the snapshot that it is for."""
    solver: SolverSummaryEntry
    """How it was made."""
    decisions: list[DecisionEntry]
    """One for every workload."""
    reservations: list[ReservationEntry] = Field(default=[])
    """Promised later starts."""
    nodes: list[NodePlanEntry] = Field(default=[])
    """Nodes that are leaving service."""
    shares: list[ShareEntry] = Field(default=[])
    """Allocations."""
    fragmentation: dict[str, Any] = Field(default={})
    """Free GPUs, and what still fits at each level."""
    defragmentation: list[AdviceEntry] = Field(default=[])
    """Moves of interruptible work that would let waiting gangs start now, which nobody does by itself."""
    warnings: list[Text] = Field(default=[])
    """What somebody should look at."""
