"""Slurm's accounts: the runs that `sacct` knows to have ended, one record for every attempt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from planner.model.workload import Workload
from planner.schema.slurm import SlurmEntry
from planner.sources.base import Run
from planner.sources.slurm.contract import contract_of
from planner.sources.slurm.encoding import number, text, words
from planner.sources.slurm.jobs import Job
from planner.sources.slurm.tools import Tools, read_json

STATES = "CA,CD,F,NF,R,PD,RQ,TO,PR,DL,OOM"
"""Asked for by name: without them sacct hides rows whose eligible time is unknown."""

STILL = frozenset({"RUNNING", "PENDING", "SUSPENDED", "RESIZING"})


def ask(tools: Tools, since_s: int, until_s: int | None = None) -> dict[str, Any]:
    """Return the records of a time, as `sacct --json` prints them."""
    until = "now" if until_s is None else _clock(until_s)
    span = ("-S", _clock(since_s), "-E", until)
    return read_json(tools, "sacct", "-a", "-D", "-X", *span, "-s", STATES, "--json", times="")


def _clock(time_s: int) -> str:
    """Return a time as sacct takes it; commands run in UTC."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def read_runs(
    data: Mapping[str, Any], settings: SlurmEntry, owner: Mapping[str, tuple[str, str]]
) -> Iterator[Run]:
    """Yield the runs that have ended.

    Parameters
    ----------
    owner : dict of partition to (cluster, GPU type where accounts name none)
    """
    for raw in data.get("jobs", []):
        times = raw.get("time") or {}
        started_s, ended_s = number(times.get("start")) or 0, number(times.get("end")) or 0
        state = words((raw.get("state") or {}).get("current"))
        partition = next((p for p in text(raw.get("partition")).split(",") if p in owner), None)
        if partition is None or state & STILL or not 0 < started_s < ended_s:
            continue
        cluster, kind = owner[partition]
        gpus = _gpus(raw, kind)
        yield Run(
            _workload(raw, sum(gpus.values()), settings),
            started_s,
            ended_s,
            tuple((cluster, t, many) for t, many in sorted(gpus.items()) if many),
        )


def _gpus(raw: Mapping[str, Any], kind: str) -> dict[str, int]:
    """Return the GPUs that were held, by type; the entry without a type repeats the sum."""
    given = (raw.get("tres") or {}).get("allocated") or []
    found = {
        text(t.get("name")).partition(":")[2]: number(t.get("count")) or 0
        for t in given
        if text(t.get("type")) == "gres" and text(t.get("name")).partition(":")[0] == "gpu"
    }
    typed = {t: many for t, many in found.items() if t and many}
    return typed or {kind: found.get("", 0)}


def _workload(raw: Mapping[str, Any], gpus: int, settings: SlurmEntry) -> Workload:
    """Return what accounts know of a job: enough to say who pays."""
    array = raw.get("array") or {}
    many, task = number(array.get("job_id")) or 0, number(array.get("task_id"))
    comment = raw.get("comment") or {}
    minutes = number((raw.get("time") or {}).get("limit"))
    job = Job(
        key=f"{many}_{task}" if many and task is not None else str(number(raw.get("job_id")) or 0),
        state="ended",
        account=text(raw.get("account")),
        partition=text(raw.get("partition")),
        qos=text(raw.get("qos")),
        comment=text(comment.get("job")) if isinstance(comment, dict) else text(comment),
        submit_s=number((raw.get("time") or {}).get("submission")) or 0,
        time_limit_s=60 * minutes if minutes else None,
    )
    contract = contract_of(job, settings)
    return Workload(
        id=job.key,
        allocation=contract.allocation,
        replicas=1,
        gpus_per_replica=gpus,
        submitted_s=job.submit_s,
        state="running",
        min_runtime_s=contract.min_runtime_s,
        time_limit_s=job.time_limit_s,
        resumable=contract.resumable,
    )
