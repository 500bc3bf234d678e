"""Figures of policies side by side."""

from __future__ import annotations

import numpy as np
import pandas as pd

from planner.reports.figures.style import ROW_PX, Figure, figure, line, plain, rule
from planner.reports.palette import HELD, IDLE, POLICIES, UNALLOCATED, UNAVAILABLE

BAND_COLOURS = {"allocated": HELD, "unallocated": UNALLOCATED, "idle": IDLE, "unavailable": UNAVAILABLE}

TICKS_S = {60: "1 min", 600: "10 min", 3600: "1 h", 21_600: "6 h", 86_400: "1 d", 604_800: "1 w"}

SHORTEST_S = 30.0
"""Waits below it are drawn at it: the axis is logarithmic."""

DASHES = ("solid", "dash", "dot", "dashdot")

LOSS_SCALE: list[list[object]] = [[0.0, "@faint"], [0.35, "#e39a5b"], [1.0, "#b3500b"]]


def hues(names: list[str]) -> dict[str, str]:
    """Return a colour for each variant."""
    return {name: POLICIES[i % len(POLICIES)] for i, name in enumerate(names)}


def waits(frame: pd.DataFrame, colours: dict[str, str]) -> Figure:
    """Draw the share of workloads that had started after a wait, one line for each variant."""
    drawn = []
    longest = max(float(frame["wait_s"].max()), 3600.0)
    for i, (name, rows) in enumerate(frame.groupby("variant", sort=False)):
        x = np.maximum(rows["wait_s"].to_numpy(), SHORTEST_S).round(1).tolist()
        y = (100 * rows["share"]).round(1).tolist()
        dash = {"dash": DASHES[i // len(POLICIES) % len(DASHES)]}
        drawn.append(line(x, y, colours[str(name)], plain(str(name)), width=2, line=dash))
    ticks = [s for s in TICKS_S if s <= longest * 2]
    return figure(
        drawn,
        260,
        xaxis={
            "type": "log",
            "range": [float(np.log10(SHORTEST_S)), float(np.log10(longest * 1.1))],
            "tickvals": ticks,
            "ticktext": [TICKS_S[s] for s in ticks],
        },
        yaxis={"range": [0, 101], "ticksuffix": "%", "nticks": 6, "zeroline": False},
    )


def kept(frame: pd.DataFrame, colours: dict[str, str], variants: list[str]) -> Figure:
    """Draw delivered ÷ owed: a row for each variant, a dot for each allocation, the promise as a line."""
    names = [plain(v) for v in variants][::-1]
    known = frame.dropna(subset=["delivered_over_owed"])
    drawn = {
        "type": "scatter",
        "mode": "markers",
        "x": known["delivered_over_owed"].clip(upper=2).round(4).tolist(),
        "y": [plain(v) for v in known["variant"]],
        "marker": {"color": [colours[a] for a in known["allocation"]], "size": 11, "opacity": 0.85},
        "customdata": [
            [plain(a), round(x, 3)]
            for a, x in zip(known["allocation"], known["delivered_over_owed"], strict=True)
        ],
        "hovertemplate": "%{customdata[0]}: %{customdata[1]}<extra></extra>",
    }
    return figure(
        [drawn],
        38 * len(names) + 50,
        xaxis={
            "range": [0, 2.06],
            "tickvals": [0, 0.5, 1, 1.5, 2],
            "ticktext": ["0", "0.5", "1", "1.5", "2 or more"],
        },
        yaxis={
            "type": "category",
            "categoryorder": "array",
            "categoryarray": names,
            "range": [-0.6, len(names) - 0.4],
        },
        shapes=[rule(1.0)],
    )


def bands(frame: pd.DataFrame) -> Figure:
    """Draw what became of the capacity: one bar for each variant, parts in percent."""
    names = [plain(v) for v in frame["variant"]]
    drawn = [
        {
            "type": "bar",
            "orientation": "h",
            "y": names,
            "x": (100 * frame[band]).round(2).tolist(),
            "marker": {"color": colour},
            "name": band,
            "text": [f"{100 * part:.0f}%" if part > 0.04 else "" for part in frame[band]],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "hovertemplate": f"%{{x:.1f}}% {band}<extra>%{{y}}</extra>",
        }
        for band, colour in BAND_COLOURS.items()
    ]
    return figure(
        drawn,
        ROW_PX * len(names) + 50,
        barmode="stack",
        bargap=0.25,
        xaxis={"range": [0, 100], "ticksuffix": "%", "showgrid": False, "nticks": 5},
        yaxis={"autorange": "reversed", "showgrid": False},
    )


def matrix(frame: pd.DataFrame, names: list[str], most: float) -> Figure:
    """Draw who displaced whom: gainers down, victims across, GPU-hours lost in the cells."""
    gainers = [*names, *sorted(set(frame["gainer"]) - set(names))]
    table = frame.pivot_table(index="gainer", columns="victim", values="lost_gpu_hours", aggfunc="sum")
    z = table.reindex(index=gainers, columns=names).fillna(0.0).round(1).to_numpy().tolist()
    short = {name: plain(name.rpartition("/")[2]) for name in gainers}
    drawn = {
        "type": "heatmap",
        "z": z,
        "x": list(range(len(names))),
        "y": list(range(len(gainers))),
        "customdata": [[f"{plain(g)} displaced {plain(v)}" for v in names] for g in gainers],
        "colorscale": LOSS_SCALE,
        "zmin": 0,
        "zmax": most,
        "xgap": 1,
        "ygap": 1,
        "showscale": False,
        "hovertemplate": "%{customdata}: %{z:,.0f} GPU-hours lost<extra></extra>",
    }
    return figure(
        [drawn],
        15 * len(gainers) + 110,
        xaxis={
            "tickvals": list(range(len(names))),
            "ticktext": [short[n] for n in names],
            "tickangle": -90,
            "showgrid": False,
            "zeroline": False,
            "tickfont": {"size": 11},
        },
        yaxis={
            "tickvals": list(range(len(gainers))),
            "ticktext": [short[n] for n in gainers],
            "autorange": "reversed",
            "showgrid": False,
            "zeroline": False,
            "tickfont": {"size": 11},
        },
    )
