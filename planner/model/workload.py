"""Workloads: gangs of replicas with a contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

WorkloadState = Literal["pending", "running", "stopping"]
Occupancy = Literal["allocated", "unallocated"]


@dataclass(frozen=True)
class Placement:
    """Part of a gang on one node; `gpus` is a whole number of replicas."""

    node: str
    gpus: int


@dataclass(frozen=True)
class Topology:
    """Where a gang may or would like to stand; `segment` is replicas per required domain (None: all)."""

    required: str | None = None
    preferred: str | None = None
    segment: int | None = None


@dataclass(frozen=True)
class Workload:
    """One gang, all or nothing.

    Attributes
    ----------
    min_runtime_s, time_limit_s : int or None, seconds
        As asked for: None = the site's default, no limit. `planner.contract` makes them effective.
    cpus_milli_per_replica : int, thousandths of a CPU
    memory_bytes_per_replica : int, bytes
    gpu_types, clusters : tuple of str
        Accepted ones; empty = any.
    submitted_s, started_s : int, epoch seconds
        `started_s` is None for pending work.
    occupancy : str or None
        None = by the min runtime.
    """

    id: str
    allocation: str
    replicas: int
    gpus_per_replica: int
    submitted_s: int
    state: WorkloadState
    min_runtime_s: int | None = None
    time_limit_s: int | None = None
    resumable: bool = True
    priority: int = 0
    cpus_milli_per_replica: int = 0
    memory_bytes_per_replica: int = 0
    gpu_types: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    topology: Topology = field(default_factory=Topology)
    started_s: int | None = None
    placement: tuple[Placement, ...] = ()
    occupancy: Occupancy | None = None

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.replicas * self.gpus_per_replica
