"""A round of a hundred starts on a real Slurm of 128 nodes, planned and applied in under 30 seconds."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from planner.hostlist import expand
from tests.endtoend.bed import SCRIPT, cluster
from tests.planner.cli.calling import gangplan

pytestmark = pytest.mark.skipif(SCRIPT not in os.environ, reason="no testbed script is named")

SITE = """
budgets: [{{name: nlp, weight: 50}}, {{name: vision, weight: 50}}]
ledger: sqlite:///{home}/ledger.db
source: {{type: slurm, levels: [spine, block, leaf], conf: {conf}}}
run: {{state: {home}/state}}
"""


def test_a_hundred_gangs_are_planned_and_started_in_under_30_seconds(tmp_path: Path) -> None:
    with cluster(128, accounts=False) as bed:
        site = tmp_path / "site.yaml"
        site.write_text(SITE.format(home=tmp_path, conf=bed.conf))
        bed.close_gate(gangplan("slurm", "gate", "--site", site, "--lua").out)
        time.sleep(2)
        sizes = [1] * 84 + [2] * 14 + [4] * 2
        jobs = [
            bed.submit(600, f"-N{n}", "--gpus-per-node=8", account="nlp", min_runtime="1h") for n in sizes
        ]
        began = time.monotonic()
        called = gangplan("run", "--site", site)
        took_s = time.monotonic() - began
        assert (called.code, called.out, called.err) == (0, "", "")
        plan = json.loads((tmp_path / "state" / "plan.json").read_text())
        planned = {d["workload"]: {p["node"] for p in d["placement"]} for d in plan["decisions"]}
        now = bed.jobs()
        assert {j: now[j]["job_state"] for j in jobs} == dict.fromkeys(jobs, "RUNNING")
        assert {j: set(expand(now[j]["nodes"])) for j in jobs} == planned
        print(f"\n100 starts on 128 nodes: planned and applied in {took_s:.1f} s")
        assert took_s < 30
