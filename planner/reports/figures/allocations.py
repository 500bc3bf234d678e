"""Figures of what allocations were owed and got."""

from __future__ import annotations

import pandas as pd

from planner.reports.figures.style import ROW_PX, Figure, bars, days, figure, line, plain, rule

MOST = 2.0
"""Delivered ÷ owed at which a bar ends: what is far beyond the promise would flatten the rest."""


def kept(frame: pd.DataFrame, colours: dict[str, str]) -> Figure:
    """Draw delivered ÷ owed of each allocation, the worst on top, and the promise as a line.

    Parameters
    ----------
    frame : DataFrame
        allocation, delivered_over_owed; sorted, none missing.
    """
    names, parts = frame["allocation"].tolist(), frame["delivered_over_owed"].tolist()
    edge = max(1.1, min(MOST, max(parts, default=1.0)))
    drawn = bars(
        [plain(name) for name in names],
        [min(part, edge) for part in parts],
        [colours[name] for name in names],
        [f"{part:.2f}" for part in parts],
    )
    return figure(
        [drawn],
        ROW_PX * len(names) + 40,
        bargap=0.3,
        xaxis={"range": [0, edge * 1.17], "showgrid": False, "tickvals": [0, 0.5, 1], "zeroline": False},
        yaxis={"autorange": "reversed", "showgrid": False, "ticklen": 6, "tickcolor": "rgba(0,0,0,0)"},
        shapes=[rule(1.0)],
    )


def over_time(frame: pd.DataFrame, colour: str, first_s: int | None) -> Figure:
    """Draw one allocation over time: delivered as an area, owed as a line, demand as its cap.

    Parameters
    ----------
    frame : DataFrame
        day, owed, delivered, demand, in GPUs.
    """
    x = _times(frame["day"], first_s)
    top = max(float(frame["owed"].max()), float(frame["delivered"].max()), 1.0) * 1.12
    return figure(
        [
            line(
                x,
                _plain(frame["delivered"]),
                colour,
                "delivered",
                width=0,
                fill="tozeroy",
                fillcolor=colour + "b3",
            ),
            line(x, _plain(frame["demand"]), "@muted", "asked for", width=1, line={"dash": "dot"}),
            line(x, _plain(frame["owed"]), "@ink", "owed"),
        ],
        150,
        hovermode="x unified",
        xaxis={**days(first_s, float(frame["day"].max()) + 0.25), "nticks": 4},
        yaxis={"range": [0, top], "nticks": 4, "zeroline": False},
    )


def burst(frame: pd.DataFrame, colours: dict[str, str], unit: str) -> Figure:
    """Draw use less entitlement in the window: who had more than its share, and who less.

    Parameters
    ----------
    frame : DataFrame
        allocation, beyond; sorted.
    """
    names, beyond = frame["allocation"].tolist(), frame["beyond"].tolist()
    reach = max((abs(x) for x in beyond), default=1.0) or 1.0
    drawn = bars(
        [plain(name) for name in names],
        beyond,
        [colours[name] for name in names],
        [f"{x:+,.0f}" for x in beyond],
    )
    return figure(
        [drawn],
        ROW_PX * len(names) + 50,
        bargap=0.3,
        xaxis={
            "range": [-1.3 * reach, 1.3 * reach],
            "showgrid": False,
            "nticks": 5,
            "title": {"text": unit, "font": {"size": 12}},
        },
        yaxis={"autorange": "reversed", "showgrid": False},
        shapes=[rule(0.0)],
    )


def unallocated(frame: pd.DataFrame, colours: dict[str, str], first_s: int | None) -> Figure:
    """Draw unallocated GPUs over time, one band for each allocation.

    Parameters
    ----------
    frame : DataFrame
        day, allocation, unallocated, in GPUs.
    """
    drawn = [
        line(
            _times(rows["day"], first_s),
            _plain(rows["unallocated"]),
            colours[str(name)],
            plain(str(name)),
            width=0,
            stackgroup="all",
            fillcolor=colours[str(name)],
        )
        for name, rows in frame.groupby("allocation", sort=True)
    ]
    end = float(frame["day"].max()) + 0.25
    return figure(
        drawn, 260, xaxis=days(first_s, end), yaxis={"nticks": 5, "zeroline": False, "rangemode": "tozero"}
    )


def standing(frame: pd.DataFrame, colours: dict[str, str]) -> Figure:
    """Draw what each allocation holds and waits for now, in GPUs: allocated, unallocated, pending."""
    names = [plain(name) for name in frame["allocation"]]
    own = [colours[name] for name in frame["allocation"]]
    kinds = (("running_gpus", own, 1.0), ("unallocated_gpus", own, 0.45), ("pending_gpus", "@faint", 1.0))
    drawn = [
        {
            **bars(
                names, frame[kind].tolist(), colour, [f"{x:,}" if x else "" for x in frame[kind].tolist()]
            ),
            "opacity": opacity,
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
        }
        for kind, colour, opacity in kinds
    ]
    return figure(
        drawn,
        ROW_PX * len(names) + 40,
        barmode="stack",
        bargap=0.3,
        xaxis={"showgrid": False, "nticks": 5},
        yaxis={"autorange": "reversed", "showgrid": False},
    )


def _times(day: pd.Series, first_s: int | None) -> list[float] | list[str]:
    if first_s is None:
        return [round(x, 3) for x in day.tolist()]
    return pd.to_datetime(first_s + day * 86_400, unit="s").dt.strftime("%Y-%m-%d %H:%M").tolist()


def _plain(values: pd.Series) -> list[float]:
    return [round(x, 2) for x in values.tolist()]
