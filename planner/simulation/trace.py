"""A trace: the work of many days as columns, the input of every simulation."""

from __future__ import annotations

from dataclasses import dataclass

from solver.state import Bools, Floats, Ints

UNSAID = -1
"""In a column of seconds: the trace does not say."""


@dataclass(frozen=True)
class Trace:
    """Workloads of a trace, sorted by submit, then id; T rows.

    Attributes
    ----------
    id, allocation, user : tuple of str
        `user` is "" where the trace does not say.
    submitted_s : int64[T], seconds from the trace's start
    replicas, gpus_per_replica : int64[T]
    runtime_s : int64[T], seconds
        The work at full speed.
    min_runtime_s, time_limit_s, cancelled_after_s : int64[T], seconds
        As asked for; `UNSAID` where the trace does not say; the last counts from the submit.
    resumable : bool[T]
    priority : int64[T]
    gpu_types : tuple of tuple of str
        Accepted ones; empty = any.
    topology_required, topology_preferred : tuple of str or None
    segment : int64[T]
        Replicas that share one required domain; 0 = none.
    cpus_milli_per_replica, memory_bytes_per_replica : int64[T]
        0 where the trace does not say.
    gpu_utilization : float64[T]
        Mean utilisation of the GPUs while it runs, 0 to 1; NaN where the trace does not say.
    """

    id: tuple[str, ...]
    allocation: tuple[str, ...]
    user: tuple[str, ...]
    submitted_s: Ints
    replicas: Ints
    gpus_per_replica: Ints
    runtime_s: Ints
    min_runtime_s: Ints
    time_limit_s: Ints
    cancelled_after_s: Ints
    resumable: Bools
    priority: Ints
    gpu_types: tuple[tuple[str, ...], ...]
    topology_required: tuple[str | None, ...]
    topology_preferred: tuple[str | None, ...]
    segment: Ints
    cpus_milli_per_replica: Ints
    memory_bytes_per_replica: Ints
    gpu_utilization: Floats

    @property
    def count(self) -> int:
        """Number of workloads."""
        return len(self.id)
