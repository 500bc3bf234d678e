"""Times of frames as people read them: `Oct 9, 16:20`; in a trace, which knows no dates, `day 9, 16:20`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from planner.simulation.cut import ORIGIN_S
from planner.units import parse_time

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
DAY_S = 86_400

LONGEST_TRACE_S = 366 * DAY_S
"""So long after second 0 of a trace a time counts as one of it: no real cluster is that old."""


def clock(time: str | None) -> str:
    """Return a time of a file; what is none stays as it is, None becomes a dash."""
    if time is None:
        return "-"
    return at(parse_time(time)) if ISO.fullmatch(time) else time


def clocks(text: str) -> str:
    """Return a text with all its times as people read them."""
    return ISO.sub(lambda found: clock(found[0]), text)


def at(time_s: int) -> str:
    """Return an epoch second."""
    when = datetime.fromtimestamp(time_s, UTC)
    day, rest_s = divmod(time_s - ORIGIN_S, DAY_S)
    if 0 <= time_s - ORIGIN_S < LONGEST_TRACE_S:
        return f"day {day}, {rest_s // 3600:02}:{rest_s % 3600 // 60:02}"
    return f"{when:%b} {when.day}, {when:%H:%M}"
