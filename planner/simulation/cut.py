"""A snapshot out of a simulated moment, as its file has it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from planner.model.cluster import Cluster, NodeHealth
from planner.model.snapshot import Reservation, Snapshot
from planner.model.workload import Placement, Workload
from planner.simulation.world import Phase, World
from planner.snapshotfile import snapshot_to_dict
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
    promised = sorted(world.promises.items())
    snapshot = Snapshot(
        time_s=ORIGIN_S + now_s,
        clusters=tuple(_cluster(world, c) for c in world.site.clusters),
        workloads=tuple(_workload(world, j) for j in alive),
        usage={path: Fraction(int(tree.usage[v]), HOUR_MICRO_S) for v, path in paths},
        entitled={path: Fraction(int(tree.entitled[v]), HOUR_MICRO_S) for v, path in paths},
        history_s=min(now_s, world.site.fair_share.lookback.window_s),
        reservations=tuple(_reservation(world, j, *promise) for j, promise in promised),
    )
    return snapshot_to_dict(snapshot)


def _cluster(world: World, cluster: Cluster) -> Cluster:
    """Return a cluster with the health that its nodes have now."""
    states = [int(world.nodes.state[world.names.node_index[n.name]]) for n in cluster.nodes]
    health = [cast("NodeHealth", NodeState(s).name.lower()) for s in states]
    nodes = tuple(replace(n, state=h) for n, h in zip(cluster.nodes, health, strict=True))
    return replace(cluster, nodes=nodes)


def _workload(world: World, j: int) -> Workload:
    w = replace(world.names.workloads[j], submitted_s=ORIGIN_S + world.names.workloads[j].submitted_s)
    run = world.runs.get(j)
    if run is None:
        return replace(w, state="pending", started_s=None, placement=(), occupancy=None)
    parts = zip(run.nodes, run.gpus, run.replicas, strict=True)
    return replace(
        w,
        state="running",
        started_s=ORIGIN_S + run.started_s,
        placement=_placement(world, j, [(n, reps) for n, _, reps in parts]),
        occupancy="allocated" if world.jobs.allocated[j] else "unallocated",
    )


def _placement(world: World, j: int, parts: Parts) -> tuple[Placement, ...]:
    each = int(world.jobs.gpus_per_replica[j])
    return tuple(
        Placement(world.names.nodes[n].name, k * each)
        for n, reps in sorted(parts)
        for k in ([reps] if each else [1] * reps)  # without GPUs each entry is one replica
    )


def _reservation(world: World, j: int, start_s: int, parts: Parts) -> Reservation:
    return Reservation(world.names.workloads[j].id, ORIGIN_S + start_s, _placement(world, j, parts))
