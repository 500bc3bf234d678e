"""Small snapshots in JSON, and what is refused of them."""

from __future__ import annotations

import json

from planner.snapshot import parse_snapshot
from tests.planner.faults import places, refusal

PENDING = {
    "id": "w",
    "allocation": "a",
    "replicas": 2,
    "gpus_per_replica": 4,
    "submitted": "2026-10-09T12:00:00Z",
    "state": "pending",
}
RUNNING = PENDING | {
    "state": "running",
    "started": "2026-10-09T13:00:00Z",
    "placement": [{"node": "n1", "gpus": 8}],
}
NODES = [{"names": "n[1-4]", "gpus": 8, "location": ["l1"]}]


def world(*workloads: dict, nodes=NODES, levels=("leaf",), **other) -> str:
    """Return a snapshot in JSON, one line for each value."""
    clusters = [{"name": "c", "levels": list(levels), "nodes": nodes}]
    data = {"time": "2026-10-09T15:20:00Z", "clusters": clusters, "workloads": list(workloads), **other}
    return json.dumps(data, indent=1)


def read(*args, **kwargs):
    return parse_snapshot(world(*args, **kwargs), "snap.json")


def refused(*args, **kwargs) -> list[str]:
    return refusal(parse_snapshot, world(*args, **kwargs), "snap.json")


def faults(*args, **kwargs) -> list[str]:
    """Return the key paths that are refused."""
    return [path for _, path in places(refused(*args, **kwargs))]
