"""The rules of statements: overlapping, late, corrected, re-imported; each counts every second once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from planner.ledger.hourly import occupied, rebuild
from planner.ledger.intervals import Interval, statements
from planner.ledger.schema import intervals
from planner.ledger.store import Ledger
from tests.planner.ledger.histories import (
    END_S,
    HOUR,
    by_the_second,
    emptied,
    held_true,
    histories,
    hourly_rows,
    interval,
    record,
    times,
)


def gpu_s(ledger: Ledger, begin_s: int = 0, end_s: int = END_S, occupancy: str = "allocated") -> int:
    with ledger.read() as connection:
        return sum(occupied(connection, begin_s, end_s, occupancy).values())


@settings(max_examples=100)
@given(histories, st.tuples(times, times).map(sorted), st.integers(0, 12))
def test_every_window_holds_exactly_the_gpu_seconds_that_a_count_by_the_second_finds(shared, said, span, cut):
    emptied(shared)
    record(shared, *said[:cut])
    record(shared, *said[cut:])
    begin_s, end_s = span
    with shared.read() as connection:
        for occupancy in ("allocated", "unallocated"):
            found = occupied(connection, begin_s, end_s, occupancy)
            assert found == by_the_second(said, begin_s, end_s, occupancy)


@settings(max_examples=40)
@given(histories)
def test_the_hours_built_anew_are_those_that_were_kept_in_step(shared, said):
    emptied(shared)
    record(shared, *said)
    with shared.write() as connection:
        before = hourly_rows(connection)
        rebuild(connection)
        assert hourly_rows(connection) == before


@settings(max_examples=40)
@given(histories)
def test_delivered_gpu_seconds_are_the_occupied_ones(shared, said):
    """Conservation: hours, windows and what the statements count for add up to the same number."""
    emptied(shared)
    record(shared, *said)
    with shared.read() as connection:
        rows = connection.execute(select(intervals)).all()
        counted = sum(r.gpus * (r.until_s - r.from_s) for r in rows)
        for step_s in (END_S, 2700):
            spans = [(a, a + step_s) for a in range(0, END_S, step_s)]
            found = [occupied(connection, *s, o) for s in spans for o in ("allocated", "unallocated")]
            assert counted == sum(sum(series.values()) for series in found)


@settings(max_examples=40)
@given(histories)
def test_all_said_again_in_its_final_form_changes_nothing(shared, said):
    emptied(shared)
    record(shared, *said)
    with shared.read() as connection:
        before = hourly_rows(connection)
        truth = list(statements(connection, 0, END_S + 1))
    assert sorted(truth, key=repr) == sorted(held_true(said), key=repr)
    counts = record(shared, *truth).counts
    assert counts.known == len(truth)
    with shared.read() as connection:
        assert hourly_rows(connection) == before


@settings(max_examples=40)
@given(histories, st.randoms())
def test_the_order_in_which_different_runs_are_said_does_not_matter(shared, said, random):
    truth = held_true(said)
    emptied(shared)
    record(shared, *truth)
    with shared.read() as connection:
        before = hourly_rows(connection)
    random.shuffle(truth)
    emptied(shared)
    record(shared, *truth)
    with shared.read() as connection:
        assert hourly_rows(connection) == before


# --- each rule, on both databases


def test_the_same_occupancy_twice_is_charged_once(ledger):
    record(ledger, interval())
    counts = record(ledger, interval(), interval()).counts
    assert (counts.new, counts.known) == (0, 2)
    assert gpu_s(ledger) == 8 * HOUR


def test_overlapping_runs_of_one_workload_are_charged_once(ledger):
    """A requeued run begins before the end of the one before it was known."""
    record(ledger, interval(begin_s=0, end_s=3000), interval(begin_s=2000, end_s=4000, gpus=16))
    assert gpu_s(ledger) == 8 * 2000 + 16 * 2000


def test_a_gang_on_two_types_is_charged_for_both(ledger):
    record(ledger, interval(gpu_type="h100"), interval(gpu_type="b200", gpus=4))
    assert gpu_s(ledger) == 12 * HOUR


def test_two_workloads_that_overlap_are_both_charged(ledger):
    record(ledger, interval("v"), interval("w"))
    assert gpu_s(ledger) == 16 * HOUR


def test_the_same_name_in_two_sources_is_two_workloads(ledger):
    record(ledger, interval(source="s"), interval(source="t"))
    assert gpu_s(ledger) == 16 * HOUR


def test_a_late_interval_counts_as_if_it_had_been_in_time(ledger):
    record(ledger, interval("v", 3 * HOUR, 4 * HOUR))
    record(ledger, interval("w", 0, HOUR))
    assert gpu_s(ledger, 0, HOUR) == 8 * HOUR


def test_a_late_run_between_two_others_ends_the_first(ledger):
    record(ledger, interval(begin_s=0, end_s=2000), interval(begin_s=3000, end_s=4000))
    record(ledger, interval(begin_s=1500, end_s=3500))
    assert gpu_s(ledger) == 8 * 4000


@pytest.mark.parametrize(
    ("corrected", "due"),
    [
        ({"end_s": 1800}, 8 * 1800),
        ({"begin_s": 600}, 8 * 3000),
        ({"gpus": 4}, 4 * HOUR),
        ({"occupancy": "unallocated"}, 0),
    ],
)
def test_a_correction_counts_in_place_of_what_it_corrects_and_both_stay_on_record(ledger, corrected, due):
    first = interval()
    record(ledger, first)
    assert record(ledger, replace(first, **corrected)).counts.corrected == 1
    assert gpu_s(ledger) == due
    with ledger.read() as connection:
        rows = connection.execute(select(intervals).order_by(intervals.c.revision)).all()
    assert [(r.revision, r.current) for r in rows] == [(0, False), (1, True)]
    assert (rows[0].begin_s, rows[0].end_s, rows[0].gpus) == (0, HOUR, 8)


def test_a_run_moved_to_another_allocation_is_wholly_charged_there(ledger):
    record(ledger, interval(running=True, end_s=1000))
    record(ledger, interval(running=True, end_s=2000, allocation="b"))
    with ledger.read() as connection:
        assert occupied(connection, 0, END_S) == {(0, "b", "h100"): 8 * 2000}


def test_an_older_correction_imported_again_is_the_last_word_again(ledger):
    first, second = interval(end_s=1000), interval(end_s=2000)
    for said in (first, second, first):
        record(ledger, said)
    assert gpu_s(ledger) == 8 * 1000


def test_a_stale_sighting_shortens_nothing(ledger):
    record(ledger, interval(end_s=2000, running=True))
    assert record(ledger, interval(end_s=1000, running=True)).counts.known == 1
    assert gpu_s(ledger) == 8 * 2000


def test_a_stale_sighting_does_not_reopen_what_has_ended(ledger):
    record(ledger, interval(end_s=2000))
    record(ledger, interval(end_s=2000, running=True))
    with ledger.read() as connection:
        assert [i.running for i in statements(connection, 0, END_S)] == [False]


def test_a_run_that_is_seen_beyond_its_end_goes_on(ledger):
    record(ledger, interval(end_s=1000))
    record(ledger, interval(end_s=2000, running=True))
    assert gpu_s(ledger) == 8 * 2000


def test_a_growing_run_is_one_row(ledger):
    for end_s in range(60, 1200, 60):
        record(ledger, interval(end_s=end_s, running=True))
    with ledger.read() as connection:
        assert len(connection.execute(select(intervals)).all()) == 1


def test_more_statements_than_a_batch_are_all_recorded(ledger):
    said: list[Interval] = [interval(f"w{i % 900}", i, i + 1) for i in range(2500)]
    assert record(ledger, *said).counts.new == 2500
    assert gpu_s(ledger) == 8 * 2500


def test_a_year_on_the_largest_cluster_is_exact(ledger):
    year_s = 366 * 86_400
    record(ledger, interval(end_s=year_s - 1, gpus=1_000_000))
    assert gpu_s(ledger, 1, year_s) == 1_000_000 * (year_s - 2)
