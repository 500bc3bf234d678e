"""Snapshots cut from real logs, in the form of the interface, each with a site that fits it.

The logs are not part of the repository: they are read from the folder named by `GANGPLAN_SHARED`, or from
`../shared` beside the checkout, and tests that need them are skipped where there is none (`needs_logs`).
Nothing is dropped silently: `Cut.counts` says how many rows were left out or changed, and why.

CERIT-SC, wagap 2013 (`cerit`): a real batch cluster, and where each job really ran. Cores stand in for GPUs.
Nodes have 80 and 12 cores (48, sometimes quoted, is how many of the small nodes are declared). Of 20 and 48
declared, 18 and 26 ever run anything, and on those the placed jobs reach exactly 80 and 12 cores and never
more. Requested memory is left out: at times it exceeds what the nodes have.

Alibaba, openb 2023 (`openb`): 1,213 GPU nodes of mixed sizes and types with CPUs and memory, and pods of
whole GPUs with real type constraints. At most 58 of their GPUs are ever in use at one time, so contention
is made by inflation, as in the FGD paper: nothing departs, and arrivals go on.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.text import DAY, HOUR, MINUTE, duration, iso

SHARED = Path(os.environ.get("GANGPLAN_SHARED") or Path(__file__).resolve().parents[2] / "shared")
LOGS = SHARED / "data"
needs_logs = pytest.mark.skipif(not LOGS.is_dir(), reason="the logs are not here: set GANGPLAN_SHARED")

CORES = {"zewura": 80, "zegox": 12}
FIRST_SMALL = 1250
MAX_BUDGETS = 15
PROTECTION_S = (HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR)
OPENB_TIME_S = int(datetime(2023, 7, 1, tzinfo=UTC).timestamp())


@dataclass(frozen=True)
class Cut:
    """A site and a snapshot from a log, and what was left out or changed on the way, by reason."""

    site: dict[str, Any]
    snapshot: dict[str, Any]
    counts: dict[str, int] = field(default_factory=dict)


# --- CERIT-SC -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A job of the SWF log; times in epoch seconds, `placement` cores by node id."""

    key: str
    submitted_s: int
    started_s: int
    ended_s: int
    walltime_s: int
    user: str
    queue: str
    spec: str
    placement: dict[str, int]

    @property
    def cores(self) -> int:
        """Cores of the whole job."""
        return sum(self.placement.values())


@cache
def cerit_jobs() -> tuple[tuple[Job, ...], int]:
    """Read the log; return its jobs, and how many rows were dropped for a negative run time."""
    jobs, dropped = [], 0
    with gzip.open(LOGS / "cerit_wagap_2013" / "wagap-2013.swf.gz", "rt", encoding="utf-8") as log:
        for line in log:
            row = line.split()
            start, ran = int(row[1]) + int(row[2]), math.ceil(float(row[3]))
            if ran < 0:
                dropped += 1
                continue
            where, walltime = Counter(row[18].strip("{}").split(",")), math.ceil(float(row[8]))
            times = (int(row[1]), start, start + ran, walltime)
            jobs.append(Job(row[0], *times, row[11], row[19], row[20], dict(where)))
    return tuple(jobs), dropped


def cerit(at: float = 0.5, pending_limit: int | None = None, seed: int = 0) -> Cut:
    """Cut the CERIT log at one moment: what really ran, where it ran, and what had been submitted.

    Parameters
    ----------
    at : float
        Up to 1, the quantile of the submit times; above, epoch seconds.
    pending_limit : int, optional
        Take only so many of the pending jobs, the oldest.
    seed : int
        For the contract, which the log does not know: work of the `backfill` queue, and one job in five, is
        unallocated; the rest is protected for 1, 2, 4 or 8 hours, at most for its wall time; three in
        four are resumable. Each job draws for itself, so cuts of one seed agree about it.

    Notes
    -----
    Budgets: the 14 users with most core time have an allocation each, the others share one; weights are the
    core time of the whole log. `usage` is the allocated core time of the 7 days before, as it really was.
    """
    jobs, dropped = cerit_jobs()
    counts = Counter({"dropped: negative run time": dropped})
    now = int(np.quantile([j.submitted_s for j in jobs], at)) if at <= 1 else int(at)
    budget, budgets = _cerit_budgets(jobs)
    begun, waiting = [], []
    for job in jobs:
        if job.started_s <= now < job.ended_s:
            begun.append(job)
        elif job.submitted_s <= now < job.started_s:
            waiting.append(job)
    mixed = [job for job in begun if len({_family(node) for node in job.placement}) > 1]
    counts["dropped: runs on both node families"] += len(mixed)
    if pending_limit is not None:
        counts["dropped: pending beyond the limit"] += max(0, len(waiting) - pending_limit)
        waiting = sorted(waiting, key=lambda j: (j.submitted_s, j.key))[:pending_limit]
    running = [_cerit_entry(job, budget, seed, now, counts) for job in begun if job not in mixed]
    pending = [_cerit_entry(job, budget, seed, now, counts) for job in waiting]
    window = min(7 * DAY, now - min(j.started_s for j in jobs))
    snapshot = {
        "time": iso(now),
        "clusters": [{"name": "wagap", "levels": [], "nodes": _cerit_nodes(jobs)}],
        "workloads": running + pending,
        "usage": _cerit_usage(jobs, budget, seed, now - window, now),
        "history": duration(window),
    }
    return Cut({"budgets": budgets}, snapshot, {k: v for k, v in sorted(counts.items()) if v})


def _family(node: str) -> str:
    """Return the family of a node id."""
    return "zewura" if int(node) < FIRST_SMALL else "zegox"


def _cerit_nodes(jobs: tuple[Job, ...]) -> list[dict[str, Any]]:
    """Return every node that some job of the log ran on."""
    seen = sorted({node for job in jobs for node in job.placement})
    return [{"name": f"n{node}", "gpus": CORES[_family(node)], "gpu_type": _family(node)} for node in seen]


def _cerit_budgets(jobs: tuple[Job, ...]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return the allocation of each user, and the budgets, by the core time of the log."""
    use: Counter[str] = Counter()
    for job in jobs:
        use[job.user] += job.cores * (job.ended_s - job.started_s)
    top = [user for user, _ in use.most_common(MAX_BUDGETS - 1)]
    budget = {user: f"user-{user}" if user in top else "others" for user in use}
    weight: Counter[str] = Counter()
    for user, core_s in use.items():
        weight[budget[user]] += core_s
    total = sum(weight.values())
    return budget, [{"name": k, "weight": max(1, round(1000 * v / total))} for k, v in sorted(weight.items())]


def _protection_s(job: Job, seed: int) -> int:
    """Draw the min runtime of a job, the same in every cut; 0 = unallocated."""
    rng = np.random.default_rng([seed, int(job.key)])
    if job.queue == "backfill" or rng.random() < 0.2:
        return 0
    return max(5 * MINUTE, min(int(rng.choice(PROTECTION_S)), job.walltime_s))


def _cerit_shape(job: Job, counts: Counter[str]) -> tuple[int, int]:
    """Return replicas and cores of each: as asked for, if the placement agrees, or as it was placed."""
    chunks = re.findall(r"(?:^|\+)(\d+):ppn=(\d+)(?![\d.])", job.spec)
    if len(chunks) == 1 and "+" not in job.spec:
        replicas, each = int(chunks[0][0]), int(chunks[0][1])
        if replicas * each == job.cores and all(c % each == 0 for c in job.placement.values()):
            return replicas, each
    counts["changed: request irregular, replicas made equal from the placement"] += 1
    each = math.gcd(*job.placement.values())
    return job.cores // each, each


def _cerit_entry(
    job: Job, budget: dict[str, str], seed: int, now: int, counts: Counter[str]
) -> dict[str, Any]:
    """Return a job as a workload, running if it had started."""
    replicas, each = _cerit_shape(job, counts)
    protection = _protection_s(job, seed)
    w: dict[str, Any] = {
        "id": job.key,
        "allocation": budget[job.user],
        "replicas": replicas,
        "gpus_per_replica": each,
        "min_runtime": duration(protection),
        "resumable": bool(np.random.default_rng([seed, int(job.key), 1]).random() < 0.75),
        "submitted": iso(job.submitted_s),
        "state": "pending",
    }
    if job.walltime_s and (job.started_s > now or now - job.started_s < job.walltime_s):
        w["time_limit"] = duration(job.walltime_s)
    else:
        counts["changed: no time limit, or it has run past it"] += 1
    family = re.findall(r":cl_(zewura|zegox)|:nodecpus(80|12)", job.spec)
    if family:
        w["gpu_types"] = sorted({name or {"80": "zewura", "12": "zegox"}[cores] for name, cores in family})
    if re.search(r"\^|host=|\.cerit-sc\.cz|#excl", job.spec):
        counts["changed: host or exclusive wish ignored"] += 1
    if job.started_s <= now:
        w |= {"state": "running", "started": iso(job.started_s)}
        w["placement"] = [
            {"node": f"n{node}", "gpus": cores} for node, cores in sorted(job.placement.items())
        ]
        w["occupancy"] = "allocated" if protection else "unallocated"
    return w


def _cerit_usage(
    jobs: tuple[Job, ...], budget: dict[str, str], seed: int, start: int, now: int
) -> dict[str, float]:
    """Return the allocated core-hours of each budget in the window."""
    use: defaultdict[str, int] = defaultdict(int)
    for job in jobs:
        inside = min(job.ended_s, now) - max(job.started_s, start)
        if inside > 0 and _protection_s(job, seed):
            use[budget[job.user]] += inside * job.cores
    return {path: round(core_s / HOUR, 3) for path, core_s in sorted(use.items())}


# --- Alibaba openb --------------------------------------------------------------------------------


def openb(pods: int = 6000, running: float = 0.8, log: str = "gpuspec33", seed: int = 0) -> Cut:
    """Fill the 1,213 GPU nodes of openb with real pods by best fit, and let the later ones wait.

    Parameters
    ----------
    pods : int
        How many pods, in the order of their creation; more than there are repeats the log in a new random
        order. Its 3,986 pods of whole GPUs ask for 4,355 of 6,212 GPUs, so from about 5,700 on some must
        wait; for a scarce type they wait long before.
    running : float
        Share of the pods that arrived in time to be placed; one of them that fits nowhere waits as well.
    log : str
        `gpuspec33` has the real type constraints, `default` has none.
    seed : int
        For the repetition and for the contract, which the log does not know: best-effort pods are
        unallocated; the others are protected for 1, 2, 4 or 8 hours and began up to 12 hours ago. Pods
        alike in GPUs, CPUs and memory are one service: 12 allocations of such services.
    """
    counts: Counter[str] = Counter()
    rng = np.random.default_rng([seed, pods])
    nodes = list(_rows(LOGS / "openb_2023" / "openb_node_list_gpu_node.csv"))
    rows = _openb_pods(log, counts)
    order = list(range(len(rows)))
    while len(order) < pods:
        order += rng.permutation(len(rows)).tolist()
    fleet = _Fleet(nodes)
    workloads, budgets = [], Counter[str]()
    for turn, k in enumerate(order[:pods]):
        w = _openb_entry(rows[k], f"{rows[k]['name']}.{turn // len(rows)}", rng)
        node = fleet.best_fit(w) if turn < running * pods else None
        if node is not None:
            _openb_run(w, nodes[node]["sn"], rng)
        elif turn < running * pods:
            counts["changed: arrived in time, fitted nowhere, waits"] += 1
        budgets[w["allocation"]] += w["replicas"] * w["gpus_per_replica"]
        workloads.append(w)
    counts["added: a pod of the log once more"] += max(0, pods - len(rows))
    snapshot = {
        "time": iso(OPENB_TIME_S),
        "clusters": [{"name": "openb", "levels": [], "nodes": [_openb_node(row) for row in nodes]}],
        "workloads": workloads,
        "usage": _openb_usage(budgets, sum(int(row["gpu"]) for row in nodes), rng),
        "history": "7d",
    }
    site = {"budgets": [{"name": name, "weight": weight} for name, weight in sorted(budgets.items())]}
    return Cut(site, snapshot, {k: v for k, v in sorted(counts.items()) if v})


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file, gzipped or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _openb_pods(log: str, counts: Counter[str]) -> list[dict[str, str]]:
    """Return the pods of whole GPUs, by creation."""
    out = []
    for row in _rows(LOGS / "openb_2023" / f"openb_pod_list_{log}.csv.gz"):
        if int(row["num_gpu"]) == 0:
            counts["dropped: no GPU"] += 1
        elif int(row["gpu_milli"]) < 1000:
            counts["dropped: a fraction of a GPU"] += 1
        else:
            out.append(row)
    return sorted(out, key=lambda row: (float(row["creation_time"]), row["name"]))


def _openb_node(row: dict[str, str]) -> dict[str, Any]:
    """Return a node."""
    out: dict[str, Any] = {"name": row["sn"], "gpus": int(row["gpu"]), "gpu_type": row["model"]}
    return out | {"cpus": int(row["cpu_milli"]) / 1000, "memory": f"{row['memory_mib']}M"}


def _openb_entry(row: dict[str, str], key: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return a pod as a pending workload, submitted within the last day."""
    shape = f"{row['num_gpu']} {row['cpu_milli']} {row['memory_mib']}"
    free = row["qos"] == "BE"
    w: dict[str, Any] = {
        "id": key,
        "allocation": f"service-{sum(map(ord, shape)) % 12:02d}",
        "replicas": 1,
        "gpus_per_replica": int(row["num_gpu"]),
        "min_runtime": "0s" if free else duration(int(rng.choice(PROTECTION_S))),
        "resumable": bool(rng.random() < 0.75),
        "submitted": iso(OPENB_TIME_S - int(rng.integers(0, DAY))),
        "state": "pending",
    }
    if int(row["cpu_milli"]):
        w["cpus_per_replica"] = int(row["cpu_milli"]) / 1000
    if int(row["memory_mib"]):
        w["memory_per_replica"] = f"{row['memory_mib']}M"
    if row["gpu_spec"]:
        w["gpu_types"] = sorted(set(row["gpu_spec"].split("|")))
    return w


def _openb_run(w: dict[str, Any], node: str, rng: np.random.Generator) -> None:
    """Let a pod run on a node since up to 12 hours ago."""
    started = OPENB_TIME_S - int(rng.integers(MINUTE, 12 * HOUR))
    w |= {"state": "running", "started": iso(started)}
    w["submitted"] = iso(started - int(rng.exponential(10 * MINUTE)))
    w["placement"] = [{"node": node, "gpus": w["gpus_per_replica"]}]
    w["occupancy"] = "unallocated" if w["min_runtime"] == "0s" else "allocated"


def _openb_usage(asked: Counter[str], gpus: int, rng: np.random.Generator) -> dict[str, float]:
    """Draw how far each allocation stands from its share: a ratio of 0.3 to 1.6."""
    total = sum(asked.values())
    return {
        name: round(float(rng.uniform(0.3, 1.6)) * gpus * 168 * part / total, 1)
        for name, part in sorted(asked.items())
    }


class _Fleet:
    """What is left on the openb nodes."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.gpus = np.array([int(row["gpu"]) for row in rows])
        self.cpus_milli = np.array([int(row["cpu_milli"]) for row in rows])
        self.memory_mib = np.array([int(row["memory_mib"]) for row in rows])
        self.model = np.array([row["model"] for row in rows])

    def best_fit(self, w: dict[str, Any]) -> int | None:
        """Take room on the node with the fewest GPUs left that holds this pod; None = there is none."""
        gpus = w["gpus_per_replica"]
        cpus_milli = round(1000 * w.get("cpus_per_replica", 0))
        memory_mib = int(w.get("memory_per_replica", "0M").removesuffix("M"))
        fits = (self.gpus >= gpus) & (self.cpus_milli >= cpus_milli) & (self.memory_mib >= memory_mib)
        if "gpu_types" in w:
            fits &= np.isin(self.model, w["gpu_types"])
        if not fits.any():
            return None
        node = int(np.argmin(np.where(fits, self.gpus, np.iinfo(np.int64).max)))
        self.gpus[node] -= gpus
        self.cpus_milli[node] -= cpus_milli
        self.memory_mib[node] -= memory_mib
        return node
