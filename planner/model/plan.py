"""A plan: what one round decides, in names that people know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from planner.model.snapshot import Reservation
from planner.model.workload import Occupancy, Placement

ActionName = Literal["start", "keep", "preempt", "wait", "reject"]


@dataclass(frozen=True)
class Reason:
    """Why: a stable code for programs and a sentence for people."""

    code: str
    text: str


@dataclass(frozen=True)
class Decision:
    """What happens to one workload.

    Attributes
    ----------
    placement : tuple of Placement
        Where a start, or what keeps running, stands; empty for the rest.
    protected_until_s, expected_start_s : int or None, epoch seconds
    victims_for : tuple of str
        Whom a preempted workload makes room for (`for` in the file).
    lost_gpu_hours : float or None
        Work that a preemption throws away.
    """

    workload: str
    action: ActionName
    reason: Reason
    allocation: str
    gpus: int
    occupancy: Occupancy | None = None
    placement: tuple[Placement, ...] = ()
    protected_until_s: int | None = None
    expected_start_s: int | None = None
    victims_for: tuple[str, ...] = ()
    lost_gpu_hours: float | None = None


@dataclass(frozen=True)
class NodePlan:
    """A node that is leaving service, and when the last protected work on it ends."""

    node: str
    state: str
    empty_at_s: int | None


@dataclass(frozen=True)
class ShareRow:
    """One allocation in the plan; usage, entitled, owed and delivered are in budget units."""

    allocation: str
    share: float
    usage: float
    entitled: float
    ratio: float | None
    owed: float
    delivered: float
    running_gpus: int
    unallocated_gpus: int
    pending_gpus: int
    rank: int


@dataclass(frozen=True)
class SolverSummary:
    """Which rung made the plan and how good it is proven to be; worths are in GPU-hours."""

    backend: str
    status: str
    objective: float
    bound: float | None
    gap: float | None
    seconds: float
    promised: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Move:
    """A run that would have to leave its place; it would go on at `to`, or wait where that is empty."""

    workload: str
    to: tuple[Placement, ...]
    lost_gpu_hours: float


@dataclass(frozen=True)
class Advice:
    """A waiting gang, where it could start, and the moves of interruptible work that this would take.

    Attributes
    ----------
    lost_gpu_hours : float
        Work that all the moves together throw away.
    """

    workload: str
    placement: tuple[Placement, ...]
    moves: tuple[Move, ...]
    lost_gpu_hours: float


@dataclass(frozen=True)
class Plan:
    """The whole decision of a round; `fragmentation` is as it stands in the file.

    Attributes
    ----------
    defragmentation : tuple of Advice
        What nobody does by itself: how waiting gangs could start now, each on its own.
    """

    time_s: int
    solver: SolverSummary
    decisions: tuple[Decision, ...]
    reservations: tuple[Reservation, ...]
    nodes: tuple[NodePlan, ...]
    shares: tuple[ShareRow, ...]
    fragmentation: dict[str, Any]
    warnings: tuple[str, ...]
    defragmentation: tuple[Advice, ...] = ()
