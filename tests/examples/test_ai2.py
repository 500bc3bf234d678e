"""The large example is what its command writes, valid, and the cluster that its README describes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.benchmarks.format_rules import broken, leaves, limits, nodes, over_limit, seconds, when

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SITE: dict[str, Any] = yaml.safe_load((EXAMPLES / "ai2" / "site.yaml").read_text(encoding="utf-8"))
SNAPSHOT: dict[str, Any] = json.loads((EXAMPLES / "ai2" / "snapshot.json").read_text(encoding="utf-8"))
RUNNING = [w for w in SNAPSHOT["workloads"] if w["state"] == "running"]
PENDING = [w for w in SNAPSHOT["workloads"] if w["state"] == "pending"]
ALLOCATED = [w for w in RUNNING if w["occupancy"] == "allocated"]
NOW = when(SNAPSHOT["time"])


def gpus(workloads: list[dict[str, Any]]) -> int:
    """GPUs of these gangs together."""
    return sum(w["replicas"] * w["gpus_per_replica"] for w in workloads)


def test_the_committed_files_are_what_the_command_writes(tmp_path: Path):
    command = [sys.executable, EXAMPLES / "make_example.py", "--seed", "7", "--out", tmp_path]
    subprocess.run(command, check=True, cwd=tmp_path)
    for name in ("site.yaml", "snapshot.json"):
        assert (tmp_path / name).read_bytes() == (EXAMPLES / "ai2" / name).read_bytes()


def test_the_example_obeys_the_format_and_its_limit():
    assert broken(SITE, SNAPSHOT) == []
    assert over_limit(SITE, SNAPSHOT) == []
    assert len(list(limits(SITE["budgets"]))) == 1


def test_the_snapshot_has_one_workload_to_a_line():
    lines = (EXAMPLES / "ai2" / "snapshot.json").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith('{"id": ') for line in lines) == len(SNAPSHOT["workloads"])


def test_the_fleet_is_sixteen_leaves_of_eight_nodes_in_four_blocks():
    fleet = nodes(SNAPSHOT)
    per_leaf = Counter(n["at"]["leaf"] for n in fleet.values())
    assert set(per_leaf.values()) == {8}
    assert len(per_leaf) == 16
    assert Counter(leaf[:1] for leaf in per_leaf) == {(f"b0{k}",): 4 for k in range(1, 5)}
    assert {(n["gpus"], n["gpu_type"]) for n in fleet.values()} == {(8, "h100")}
    assert Counter(n["state"] for n in fleet.values()) == {"up": 125, "draining": 2, "down": 1}


def test_fifteen_allocations_stand_at_ratios_from_three_tenths_to_one_and_six_tenths():
    share = dict(shares(SITE["budgets"], 1.0, ""))
    assert list(share) == list(leaves(SITE["budgets"]))
    ratios = {k: SNAPSHOT["usage"][k] / (share[k] * 1024 * 168) for k in share}
    assert len(ratios) == 15
    assert min(ratios.values()) == pytest.approx(0.3, abs=0.01)
    assert max(ratios.values()) == pytest.approx(1.6, abs=0.01)


def shares(family: list[dict[str, Any]], share: float, path: str) -> list[tuple[str, float]]:
    """Share of every allocation."""
    total, out = sum(b["weight"] for b in family), []
    for b in family:
        here, part = path + b["name"], share * b["weight"] / total
        out += shares(b["children"], part, here + "/") if "children" in b else [(here, part)]
    return out


def test_use_adds_up_to_a_week_of_todays_allocated_occupancy():
    assert sum(SNAPSHOT["usage"].values()) == pytest.approx(gpus(ALLOCATED) * 168, rel=0.001)


def test_demand_is_two_and_a_half_times_the_supply():
    assert len(PENDING) == 300
    assert gpus(RUNNING) + gpus(PENDING) == 2560


def test_the_cluster_is_nearly_full_and_what_is_free_is_scattered():
    held = Counter()
    for w in RUNNING:
        held.update({p["node"]: p["gpus"] for p in w["placement"]})
    free = {name: 8 - held[name] for name, n in nodes(SNAPSHOT).items() if n["state"] == "up"}
    assert 16 <= sum(free.values()) <= 48
    assert max(free.values()) < 8
    assert sum(g > 0 for g in free.values()) >= 8


def test_nothing_stands_on_the_node_that_is_down():
    down = {name for name, n in nodes(SNAPSHOT).items() if n["state"] == "down"}
    assert not any(p["node"] in down for w in RUNNING for p in w["placement"])


def test_protected_interruptible_and_unallocated_work_all_run_as_the_readme_says():
    protected = [
        w for w in ALLOCATED if when(w["started"]) + timedelta(seconds=seconds(w["min_runtime"])) > NOW
    ]
    total, charged, safe = gpus(RUNNING), gpus(ALLOCATED), gpus(protected)
    assert 1 - charged / total == pytest.approx(0.18, abs=0.005)
    assert min(safe, charged - safe) > 0.2 * total
    said = f"Of {total} GPUs in use {safe} are protected, {charged - safe} are past their protection and "
    text = " ".join((EXAMPLES / "README.md").read_text(encoding="utf-8").split())
    assert f"{said}{total - charged} are unallocated." in text


def test_every_kind_of_work_waits():
    size = [w["replicas"] * w["gpus_per_replica"] for w in PENDING]
    whole_leaf = [w for w in PENDING if w["replicas"] == 8 and w.get("topology") == {"required": "leaf"}]
    debug = [
        w
        for w in PENDING
        if 0 < seconds(w["min_runtime"]) <= 900 and w["replicas"] * w["gpus_per_replica"] <= 16
    ]
    assert gpus(whole_leaf) == 64 * len(whole_leaf) >= 4 * 64
    assert max(size) == 400
    assert len(debug) >= 10
    assert any("preferred" in w.get("topology", {}) for w in PENDING)
    assert {w["resumable"] for w in PENDING} == {True, False}
    assert {"30m", "1h", "2h", "4h", "8h"} <= {w["min_runtime"] for w in PENDING}
    assert any("cpus_per_replica" in w and "memory_per_replica" in w for w in PENDING)
