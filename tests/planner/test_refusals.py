"""What can never run here is refused with the value at fault, and with what there is instead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.planner.worlds import World, by_id, world


def alone(**asks: Any) -> World:
    """Write a world of three nodes in two leaves, where only one workload is."""
    nodes = [
        {"names": "n[1-2]", "location": ["l1"], "gpu_type": "h100", "cpus": 64, "memory": "512G"},
        {"name": "n3", "location": ["l2"], "gpu_type": "b200", "cpus": 128, "memory": "1T", "gpus": 16},
    ]
    family = [{"name": "a", "limit": 40, "children": [{"name": "x", "limit": 36}, {"name": "y"}]}]
    return world(family, nodes, [{"allocation": "a/x", **asks}], levels=["leaf"])


LEAF = {"required": "leaf"}
IMPOSSIBLE: list[tuple[str, dict[str, Any], list[str]]] = [
    ("UnknownAllocation", {"allocation": "nobody/knows"}, ["'nobody/knows'"]),
    ("UnknownLevel", {"topology": {"required": "moon"}}, ["'moon'", "leaf, node"]),
    ("NoSuchPool", {"gpu_types": ["mi300"]}, ["mi300", "b200, h100"]),
    ("NoSuchPool", {"clusters": ["mars"]}, ["cluster mars", "clusters here: k"]),
    ("BrokenSegments", {"replicas": 5, "topology": LEAF | {"segment": 2}}, ["5 replicas", "segments of 2"]),
    ("OverLimit", {"replicas": 5}, ["40 GPUs", "limit of a/x is 36"]),
    ("OverLimit", {"replicas": 6, "allocation": "a/y"}, ["48 GPUs", "limit of a is 40"]),
    ("ReplicaTooLarge", {"gpus": 17}, ["17 GPUs", "16 GPUs, 128 CPUs, 1024 GiB"]),
    ("ReplicaTooLarge", {"gpus": 9, "gpu_types": ["h100"]}, ["9 GPUs", "most on one node: 8 GPUs"]),
    ("ReplicaTooLarge", {"gpus": 1, "cpus_per_replica": 200}, ["1 GPU, 200 CPUs", "128 CPUs"]),
    ("ReplicaTooLarge", {"memory_per_replica": "2T"}, ["2048 GiB of memory", "1024 GiB of memory"]),
    ("ReplicaTooLarge", {"replicas": 3, "topology": {"required": "node"}}, ["3 replicas of 8 GPUs"]),
    ("TooLarge", {"replicas": 3, "gpus": 12}, ["no cluster", "3 x 12 GPUs", "1 of 3 replicas"]),
    ("TooLarge", {"replicas": 3, "topology": LEAF}, ["no leaf", "3 x 8 GPUs", "2 of 3 replicas"]),
    (
        "TooLarge",
        {"replicas": 9, "gpus": 4, "topology": LEAF | {"segment": 3}, "gpu_types": ["b200"]},
        ["9 x 4 GPUs", "segments of 3 to a leaf"],
    ),
    (
        "TooLarge",
        {"replicas": 9, "gpus": 0, "cpus_per_replica": 60, "gpu_types": ["h100"]},
        ["9 x 60 CPUs", "2 of 9 replicas"],
    ),
]


@pytest.mark.parametrize(("code", "asks", "words"), IMPOSSIBLE)
def test_what_can_never_run_names_the_value_at_fault(code: str, asks: dict[str, Any], words: list[str]):
    d = by_id(alone(id="j", **asks).plan())["j"]
    assert (d.action, d.reason.code) == ("reject", code)
    for word in words:
        assert word in d.reason.text
