"""Occupied GPU-seconds by hour: a roll-up kept in step with the intervals, so that sums over weeks are short.

An hour holds its GPU-seconds, and the GPUs held in its first second. From the latter and from what begins and
ends inside the hour follows, exactly, what was used up to any second of it:
used(T) = gpus_at * (T - hour) + sum over intervals of gpus * (T - from) - sum of gpus * (T - until).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqlalchemy import BigInteger, Connection, delete, func, insert, literal, select

from planner.ledger.schema import HOUR_S, clock, hourly, intervals
from planner.ledger.upsert import BATCH, Row, add, upsert

Group = tuple[str, str, str]
"""Allocation, GPU type, occupancy."""

Series = dict[tuple[int, str, str], int]
"""GPU-seconds by hour (its first second), allocation and GPU type."""


def hour_of(time_s: int) -> int:
    """Return the first second of the hour."""
    return time_s - time_s % HOUR_S


def pieces(from_s: int, until_s: int) -> Iterator[tuple[int, int, int]]:
    """Yield (hour, first second, second after the last) of each hour that a stretch of time touches."""
    for hour_s in range(hour_of(from_s), until_s, HOUR_S):
        begin_s, end_s = max(from_s, hour_s), min(until_s, hour_s + HOUR_S)
        if begin_s < end_s:
            yield hour_s, begin_s, end_s


class Changes:
    """What a transaction adds to and takes from the roll-up; written once, by `flush`."""

    def __init__(self) -> None:
        self.gpu_s: Counter[tuple[int, str, str, str]] = Counter()
        self.gpus_at: Counter[tuple[int, str, str, str]] = Counter()

    def add(self, group: Group, from_s: int, until_s: int, gpus: int) -> None:
        """Add an interval; negative GPUs take it away."""
        for hour_s, begin_s, end_s in pieces(from_s, until_s):
            key = (hour_s, *group)
            self.gpu_s[key] += gpus * (end_s - begin_s)
            if begin_s == hour_s:
                self.gpus_at[key] += gpus

    def rows(self) -> list[Row]:
        """Return what is not nothing, in the order of the key."""
        keys = sorted(k for k in self.gpu_s if self.gpu_s[k] or self.gpus_at[k])
        names = ("hour_s", "allocation", "gpu_type", "occupancy")
        return [
            dict(zip(names, k, strict=True)) | {"gpu_s": self.gpu_s[k], "gpus_at": self.gpus_at[k]}
            for k in keys
        ]

    def flush(self, connection: Connection) -> None:
        """Write and forget the changes."""
        upsert(connection, hourly, self.rows(), {"gpu_s": add, "gpus_at": add})
        self.gpu_s.clear()
        self.gpus_at.clear()


def horizon_of(connection: Connection) -> int:
    """Return the second before which only hours are kept."""
    return int(connection.execute(select(clock.c.horizon_s)).scalar_one())


def occupied(connection: Connection, begin_s: int, end_s: int, occupancy: str = "allocated") -> Series:
    """Return what was occupied from `begin_s` to `end_s`, by hour; exact to the GPU-second.

    Before the horizon, where only hours are kept, the part of an hour counts in proportion, rounded down.
    """
    out: Series = {}
    if begin_s >= end_s:
        return out
    columns = (hourly.c.hour_s, hourly.c.allocation, hourly.c.gpu_type, hourly.c.gpu_s)
    inside = hourly.c.hour_s.between(hour_of(begin_s), hour_of(end_s) - HOUR_S)
    for hour_s, allocation, gpu_type, gpu_s in connection.execute(
        select(*columns).where(inside, hourly.c.occupancy == occupancy)
    ):
        out[hour_s, allocation, gpu_type] = gpu_s
    for time_s, sign in ((begin_s, -1), (end_s, 1)):
        for (allocation, gpu_type), gpu_s in _into_hour(connection, time_s, occupancy).items():
            key = (hour_of(time_s), allocation, gpu_type)
            out[key] = out.get(key, 0) + sign * gpu_s
    return {key: gpu_s for key, gpu_s in out.items() if gpu_s}


def _into_hour(connection: Connection, time_s: int, occupancy: str) -> Counter[tuple[str, str]]:
    """Return what was used of the hour of `time_s` up to it, by allocation and GPU type."""
    hour_s = hour_of(time_s)
    used: Counter[tuple[str, str]] = Counter()
    if time_s == hour_s:
        return used
    kept_whole = hour_s < horizon_of(connection)
    for allocation, gpu_type, gpu_s, gpus_at in connection.execute(
        select(hourly.c.allocation, hourly.c.gpu_type, hourly.c.gpu_s, hourly.c.gpus_at).where(
            hourly.c.hour_s == hour_s, hourly.c.occupancy == occupancy
        )
    ):
        whole_s = time_s - hour_s
        used[allocation, gpu_type] = gpu_s * whole_s // HOUR_S if kept_whole else gpus_at * whole_s
    if kept_whole:
        return used
    for edge, sign in ((intervals.c.from_s, 1), (intervals.c.until_s, -1)):
        group = (intervals.c.allocation, intervals.c.gpu_type)
        rest = func.sum(intervals.c.gpus * (literal(time_s, BigInteger) - edge))
        inside = (edge > hour_s, edge < time_s, intervals.c.occupancy == occupancy)
        for allocation, gpu_type, gpu_s in connection.execute(
            select(*group, rest).where(*inside).group_by(*group)
        ):
            used[allocation, gpu_type] += sign * int(gpu_s)
    return used


def rebuild(connection: Connection) -> None:
    """Derive the roll-up anew from the intervals, as far back as these are kept."""
    connection.execute(delete(hourly).where(hourly.c.hour_s >= horizon_of(connection)))
    changes = Changes()
    c = intervals.c
    for row in connection.execute(
        select(c.allocation, c.gpu_type, c.occupancy, c.from_s, c.until_s, c.gpus).where(c.until_s > c.from_s)
    ):
        changes.add((row[0], row[1], row[2]), row[3], row[4], row[5])
    offered = changes.rows()
    for start in range(0, len(offered), BATCH):
        connection.execute(
            insert(hourly),
            offered[start : start + BATCH],
        )
