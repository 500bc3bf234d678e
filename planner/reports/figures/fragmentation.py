"""Figures of how free GPUs lie, now and over time."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import pandas as pd

from planner.reports.figures.style import ROW_PX, Figure, bars, days, figure, line, plain
from planner.reports.palette import HUES, UNALLOCATED

OPEN_SCALE: list[list[object]] = [[0.0, "@faint"], [0.001, "#b9d7ea"], [1.0, "#0072b2"]]
"""From nothing open to all: one hue, darker is more; a full node is nearly paper."""

BUSY_SCALE: list[list[object]] = [[0.0, "#0072b2"], [0.125, "#7fb3d5"], [0.5, "#e8c9a0"], [1.0, "#a3540b"]]
"""From open now to held for eight hours: cold to warm, told apart by every eye."""

CELL_PX, LEAST_CELL_PX, MAP_PX = 22, 9, 1200
"""Height of a row of nodes; of many rows, so that the map stays below `MAP_PX` as long as rows can be "
"seen."""

TEXT_PX = 14
"""Height from which on a cell has its number in it."""

Row = dict[Hashable, Any]
"""A row of a frame by its columns."""


def nodes(frame: pd.DataFrame, value: str, scale: list[list[object]], most: float, unit: str) -> Figure:
    """Draw one cell for each node, one row for each innermost domain; the number in it is `value`.

    Parameters
    ----------
    frame : DataFrame
        As `frames.fragmentation.by_node` makes it.
    """
    rows = [group for _, group in frame.groupby(["cluster", "place"], sort=False)]
    wide = min(max(map(len, rows), default=1), 32)
    lines = [(group, first) for group in rows for first in range(0, len(group), wide)]
    z, text, hover, names = [], [], [], []
    for group, first in lines:
        part = group.iloc[first : first + wide]
        pad = [None] * (wide - len(part))
        z.append([_value(row, value) for row in part.to_dict("records")] + pad)
        text.append([_label(row, value) for row in part.to_dict("records")] + [""] * len(pad))
        hover.append([_hover(row) for row in part.to_dict("records")] + [""] * len(pad))
        names.append(plain(group["place"].iloc[0]) + (f" +{first}" if first else ""))
    cell_px = max(LEAST_CELL_PX, min(CELL_PX, MAP_PX // max(len(lines), 1)))
    drawn = {
        "type": "heatmap",
        "z": z,
        "x": list(range(1, wide + 1)),
        "y": list(range(len(lines))),
        "text": text,
        "texttemplate": "%{text}" if cell_px >= TEXT_PX else "",
        "textfont": {"size": 12},
        "hovertext": hover,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "colorscale": scale,
        "zmin": 0,
        "zmax": most,
        "xgap": 2,
        "ygap": 2,
        "showscale": False,
    }
    return figure(
        [drawn],
        cell_px * len(lines) + 44,
        xaxis={
            "showgrid": False,
            "zeroline": False,
            "nticks": 8,
            "title": {"text": unit, "font": {"size": 12}},
        },
        yaxis={
            "autorange": "reversed",
            "showgrid": False,
            "zeroline": False,
            "tickvals": list(range(len(lines))),
            "ticktext": names,
            "tickfont": {"size": 12 if cell_px >= TEXT_PX else 9},
        },
    )


def largest(frame: pd.DataFrame) -> Figure:
    """Draw the largest gang by level: on free GPUs, by interrupting, in an hour, in eight."""
    kinds = (
        ("now_gpus", "@ink", "on free GPUs now"),
        ("now_or_interrupting_gpus", HUES[4], "now, by interrupting"),
        ("in_1h_gpus", HUES[1], "in 1 h"),
        ("in_8h_gpus", HUES[0], "in 8 h"),
    )
    levels = frame["level"].tolist()[::-1]
    drawn = [
        {
            "type": "scatter",
            "mode": "markers+text",
            "x": frame[kind].tolist()[::-1],
            "y": levels,
            "marker": {
                "color": colour,
                "size": 13,
                "symbol": symbol,
                "line": {"width": 1, "color": "@paper"},
            },
            "text": [f"{x:,}" for x in frame[kind].tolist()[::-1]]
            if kind in ("now_gpus", "in_8h_gpus")
            else None,
            "textposition": "top center" if kind == "in_8h_gpus" else "bottom center",
            "textfont": {"size": 12},
            "name": label,
            "hovertemplate": f"%{{x:,}} GPUs {label}<extra>%{{y}}</extra>",
        }
        for (kind, colour, label), symbol in zip(
            kinds, ("circle", "diamond", "square", "circle"), strict=True
        )
    ]
    most = float(frame[[kind for kind, _, _ in kinds]].to_numpy().max())
    return figure(
        drawn,
        64 * len(levels) + 50,
        xaxis={"range": [-most * 0.04 - 1, most * 1.1 + 1], "zeroline": False, "nticks": 6,
               "title": {"text": "GPUs of the largest gang", "font": {"size": 12}}},
        yaxis={"type": "category", "range": [-0.6, len(levels) - 0.4]},
    )  # fmt: skip


def sizes(frame: pd.DataFrame) -> Figure:
    """Draw how many gangs of each size fit: in one domain, anywhere, and if all stood together."""
    sizes = frame["gang_gpus"]
    kinds = [("together", "@faint", "if all stood together")]
    kinds += [("anywhere", UNALLOCATED, "on any nodes")]
    kinds += [("in_one_domain", HUES[0], "in one domain each")] if "in_one_domain" in frame else []
    drawn = [
        {
            "type": "bar",
            "x": [str(x) for x in sizes.tolist()],
            "y": (frame[kind] * sizes).tolist(),
            "customdata": frame[kind].tolist(),
            "marker": {"color": colour},
            "width": 0.85 - 0.22 * i,
            "name": label,
            "hovertemplate": f"%{{customdata:,}} gangs of %{{x}} {label}<extra></extra>",
            "text": [f"{x:,}" for x in frame[kind].tolist()] if i == len(kinds) - 1 else None,
            "textposition": "outside",
            "cliponaxis": False,
        }
        for i, (kind, colour, label) in enumerate(kinds)
    ]
    return figure(
        drawn,
        280,
        barmode="overlay",
        xaxis={
            "type": "category",
            "showgrid": False,
            "title": {"text": "GPUs of a gang", "font": {"size": 12}},
        },
        yaxis={"nticks": 5, "rangemode": "tozero", "title": {"text": "GPUs filled", "font": {"size": 12}}},
    )


def holes(frame: pd.DataFrame) -> Figure:
    """Draw how many nodes have so many GPUs open, and how many have them free."""
    sizes = [str(x) for x in frame["gpus_on_node"]]
    kinds = (("nodes_open", UNALLOCATED, 0.8, "open"), ("nodes_free", HUES[0], 0.5, "free"))
    drawn = [
        {
            "type": "bar",
            "x": sizes,
            "y": frame[kind].tolist(),
            "width": width,
            "marker": {"color": colour},
            "text": [f"{x:,}" if x else "" for x in frame[kind]] if label == "open" else None,
            "textposition": "outside",
            "cliponaxis": False,
            "hovertemplate": f"%{{y:,}} nodes have %{{x}} GPUs {label}<extra></extra>",
        }
        for kind, colour, width, label in kinds
    ]
    return figure(
        drawn,
        220,
        barmode="overlay",
        xaxis={
            "type": "category",
            "showgrid": False,
            "title": {"text": "GPUs on a node", "font": {"size": 12}},
        },
        yaxis={"nticks": 4, "rangemode": "tozero", "title": {"text": "nodes", "font": {"size": 12}}},
    )


def packing(frame: pd.DataFrame) -> Figure:
    """Draw what is there, what is held and what would be needed, as bars."""
    shades = ["@faint", HUES[1], HUES[0], HUES[2], UNALLOCATED]
    drawn = bars(frame["measure"].tolist(), frame["gpus"].tolist(), shades, [f"{x:,}" for x in frame["gpus"]])
    most = float(frame["gpus"].max()) * 1.15 + 1
    return figure(
        [drawn],
        ROW_PX * len(frame) + 40,
        bargap=0.3,
        xaxis={"range": [0, most], "showgrid": False, "nticks": 5},
        yaxis={"autorange": "reversed", "showgrid": False},
    )


def over_time(frame: pd.DataFrame, column: str, colour: str) -> Figure:
    """Draw one measure over the days of a simulation: the range within each quarter day, and its mean."""
    parts = frame.groupby((frame["day"] * 4).astype(int))[column]
    x = [round(i / 4, 2) for i in parts.mean().index]
    edge = {"width": 0, "hoverinfo": "skip"}
    return figure(
        [
            line(x, parts.max().tolist(), colour, "most", **edge),
            line(x, parts.min().tolist(), colour, "least", fill="tonexty", fillcolor=colour + "40", **edge),
            line(x, [round(y, 1) for y in parts.mean().tolist()], colour, "mean"),
        ],
        150,
        xaxis=days(None, math.ceil(float(frame["day"].max()))),
        yaxis={"rangemode": "tozero", "nticks": 4, "zeroline": False},
    )


def domains_over_time(frame: pd.DataFrame, most: int) -> Figure:
    """Draw the room of each domain over time."""
    drawn = {
        "type": "heatmap",
        "z": frame.drop(columns="domain").to_numpy().tolist(),
        "x": list(frame.columns[1:]),
        "y": [plain(name) for name in frame["domain"]],
        "colorscale": OPEN_SCALE,
        "zmin": 0,
        "zmax": most,
        "showscale": False,
        "hovertemplate": "day %{x:.1f}: %{z} GPUs<extra>%{y}</extra>",
    }
    end = float(frame.columns[-1])
    return figure(
        [drawn],
        max(160, 16 * len(frame) + 50),
        xaxis=days(None, end),
        yaxis={"autorange": "reversed", "type": "category", "showgrid": False},
    )


def _value(row: Row, value: str) -> object:
    """Return what colours a node's cell; one that starts nothing is not open, and has no time to be free."""
    if row["state"] == "up":
        return row[value]
    return 0 if value.endswith("gpus") else None


def _label(row: Row, value: str) -> str:
    """Return what stands in the cell of a node: its number, or what ails it."""
    if row["state"] != "up":
        return str(row["state"])
    shown = row[value]
    return "" if not shown else f"{shown:.0f}" if value.endswith("gpus") else f"{shown:.1f}"


def _hover(row: Row) -> str:
    held = plain(str(row["held_by"])).replace("; ", "<br>") or "nothing"
    return (
        f"<b>{plain(str(row['node']))}</b>, {row['state']}: {row['free_gpus']} of {row['gpus']} GPUs free, "
        f"{row['open_gpus']} open; protected for {row['protected_h']:.1f} h<br>{held}"
    )
