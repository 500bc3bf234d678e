"""The page for whoever chooses a policy: the same work under several, side by side."""

from __future__ import annotations

import pandas as pd

from planner.reports.figures import compared as figures
from planner.reports.frames import compared as frames
from planner.reports.frames.compared import Compared
from planner.reports.pages.document import Chart, Grid, Page, Panel, Part, number
from planner.reports.palette import colours
from planner.units import format_duration

TITLES = {"all": "All allocated workloads", "debug": "Debug workloads", "largest": "The largest workloads"}

MAIN = {
    "Occupancy": ("occupancy", 3),
    "Delivered ÷ owed": ("delivered_over_owed", 3),
    "Worst": ("worst_delivered_over_owed", 3),
    "Wait p50": ("wait_p50_s", None),
    "Wait p90": ("wait_p90_s", None),
    "Debug p90": ("debug_wait_p90_s", None),
    "Largest p90": ("largest_wait_p90_s", None),
    "Preemptions": ("preemptions", 0),
    "Lost GPU-hours": ("preempted_gpu_hours_lost", 0),
    "Goodput": ("goodput", 3),
}
"""Figures of the table, by their headings: their names in summaries, and digits; None = a duration."""


def page(found: Compared, source: str) -> Page:
    """Return the page of a comparison."""
    table = frames.figures(found)
    kept = frames.kept(found)
    parts: list[Part] = [_figures(table), _kept(kept, found), _waits(found), _bands(found), _matrix(found)]
    seeds = found.rows["seed"].nunique()
    best = table.iloc[int(table["worst_delivered_over_owed"].fillna(-1).to_numpy().argmax())]
    lede = (
        f"{len(table)} variants on the same work, {seeds} {'seed' if seeds == 1 else 'seeds'}. "
        f"{best['variant']} kept its promise best: even the worst-served allocation got "
        f"{best['worst_delivered_over_owed']:.0%} of what it was owed."
    )
    return Page("Policies compared", lede, parts, source=source)


def _figures(table: pd.DataFrame) -> Grid:
    rows = [
        (str(row["variant"]), *(_shown(row[name], digits) for name, digits in MAIN.values()))
        for row in table.to_dict("records")
    ]
    sentence = "The main figures"
    if table["largest_wait_p90_s"].notna().any():
        quick = table.iloc[int(table["largest_wait_p90_s"].fillna(float("inf")).to_numpy().argmin())]
        wait = format_duration(round(float(quick["largest_wait_p90_s"])))
        sentence = (
            f"The largest workloads waited least under {quick['variant']}: {wait} at the 90th percentile"
        )
    about = "Means over the seeds; every figure is explained in docs/metrics.md, and the CSV has all of them."
    return Grid("figures", sentence, ("Policy", *MAIN), rows, table, about)


def _kept(frame: pd.DataFrame, found: Compared) -> Chart:
    below = (
        frame[frame["delivered_over_owed"] < 0.95]
        .groupby("variant")
        .size()
        .reindex(found.names, fill_value=0)
    )
    sentence = f"{below.idxmin()} leaves {_allocations(int(below.min()))} below 95% of what they were owed, "
    sentence += f"{below.idxmax()} {int(below.max())}"
    if below.min() == below.max():
        sentence = f"Under every policy {_allocations(int(below.min()))} got less than 95% of what was owed"
    about = "Delivered ÷ owed, a dot for each allocation in its colour. At the line the promise is kept."
    panel = Panel(figures.kept(frame, colours(found.allocations), found.names))
    key = [(colour, name) for name, colour in colours(found.allocations).items()]
    return Chart("kept", sentence, [panel], frame, about, key)


def _allocations(count: int) -> str:
    return "1 allocation" if count == 1 else f"{count or 'no'} allocations"


def _waits(found: Compared) -> Chart:
    frame = frames.waits(found)
    shades = figures.hues(found.names)
    panels = [
        Panel(figures.waits(frame[frame["class"] == kind], shades), title)
        for kind, title in TITLES.items()
        if (frame["class"] == kind).any()
    ]
    middle = frame[(frame["class"] == "all") & (frame["share"].sub(0.9).abs() < 1e-9)].set_index("variant")[
        "wait_s"
    ]
    sentence = "Nobody waited"
    if len(middle):
        low, high = (format_duration(round(float(x))) for x in (middle.min(), middle.max()))
        sentence = (
            f"Nine of ten workloads had started after {low} under {middle.idxmin()}, after {high} under "
        )
        sentence += str(middle.idxmax())
    about = "Share of the workloads that had started after so long a wait: the higher, the better."
    key = [(shades[name], name) for name in found.names]
    return Chart("waits", sentence, panels, frame, about, key)


def _bands(found: Compared) -> Chart:
    frame = frames.bands(found)
    idle = frame["idle"].to_numpy()
    best, worst = frame.iloc[int(idle.argmin())], frame.iloc[int(idle.argmax())]
    least, most = f"{best['idle']:.1%}", f"{worst['idle']:.1%}"
    sentence = f"{best['variant']} left {least} of the GPUs idle, {worst['variant']} {most}"
    if least == most:
        sentence = f"All left the same part of the GPUs idle, {least}"
    key = list(zip(figures.BAND_COLOURS.values(), figures.BAND_COLOURS, strict=True))
    about = "What became of all GPU time: charged, used free of charge, idle, or on nodes that were down."
    return Chart("bands", sentence, [Panel(figures.bands(frame))], frame, about, [(c, n) for c, n in key])


def _matrix(found: Compared) -> Chart:
    frame = frames.matrix(found)
    most = float(frame["lost_gpu_hours"].max()) if len(frame) else 1.0
    panels = [
        Panel(
            figures.matrix(rows, found.allocations, max(most, 1.0)),
            name,
            f"{number(rows['preemptions'].sum())} preemptions, {number(rows['lost_gpu_hours'].sum())} "
            "GPU-hours lost",
        )
        for name in found.names
        if len(rows := frame[frame["variant"] == name])
    ]
    sentence = "Nobody was preempted"
    if len(frame):
        worst = frame.iloc[int(frame["lost_gpu_hours"].to_numpy().argmax())]
        sentence = (
            f"{worst['gainer']} cost {worst['victim']} most, {worst['lost_gpu_hours']:,.0f} GPU-hours under "
            f"{worst['variant']}"
        )
    about = (
        "Who displaced whom: gainers on the left, victims below; the stronger, the more GPU-hours were lost."
    )
    return Chart("matrix", sentence, panels, frame, about)


def _shown(value: float, digits: int | None) -> str:
    if pd.isna(value):
        return "-"
    return format_duration(round(value)) if digits is None else number(value, digits)
