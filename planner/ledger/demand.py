"""What is known of each hour: how much of it, the capacity that was there, and who asked for how much of it.

An hour that is not here counts for nobody and against nobody: missing history is not idleness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, case, func, select

from planner.ledger.hourly import pieces
from planner.ledger.intervals import Interval
from planner.ledger.schema import capacity, demand, hours
from planner.ledger.upsert import add, upsert

Pool = tuple[str, str]
"""Cluster and GPU type."""


@dataclass(frozen=True)
class Wish:
    """What an allocation was due and asked for while an hour was observed.

    Attributes
    ----------
    share_ppb_s : int, parts per billion x seconds
    gpu_s : int, GPU-seconds
    """

    share_ppb_s: int
    gpu_s: int


@dataclass(frozen=True)
class Hour:
    """What is known of one hour.

    Attributes
    ----------
    first_s, last_s : int, epoch seconds
        The known part of it.
    observed_s : int, seconds
        The part that `capacity` and `wishes` are sums over; 0 where only runs are known, by import.
    capacity : dict of GPU type to GPU-seconds
    wishes : dict of allocation to Wish
    """

    hour_s: int
    first_s: int
    last_s: int
    observed_s: int
    capacity: dict[str, int] = field(default_factory=dict)
    wishes: dict[str, Wish] = field(default_factory=dict)


def known_hours(connection: Connection, begin_s: int, end_s: int) -> list[Hour]:
    """Return the hours of which something from `begin_s` to `end_s` is known, in order."""
    rows = connection.execute(
        select(hours).where(hours.c.hour_s < end_s, hours.c.last_s > begin_s).order_by(hours.c.hour_s)
    )
    out = {r.hour_s: Hour(r.hour_s, r.first_s, r.last_s, r.observed_s) for r in rows}
    if not out:
        return []
    span = (min(out), max(out))
    total = func.sum(capacity.c.gpu_s)
    for hour_s, gpu_type, gpu_s in connection.execute(
        select(capacity.c.hour_s, capacity.c.gpu_type, total)
        .where(capacity.c.hour_s.between(*span))
        .group_by(capacity.c.hour_s, capacity.c.gpu_type)
    ):
        out[hour_s].capacity[gpu_type] = int(gpu_s)
    for r in connection.execute(select(demand).where(demand.c.hour_s.between(*span))):
        out[r.hour_s].wishes[r.allocation] = Wish(r.share_ppb_s, r.gpu_s)
    return list(out.values())


def latest_capacity(connection: Connection) -> dict[str, int]:
    """Return the GPUs by type of the last hour in which they were observed."""
    newest = select(func.max(hours.c.hour_s)).where(hours.c.observed_s > 0)
    hour_s = connection.execute(newest).scalar()
    if hour_s is None:
        return {}
    hour = known_hours(connection, hour_s, hour_s + 1)[0]
    return {gpu_type: gpu_s // hour.observed_s for gpu_type, gpu_s in hour.capacity.items()}


def observe_stretch(
    connection: Connection,
    begin_s: int,
    end_s: int,
    gpus: Mapping[Pool, int],
    asked_gpus: Mapping[str, int],
    share_ppb: Mapping[str, int],
) -> None:
    """Add a stretch of time in which capacity, demand and shares stood still.

    Parameters
    ----------
    gpus : GPUs that were there, by pool
    asked_gpus : GPUs that allocated work asked for, running and pending, by allocation
    share_ppb : share of each allocation, parts per billion
    """
    stretch = list(pieces(begin_s, end_s))
    _cover(connection, {h: (b, e, e - b) for h, b, e in stretch})
    there = [
        {"hour_s": h, "cluster": cluster, "gpu_type": gpu_type, "gpu_s": n * (e - b)}
        for h, b, e in stretch
        for (cluster, gpu_type), n in sorted(gpus.items())
    ]
    upsert(connection, capacity, there, {"gpu_s": add})
    wishes = [
        {
            "hour_s": h,
            "allocation": a,
            "share_ppb_s": share_ppb.get(a, 0) * (e - b),
            "gpu_s": asked_gpus.get(a, 0) * (e - b),
        }
        for h, b, e in stretch
        for a in sorted(share_ppb.keys() | asked_gpus.keys())
    ]
    upsert(connection, demand, wishes, {"share_ppb_s": add, "gpu_s": add})


class Coverage:
    """The hours that imported intervals touch: from the first to the last second that something ran."""

    def __init__(self) -> None:
        self.parts: dict[int, tuple[int, int, int]] = {}

    def touch(self, intervals: Iterable[Interval]) -> None:
        """Add the time of some intervals."""
        for interval in intervals:
            for hour_s, begin_s, end_s in pieces(interval.begin_s, interval.end_s):
                first_s, last_s, _ = self.parts.get(hour_s, (begin_s, end_s, 0))
                self.parts[hour_s] = (min(first_s, begin_s), max(last_s, end_s), 0)

    def flush(self, connection: Connection) -> None:
        """Write and forget the hours."""
        _cover(connection, self.parts)
        self.parts = {}


def _cover(connection: Connection, parts: Mapping[int, tuple[int, int, int]]) -> None:
    """Widen what is known of hours: (first second, second after the last, seconds observed) of each."""
    names = ("first_s", "last_s", "observed_s")
    rows = [{"hour_s": h, **dict(zip(names, part, strict=True))} for h, part in sorted(parts.items())]
    upsert(connection, hours, rows, {"first_s": _least, "last_s": _most, "observed_s": add})


def _least(there: Any, offered: Any) -> Any:
    return case((there < offered, there), else_=offered)


def _most(there: Any, offered: Any) -> Any:
    return case((there > offered, there), else_=offered)
