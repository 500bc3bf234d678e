"""The snapshot file, written: what `planner.snapshot` reads back."""

from __future__ import annotations

from typing import Any

from planner.model.cluster import Cluster, Node
from planner.model.snapshot import Reservation, Snapshot
from planner.model.workload import Placement, Workload
from planner.units import format_duration, format_time


def snapshot_to_dict(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as its file holds it, keys always in the same order."""
    out: dict[str, Any] = {
        "time": format_time(snapshot.time_s),
        "clusters": [_cluster(c) for c in snapshot.clusters],
        "workloads": [_workload(w) for w in snapshot.workloads],
        "usage": {path: float(units) for path, units in snapshot.usage.items()},
    }
    if snapshot.entitled is not None:
        out["entitled"] = {path: float(units) for path, units in snapshot.entitled.items()}
    if snapshot.history_s is not None:
        out["history"] = format_duration(max(snapshot.history_s, 1))
    return {**out, "reservations": [_reservation(r) for r in snapshot.reservations]}


def _cluster(cluster: Cluster) -> dict[str, Any]:
    nodes = [_node(n) for n in cluster.nodes]
    return {"name": cluster.name, "levels": list(cluster.levels), "nodes": nodes}


def _node(node: Node) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": node.name, "gpus": node.gpus}
    if node.gpu_type is not None:
        entry["gpu_type"] = node.gpu_type
    if node.location:
        entry["location"] = list(node.location)
    if node.cpus_milli:
        entry["cpus"] = node.cpus_milli / 1000
    if node.memory_bytes:
        entry["memory"] = node.memory_bytes
    return {**entry, "state": node.state}


def _workload(w: Workload) -> dict[str, Any]:
    entry = {
        "id": w.id,
        "allocation": w.allocation,
        "replicas": w.replicas,
        "gpus_per_replica": w.gpus_per_replica,
        "resumable": w.resumable,
        "submitted": format_time(w.submitted_s),
        "priority": w.priority,
        **_wishes(w),
        "state": w.state,
    }
    if w.state == "pending" or w.started_s is None:
        return entry
    run = {"started": format_time(w.started_s), "placement": _placement(w.placement)}
    return {**entry, **run} if w.occupancy is None else {**entry, **run, "occupancy": w.occupancy}


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
    if w.clusters:
        out["clusters"] = list(w.clusters)
    t = w.topology
    wishes = {"required": t.required, "preferred": t.preferred, "segment": t.segment}
    topology = {k: v for k, v in wishes.items() if v is not None}
    return {**out, "topology": topology} if topology else out


def _placement(parts: tuple[Placement, ...]) -> list[dict[str, Any]]:
    return [{"node": part.node, "gpus": part.gpus} for part in parts]


def _reservation(promise: Reservation) -> dict[str, Any]:
    return {
        "workload": promise.workload,
        "start_at": format_time(promise.start_s),
        "placement": _placement(promise.placement),
    }
