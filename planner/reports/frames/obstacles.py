"""Who stands in the way of a gang: the room it could have first, and what is on it now.

A gang needs `replicas` seats in one domain of the level that it requires, or segments of them in several. A
node offers the seats that are free on it now, and all of them once its last protection has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from planner.reports.frames.scene import Scene
from planner.units import format_time
from solver.fragmentation import cells
from solver.state import FOREVER_S, Floats, Ints, Level, NodeState

TEN = 10
"""Gangs that are looked at, the largest first."""


@dataclass(frozen=True)
class Room:
    """Where a gang could stand.

    Attributes
    ----------
    nodes : tuple of int
        Nodes that it would use.
    cleared : tuple of int
        Those of them that must be cleared first.
    ready_s : int, epoch seconds
        When the last protection on these has ended.
    """

    nodes: tuple[int, ...]
    cleared: tuple[int, ...]
    ready_s: int


def rooms(scene: Scene, j: int, cost: Floats | None = None) -> list[Room]:
    """Return where gang `j` could stand, the cheapest place first; empty where no place is large enough.

    Parameters
    ----------
    cost : float64[N], or None
        Of clearing a node; None = the time until its last protection ends, then the GPUs held there.
    """
    w, nodes = scene.state.workloads, scene.state.nodes
    price = _time_then_gpus(scene) if cost is None else cost
    size, replicas = int(w.gpus_per_replica[j]), int(w.replicas[j])
    fits = scene.up & w.pool_ok[j, nodes.pool]
    free = np.where(fits, scene.free_gpus // size, 0)
    whole = np.where(fits, nodes.gpus // size, 0)
    segment = int(w.segment[j]) or replicas
    domain = cells(scene.state, int(w.required[j]))
    pools = np.unique(nodes.pool[fits]).tolist()
    found = []
    for pool in pools:
        inside = np.flatnonzero(fits & (nodes.pool == pool) & (domain >= 0))
        segments = [
            part
            for d in np.unique(domain[inside]).tolist()
            for part in _segments(inside[domain[inside] == d], free, whole, price, segment)
        ]
        wanted = replicas // segment
        if segment == replicas:
            found += [[part] for part in segments]
        elif len(segments) >= wanted:
            found.append(sorted(segments, key=lambda part: part[0])[:wanted])
    found.sort(key=lambda parts: sum(part[0] for part in parts))
    return [_room(scene, parts) for parts in found]


def obstacles(scene: Scene) -> pd.DataFrame:
    """Return one row for each of the largest pending gangs and each workload in its way.

    A gang for which nothing stands in the way, or for which no place is large enough, has one row without
    a blocker.
    """
    rows = []
    for j in scene.waiting[:TEN]:
        found = rooms(scene, j)
        blockers = in_the_way(scene, found[0]) if found else []
        about = _about(scene, j, found[0] if found else None)
        rows += [{**about, **_blocker(scene, i, found[0])} for i in blockers] or [{**about, **NOBODY}]
    return pd.DataFrame(rows, columns=[*ABOUT, *NOBODY], dtype=object)


ABOUT = (
    "workload", "allocation", "gpus", "level", "expected_start", "reason", "nearest_place", "nodes",
    "free_nodes", "clear_at",
)  # fmt: skip
NOBODY = {"blocker": None, "blocker_allocation": None, "blocker_gpus": None, "blocker_until": None}


def in_the_way(scene: Scene, room: Room) -> list[int]:
    """Return the workloads on the nodes that must be cleared, the longest protected first."""
    there = np.isin(scene.part_node, room.cleared)
    blockers = np.unique(scene.part_workload[there]).tolist()
    return sorted(blockers, key=lambda i: (-int(scene.until_s[i]), scene.encoded.names.workloads[i].id))


def _segments(
    nodes: Ints, free: Ints, whole: Ints, price: Floats, segment: int
) -> Iterator[tuple[float, list[int], list[int]]]:
    """Yield (cost, nodes, nodes to clear) for every segment that a domain can take, the cheapest first."""
    offers = sorted(
        [(0.0, 0, n, int(free[n])) for n in nodes.tolist() if free[n]]
        + [(float(price[n]), 1, n, int(whole[n] - free[n])) for n in nodes.tolist() if whole[n] > free[n]]
    )
    seats, cost, used, cleared = 0, 0.0, list[int](), list[int]()
    for offer, clears, n, count in offers:
        seats += count
        used.append(n)
        if clears:
            cost += offer
            cleared.append(n)
        while seats >= segment:
            yield cost, list(dict.fromkeys(used)), list(cleared)
            seats, cost = seats - segment, 0.0
            used, cleared = ([n] if seats else []), ([n] if seats and clears else [])


def _time_then_gpus(scene: Scene) -> Floats:
    """Return the hours until each node's last protection ends; GPUs held there decide between equals."""
    hours = (np.minimum(scene.node_until_s, scene.now_s + 10**7) - scene.now_s) / 3600
    out: Floats = hours + scene.held_gpus / 1e4
    return out


def _room(scene: Scene, parts: list[tuple[float, list[int], list[int]]]) -> Room:
    nodes = tuple(sorted({n for _, used, _ in parts for n in used}))
    cleared = tuple(sorted({n for _, _, cleared in parts for n in cleared}))
    ready_s = int(scene.node_until_s[list(cleared)].max(initial=scene.now_s))
    return Room(nodes, cleared, ready_s)


def _about(scene: Scene, j: int, room: Room | None) -> dict[str, object]:
    """Return what is said of a gang, whoever stands in its way."""
    w, names = scene.encoded.names.workloads[j], scene.encoded.names
    decision = scene.decisions[w.id]
    required = int(scene.state.workloads.required[j])
    level = names.levels[required] if required >= 0 else ("node" if required == Level.NODE else "any nodes")
    places = [] if room is None else list(dict.fromkeys(scene.place_name(n) for n in room.nodes))
    shown = ", ".join(places[:4]) + (f" and {len(places) - 4} more" if len(places) > 4 else "")
    start_s = decision.expected_start_s
    return {
        "workload": w.id,
        "allocation": w.allocation,
        "gpus": w.gpus,
        "level": level,
        "expected_start": None if start_s is None else format_time(start_s),
        "reason": decision.reason.text,
        "nearest_place": shown or None,
        "nodes": None if room is None else len(room.nodes),
        "free_nodes": None if room is None else len(room.nodes) - len(room.cleared),
        "clear_at": None if room is None or room.ready_s >= FOREVER_S else format_time(room.ready_s),
    }


def _blocker(scene: Scene, i: int, room: Room) -> dict[str, object]:
    w = scene.encoded.names.workloads[i]
    there = (scene.part_workload == i) & np.isin(scene.part_node, room.cleared)
    until_s = int(scene.until_s[i])
    return {
        "blocker": w.id,
        "blocker_allocation": w.allocation,
        "blocker_gpus": int(scene.part_gpus[there].sum()),
        "blocker_until": format_time(until_s) if until_s > scene.now_s else "interruptible",
    }


def unhealthy_gpus(scene: Scene) -> int:
    """Return the GPUs of nodes that start nothing."""
    nodes = scene.state.nodes
    return int(nodes.gpus[nodes.state != NodeState.UP].sum())
