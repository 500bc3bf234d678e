"""How free GPUs lie, now and over the days of a simulation: parts of the fragmentation page."""

from __future__ import annotations

import numpy as np
import pandas as pd

from planner.reports.figures import fragmentation as figures
from planner.reports.frames import fragmentation as frames
from planner.reports.frames.scene import Scene
from planner.reports.frames.simulated import Simulated
from planner.reports.pages.document import Chart, Panel, Part
from planner.reports.palette import HUES, IDLE, UNALLOCATED
from planner.units import format_duration

LOOKS = 720
"""Moments of a simulation at which the free GPUs of domains are drawn."""


def now(scene: Scene, levels: pd.DataFrame) -> list[Part]:
    """Return the maps of the nodes, the largest gangs by level, and what fits by size."""
    return [*_maps(scene), _levels(levels), _classes(scene), _sizes(scene)]


def over_time(found: Simulated) -> list[Part]:
    """Return the room for allocated work over the days, and where it was."""
    times_s = np.unique(np.linspace(0, found.end_s, LOOKS, dtype=np.int64))
    room = frames.room_over_time(found.events, found.nodes, found.outages, times_s)
    frame = room.largest
    levels = [str(name) for name in frame if str(name).startswith("largest_gpus_")]
    drawn = [(name, f"Largest gang, {name.removeprefix('largest_gpus_')}", HUES[0]) for name in levels]
    drawn.append(("room_gpus", "All such GPUs", HUES[2]))
    panels = [Panel(figures.over_time(frame, name, colour), title) for name, title, colour in drawn]
    inner, outer = frame[levels[0]], frame[levels[-1]]
    sentence = (
        f"On average {frame['room_gpus'].mean():,.0f} GPUs were not held by allocated work; the largest gang "
        f"in one {levels[0].removeprefix('largest_gpus_')} had {inner.mean():,.0f} of them, anywhere "
        f"{outer.mean():,.0f}"
    )
    about = (
        "GPUs that are free or held by unallocated work, which makes room for anybody. The line is the "
        "mean of six hours, the band their range."
    )
    means = room.domains.set_index("domain").mean(axis=1)
    where = f"{means.idxmax()} had most room, {means.max():.0f} GPUs on average, "
    where += f"{means.idxmin()} least, {means.min():.0f}"
    most = int(found.nodes.groupby(["cluster", "location"])["gpus"].sum().max())
    return [
        Chart("over-time", sentence, panels, frame, about),
        Chart(
            "domains",
            where,
            [Panel(figures.domains_over_time(room.domains, most))],
            room.domains.rename(columns=str),
            "The same of each innermost domain: darker is more.",
        ),
    ]


def _maps(scene: Scene) -> list[Part]:
    frame = frames.by_node(scene)
    up = frame[frame["state"] == "up"]
    free_nodes = int((up["open_gpus"] == up["gpus"]).sum())
    closed = int((up["open_gpus"] == 0).sum())
    sentence = f"{free_nodes} of {len(up)} healthy nodes are wholly open, {closed} wholly protected"
    about = (
        "One cell for each node, one row for each innermost domain; the number is how many of its GPUs are "
        "open. Point at a node to see who is on it."
    )
    longest = float(up["protected_h"].max()) if len(up) else 0.0
    late = up[up["protected_h"] > 0]
    middle = format_duration(int(late["protected_h"].median() * 3600) // 60 * 60) if len(late) else "0s"
    soon = f"Half of the protected nodes come free within {middle}, the last in {longest:.1f} h"
    most = int(frame["gpus"].max()) if len(frame) else 1
    return [
        Chart(
            "open",
            sentence,
            [Panel(figures.nodes(frame, "open_gpus", figures.OPEN_SCALE, most, "node of the domain"))],
            frame,
            about,
            [("#b9d7ea", "few GPUs open"), ("#0072b2", "all open")],
        ),
        Chart(
            "protected",
            soon if len(late) else "No node is protected",
            [Panel(figures.nodes(frame, "protected_h", figures.BUSY_SCALE, 8, "node of the domain"))],
            frame[["node", "place", "protected_h"]],
            "Hours until the last protection on each node ends. Gangs need many nodes of one colour in one "
            "row.",
            [("#0072b2", "open now"), ("#e8c9a0", "4 h"), ("#a3540b", "8 h or more")],
        ),
    ]


def _levels(frame: pd.DataFrame) -> Chart:
    inner = frame.iloc[1] if len(frame) > 2 else frame.iloc[-1]
    sentence = (
        f"In one {inner['level']} the largest gang that can start now has "
        f"{inner['now_or_interrupting_gpus']:,} GPUs, in 8 h {inner['in_8h_gpus']:,}"
    )
    about = (
        "The largest gang that fits within one domain of each level: on free GPUs; by interrupting whoever "
        "may be interrupted; and when protections have ended, which is certain. Free GPUs where nothing "
        "that waits fits are stranded: "
        + ", ".join(f"{row.stranded_gpus:,} at level {row.level}" for row in frame.itertuples())
        + "."
    )
    key = [(HUES[4], "now, by interrupting"), (HUES[1], "in 1 h"), (HUES[0], "in 8 h")]
    return Chart("levels", sentence, [Panel(figures.largest(frame))], frame, about, key)


def _classes(scene: Scene) -> Chart:
    frame = frames.holes(scene)
    broken = frame.iloc[1:-1]
    sentence = (
        f"{broken['nodes_open'].sum():,} nodes are open in part: gangs of whole nodes cannot use their "
        f"{(broken['nodes_open'] * broken['gpus_on_node']).sum():,} GPUs"
    )
    about = "Healthy nodes by how many of their GPUs are open, and free."
    key = [(UNALLOCATED, "open"), (HUES[0], "free")]
    return Chart("classes", sentence, [Panel(figures.holes(frame))], frame, about, key)


def _sizes(scene: Scene) -> Chart:
    frame = frames.by_size(scene)
    opened = int(scene.open_gpus.sum())
    column = "in_one_domain" if "in_one_domain" in frame else "anywhere"
    lost = frame["gang_gpus"] * (frame["together"] - frame[column])
    if opened == 0 or lost.max() <= 0:
        sentence = f"{opened:,} GPUs are open, and nothing is lost to their places"
    else:
        worst = frame.iloc[int(lost.argmax())]
        sentence = (
            f"Gangs of {worst['gang_gpus']:,} fill {worst['gang_gpus'] * worst[column]:,} of the "
            f"{opened:,} open GPUs; standing together they would hold "
            f"{_gangs(int(worst['together']))}"
        )
    about = "Hole filling: gangs of one size are put in until none fits. The number is how many fit."
    key = [(HUES[0], "each in one domain")] if column == "in_one_domain" else []
    key += [(UNALLOCATED, "on any nodes"), (IDLE, "if all open GPUs stood together")]
    return Chart("sizes", sentence, [Panel(figures.sizes(frame))], frame, about, key)


def _gangs(number: int) -> str:
    return "1 such gang" if number == 1 else f"{number:,} such gangs"
