"""The rules that the other tests lean on find every planted fault."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.benchmarks.format_rules import broken, over_limit

SITE = {"budgets": [{"name": "a", "weight": 1, "limit": 8}, {"name": "b", "weight": 1}]}
SNAPSHOT: dict[str, Any] = {
    "time": "2026-10-09T12:00:00Z",
    "clusters": [
        {
            "name": "k",
            "levels": ["leaf"],
            "nodes": [
                {
                    "names": "n[1-2]",
                    "gpus": 8,
                    "gpu_type": "x",
                    "location": ["l1"],
                    "cpus": 8,
                    "memory": "8G",
                },
                {"names": "n[3-4]", "gpus": 8, "gpu_type": "x", "location": ["l2"]},
                {"name": "m1", "gpus": 8, "gpu_type": "y", "location": ["l2"]},
            ],
        }
    ],
    "workloads": [
        {
            "id": "1",
            "allocation": "a",
            "replicas": 2,
            "gpus_per_replica": 4,
            "cpus_per_replica": 4,
            "memory_per_replica": "4G",
            "min_runtime": "1h",
            "time_limit": "8h",
            "submitted": "2026-10-09T09:00:00Z",
            "topology": {"required": "leaf"},
            "state": "running",
            "started": "2026-10-09T10:00:00Z",
            "placement": [{"node": "n1", "gpus": 8}],
            "occupancy": "allocated",
        }
    ],
    "usage": {"a": 1},
}


def both() -> tuple[dict[str, Any], dict[str, Any]]:
    """A fresh site and snapshot without a fault."""
    return copy.deepcopy(SITE), copy.deepcopy(SNAPSHOT)


def test_the_faultless_pair_breaks_no_rule():
    assert broken(*both()) == []
    assert over_limit(SITE, SNAPSHOT) == []


def workload(**changes: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """A fault in the one workload."""
    return lambda site, snapshot: snapshot["workloads"][0].update(changes)


def on(*parts: tuple[str, int], **changes: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """A fault in where it stands."""
    return workload(placement=[{"node": n, "gpus": g} for n, g in parts], **changes)


FAULTS = {
    "half a replica": on(("n1", 6), ("n2", 2)),
    "too few GPUs": on(("n1", 4)),
    "a node twice": on(("n1", 4), ("n1", 4)),
    "more GPUs than the node has": on(("n3", 12), replicas=3),
    "more CPUs than the node has": workload(cpus_per_replica=4.5),
    "more memory than the node has": workload(memory_per_replica="5G"),
    "two leaves where one is required": on(("n2", 4), ("n3", 4)),
    "a level that is not there": workload(topology={"required": "moon"}),
    "a broken segment": on(("n2", 4), ("n3", 4), topology={"required": "leaf", "segment": 2}),
    "segments of nothing": workload(topology={"segment": 2}),
    "two GPU types": on(("n3", 4), ("m1", 4)),
    "a GPU type that it does not accept": workload(gpu_types=["y"]),
    "a cluster that it does not accept": workload(clusters=["q"]),
    "a start before the submit": workload(started="2026-10-09T08:00:00Z"),
    "a start in the future": workload(started="2026-10-09T13:00:00Z"),
    "a run past its time limit": workload(time_limit="1h"),
    "a protection of four minutes": workload(min_runtime="4m"),
    "free and charged at once": workload(occupancy="unallocated"),
    "pending and placed": workload(state="pending"),
    "an unknown state": workload(state="asleep"),
    "an unknown key": workload(colour="red"),
    "nothing asked": workload(replicas=0),
    "an id twice": lambda site, snapshot: snapshot["workloads"].append(snapshot["workloads"][0]),
    "usage of nobody": lambda site, snapshot: snapshot["usage"].update(z=1),
    "a negative weight": lambda site, snapshot: site["budgets"][0].update(weight=-1),
    "a family without weight": lambda site, snapshot: [b.update(weight=0) for b in site["budgets"]],
    "a budget twice": lambda site, snapshot: site["budgets"].append({"name": "a", "weight": 1}),
    "an unknown site key": lambda site, snapshot: site.update(budget=[]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_fault_is_found(fault: str):
    site, snapshot = both()
    FAULTS[fault](site, snapshot)
    assert broken(site, snapshot)


@pytest.mark.parametrize(
    "change",
    [
        workload(submitted="2026-10-09T09:00:00"),
        workload(min_runtime="60"),
        workload(memory_per_replica="4 gigabytes"),
        lambda site, snapshot: snapshot["clusters"][0]["nodes"].append({"name": "n1", "gpus": 8}),
        lambda site, snapshot: snapshot["clusters"][0]["nodes"][0].update(location=["l1", "too", "deep"]),
    ],
)
def test_what_cannot_be_read_is_refused(change: Callable[[dict[str, Any], dict[str, Any]], None]):
    site, snapshot = both()
    change(site, snapshot)
    with pytest.raises(AssertionError):
        broken(site, snapshot)


def test_holding_more_than_the_limit_is_found():
    site, snapshot = both()
    site["budgets"][0]["limit"] = 7
    assert over_limit(site, snapshot) == ["a holds 8 of 7"]
