"""The timeline as compact arrays: every run as bars on rows of GPUs, and what is told of a clicked workload.

A row is one GPU. A run on a node takes its lowest free rows: which GPUs those really were, nobody knows. Bars
that touch are one bar, so a gang on a whole leaf is a single rectangle.
"""

from __future__ import annotations

import base64
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from planner.reports.frames.runs import Parts, gainers_of, parts_of, runs_of
from planner.reports.frames.scene import Scene
from planner.reports.frames.simulated import Simulated

ENDS = ("", "finish", "preempt", "cancel")
"""How a run can end; "" = it has not."""

PAST_S = 43_200
"""How far back the timeline of a snapshot goes."""

NOT_OVER = -1

AHEAD_S = 28_800
"""How far it looks ahead: as far as promises can reach by default."""


@dataclass(frozen=True)
class Timeline:
    """What is drawn; times are seconds from `origin_s`.

    Attributes
    ----------
    origin_s : int or None
        Epoch second of time 0; None = the start of a trace.
    now_s : int or None
        Where the past ends and the plan begins.
    nodes : DataFrame
        node, place, gpus: in the order of the rows.
    runs : DataFrame
        As `runs_of` makes it; without `nodes`.
    bars : DataFrame
        run, row, rows: rectangles of the runs.
    gainers : dict of run to workloads
    holds : DataFrame
        workload, from_s, until_s, row, rows: reservations.
    workloads : DataFrame
        id, allocation, gpus, submitted_s, end_s (missing of what is not over), state.
    """

    origin_s: int | None
    now_s: int | None
    end_s: int
    nodes: pd.DataFrame
    runs: pd.DataFrame
    bars: pd.DataFrame
    gainers: dict[int, list[str]]
    holds: pd.DataFrame
    workloads: pd.DataFrame

    def of(self, allocations: Sequence[str]) -> Timeline:
        """Return the timeline with the runs and reservations of these allocations alone.

        Others stay known by name where a workload of these made room for them.
        """
        mine = self.runs["allocation"].isin(allocations)
        row = pd.Series(np.cumsum(mine) - 1, self.runs.index)
        bars = self.bars[self.bars["run"].isin(self.runs.index[mine])]
        gainers = {int(row[i]): names for i, names in self.gainers.items() if mine[i]}
        named = {name for names in gainers.values() for name in names}
        ours = self.workloads["allocation"].isin(allocations)
        holders = set(self.workloads["id"][ours])
        return replace(
            self,
            runs=self.runs[mine].reset_index(drop=True),
            bars=bars.assign(run=row[bars["run"]].to_numpy()).reset_index(drop=True),
            gainers=gainers,
            holds=self.holds[self.holds["workload"].isin(holders)].reset_index(drop=True),
            workloads=self.workloads[ours | self.workloads["id"].isin(named)].reset_index(drop=True),
        )


class Rows:
    """Which rows of each node are taken: a run gets the lowest free ones, and gives them back."""

    def __init__(self, names: Iterable[str], gpus: Iterable[int]) -> None:
        self.free: dict[str, list[int]] = {}
        self.node_of: list[str] = []
        for name, count in zip(names, gpus, strict=True):
            self.free[name] = list(range(len(self.node_of), len(self.node_of) + count))
            self.node_of += [name] * count

    def take(self, parts: Parts) -> list[int]:
        """Return rows for a placement, lowest first."""
        taken: list[int] = []
        for node, gpus in parts:
            free = self.free[node]
            taken += free[:gpus]
            del free[:gpus]
        return sorted(taken)

    def give(self, rows: Sequence[int]) -> None:
        """Give rows back."""
        for row in rows:
            insort(self.free[self.node_of[row]], row)


def of_simulation(found: Simulated) -> Timeline:
    """Return the timeline of a whole simulation."""
    runs, nodes = runs_of(found), found.nodes
    rows = Rows(nodes["node"], nodes["gpus"])
    places = nodes["location"].where(nodes["location"] != "", nodes["cluster"])
    promises = found.promises
    until = promises["actual_start_s"].fillna(promises["start_s"])
    moved = promises.groupby("workload")["made_at_s"].shift(
        -1
    )  # the next promise takes the place of this one
    until = until.astype(int).where(moved.isna() | (until <= moved), moved).astype(int)
    holds = [
        (workload, made, end, parts_of(where))
        for workload, made, end, where in zip(
            promises["workload"], promises["made_at_s"], until, promises["nodes"], strict=True
        )
    ]
    return Timeline(
        origin_s=None,
        now_s=None,
        end_s=found.end_s,
        nodes=_nodes(nodes["node"], places, nodes["gpus"]),
        runs=runs.drop(columns="nodes"),
        bars=bars_of(runs, rows),
        gainers=gainers_of(runs),
        holds=_holds(holds, nodes["node"], nodes["gpus"]),
        workloads=found.workloads[["id", "allocation", "gpus", "submitted_s", "end_s", "state"]],
    )


def bars_of(runs: pd.DataFrame, rows: Rows) -> pd.DataFrame:
    """Return the rectangles of runs; within a second what ends gives its rows back before anything starts."""
    order = [(end, 0, i) for i, end in enumerate(runs["end_s"].tolist())]
    order += [(start, 1, i) for i, start in enumerate(runs["start_s"].tolist())]
    order.sort()
    places = runs["nodes"].tolist()
    lasting = (runs["end_s"] > runs["start_s"]).tolist()
    held: dict[int, list[int]] = {}
    out: list[tuple[int, int, int]] = []
    for _, starts, i in order:
        if not lasting[i]:
            continue
        if starts:
            held[i] = rows.take(parts_of(places[i]))
            out += [(i, first, count) for first, count in stretches(held[i])]
        else:
            rows.give(held.pop(i))
    return pd.DataFrame(out, columns=["run", "row", "rows"])


def stretches(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Return (first, count) of each stretch of rows without a gap."""
    if not rows:
        return []
    found = np.array(rows)
    cuts = np.flatnonzero(np.diff(found) != 1) + 1
    return [(int(part[0]), len(part)) for part in np.split(found, cuts)]


def of_scene(scene: Scene) -> Timeline:
    """Return the timeline of a snapshot and its plan: the last `PAST_S`, and `AHEAD_S` of what is planned."""
    names, state = scene.encoded.names, scene.state
    now_s, origin_s = scene.now_s, scene.now_s - PAST_S
    rows = []
    for d in scene.plan.decisions:
        w = names.workloads[names.index[d.workload]]
        began_s = now_s if d.action == "start" else w.started_s
        stands = d.action in ("start", "keep")
        placement = d.placement if stands else w.placement
        if began_s is None or not placement or (d.action == "preempt" and w.state == "stopping"):
            continue
        until_s = d.protected_until_s or began_s
        rows.append(
            {
                "workload": w.id,
                "allocation": w.allocation,
                "gpus": w.gpus,
                "occupancy": d.occupancy or w.occupancy or "allocated",
                "start_s": max(began_s - origin_s, 0),
                "protected_s": max(until_s - origin_s, 0),
                "end_s": PAST_S + (AHEAD_S if stands else 0),
                "ended": "" if stands else "preempt",
                "lost_gpu_s": round((d.lost_gpu_hours or 0) * 3600),
                "nodes": "|".join(f"{p.node}:{p.gpus}" for p in placement),
            }
        )
    runs = pd.DataFrame(rows, columns=[*RUN_COLUMNS, "nodes"]).sort_values("start_s", kind="stable")
    runs = runs.reset_index(drop=True)
    node_names, gpus = [n.name for n in names.nodes], state.nodes.gpus.tolist()
    victims = {d.workload: list(d.victims_for) for d in scene.plan.decisions if d.action == "preempt"}
    holds = [
        (r.workload, PAST_S, r.start_s - origin_s, [(p.node, p.gpus) for p in r.placement])
        for r in scene.plan.reservations
    ]
    jobs = pd.DataFrame(
        {
            "id": [w.id for w in names.workloads],
            "allocation": [w.allocation for w in names.workloads],
            "gpus": [w.gpus for w in names.workloads],
            "submitted_s": [w.submitted_s - origin_s for w in names.workloads],
            "end_s": pd.NA,
            "state": [scene.decisions[w.id].reason.text for w in names.workloads],
        }
    )
    return Timeline(
        origin_s=origin_s,
        now_s=PAST_S,
        end_s=PAST_S + AHEAD_S,
        nodes=_nodes(node_names, [scene.place_name(n) for n in range(state.nodes.count)], gpus),
        runs=runs.drop(columns="nodes"),
        bars=bars_of(runs, Rows(node_names, gpus)),
        gainers={i: victims[w] for i, w in enumerate(runs["workload"]) if w in victims and runs["ended"][i]},
        holds=_holds(holds, node_names, gpus),
        workloads=jobs,
    )


RUN_COLUMNS = (
    "workload", "allocation", "gpus", "occupancy", "start_s", "protected_s", "end_s", "ended", "lost_gpu_s",
)  # fmt: skip


def packed(found: Timeline, colours: dict[str, str]) -> dict[str, Any]:
    """Return the timeline as the page's script takes it: names once, numbers as little-endian arrays."""
    jobs, runs, holds = found.workloads, found.runs, found.holds
    index = {name: i for i, name in enumerate(jobs["id"])}
    names = sorted(set(jobs["allocation"]))
    place = {name: i for i, name in enumerate(names)}
    return {
        "origin": found.origin_s,
        "now": found.now_s,
        "end": found.end_s,
        "nodes": found.nodes.to_dict("list"),
        "allocations": names,
        "colours": [colours.get(name, "#808080") for name in names],
        "ids": jobs["id"].tolist(),
        "allocation": _array(jobs["allocation"].map(place), "u2"),
        "gpus": _array(jobs["gpus"], "u4"),
        "submitted": _array(jobs["submitted_s"], "i4"),
        "over": _array(jobs["end_s"].astype("Int64").fillna(NOT_OVER), "i4"),
        "state": jobs["state"].tolist(),
        "run": {
            "workload": _array(runs["workload"].map(index), "u4"),
            "start": _array(runs["start_s"], "i4"),
            "until": _array(runs["protected_s"], "i4"),
            "end": _array(runs["end_s"], "i4"),
            "ended": _array(runs["ended"].map({name: i for i, name in enumerate(ENDS)}), "u1"),
            "allocated": _array(runs["occupancy"] == "allocated", "u1"),
            "lost": _array(runs["lost_gpu_s"], "u4"),
        },
        "bar": {name: _array(found.bars[name], "u4") for name in ("run", "row", "rows")},
        "hold": {
            "workload": _array(holds["workload"].map(index), "u4"),
            **{name: _array(holds[f"{name}_s"], "i4") for name in ("from", "until")},
            **{name: _array(holds[name], "u4") for name in ("row", "rows")},
        },
        "gainers": {str(row): [index[g] for g in gainers] for row, gainers in found.gainers.items()},
    }


def _nodes(names: Iterable[str], places: Iterable[str], gpus: Iterable[int]) -> pd.DataFrame:
    return pd.DataFrame({"node": list(names), "place": list(places), "gpus": [int(g) for g in gpus]})


def _holds(
    promises: list[tuple[str, int, int, Parts]], names: Iterable[str], gpus: Iterable[int]
) -> pd.DataFrame:
    """Return the rectangles of promises, from when each was made to its start."""
    empty = Rows(names, gpus)
    rows = []
    for workload, made_s, start_s, parts in promises:
        taken = empty.take(parts)
        rows += [(workload, made_s, start_s, first, count) for first, count in stretches(taken)]
        empty.give(taken)
    return pd.DataFrame(rows, columns=["workload", "from_s", "until_s", "row", "rows"])


def _array(values: pd.Series[Any], kind: str) -> str:
    """Return whole numbers as base64 of little-endian bytes."""
    return base64.b64encode(values.to_numpy().astype(f"<{kind}").tobytes()).decode()
