"""Random histories, and an oracle that knows nothing of hours, indices or SQL: it counts second by second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, select, update

from planner.ledger.hourly import Series
from planner.ledger.intervals import Interval, Recorder
from planner.ledger.schema import clock, hourly, intervals, lease, metadata
from planner.ledger.store import Ledger

HOUR = 3600
END_S = 4 * HOUR
"""Small histories lie in four hours."""

NEAR = [0, 1, HOUR - 1, HOUR, HOUR + 1, 2 * HOUR, 3 * HOUR - 1, END_S]


def interval(
    workload: str = "w",
    begin_s: int = 0,
    end_s: int = HOUR,
    *,
    started_s: int | None = None,
    gpus: int = 8,
    allocation: str = "a",
    occupancy: str = "allocated",
    gpu_type: str = "h100",
    running: bool = False,
    source: str = "test",
) -> Interval:
    run = begin_s if started_s is None else started_s
    return Interval(
        source, workload, run, allocation, occupancy, "k", gpu_type, gpus, begin_s, end_s, running
    )


times = st.one_of(st.sampled_from(NEAR), st.integers(0, END_S))


@st.composite
def statements(draw: st.DrawFn) -> Interval:
    """One statement about one of few workloads, so that they meet."""
    started_s, begin_s, end_s = sorted(draw(st.tuples(times, times, times)))
    started_s = draw(st.sampled_from([started_s, 0]))
    return interval(
        draw(st.sampled_from("uvw")),
        begin_s,
        end_s,
        started_s=started_s,
        gpus=draw(st.integers(1, 9)),
        allocation=draw(st.sampled_from("ab")),
        occupancy=draw(st.sampled_from(["allocated", "unallocated"])),
        gpu_type=draw(st.sampled_from(["", "h100"])),
        running=draw(st.booleans()),
        source=draw(st.sampled_from("st")),
    )


histories = st.lists(statements(), max_size=12)


def held_true(said: Iterable[Interval]) -> list[Interval]:
    """Return what is to be believed after all that was said, in that order."""
    truth: dict[tuple[object, ...], Interval] = {}
    for new in said:
        old = truth.get(new.key)
        if old is None or not new.running:
            truth[new.key] = new
        elif new.end_s > old.end_s or (new.end_s == old.end_s and old.running):
            truth[new.key] = replace(new, begin_s=old.begin_s)
    return list(truth.values())


def by_the_second(said: Iterable[Interval], begin_s: int, end_s: int, occupancy: str) -> Series:
    """Return GPU-seconds by hour, allocation and type: the newest run of a workload counts."""
    truth = held_true(said)
    begins: dict[tuple[str, str], dict[int, int]] = {}
    for i in truth:
        of = begins.setdefault((i.source, i.workload), {})
        of[i.started_s] = min(of.get(i.started_s, i.begin_s), i.begin_s)
    out: Counter[tuple[int, str, str]] = Counter()
    for i in truth:
        later = [b for run, b in begins[i.source, i.workload].items() if run > i.started_s]
        seconds = np.arange(i.begin_s, i.end_s)
        counts = (seconds >= begin_s) & (seconds < end_s) & (i.occupancy == occupancy)
        for b in later:
            counts &= seconds < b
        for hour, found in enumerate(np.bincount(seconds[counts] // HOUR).tolist()):
            out[hour * HOUR, i.allocation, i.gpu_type] += found * i.gpus
    return {key: gpu_s for key, gpu_s in out.items() if gpu_s}


def record(ledger: Ledger, *said: Interval) -> Recorder:
    """Record statements in one transaction."""
    with ledger.write() as connection:
        recorder = Recorder(connection)
        list(recorder.record(said))
        recorder.finish()
    return recorder


def emptied(ledger: Ledger) -> Ledger:
    """Take everything out of a ledger: quicker than a new one."""
    with ledger.write() as connection:
        for table in reversed(metadata.sorted_tables):
            if table not in (clock, lease):
                connection.execute(delete(table))
        connection.execute(update(clock).values(horizon_s=0, observed_s=None))
        connection.execute(update(lease).values(token=0, holder="", until_s=0))
    return ledger


def hourly_rows(connection: Connection) -> list[tuple[object, ...]]:
    """Return the roll-up, without hours in which nothing is held."""
    rows = connection.execute(select(hourly).where((hourly.c.gpu_s != 0) | (hourly.c.gpus_at != 0)))
    return sorted(tuple(r) for r in rows)


def interval_rows(connection: Connection) -> list[tuple[object, ...]]:
    return sorted(tuple(r)[1:] for r in connection.execute(select(intervals)))


def random_year(seed: int, size: int) -> list[Interval]:
    """Return a year of runs, some of them said again, corrected, or overlapping the next run."""
    rng, year_s = Random(seed), 366 * 86_400
    out: list[Interval] = []
    for i in range(size):
        begin_s = rng.randrange(year_s)
        end_s = begin_s + rng.choice([0, 1, 59, 3600, 28_800, rng.randrange(1, 9 * 86_400)])
        out.append(
            interval(
                f"w{rng.randrange(size // 2 + 1)}",
                begin_s,
                end_s,
                gpus=rng.choice([1, 3, 8, 64, 512]),
                allocation=f"a{rng.randrange(7)}",
                occupancy=rng.choice(["allocated", "allocated", "unallocated"]),
                gpu_type=rng.choice(["", "h100", "b200"]),
                running=rng.random() < 0.2,
            )
        )
        if i % 5 == 0:
            old = rng.choice(out)
            out.append(replace(old, end_s=old.end_s + rng.randrange(-min(old.end_s - old.begin_s, 500), 500)))
    return out
