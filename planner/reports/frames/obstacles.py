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
from solver.defragment import LEAST_COST
from solver.fragmentation import cells
from solver.shares import losses_gpu_s
from solver.state import FOREVER_S, Ints, Level

ANYWHERE = "any nodes"
"""The level of a gang that requires none."""

MOVE_GPU_S = round(LEAST_COST * 3600)
"""What a move costs at least, so that fewer moves are better than more."""

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


def rooms(scene: Scene, j: int, *, by_loss: bool = False, anywhere: bool = False) -> list[Room]:
    """Return where gang `j` could stand, the best place first; empty where no place is large enough.

    Best is where the last protection ends first and then the fewest GPUs are held; with `by_loss` only what
    clearing the nodes throws away counts. With `anywhere` it may stand on any nodes of a pool.
    """
    w, nodes = scene.state.workloads, scene.state.nodes
    size, replicas = int(w.gpus_per_replica[j]), int(w.replicas[j])
    fits = scene.up & w.pool_ok[j, nodes.pool]
    seats = _Seats(
        free=np.where(fits, scene.free_gpus // size, 0),
        whole=np.where(fits, nodes.gpus // size, 0),
        wait_s=np.zeros_like(scene.node_until_s) if by_loss else scene.node_until_s - scene.now_s,
        toll=_losses(scene) if by_loss else scene.held_gpus,
    )
    segment = replicas if anywhere else int(w.segment[j]) or replicas
    domain = cells(scene.state, Level.NONE if anywhere else int(w.required[j]))
    found: list[list[_Part]] = []
    for pool in np.unique(nodes.pool[fits]).tolist():
        inside = np.flatnonzero(fits & (nodes.pool == pool) & (domain >= 0))
        parts = [
            part
            for d in np.unique(domain[inside]).tolist()
            for part in seats.parts(inside[domain[inside] == d], segment)
        ]
        if segment == replicas:
            found += [[part] for part in parts]
        elif len(parts) >= replicas // segment:
            found.append(sorted(parts, key=_Part.cost)[: replicas // segment])
    found.sort(key=lambda parts: (max(p.wait_s for p in parts), sum(p.toll for p in parts)))
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


@dataclass
class _Part:
    """Room for one segment in one domain: its nodes, those to clear, and what clearing them takes.

    `toll` is in GPUs held, or in GPU-seconds lost.
    """

    nodes: list[int]
    cleared: list[int]
    wait_s: int
    toll: int

    def cost(self) -> tuple[int, int]:
        """Return what is compared: the time first."""
        return self.wait_s, self.toll


@dataclass(frozen=True)
class _Seats:
    """Seats of each node, now and once it is cleared, and what clearing it takes; all int64[N]."""

    free: Ints
    whole: Ints
    wait_s: Ints
    toll: Ints

    def parts(self, nodes: Ints, segment: int) -> Iterator[_Part]:
        """Yield room for as many segments as the nodes of one domain can take, the best first."""
        offers = [(0, 0, n, int(self.free[n])) for n in nodes.tolist() if self.free[n]]
        offers += [
            (int(self.wait_s[n]), int(self.toll[n]), n, int(self.whole[n] - self.free[n]))
            for n in nodes.tolist()
            if self.whole[n] > self.free[n]
        ]
        seats, part = 0, _Part([], [], 0, 0)
        for wait_s, toll, n, count in sorted(offers):
            seats += count
            if n not in part.nodes:
                part.nodes.append(n)
            if (wait_s, toll) != (0, 0):
                part.cleared.append(n)
                part.wait_s, part.toll = max(part.wait_s, wait_s), part.toll + toll
            while seats >= segment:
                yield part
                seats -= segment
                cleared = [n] if seats and n in part.cleared else []
                part = _Part([n] if seats else [], cleared, wait_s if cleared else 0, 0)


def losses(scene: Scene) -> Ints:
    """Return what moving each workload throws away, int64[W], GPU-seconds: as the plan's advice counts it."""
    return losses_gpu_s(scene.state) + MOVE_GPU_S


def _losses(scene: Scene) -> Ints:
    """Return what moving all that stands on each node throws away, int64[N], GPU-seconds."""
    out = np.zeros(scene.state.nodes.count, dtype=np.int64)
    there = np.unique(np.stack([scene.part_node, scene.part_workload]), axis=1)
    np.add.at(out, there[0], losses(scene)[there[1]])
    return out


def _room(scene: Scene, parts: list[_Part]) -> Room:
    nodes = tuple(sorted({n for part in parts for n in part.nodes}))
    cleared = tuple(sorted({n for part in parts for n in part.cleared}))
    ready_s = int(scene.node_until_s[list(cleared)].max(initial=scene.now_s))
    return Room(nodes, cleared, ready_s)


def _about(scene: Scene, j: int, room: Room | None) -> dict[str, object]:
    """Return what is said of a gang, whoever stands in its way."""
    w, names = scene.encoded.names.workloads[j], scene.encoded.names
    decision = scene.decisions[w.id]
    required = int(scene.state.workloads.required[j])
    level = names.levels[required] if required >= 0 else ("node" if required == Level.NODE else ANYWHERE)
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
    guarded, leaving = until_s > scene.now_s, w.state == "stopping"
    return {
        "blocker": w.id,
        "blocker_allocation": w.allocation,
        "blocker_gpus": int(scene.part_gpus[there].sum()),
        "blocker_until": "leaving" if leaving else format_time(until_s) if guarded else "interruptible",
    }


def unhealthy_gpus(scene: Scene) -> int:
    """Return the GPUs of nodes that start nothing."""
    nodes = scene.state.nodes
    return int(nodes.gpus[~nodes.up].sum())
