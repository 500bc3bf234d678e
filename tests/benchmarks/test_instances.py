"""Seeded instances are valid input of the size, demand and mix that they promise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from benchmarks.instances import instance
from tests.benchmarks.format_rules import broken, nodes, over_limit


def gpus(workloads: list[dict[str, Any]]) -> int:
    """GPUs of these gangs together."""
    return sum(w["replicas"] * w["gpus_per_replica"] for w in workloads)


def split(snapshot: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Running and pending workloads."""
    workloads = snapshot["workloads"]
    return [w for w in workloads if w["state"] == "running"], [
        w for w in workloads if w["state"] == "pending"
    ]


@pytest.mark.parametrize(
    "shape", [(1, 5), (9, 200), (16, 40), (128, 20), (128, 300), (200, 600), (1280, 3000)]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_instances_obey_the_format_and_the_limits(shape: tuple[int, int], seed: int):
    site, snapshot = instance(*shape, seed)
    assert broken(site, snapshot) == []
    assert over_limit(site, snapshot) == []
    assert broken(site, {**snapshot, "clusters": site["clusters"]}) == []


@pytest.mark.parametrize("shape", [(16, 40), (128, 300), (1280, 3000), (12_800, 10_000)])
def test_demand_is_two_and_a_half_times_the_supply(shape: tuple[int, int]):
    _, snapshot = instance(*shape, seed=5)
    running, pending = split(snapshot)
    assert len(pending) == shape[1]
    assert gpus(running) + gpus(pending) == pytest.approx(2.5 * 8 * shape[0], abs=4)
    assert 0.93 <= gpus(running) / (8 * shape[0]) <= 0.98


@pytest.mark.parametrize("seed", range(5))
def test_nothing_runs_on_a_node_that_is_down(seed: int):
    _, snapshot = instance(256, 100, seed)
    down = {name for name, n in nodes(snapshot).items() if n["state"] == "down"}
    assert len(down) == 2
    assert not any(p["node"] in down for w in split(snapshot)[0] for p in w["placement"])


@pytest.mark.parametrize("seed", range(5))
def test_a_fifth_of_what_runs_is_unallocated(seed: int):
    running, _ = split(instance(128, 300, seed)[1])
    free = [w for w in running if w["occupancy"] == "unallocated"]
    assert gpus(free) / gpus(running) == pytest.approx(0.18, abs=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_kinds_of_work_are_all_there(seed: int):
    _, pending = split(instance(128, 300, seed)[1])
    wishes = Counter(key for w in pending for key in w.get("topology", {}))
    sizes = [w["replicas"] * w["gpus_per_replica"] for w in pending]
    assert wishes["required"] >= 4
    assert wishes["preferred"] >= 1
    assert sizes.count(64) >= 4
    assert max(sizes) == 400
    assert 10 <= sum(w["min_runtime"] in ("5m", "10m", "15m") for w in pending) <= 60
    assert {w["resumable"] for w in pending} == {True, False}


def test_whole_leaves_are_asked_for_by_gangs_that_run_and_gangs_that_wait():
    both = [split(instance(512, 100, seed)[1]) for seed in range(6)]
    for k in range(2):
        assert any("segment" in w.get("topology", {}) for pair in both for w in pair[k])


def test_the_same_seed_gives_the_same_instance():
    assert instance(32, 50, 3) == instance(32, 50, 3)


def test_another_seed_gives_another_instance():
    assert instance(32, 50, 3) != instance(32, 50, 4)


def test_ids_follow_the_submit_times():
    _, snapshot = instance(32, 50, 3)
    workloads = sorted(snapshot["workloads"], key=lambda w: int(w["id"]))
    submitted = [w["submitted"] for w in workloads]
    assert submitted == sorted(submitted)
