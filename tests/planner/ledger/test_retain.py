"""Retention: what is kept answers as before, what is closed stays as it was."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from planner.ledger.hourly import occupied, rebuild
from planner.ledger.intervals import statements
from planner.ledger.retain import prune
from planner.ledger.rounds import newest_fence
from planner.ledger.schema import hourly, intervals, rounds
from tests.planner.ledger.histories import (
    END_S,
    HOUR,
    emptied,
    histories,
    hourly_rows,
    interval,
    record,
    times,
)


@settings(max_examples=60)
@given(histories, times, st.tuples(times, times).map(sorted))
def test_no_total_of_a_window_in_the_kept_span_changes(shared, said, before_s, span):
    emptied(shared)
    record(shared, *said)
    horizon_s = before_s - before_s % HOUR
    begin_s, end_s = max(span[0], horizon_s), max(span[1], horizon_s)
    with shared.write() as connection:
        before = occupied(connection, begin_s, end_s)
        whole = occupied(connection, 0, END_S)
        prune(connection, before_s)
        assert occupied(connection, begin_s, end_s) == before
        assert occupied(connection, 0, END_S) == whole


@settings(max_examples=60)
@given(histories, times)
def test_the_same_history_imported_again_after_pruning_changes_nothing(shared, said, before_s):
    emptied(shared)
    record(shared, *said)
    with shared.read() as connection:
        truth = list(statements(connection, 0, END_S + 1))
        before = hourly_rows(connection)
    with shared.write() as connection:
        prune(connection, before_s)
    record(shared, *truth)
    with shared.read() as connection:
        assert hourly_rows(connection) == before


@settings(max_examples=40)
@given(histories, times)
def test_hours_before_the_horizon_survive_a_rebuild(shared, said, before_s):
    emptied(shared)
    record(shared, *said)
    with shared.write() as connection:
        prune(connection, before_s)
        before = hourly_rows(connection)
        rebuild(connection)
        assert hourly_rows(connection) == before


def test_single_runs_that_ended_before_the_horizon_are_gone_and_their_hours_are_not(ledger):
    record(ledger, interval("v", 0, HOUR), interval("w", 0, 3 * HOUR))
    with ledger.write() as connection:
        assert prune(connection, 2 * HOUR + 5) == 1
        assert [r.workload for r in connection.execute(select(intervals))] == ["w"]
        assert occupied(connection, 0, END_S)[0, "a", "h100"] == 16 * HOUR


def test_a_run_that_may_still_run_stays(ledger):
    record(ledger, interval(end_s=HOUR, running=True))
    with ledger.write() as connection:
        assert prune(connection, 2 * HOUR) == 0


def test_what_is_late_for_the_horizon_counts_for_nothing_and_is_said(ledger):
    with ledger.write() as connection:
        prune(connection, 2 * HOUR)
    counts = record(ledger, interval(end_s=HOUR), interval("v", HOUR, 3 * HOUR)).counts
    assert (counts.new, counts.late) == (2, 1)
    with ledger.read() as connection:
        assert sum(occupied(connection, 0, END_S).values()) == 8 * HOUR


def test_a_correction_moves_only_what_is_after_the_horizon(ledger):
    first = interval(end_s=4 * HOUR)
    record(ledger, first)
    with ledger.write() as connection:
        prune(connection, 2 * HOUR)
    record(ledger, replace(first, gpus=4))
    with ledger.read() as connection:
        assert sum(occupied(connection, 0, 2 * HOUR).values()) == 8 * 2 * HOUR
        assert sum(occupied(connection, 2 * HOUR, 4 * HOUR).values()) == 4 * 2 * HOUR


def test_part_of_a_closed_hour_counts_in_proportion(ledger):
    record(ledger, interval(end_s=1800))
    with ledger.write() as connection:
        prune(connection, HOUR)
        assert sum(occupied(connection, 900, END_S).values()) == 8 * 1800 - 8 * 1800 // 4


def test_the_horizon_never_moves_back(ledger):
    record(ledger, interval(end_s=4 * HOUR))
    with ledger.write() as connection:
        prune(connection, 2 * HOUR)
        prune(connection, HOUR)
        assert connection.execute(select(intervals.c.from_s)).scalar() == 2 * HOUR
        assert len(connection.execute(select(hourly)).all()) == 4


def test_old_rounds_go_and_the_newest_stays(ledger):
    row = {"snapshot": "", "backend": "", "status": "", "objective": 0.0, "starts": 0, "preemptions": 0}
    with ledger.write() as connection:
        connection.execute(rounds.insert(), [{**row, "time_s": t} for t in (1, 2, 3)])
        newest = newest_fence(connection)
        prune(connection, HOUR)
        assert [r.fence for r in connection.execute(select(rounds))] == [newest]
