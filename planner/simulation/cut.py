"""A snapshot out of a simulated moment, as its file has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.model.cluster import Cluster
from planner.model.workload import Workload
from planner.simulation.world import Phase, World
from planner.units import format_duration, format_time
from solver.board import Parts
from solver.state import NodeState
from solver.window import HOUR_MICRO_S

ORIGIN_S = 946_684_800
"""Second 0 of every trace, which knows no dates: 2000-01-01T00:00:00Z."""


def cut(world: World, now_s: int) -> dict[str, Any]:
    """Return the world at `now_s` as a snapshot, with everybody who waits or runs."""
    tree = world.round_at(now_s).state.budgets
    paths = [(v, path) for v, path in enumerate(world.names.budgets) if tree.is_leaf[v]]
    alive = np.flatnonzero((world.phase == Phase.PENDING) | (world.phase == Phase.RUNNING)).tolist()
    return {
        "time": format_time(ORIGIN_S + now_s),
        "clusters": [_cluster(world, c) for c in world.site.clusters],
        "workloads": [_workload(world, j) for j in alive],
        "usage": {path: int(tree.usage[v]) / HOUR_MICRO_S for v, path in paths},
        "entitled": {path: int(tree.entitled[v]) / HOUR_MICRO_S for v, path in paths},
        "history": format_duration(min(max(now_s, 1), world.site.fair_share.lookback.window_s)),
        "reservations": [_reservation(world, j, *promise) for j, promise in sorted(world.promises.items())],
    }


def _cluster(world: World, cluster: Cluster) -> dict[str, Any]:
    nodes = []
    for node in cluster.nodes:
        entry: dict[str, Any] = {"name": node.name, "gpus": node.gpus}
        if node.gpu_type is not None:
            entry["gpu_type"] = node.gpu_type
        if node.location:
            entry["location"] = list(node.location)
        if node.cpus_milli:
            entry["cpus"] = node.cpus_milli / 1000
        if node.memory_bytes:
            entry["memory"] = node.memory_bytes
        entry["state"] = NodeState(int(world.nodes.state[world.names.node_index[node.name]])).name.lower()
        nodes.append(entry)
    return {"name": cluster.name, "levels": list(cluster.levels), "nodes": nodes}


def _workload(world: World, j: int) -> dict[str, Any]:
    w = world.names.workloads[j]
    entry: dict[str, Any] = {
        "id": w.id,
        "allocation": w.allocation,
        "replicas": w.replicas,
        "gpus_per_replica": w.gpus_per_replica,
        "resumable": w.resumable,
        "submitted": format_time(ORIGIN_S + w.submitted_s),
        "priority": w.priority,
        **_wishes(w),
    }
    run = world.runs.get(j)
    if run is None:
        return {**entry, "state": "pending"}
    parts = zip(run.nodes, run.gpus, run.replicas, strict=True)
    return {
        **entry,
        "state": "running",
        "started": format_time(ORIGIN_S + run.started_s),
        "placement": _placement(world, j, [(n, reps) for n, _, reps in parts]),
        "occupancy": "allocated" if world.jobs.allocated[j] else "unallocated",
    }


def _wishes(w: Workload) -> dict[str, Any]:
    """Return what a workload asks for beyond the necessary."""
    out: dict[str, Any] = {}
    if w.min_runtime_s is not None:
        out["min_runtime"] = format_duration(w.min_runtime_s)
    if w.time_limit_s is not None:
        out["time_limit"] = format_duration(w.time_limit_s)
    if w.cpus_milli_per_replica:
        out["cpus_per_replica"] = w.cpus_milli_per_replica / 1000
    if w.memory_bytes_per_replica:
        out["memory_per_replica"] = w.memory_bytes_per_replica
    if w.gpu_types:
        out["gpu_types"] = list(w.gpu_types)
    t = w.topology
    wishes = {"required": t.required, "preferred": t.preferred, "segment": t.segment}
    topology = {k: v for k, v in wishes.items() if v is not None}
    return {**out, "topology": topology} if topology else out


def _placement(world: World, j: int, parts: Parts) -> list[dict[str, Any]]:
    each = int(world.jobs.gpus_per_replica[j])
    return [
        {"node": world.names.nodes[n].name, "gpus": k * each}
        for n, reps in sorted(parts)
        for k in ([reps] if each else [1] * reps)  # without GPUs each entry is one replica
    ]


def _reservation(world: World, j: int, start_s: int, parts: Parts) -> dict[str, Any]:
    return {
        "workload": world.names.workloads[j].id,
        "start_at": format_time(ORIGIN_S + start_s),
        "placement": _placement(world, j, parts),
    }
