"""A snapshot: all that a round needs to know of the world."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from planner.model.cluster import Cluster
from planner.model.workload import Placement, Workload


@dataclass(frozen=True)
class Reservation:
    """A promised later start."""

    workload: str
    start_s: int
    placement: tuple[Placement, ...]


@dataclass(frozen=True)
class Snapshot:
    """The world at `time_s`.

    Attributes
    ----------
    time_s : int, epoch seconds
    usage, entitled : dict of str to Fraction, budget units (GPU-hours of charge 1)
        By allocation, over the window; `entitled` None = today's share of the capacity times `history_s`.
    history_s : int or None, seconds
        How much of the window `usage` covers; None = all of it.
    warnings : tuple of str
        What was dropped on reading, because it speaks of things that are no more.
    """

    time_s: int
    clusters: tuple[Cluster, ...]
    workloads: tuple[Workload, ...] = ()
    usage: dict[str, Fraction] = field(default_factory=dict)
    entitled: dict[str, Fraction] | None = None
    history_s: int | None = None
    reservations: tuple[Reservation, ...] = ()
    warnings: tuple[str, ...] = ()
