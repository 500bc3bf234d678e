"""How the free GPUs of a moment lie: by node, by size, by level, and when they come together."""

from __future__ import annotations

import numpy as np
import pandas as pd

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
    return pd.DataFrame(
        {"gpus_on_node": sizes, "nodes_with_so_many_free": free, "nodes_with_so_many_open": opened}
    )


def over_time(cluster: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of a simulation by the day: free, stranded, and the largest gang by level."""
    out = cluster.drop(columns=["availability", "occupancy"])
    out.insert(0, "day", out.pop("time_s") / 86_400)
    return out


def free_over_time(
    events: pd.DataFrame, nodes: pd.DataFrame, outages: pd.DataFrame, times_s: Ints
) -> pd.DataFrame:
    """Return the free GPUs of each innermost domain at each time: one row for each domain, a column a time.

    `times_s` rise. What happens in the second of a look is in it. Nodes that are not up have nothing free.
    """
    index = {name: i for i, name in enumerate(nodes["node"])}
    places = (nodes["cluster"] + "/" + nodes["location"]).str.rstrip("/")
    domains = list(dict.fromkeys(places))
    place = np.array([domains.index(p) for p in places])
    gpus = nodes["gpus"].to_numpy()
    held, free_nodes = np.zeros(len(nodes), dtype=np.int64), np.ones(len(nodes), dtype=bool)
    moves = events[events["nodes"] != ""]
    steps = [
        (t, 0, parts, 1 if event == "start" else -1)
        for t, parts, event in zip(moves["time_s"], moves["nodes"], moves["event"], strict=True)
    ]
    steps += [
        (t, 1, node, int(state == "up"))
        for t, node, state in zip(outages["time_s"], outages["node"], outages["state"], strict=True)
    ]
    steps.sort(key=lambda step: step[0])
    out = np.zeros((len(domains), len(times_s)), dtype=np.int64)
    at = 0
    for column, time_s in enumerate(times_s.tolist()):
        while at < len(steps) and steps[at][0] <= time_s:
            _, kind, what, sign = steps[at]
            at += 1
            if kind:
                free_nodes[index[what]] = bool(sign)
                continue
            for part in what.split("|"):
                name, _, count = part.rpartition(":")
                held[index[name]] += sign * int(count)
        np.add.at(out[:, column], place, np.where(free_nodes, gpus - held, 0))
    frame = pd.DataFrame(out, columns=[round(t / 86_400, 6) for t in times_s.tolist()])
    frame.insert(0, "domain", domains)
    return frame


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
