"""Seeded clusters in mid-flight, from 16 nodes to 12,800: inputs of the benchmarks and of `examples/ai2`.

What is drawn, and where its shape comes from:

- Fleet: nodes of 8 H100, 8 nodes to a leaf, 4 leaves to a block (other shapes: see `SHAPES`); 1 node in 128
  down, 1 in 64 draining.
- Running: 97% of the GPUs that are not down. By GPU share: gangs of 12-39% of the cluster 28%, whole leaves
  14%, 32 GPUs 8%, 16 GPUs 7%, 8 GPUs 18%, 6 GPUs 1%, the rest 1 to 8 GPUs in random nodes, so that what
  is free is scattered. Shape: GPU time by gang size in the ITP trace (ElasticFlow, ASPLOS'23), with the
  wide gangs of Kalos over it (AcmeTrace, NSDI'24: 256, 512 and 1,024 of 2,416 GPUs, in 30, 48 and 22%
  of its wide jobs). No gang is wider than 4,096 GPUs.
- Pending: so many that running and pending together ask for 2.5 times the GPUs there are (30 days of
  ITP on 512 GPUs or of Philly on 256 ask for 2.4 to 2.5). By GPU share: wide 42%, whole leaves 17%, 32
  GPUs 6%, 16 GPUs 6%, 8 GPUs 10%, 6 GPUs 1%, the rest small: mostly single GPUs (83% of ITP's jobs).
- Topology: a gang of 64 GPUs requires one leaf, one of 32 requires or prefers it, one of 16 prefers it or
  does not care (where leaves are smaller than that: a block); half of the wide gangs that fill whole leaves
  ask for them (segments), other wide gangs that fit a block prefer one. Assumptions.
- Contract: 18% of the running GPUs and 20% of the pending workloads up to 32 GPUs are unallocated; 10%
  of the pending and 3% of the running workloads up to 16 GPUs are debug work (5 to 15 minutes). The
  rest is protected for 30m, 1h, 2h, 4h, 8h with 10, 30, 30, 15, 15%; wide gangs, half of which lived
  for minutes on Kalos, for 15m, 1h, 4h, 8h with 30, 20, 25, 25%. Resumable: 85%, of debug work 30%.
- Times: a run is exponentially old (mean 3 hours) and waited log-normally (median 1 hour) before;
  pending work has waited log-normally (median 3 hours). These three are assumptions.
- CPUs and memory: 70% of the workloads ask for 8, 16 or 24 CPUs and 64, 128 or 240 GiB per GPU (a
  node has 24 and 256); 3% of the smallest ask for 64 CPUs per GPU. Assumptions.
- Budgets: 15 allocations of a made-up research program. Their ratios spread over 0.3 to 1.6, and their use
  adds up to what the allocated part of today's occupancy would have delivered in 7 days.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.gangs import (
    ANY,
    NODE_GPUS,
    Bools,
    Gangs,
    Ints,
    Layout,
    Rng,
    draw_big,
    draw_gangs,
    draw_small,
    with_contracts,
)
from benchmarks.program import ALLOCATIONS, IS_LIMITED, SHARE, budgets, draw_ratios, limit_gpus
from benchmarks.room import Room, Seats
from benchmarks.text import DAY, HOUR, MINUTE, duration, hostlist, iso

NOW_S = int(datetime(2026, 10, 9, 15, 20, tzinfo=UTC).timestamp())
NODE_CPUS, NODE_MEMORY_GIB = 192, 2048
NODE = {"gpus": NODE_GPUS, "gpu_type": "h100", "cpus": NODE_CPUS, "memory": f"{NODE_MEMORY_GIB}G"}
UP, DRAINING, DOWN = range(3)
DEMAND, OCCUPANCY, UNALLOCATED = 2.5, 0.97, 0.18
RUNNING_SHARE = {64: 0.14, 32: 0.08, 16: 0.07, 8: 0.18, 6: 0.01}
PENDING_SHARE = {64: 0.17, 32: 0.06, 16: 0.06, 8: 0.10, 6: 0.01}
RUNNING_WIDE, PENDING_WIDE = 0.28, 0.42
MEAN_AGE_S = 3 * HOUR
HISTORY_H = 7 * 24


SHAPES = ("leaves", "one-leaf", "small-leaves", "clusters")
"""Leaves of 8 nodes; one leaf of all nodes; leaves of 2 nodes; four clusters with leaves of 8."""

CLUSTERS = ("saturn", "jupiter", "neptune", "uranus")


@dataclass(frozen=True)
class Fleet:
    """The nodes: `leaf` and `cluster` of each, and `state`: UP, DRAINING or DOWN; int64[N] each."""

    layout: Layout
    leaf: Ints
    cluster: Ints
    state: Ints

    @property
    def digits(self) -> int:
        """Digits of a node's number in its name."""
        return max(3, len(str(len(self.leaf))))

    @property
    def gpus(self) -> int:
        """GPUs of all nodes, also of those that are down."""
        return len(self.leaf) * NODE_GPUS

    @property
    def cluster_gpus(self) -> int:
        """GPUs of the smallest cluster."""
        return int(np.bincount(self.cluster).min()) * NODE_GPUS

    def names(self, nodes: Ints) -> str:
        """Return nodes of one cluster as a hostlist."""
        return hostlist(f"{CLUSTERS[self.cluster[nodes[0]]]}-", (nodes + 1).tolist(), self.digits)


def instance(
    nodes: int, pending: int, seed: int, shape: str = "leaves"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the site and the snapshot of a cluster in mid-flight, in the form of their files.

    Parameters
    ----------
    nodes : int
        Nodes of 8 GPUs.
    pending : int
        Pending workloads. Where there are too few or too many of them for the demand of 2.5 times the
        supply, demand gives way.
    seed : int
        The same three numbers give the same answer.
    shape : str
        One of `SHAPES`.
    """
    rng = np.random.default_rng([seed, nodes, pending])
    fleet = _fleet(rng, nodes, shape)
    running, seats = _running(rng, fleet)
    waiting = _pending(rng, int(DEMAND * fleet.gpus) - int(running.gpus.sum()), pending, fleet)
    ratio = draw_ratios(rng, running.gpus[~running.unallocated].sum() / fleet.gpus)
    workloads = _run_entries(rng, fleet, running, seats, SHARE * ratio)
    workloads += _wait_entries(rng, fleet, waiting)
    workloads.sort(key=lambda entry: entry["submitted"])
    for number, entry in enumerate(workloads):
        entry["id"] = str(410_000 + number)
    use = ratio * SHARE * fleet.gpus * HISTORY_H
    site = {
        "budgets": budgets(fleet.gpus),
        "contract": {"debug": {"max_min_runtime": "15m", "max_gpus": 16, "lane": "4%"}},
        "gpu_types": {"h100": {"charge": 1.0}},
        "clusters": _inventory(replace(fleet, state=np.zeros_like(fleet.state))),
    }
    snapshot = {
        "time": iso(NOW_S),
        "clusters": _inventory(fleet),
        "workloads": workloads,
        "usage": {path: round(float(u), 1) for path, u in zip(ALLOCATIONS, use, strict=True)},
        "history": "7d",
        "reservations": [],
    }
    return site, snapshot


def _fleet(rng: Rng, nodes: int, shape: str) -> Fleet:
    """Draw which nodes are ill."""
    down, draining = nodes // 128, max(1, nodes // 64)
    state = np.zeros(nodes, dtype=np.int64)
    ill = rng.choice(nodes, size=down + draining, replace=False)
    state[ill[:down]], state[ill[down:]] = DOWN, DRAINING
    layout = {
        "leaves": Layout(),
        "one-leaf": Layout(leaf_nodes=nodes, block_leaves=1),
        "small-leaves": Layout(leaf_nodes=2, block_leaves=16),
        "clusters": Layout(clusters=len(CLUSTERS)),
    }[shape]
    cluster = np.arange(nodes) * layout.clusters // nodes
    inside = np.arange(nodes) - np.searchsorted(cluster, cluster)
    key = np.column_stack((cluster, inside // layout.leaf_nodes))
    leaf = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
    return Fleet(layout, leaf, cluster, state)


def _running(rng: Rng, fleet: Fleet) -> tuple[Gangs, Seats]:
    """Draw and seat the running gangs: the big ones first, then small ones into what is left."""
    alive = (fleet.state < DOWN).astype(np.int64)
    free = (alive * NODE_GPUS, alive * NODE_CPUS, alive * NODE_MEMORY_GIB)
    room = Room(*free, fleet.leaf, fleet.cluster)
    total = int(OCCUPANCY * NODE_GPUS * alive.sum())
    big = draw_big(rng, total, RUNNING_WIDE, RUNNING_SHARE, fleet.cluster_gpus, fleet.layout)
    gangs, seats = room.seat_all(rng, big)
    left = total - int(gangs.gpus.sum())
    small = np.sort(draw_small(rng, left, left // 2))[::-1]
    more, more_seats = room.seat_all(rng, draw_gangs(rng, small, 0, fleet.layout))
    gangs, seats = gangs.join(more), seats + more_seats
    unallocated = _unallocated(rng, gangs)
    size = gangs.gpus
    debug = (size <= 16) & (gangs.topology == ANY) & (rng.random(len(seats)) < 0.03)
    return with_contracts(rng, gangs, debug, unallocated), seats


def _unallocated(rng: Rng, gangs: Gangs) -> Bools:
    """Draw gangs up to 32 GPUs that hold their share of the occupied GPUs for nothing, bool[J]."""
    size = gangs.gpus
    quota, free = UNALLOCATED * size.sum(), np.zeros(len(size), dtype=bool)
    for j in rng.permutation(np.flatnonzero((size <= 32) & ~gangs.wide)).tolist():
        free[j] = size[j] <= quota
        quota -= size[j] * free[j]
    return free


def _pending(rng: Rng, total: int, count: int, fleet: Fleet) -> Gangs:
    """Draw the pending gangs: `count` of them that ask for `total` GPUs."""
    big = draw_big(rng, total, PENDING_WIDE, PENDING_SHARE, fleet.cluster_gpus, fleet.layout)
    big = big.take(np.arange(len(big.each)) < count)
    left = total - int(big.gpus.sum())
    gangs = big.join(draw_gangs(rng, draw_small(rng, left, count - len(big.each)), 0, fleet.layout))
    size = gangs.gpus
    debug = (size <= 16) & (gangs.topology == ANY) & (rng.random(count) < 0.10)
    return with_contracts(rng, gangs, debug, (size <= 32) & ~gangs.wide & (rng.random(count) < 0.20))


def _allocations(rng: Rng, gangs: Gangs, odds: npt.NDArray[np.float64]) -> Ints:
    """Draw who asks for each gang; wide gangs come from the large allocations without a limit."""
    usual = rng.choice(len(SHARE), size=len(gangs.each), p=odds / odds.sum())
    square = np.where(IS_LIMITED, 0.0, SHARE**2)
    large = rng.choice(len(SHARE), size=len(gangs.each), p=square / square.sum())
    return np.where(gangs.wide, large, usual)


def _run_entries(
    rng: Rng, fleet: Fleet, gangs: Gangs, seats: Seats, odds: npt.NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Return the running workloads; what would exceed the limit goes to the first allocation."""
    who = _allocations(rng, gangs, odds)
    held = np.cumsum(gangs.gpus * IS_LIMITED[who])
    who[IS_LIMITED[who] & (held > limit_gpus(fleet.gpus))] = 0
    age = rng.exponential(MEAN_AGE_S, size=len(who)).clip(MINUTE, 5 * DAY).astype(np.int64)
    age = np.where(gangs.debug, age % (12 * MINUTE) + 10, age)
    out = _entries(rng, fleet, gangs, who, age + _waits(rng, HOUR, len(who)), age)
    for entry, ago, parts in zip(out, age.tolist(), seats, strict=True):
        size = entry["gpus_per_replica"]
        entry["state"], entry["started"] = "running", iso(NOW_S - ago)
        entry["placement"] = [{"node": fleet.names(np.array([n])), "gpus": k * size} for n, k in parts]
        entry["occupancy"] = "unallocated" if entry["min_runtime"] == "0s" else "allocated"
    return out


def _wait_entries(rng: Rng, fleet: Fleet, gangs: Gangs) -> list[dict[str, Any]]:
    """Return the pending workloads; nobody waits as long for debug work."""
    who = _allocations(rng, gangs, np.sqrt(SHARE) * rng.uniform(0.5, 1.5, size=len(SHARE)))
    waited = _waits(rng, 3 * HOUR, len(who))
    waited = np.where(gangs.debug, waited % (20 * MINUTE), waited)
    return _entries(rng, fleet, gangs, who, waited, np.zeros_like(waited))


def _waits(rng: Rng, median_s: float, count: int) -> Ints:
    """Draw log-normal waits of at most 6 days, in seconds."""
    return rng.lognormal(np.log(median_s), 1.2, size=count).clip(1, 6 * DAY).astype(np.int64)


def _entries(
    rng: Rng, fleet: Fleet, gangs: Gangs, who: Ints, submitted_ago_s: Ints, age_s: Ints
) -> list[dict[str, Any]]:
    """Return one pending entry for each gang; a time limit outlasts its run and its protection."""
    count = len(who)
    longest = rng.choice([4 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY], size=count)
    limit = np.where(gangs.debug, 2 * gangs.min_runtime_s, longest)
    stated = (rng.random(count) < 0.4) & (limit > age_s) & (limit >= gangs.min_runtime_s)
    limit = np.where(stated, limit, 0)
    priority = rng.choice([0, 1, -1], size=count, p=[0.9, 0.08, 0.02])
    typed = rng.random(count) < 0.2
    out = []
    for j in range(count):
        entry: dict[str, Any] = {
            "id": "",
            "allocation": ALLOCATIONS[who[j]],
            "replicas": int(gangs.replicas[j]),
            "gpus_per_replica": int(gangs.each[j]),
            "min_runtime": duration(int(gangs.min_runtime_s[j])),
            "resumable": bool(gangs.resumable[j]),
            "submitted": iso(NOW_S - int(submitted_ago_s[j])),
        }
        if gangs.cpus[j]:
            entry["cpus_per_replica"] = int(gangs.cpus[j])
            entry["memory_per_replica"] = f"{gangs.memory_gib[j]}G"
        if priority[j]:
            entry["priority"] = int(priority[j])
        if limit[j]:
            entry["time_limit"] = duration(int(limit[j]))
        if typed[j]:
            entry["gpu_types"] = ["h100"]
        if gangs.topology[j]:
            entry["topology"] = fleet.layout.topology(int(gangs.topology[j]))
        entry["state"] = "pending"
        out.append(entry)
    return out


def _inventory(fleet: Fleet) -> list[dict[str, Any]]:
    """Return the clusters; nodes of one leaf and state share an entry."""
    out = []
    for cluster, name in enumerate(CLUSTERS[: fleet.layout.clusters]):
        nodes = []
        leaves = np.unique(fleet.leaf[fleet.cluster == cluster]).tolist()
        for number, leaf in enumerate(leaves):
            members = np.flatnonzero(fleet.leaf == leaf)
            place = [f"b{number // fleet.layout.block_leaves + 1:02d}", f"l{number + 1:02d}"]
            for state, label in ((UP, "up"), (DRAINING, "draining"), (DOWN, "down")):
                alike = members[fleet.state[members] == state]
                if len(alike):
                    nodes.append({"names": fleet.names(alike), **NODE, "location": place, "state": label})
        out.append({"name": name, "levels": ["block", "leaf"], "nodes": nodes})
    return out
