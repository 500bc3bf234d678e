"""Random rounds, each checked: `python -m benchmarks.stress --rounds 1000 --seed 0`.

Every round is a random small world (`benchmarks.random_snapshots`): random topology, sizes, states, failures,
limits and promises. Its plan must pass gangplan's own check and, with --checker, an outside one: a Python
file with a function `verify(site, snapshot, plan) -> list of broken rules`. Exit code 1 if any fails.

A gang never mixes GPU types; an outside checker that allows it would see places that do not count. So for
it every gang of several replicas names one type.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from benchmarks.random_snapshots import random_case
from planner.planfile import plan_to_dict
from planner.round import plan_round
from planner.site import parse_site
from planner.snapshot import parse_snapshot

Verify = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], list[str]]


def one_round(seed: int, backend: str, verify: Verify | None) -> tuple[str, list[str]]:
    """Plan one random world; return the status of the solver and what is wrong with the plan."""
    site_data, snapshot_data = random_case(seed)
    if verify is not None:
        _name_types(snapshot_data)
    site = parse_site(yaml.safe_dump(site_data, sort_keys=False), "site.yaml")
    snapshot = parse_snapshot(json.dumps(snapshot_data), "snapshot.json", site)
    plan = plan_round(site, snapshot, backend)
    bad = [note for note in plan.solver.notes if "cut by the clock" not in note]
    if verify is not None:
        bad += verify(site_data, snapshot_data, json.loads(json.dumps(plan_to_dict(plan))))
    return plan.solver.status, bad


def _name_types(snapshot: dict[str, Any]) -> None:
    """Let every pending gang that names no GPU type name the first of the clusters it may use."""
    types = {
        c["name"]: sorted({n["gpu_type"] for n in c["nodes"] if "gpu_type" in n})
        for c in snapshot["clusters"]
    }
    for w in snapshot["workloads"]:
        wanted = w.get("gpu_types") or sorted(
            {t for c in w.get("clusters") or types for t in types.get(c, [])}
        )
        if w["state"] == "pending" and w["replicas"] > 1 and wanted:
            w["gpu_types"] = wanted[:1]


def outside(path: Path) -> Verify:
    """Load the outside checker."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    verify: Verify = module.verify
    return verify


def main() -> int:
    """Run the rounds; print each fault and one line of totals."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--rounds", type=int, default=1000)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--backend", default="auto")
    ap.add_argument("--checker", type=Path, help="an outside checker to ask as well")
    a = ap.parse_args()
    verify = outside(a.checker) if a.checker else None
    began_s, statuses, failed = time.monotonic(), Counter[str](), 0
    for seed in range(a.seed, a.seed + a.rounds):
        try:
            status, bad = one_round(seed, a.backend, verify)
        except Exception:  # a crash is a finding like any other, and must not hide the next
            status, bad = "crash", [traceback.format_exc(limit=-3)]
        statuses[status] += 1
        failed += bool(bad)
        for line in bad:
            print(f"seed {seed}: {line}")
    seconds = time.monotonic() - began_s
    found = ", ".join(f"{n} {s}" for s, n in sorted(statuses.items()))
    print(f"{a.rounds} rounds from seed {a.seed}, {a.backend}: {found}; {failed} faulty; {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
