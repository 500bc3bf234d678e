"""What all figures have in common. The page fills in the colours of its theme: `@ink`, `@muted`, `@faint`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Figure = dict[str, Any]

ROW_PX = 26
"""Height of a row of horizontal bars."""


def figure(data: Iterable[dict[str, Any]], height: int, **layout: Any) -> Figure:
    """Return a figure of so many pixels' height."""
    return {"data": list(data), "layout": {"height": height, **layout}}


def days(first_s: int | None, end_days: float) -> dict[str, Any]:
    """Return an axis over days: dates where the time is known, days of the trace where not."""
    if first_s is not None:
        return {"type": "date", "showgrid": False, "nticks": 6}
    step = next((s for s in (1, 2, 5, 7, 10, 30, 90) if end_days / s <= 7), 365)
    return {
        "showgrid": False,
        "dtick": step,
        "tickprefix": "day ",
        "range": [0, end_days],
        "showtickprefix": "first",
    }


def line(x: Any, y: Any, colour: str, name: str, **more: Any) -> dict[str, Any]:
    """Return a line that hovers with its name."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "name": name,
        "line": {"color": colour, "width": more.pop("width", 1.6), **more.pop("line", {})},
        "hovertemplate": "%{y:,.4~g}<extra>" + name.replace("<", "&lt;") + "</extra>",
        **more,
    }


def bars(y: Any, x: Any, colours: Any, text: Any, **more: Any) -> dict[str, Any]:
    """Return horizontal bars with their values at the end."""
    return {
        "type": "bar",
        "orientation": "h",
        "x": x,
        "y": y,
        "marker": {"color": colours},
        "text": text,
        "textposition": "outside",
        "cliponaxis": False,
        "textfont": {"size": 13},
        "hoverinfo": "skip",
        **more,
    }


def rule(x: float, **more: Any) -> dict[str, Any]:
    """Return a vertical line across the drawing."""
    return {
        "type": "line",
        "x0": x,
        "x1": x,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "line": {"color": "@ink", "width": 1.5},
        **more,
    }


def plain(text: str) -> str:
    """Return text in which plotly.js finds no markup of its own."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
