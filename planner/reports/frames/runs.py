"""Every run of a simulation, how it ended, and for whom: read from the events alone.

Events do not name whom a victim makes room for. But victims go and gainers start in one second and on
shared nodes, so whoever starts in the second of a preemption on a node of the victim is a gainer. A victim
without one lost a node, or made room for a promise that fell due later.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pandas as pd

from planner.reports.frames.simulated import Simulated

Parts = list[tuple[str, int]]
"""Where a gang stands: (node, GPUs)."""


def parts_of(places: str) -> Parts:
    """Return the parts of a placement as events have it: `name:gpus` joined by `|`."""
    return [
        (name, int(gpus)) for name, _, gpus in (part.rpartition(":") for part in places.split("|") if part)
    ]


def runs_of(found: Simulated) -> pd.DataFrame:
    """Return one row for each run, in the order of starts.

    Columns: workload, allocation, gpus, occupancy, start_s, protected_s (end of the protection), end_s, ended
    (finish, preempt, cancel; "" = still running at the end), lost_gpu_s, nodes.
    """
    events = found.events
    acts = events[events["event"] != "submit"]
    acts = acts.iloc[np.argsort(acts["workload"].to_numpy(), kind="stable")]
    who = acts["workload"].to_numpy()
    after = acts.shift(-1)
    same = np.append(who[1:] == who[:-1], [False]) if len(who) else np.zeros(0, dtype=bool)
    begins = (acts["event"] == "start").to_numpy()
    starts, ends, known = acts[begins], after[begins], same[begins]
    jobs = found.workloads.set_index("id").loc[starts["workload"]]
    protected = starts["time_s"].to_numpy() + np.where(
        starts["occupancy"] == "allocated", jobs["min_runtime_s"].to_numpy(), 0
    )
    out = pd.DataFrame(
        {
            "workload": starts["workload"].to_numpy(),
            "allocation": jobs["allocation"].to_numpy(),
            "gpus": starts["gpus"].to_numpy(),
            "occupancy": starts["occupancy"].to_numpy(),
            "start_s": starts["time_s"].to_numpy(),
            "protected_s": protected,
            "end_s": np.where(known, ends["time_s"].fillna(found.end_s), found.end_s).astype(np.int64),
            "ended": np.where(known, ends["event"].fillna(""), ""),
            "lost_gpu_s": np.where(known, ends["lost_gpu_s"].fillna(0), 0).astype(np.int64),
            "nodes": starts["nodes"].to_numpy(),
        },
        index=starts.index,
    )
    return out.sort_index().reset_index(drop=True)


def gainers_of(runs: pd.DataFrame) -> dict[int, list[str]]:
    """Return, for each run (its row) that a preemption ended, the workloads that started in its place."""
    victims = runs[runs["ended"] == "preempt"]
    moments = set(victims["end_s"].tolist())
    newcomers: dict[tuple[int, str], list[str]] = defaultdict(list)
    fresh = runs[runs["start_s"].isin(moments)]
    for name, time_s, places in zip(fresh["workload"], fresh["start_s"], fresh["nodes"], strict=True):
        for node, _ in parts_of(places):
            newcomers[time_s, node].append(name)
    out = {}
    for row, name, time_s, places in zip(
        victims.index.tolist(), victims["workload"], victims["end_s"], victims["nodes"], strict=True
    ):
        there = dict.fromkeys(g for node, _ in parts_of(places) for g in newcomers.get((time_s, node), ()))
        out[row] = [g for g in there if g != name]
    return out


def preemptions_of(found: Simulated, runs: pd.DataFrame) -> pd.DataFrame:
    """Return who displaced whom, by allocation: preemptions, GPUs displaced and GPU-hours lost.

    A preemption for several allocations is divided by the GPUs of those who start. `nobody` stands where
    nobody starts in that second: a node failed, or a promise is about to fall due.
    """
    gpus = dict(zip(found.workloads["id"], found.workloads["gpus"], strict=True))
    payer = dict(zip(found.workloads["id"], found.workloads["allocation"], strict=True))
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    victims, held = runs["allocation"].tolist(), runs["gpus"].tolist()
    lost = runs["lost_gpu_s"].tolist()
    for row, gainers in gainers_of(runs).items():
        whole = sum(gpus[g] for g in gainers)
        shares = [(payer[g], gpus[g] / whole) for g in gainers] if whole else [("nobody", 1.0)]
        for allocation, share in shares:
            entry = sums[allocation, victims[row]]
            entry[0] += share
            entry[1] += share * held[row]
            entry[2] += share * lost[row] / 3600
    rows = [(gainer, victim, *entry) for (gainer, victim), entry in sorted(sums.items())]
    return pd.DataFrame(rows, columns=["gainer", "victim", "preemptions", "gpus", "lost_gpu_hours"])
