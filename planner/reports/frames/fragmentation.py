"""How the free GPUs of a moment lie: by node, by size, by level, and when they come together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from planner.reports.frames.runs import parts_of
from planner.reports.frames.scene import Scene
from solver.fragmentation import cells, hole_filling, largest_at, largest_gangs, measure
from solver.state import Ints, Level

LATER_S = (("in 1 h", 3_600), ("in 8 h", 28_800))
"""When the largest gang is asked for, besides now."""


def by_node(scene: Scene) -> pd.DataFrame:
    """Return one row for each node, by place: what is free, what is open, until when it is protected."""
    names, state = scene.encoded.names, scene.state
    held: dict[int, list[str]] = {}
    gangs = zip(scene.part_workload.tolist(), scene.part_node.tolist(), scene.part_gpus.tolist(), strict=True)
    for j, n, gpus in gangs:
        w = names.workloads[j]
        held.setdefault(n, []).append(f"{w.id} ({w.allocation}, {gpus})")
    return pd.DataFrame(
        {
            "node": [n.name for n in names.nodes],
            "cluster": [c.name for c in names.node_cluster],
            "place": [scene.place_name(n) for n in range(state.nodes.count)],
            "state": [n.state for n in names.nodes],
            "gpus": state.nodes.gpus,
            "free_gpus": scene.free_gpus,
            "open_gpus": scene.open_gpus,
            "protected_h": np.round(
                (np.minimum(scene.node_until_s, scene.now_s + 10**6) - scene.now_s) / 3600, 2
            )
            * scene.up,
            "held_by": ["; ".join(held.get(n, [])) for n in range(state.nodes.count)],
        }
    )


def by_level(scene: Scene) -> pd.DataFrame:
    """Return, for each level, the largest gang now and later, and what is stranded; all in GPUs.

    `now_gpus` on what is free; the later ones on all that no protection holds, and `now_or_interrupting_gpus`
    likewise at once: interruptible work makes room for whoever ranks before it.
    """
    state, free = scene.state, scene.free_gpus
    found = measure(state, free, scene.demand)
    times_s = [scene.now_s, *(scene.now_s + s for _, s in LATER_S)]
    later = largest_at(state, scene.protections, times_s)
    return pd.DataFrame(
        {
            "level": [scene.levels[m.level] for m in found.levels],
            "now_gpus": largest_gangs(state, free),
            "now_or_interrupting_gpus": later[0],
            "in_1h_gpus": later[1],
            "in_8h_gpus": later[2],
            "stranded_gpus": [m.stranded_gpus for m in found.levels],
            "unusable_gpus": [m.unusable_gpus for m in found.levels],
            "whole": [m.whole_cells for m in found.levels],
        }
    )


def by_size(scene: Scene) -> pd.DataFrame:
    """Return how many gangs of each size fit on the open GPUs, and would if these stood together.

    Open is what no protection holds. Sizes double from one GPU to all that is open; beyond a node they are
    whole nodes of the commonest size. `in_one_domain`: of the innermost level. Verma et al.'s hole filling,
    for gangs.
    """
    state, free = scene.state, scene.open_gpus
    counts = np.bincount(state.nodes.gpus[scene.up]) if scene.up.any() else np.array([0])
    node_gpus = max(1, int(counts.argmax()))
    total = int(free.sum())
    inner = len(state.nodes.domain) - 1
    levels = {"in_one_domain": inner} if inner >= 0 else {}
    levels["anywhere"] = int(Level.NONE)
    rows = []
    for gpus in _sizes(node_gpus, total):
        size, replicas = (gpus, 1) if gpus <= node_gpus else (node_gpus, -(-gpus // node_gpus))
        fit = {
            name: hole_filling(free, cells(state, level), size, replicas) for name, level in levels.items()
        }
        rows.append({"gang_gpus": size * replicas, **fit, "together": total // (size * replicas)})
    return pd.DataFrame(rows, columns=["gang_gpus", *levels, "together"])


def holes(scene: Scene) -> pd.DataFrame:
    """Return the healthy nodes by the number of GPUs that are free on them, and that are open."""
    sizes = np.arange(int(scene.state.nodes.gpus[scene.up].max(initial=0)) + 1)
    free, opened = (
        np.bincount(gpus[scene.up], minlength=len(sizes)) for gpus in (scene.free_gpus, scene.open_gpus)
    )
    return pd.DataFrame({"gpus_on_node": sizes, "nodes_free": free, "nodes_open": opened})


@dataclass(frozen=True)
class RoomOverTime:
    """GPUs that no allocated work holds: free, or held by unallocated work, which makes room for anybody.

    Attributes
    ----------
    domains : DataFrame
        domain, and a column for each time (days): GPUs of each innermost domain.
    largest : DataFrame
        day, room_gpus, and for each level the largest gang of whole nodes of one kind in one domain of it.
    """

    domains: pd.DataFrame
    largest: pd.DataFrame


def room_over_time(
    events: pd.DataFrame, nodes: pd.DataFrame, outages: pd.DataFrame, times_s: Ints
) -> RoomOverTime:
    """Return the room for allocated work at each time, and the largest gang in it.

    `times_s` rise. What happens in the second of a look is in it. Nodes that are not up have no room.
    """
    gpus = nodes["gpus"].to_numpy()
    levels = _kinds(nodes)
    places = (nodes["cluster"] + "/" + nodes["location"]).str.rstrip("/")
    domain, names = pd.factorize(places)
    rooms = np.zeros((len(names), len(times_s)), dtype=np.int64)
    largest = []
    for column, room in enumerate(_rooms(events, nodes, outages, times_s)):
        np.add.at(rooms[:, column], domain, room)
        whole = np.where(room == gpus, room, 0)
        sums = {level: np.bincount(kind, whole, minlength=2)[1:] for level, kind in levels.items()}
        most = {f"largest_gpus_{level}": int(found.max()) for level, found in sums.items()}
        largest.append({"day": times_s[column] / 86_400, "room_gpus": int(room.sum()), **most})
    frame = pd.DataFrame(rooms, columns=[round(t / 86_400, 6) for t in times_s.tolist()])
    frame.insert(0, "domain", list(names))
    return RoomOverTime(frame, pd.DataFrame(largest))


def _kinds(nodes: pd.DataFrame) -> dict[str, Ints]:
    """Return a number for each node at each level, the innermost first: nodes of one number can share a gang.

    They are alike and in one domain of the level; 0 where a node is in none.
    """
    levels = [found.split("/") if found else [] for found in nodes["levels"]]
    locations = [found.split("/") if found else [] for found in nodes["location"]]
    own = list(zip(nodes["cluster"], nodes["gpu_type"], nodes["gpus"], strict=True))
    out = {}
    for level in (*reversed(list(dict.fromkeys(name for found in levels for name in found))), "cluster"):
        keys = []
        for names, location, kind in zip(levels, locations, own, strict=True):
            depth = (
                0 if level == "cluster" else names.index(level) + 1 if level in names else len(location) + 1
            )
            keys.append((*kind, *location[:depth]) if depth <= len(location) else None)
        found = list(dict.fromkeys([None, *keys]))
        out[level] = np.array([found.index(key) for key in keys], dtype=np.int64)
    return out


def _rooms(events: pd.DataFrame, nodes: pd.DataFrame, outages: pd.DataFrame, times_s: Ints) -> Iterator[Ints]:
    """Yield for each time the GPUs of each node that no allocated work holds, int64[N]."""
    index = {name: i for i, name in enumerate(nodes["node"])}
    gpus = nodes["gpus"].to_numpy()
    held, up = np.zeros(len(nodes), dtype=np.int64), np.ones(len(nodes), dtype=bool)
    moves = events[(events["nodes"] != "") & (events["occupancy"] == "allocated")]
    moves_s, health_s = moves["time_s"].to_numpy(), outages["time_s"].to_numpy()
    runs = list(zip(moves["event"] == "start", moves["nodes"], strict=True))
    health = list(zip(outages["node"], outages["state"] == "up", strict=True))
    done = seen = 0
    for time_s in times_s.tolist():
        upto, known = (int(np.searchsorted(s, time_s, side="right")) for s in (moves_s, health_s))
        for starts, places in runs[done:upto]:
            for node, count in parts_of(places):
                held[index[node]] += count if starts else -count
        for node, healthy in health[seen:known]:
            up[index[node]] = healthy
        done, seen = upto, known
        yield np.where(up, gpus - held, 0)


def _sizes(node_gpus: int, total: int) -> list[int]:
    """Return 1, 2, 4, ... up to a node, then doubled nodes, as far as `total` reaches."""
    out = []
    gpus = 1
    while gpus < node_gpus:
        out.append(gpus)
        gpus *= 2
    gpus = node_gpus
    while gpus <= max(total, node_gpus):
        out.append(gpus)
        gpus *= 2
    return out
