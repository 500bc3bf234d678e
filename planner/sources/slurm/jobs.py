"""Slurm's jobs, as `squeue --json` shows them, whatever its version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.sources.slurm.encoding import gpus_of, nodes_of, number, tasks_of, text, words

MAX_TASKS = 1_000
"""Waiting tasks of one array that are looked at; the rest follows as these start."""

UNLIMITED_S = 365 * 86_400
"""After this Slurm expects the end of a job without a time limit."""

ENDED = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "DEADLINE", "OUT_OF_MEMORY", "BOOT_FAIL",
     "PREEMPTED", "REVOKED", "SPECIAL_EXIT"}
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One job, or one task of an array.

    Attributes
    ----------
    key : str
        Its name for gangplan and in Slurm's commands: `17`, or `17_3` for a task, before and after Slurm
        gives that task a number of its own.
    state : str
        `pending`, `running`, `leaving` (requeued, still on its nodes), `clearing` (over, still on its nodes)
        or `ended`.
    begin_s : int, epoch seconds
        Slurm will not start it before; 0 = none.
    start_s, end_s : int, epoch seconds
        0 = none; of pending jobs the start is when Slurm expects it, which says nothing.
    gpus_per_node, gpus_per_job, gpus_per_task : tuple of (type, GPUs)
        What it asks for; an empty type is any.
    spans : bool
        It asked for its number of nodes, and not only for what Slurm works out.
    cpus : int
        Of the whole job.
    memory_mib : int
        Of each node; `per_cpu_mib` of each CPU, where that is what was asked for.
    held : tuple of (node, GPUs)
        What it holds now.
    bound : bool
        It may start on named nodes only.
    """

    key: str
    state: str
    account: str = ""
    partition: str = ""
    qos: str = ""
    comment: str = ""
    priority: int = 0
    submit_s: int = 0
    begin_s: int = 0
    start_s: int = 0
    end_s: int = 0
    time_limit_s: int | None = None
    restarts: int = 0
    requeues: bool = True
    gpus_per_node: tuple[tuple[str, int], ...] = ()
    gpus_per_job: tuple[tuple[str, int], ...] = ()
    gpus_per_task: tuple[tuple[str, int], ...] = ()
    per_socket: bool = False
    nodes: int = 1
    spans: bool = False
    tasks: int = 1
    tasks_per_node: int = 0
    cpus: int = 1
    memory_mib: int = 0
    per_cpu_mib: int = 0
    exclusive: bool = False
    held: tuple[tuple[str, int], ...] = ()
    bound: bool = False
    wants: tuple[str, ...] = ()
    dependency: str = ""
    reservation: str = ""
    part_of_many: bool = False
    array: str = ""
    array_limit: int = 0
    why: str = ""


def read_jobs(data: Mapping[str, Any]) -> list[Job]:
    """Return all jobs, waiting arrays task by task."""
    return [job for raw in data.get("jobs", []) for job in _tasks(raw, _job(raw))]


def _tasks(raw: Mapping[str, Any], job: Job) -> Iterator[Job]:
    """Yield the job, or each of its waiting tasks."""
    waiting = text(raw.get("array_task_string"))
    if job.array and waiting and number(raw.get("array_task_id")) is None:
        tasks = tasks_of(waiting, MAX_TASKS) if job.state == "pending" else ()
        yield from (replace(job, key=f"{job.array}_{task}") for task in tasks)
    else:
        yield job


def _job(raw: Mapping[str, Any]) -> Job:
    array, task = number(raw.get("array_job_id")) or 0, number(raw.get("array_task_id"))
    key = f"{array}_{task}" if array and task is not None else str(number(raw.get("job_id")) or 0)
    minutes = number(raw.get("time_limit"))
    shared = words(raw.get("shared")) | words(raw.get("exclusive"))
    state = _state(raw)
    return Job(
        key=key,
        state=state,
        account=text(raw.get("account")),
        partition=text(raw.get("partition")),
        qos=text(raw.get("qos")),
        comment=text(raw.get("comment")),
        priority=_priority(raw.get("priority")),
        submit_s=number(raw.get("submit_time")) or 0,
        begin_s=number(raw.get("eligible_time")) or 0,
        start_s=number(raw.get("start_time")) or 0,
        end_s=number(raw.get("end_time")) or 0,
        time_limit_s=60 * minutes if minutes else None,
        restarts=number(raw.get("restart_cnt")) or 0,
        requeues=bool(raw.get("requeue")) and bool(raw.get("batch_flag")),
        gpus_per_node=tuple(gpus_of(text(raw.get("tres_per_node"))).items()),
        gpus_per_job=tuple(gpus_of(text(raw.get("tres_per_job"))).items()),
        gpus_per_task=tuple(gpus_of(text(raw.get("tres_per_task"))).items()),
        per_socket=bool(gpus_of(text(raw.get("tres_per_socket")))),
        nodes=max(number(raw.get("node_count")) or 1, 1),
        spans=bool(number(raw.get("max_nodes"))) or (number(raw.get("node_count")) or 1) > 1,
        tasks=max(number(raw.get("tasks")) or 1, 1),
        tasks_per_node=number(raw.get("tasks_per_node")) or 0,
        cpus=max(number(raw.get("cpus")) or 1, 1),
        memory_mib=number(raw.get("memory_per_node")) or 0,
        per_cpu_mib=number(raw.get("memory_per_cpu")) or 0,
        exclusive=bool(shared & {"NONE", "TRUE", "EXCLUSIVE"}),
        held=_held(raw) if state in ("running", "leaving", "clearing", "ended") else (),
        bound=bool(text(raw.get("required_nodes"))),
        wants=_wants(raw),
        dependency=text(raw.get("dependency")),
        reservation=text(raw.get("resv_name")),
        part_of_many=bool(number(raw.get("het_job_id"))),
        array=str(array) if array else "",
        array_limit=number(raw.get("array_max_tasks")) or 0,
        why=text(raw.get("state_description")) or text(raw.get("state_reason")),
    )


def _priority(value: Any) -> int:
    """Return a priority; 0 is held, and a number without a bound is not."""
    if isinstance(value, dict) and value.get("infinite"):
        return 1
    found = number(value)
    return 1 if found is None else found


def _state(raw: Mapping[str, Any]) -> str:
    """Say where a job stands."""
    state = words(raw.get("job_state"))
    if "COMPLETING" in state:
        comes_back = "PENDING" in state or (number(raw.get("priority")) == 0 and not state & ENDED)
        requeued = _requeued(raw) and not state & ENDED
        return "leaving" if comes_back or requeued else "clearing"
    if state & ENDED:
        return "ended"
    if state & {"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}:
        return "running"
    return "pending"


def _requeued(raw: Mapping[str, Any]) -> bool:
    """Whether a job that is leaving its nodes has its end before it still: it will run again."""
    end_s, start_s = number(raw.get("end_time")) or 0, number(raw.get("start_time")) or 0
    limit = number(raw.get("time_limit"))
    lasts_s = 60 * limit if limit else UNLIMITED_S
    return end_s == start_s + lasts_s


def _held(raw: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Return what a job holds: GPUs of each of its nodes, as given out or else as asked for."""
    nodes = nodes_of(raw.get("nodes"))
    detail = [sum(gpus_of(part).values()) for part in raw.get("gres_detail") or [] if isinstance(part, str)]
    if len(detail) != len(nodes):
        asked = sum(gpus_of(text(raw.get("tres_per_node"))).values())
        given = sum(gpus_of(text(raw.get("tres_alloc_str"))).values())
        each = asked or (given // len(nodes) if nodes else 0)
        detail = [each] * len(nodes)
    return tuple(zip(nodes, detail, strict=True))


def _wants(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a job asks for that no plan takes into account."""
    asked = {
        "constraint": text(raw.get("features")),
        "excluded nodes": text(raw.get("excluded_nodes")),
        "licenses": text(raw.get("licenses")),
    }
    return tuple(f"{what} {value}" for what, value in asked.items() if value)
