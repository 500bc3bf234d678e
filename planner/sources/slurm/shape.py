"""The gang that a job is: so many replicas of so many GPUs, CPUs and bytes, one on each node of the job.

Slurm puts a job on exactly the nodes that it is told, with the same number of GPUs on each. So a job that
asks for GPUs as a whole (`--gpus=16`) is planned as equal parts, and told so when it starts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import gcd

from planner.sources.slurm.jobs import Job
from planner.sources.slurm.nodes import MIB, SlurmNode


class UnplannableError(Exception):
    """A job whose demands no plan can meet: what to submit instead."""


@dataclass(frozen=True)
class Shape:
    """A gang.

    Attributes
    ----------
    gpu_types : tuple of str
        Empty = any.
    cpus_milli, memory_bytes : int
        Of each replica.
    equal_parts : bool
        Slurm must be told how many GPUs each node gives.
    """

    replicas: int
    gpus: int
    gpu_types: tuple[str, ...]
    cpus_milli: int
    memory_bytes: int
    equal_parts: bool = False


def shape_of(job: Job, nodes: Collection[SlurmNode], counts_memory: bool) -> Shape:
    """Return the gang that a waiting job is, on the nodes of its cluster.

    `counts_memory`: whether Slurm gives out memory; a job that names none then takes all of a node's.
    """
    replicas, gpus, kind = _gpus(job, nodes)
    eligible = [n for n in nodes if n.gpus >= gpus and kind in ("", n.gpu_type)]
    cpus, memory = _cpus(job, replicas, eligible), 0
    if counts_memory:
        whole = min((n.memory_bytes for n in eligible), default=0)
        memory = MIB * (job.memory_mib or job.per_cpu_mib * cpus) or whole
    if replicas > 1 and gpus * 2 <= max((n.gpus for n in eligible), default=0):
        cpus = max(cpus, _apart(eligible, replicas))
    equal = replicas > 1 and bool(job.gpus_per_job)
    return Shape(replicas, gpus, (kind,) if kind else (), 1000 * cpus, memory, equal)


def running_shape(job: Job, known: Mapping[str, SlurmNode], counts_memory: bool) -> Shape:
    """Return the gang that a running job is: what each of its nodes (by name) gives, in equal parts."""
    each = gcd(*(gpus for _, gpus in job.held))
    replicas = sum(gpus // each for _, gpus in job.held) if each else len(job.held)
    kinds = sorted({known[name].gpu_type or "" for name, _ in job.held if name in known} - {""})
    cpus_milli = 1000 * job.cpus // replicas
    here = [known[name] for name, _ in job.held if name in known]
    if job.exclusive:
        cpus_milli = min((1000 * n.cpus for n in here), default=0)
    whole = min((n.memory_bytes for n in here), default=0) * len(here) // replicas
    memory = MIB * (job.memory_mib * len(job.held) // replicas or job.per_cpu_mib * job.cpus // replicas)
    return Shape(
        replicas, each, tuple(kinds), cpus_milli, min(memory, whole) or whole if counts_memory else 0
    )


def _gpus(job: Job, nodes: Collection[SlurmNode]) -> tuple[int, int, str]:
    """Return replicas, GPUs of each, and the type that is asked for (empty: any)."""
    asked = job.gpus_per_node or job.gpus_per_job or job.gpus_per_task
    if job.per_socket:
        raise UnplannableError("asks for GPUs by socket, submit it with --gpus-per-node")
    if len(asked) > 1:
        raise UnplannableError("asks for several GPU types at once, submit it for one")
    if not asked:
        return job.nodes, 0, ""
    kind, count = asked[0]
    if job.gpus_per_node:
        return job.nodes, count, kind
    total = count if job.gpus_per_job else count * job.tasks
    if not job.gpus_per_job and job.tasks_per_node:
        return job.nodes, count * job.tasks_per_node, kind
    if job.spans:
        if total % job.nodes:
            parts = f"{total} GPUs on {job.nodes} nodes are no equal parts"
            raise UnplannableError(f"{parts}, submit it with --gpus-per-node")
        return job.nodes, total // job.nodes, kind
    most = max((n.gpus for n in nodes if kind in ("", n.gpu_type)), default=0)
    each = max((d for d in range(1, min(most, total) + 1) if total % d == 0), default=total)
    return total // each, each, kind


def _cpus(job: Job, replicas: int, nodes: Collection[SlurmNode]) -> int:
    """Return the CPUs of each replica, in whole cores; all of a node's for an exclusive job."""
    if job.exclusive:
        return min((n.cpus for n in nodes), default=0)
    threads = max((n.threads for n in nodes), default=1)
    cpus = -(-job.cpus // replicas)
    return -(-cpus // threads) * threads


def _apart(nodes: Collection[SlurmNode], replicas: int) -> int:
    """Return so many CPUs that no node takes two replicas, for Slurm wants each on a node of its own.

    They are counted for a waiting job only; once it runs, it has what it asked for.
    """
    cpus = max(n.cpus for n in nodes) // 2 + 1
    if sum(n.cpus >= cpus for n in nodes) < replicas:
        fault = (
            "takes part of each of several nodes, and nodes of such different sizes keep no two parts apart"
        )
        raise UnplannableError(f"{fault}, submit it for whole nodes, or for one")
    return cpus
