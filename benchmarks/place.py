"""The hot path in the process: `python -m benchmarks.place --nodes 128 --pending 300 --seed 1`.

Places newcomers of several sizes beside a standing plan, each many times, and prints milliseconds per call:
once with the whole queue planned before (little is left to interrupt), once with only what runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace

import yaml

from benchmarks.instances import instance
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.model.workload import Workload
from planner.place import Standing
from planner.round import plan_round
from planner.site import parse_site
from planner.snapshot import parse_snapshot

NEWCOMERS = ((1, 1, 900), (1, 4, 3600), (1, 8, 28_800), (8, 8, 28_800), (1, 1, 0))
"""Replicas, GPUs per replica, min runtime in seconds."""


def main() -> int:
    """Print the table."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--nodes", type=int, default=128)
    ap.add_argument("--pending", type=int, default=300)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--times", type=int, default=100)
    a = ap.parse_args()
    site_data, snapshot_data = instance(a.nodes, a.pending, a.seed)
    site = parse_site(yaml.safe_dump(site_data, sort_keys=False), "site.yaml")
    snapshot = parse_snapshot(json.dumps(snapshot_data), "snapshot.json", site)
    print("| standing plan | newcomer | answer | preempted | median ms | p95 ms |\n|---|---|---|---|---|---|")
    _table("whole queue", site, snapshot, a.times)
    runs = tuple(w for w in snapshot.workloads if w.state != "pending")
    _table("only what runs", site, replace(snapshot, workloads=runs), a.times)
    return 0


def _table(title: str, site: Site, snapshot: Snapshot, times: int) -> None:
    """Place every newcomer for the allocation that has had the least of its share."""
    plan = plan_round(site, snapshot, "greedy")
    standing = Standing(site, snapshot, plan)
    allocation = min(plan.shares, key=lambda s: s.rank).allocation
    for replicas, gpus, min_runtime_s in NEWCOMERS:
        ask = Workload("new", allocation, replicas, gpus, snapshot.time_s, "pending", min_runtime_s)
        took_ms = []
        for _ in range(times):
            began_s = time.perf_counter()
            result = standing.place(ask)
            took_ms.append(1000 * (time.perf_counter() - began_s))
        p95_ms = statistics.quantiles(took_ms, n=20)[-1]
        name = f"{replicas} x {gpus} GPUs, {min_runtime_s} s"
        cells = (title, name, result.decision.action, len(result.preempted))
        print(f"| {' | '.join(map(str, cells))} | {statistics.median(took_ms):.2f} | {p95_ms:.2f} |")


if __name__ == "__main__":
    sys.exit(main())
