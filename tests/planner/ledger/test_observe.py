"""Looking at the cluster again and again: starts, runs that go on or are gone, holes, and bad clocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.ledger.demand import Hour, Wish, known_hours, latest_capacity
from planner.ledger.hourly import occupied
from planner.ledger.intervals import statements
from planner.ledger.observe import MAX_GAP_S, Sighting, observe
from planner.ledger.store import Ledger
from tests.planner.ledger.histories import HOUR, emptied, interval

LATER_S = 10 * HOUR


def look(ledger: Ledger, time_s: int, *begins: tuple[str, int], gpus: int = 32, asked: int = 8) -> None:
    """Look once: workloads of 8 GPUs and the starts of their runs."""
    held = tuple(interval(w, b, max(time_s, b), running=True) for w, b in begins)
    sighting = Sighting(time_s, "test", held, {("k", "h100"): gpus}, {"a": asked}, {"a": 500_000_000})
    with ledger.write() as connection:
        observe(connection, sighting)


def gpu_s(ledger: Ledger) -> int:
    with ledger.read() as connection:
        return sum(occupied(connection, 0, 10**7).values())


def hours(ledger: Ledger) -> list[Hour]:
    with ledger.read() as connection:
        return known_hours(connection, 0, 10**7)


def test_a_run_is_charged_from_its_start_to_the_last_time_it_was_seen(ledger):
    look(ledger, 100, ("w", 40))
    look(ledger, 160, ("w", 40))
    assert gpu_s(ledger) == 8 * 120


def test_a_run_that_is_gone_ended_when_it_was_last_seen(ledger):
    look(ledger, 100, ("w", 40))
    look(ledger, 160)
    look(ledger, 220)
    assert gpu_s(ledger) == 8 * 60
    with ledger.read() as connection:
        assert [i.running for i in statements(connection, 0, 300)] == [False]


def test_a_run_that_reappears_with_its_old_start_was_there_all_along(ledger):
    look(ledger, 100, ("w", 40))
    look(ledger, 160)
    look(ledger, 220, ("w", 40))
    assert gpu_s(ledger) == 8 * 180


def test_a_requeued_workload_is_charged_for_each_run(ledger):
    look(ledger, 100, ("w", 40))
    look(ledger, 160, ("w", 130))
    assert gpu_s(ledger) == 8 * 60 + 8 * 30


def test_the_same_look_twice_changes_nothing(ledger):
    look(ledger, 100, ("w", 40))
    look(ledger, 160, ("w", 40))
    before = (gpu_s(ledger), hours(ledger))
    look(ledger, 160, ("w", 40))
    assert (gpu_s(ledger), hours(ledger)) == before


def test_a_clock_that_steps_back_takes_nothing_away(ledger):
    look(ledger, 100, ("v", 0), ("w", 40))
    look(ledger, 200, ("v", 0), ("w", 40))
    before = (gpu_s(ledger), hours(ledger))
    look(ledger, 150, ("v", 0))
    assert (gpu_s(ledger), hours(ledger)) == before
    look(ledger, 300, ("v", 0), ("w", 40))
    assert gpu_s(ledger) == 8 * 300 + 8 * 260
    assert [(h.first_s, h.last_s, h.observed_s) for h in hours(ledger)] == [(100, 300, 200)]


def test_after_a_clock_that_was_far_ahead_time_goes_on_from_the_true_one(ledger):
    look(ledger, 100, ("w", 40))
    look(ledger, 10**6, ("w", 40))
    for time_s in (220, 280):
        look(ledger, time_s, ("v", 200))
    assert [(h.first_s, h.last_s, h.observed_s) for h in hours(ledger)] == [(220, 280, 60)]
    with ledger.read() as connection:
        assert {i.workload: i.running for i in statements(connection, 0, 300)} == {"v": True, "w": False}


def test_a_run_that_begins_ahead_of_our_clock_is_not_charged_yet(ledger):
    look(ledger, 100, ("w", 130))
    assert gpu_s(ledger) == 0
    look(ledger, 160, ("w", 130))
    assert gpu_s(ledger) == 8 * 30


def test_another_source_ends_nothing_of_ours(ledger):
    look(ledger, 100, ("w", 40))
    with ledger.write() as connection:
        observe(connection, Sighting(160, "other", (), {}, {}, {}))
    with ledger.read() as connection:
        assert [i.running for i in statements(connection, 0, 300)] == [True]


def test_the_first_look_knows_nothing_of_the_past(ledger):
    look(ledger, 100, ("w", 40))
    assert hours(ledger) == []


def test_capacity_demand_and_share_are_added_up_by_hour(ledger):
    look(ledger, 3000)
    look(ledger, 4000, gpus=32, asked=8)
    look(ledger, 4600, gpus=16, asked=40)
    first, second = hours(ledger)
    assert (first.first_s, first.last_s, first.observed_s) == (3000, 3600, 600)
    assert first.capacity == {"h100": 32 * 600}
    assert second.capacity == {"h100": 32 * 400 + 16 * 600}
    assert second.wishes == {"a": Wish(500_000_000 * 1000, 8 * 400 + 40 * 600)}
    with ledger.read() as connection:
        assert latest_capacity(connection) == {"h100": (32 * 400 + 16 * 600) // 1000}


def test_a_hole_is_not_known_and_a_run_across_it_is_charged(ledger):
    """A week without a planner: who ran across it held its GPUs, but nobody is told to have been idle."""
    look(ledger, 600, ("w", 0))
    look(ledger, 1200, ("w", 0))
    back_s = 1200 + 7 * 24 * HOUR
    look(ledger, back_s, ("w", 0))
    look(ledger, back_s + 600, ("w", 0))
    assert gpu_s(ledger) == 8 * (back_s + 600)
    assert [(h.first_s, h.last_s) for h in hours(ledger)] == [(600, 1200), (back_s, back_s + 600)]


@pytest.mark.parametrize(("gap_s", "known_s"), [(MAX_GAP_S, MAX_GAP_S), (MAX_GAP_S + 1, 0)])
def test_a_gap_of_an_hour_is_bridged_and_no_longer_one(ledger, gap_s, known_s):
    look(ledger, LATER_S + 50)
    look(ledger, LATER_S + 50 + gap_s)
    assert sum(h.observed_s for h in hours(ledger)) == known_s


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 2 * HOUR), st.sets(st.sampled_from("uvw"))), min_size=1, max_size=8))
def test_whatever_the_clock_does_nothing_is_charged_or_known_twice(shared, looks):
    """Runs that began at 0: each is charged to the last time anybody saw it; known is what looks enclose."""
    emptied(shared)
    for time_s, seen in looks:
        look(shared, time_s, *((w, 0) for w in sorted(seen)))
    last = {w: max(t for t, seen in looks if w in seen) for w in {w for _, seen in looks for w in seen}}
    assert gpu_s(shared) == 8 * sum(last.values())
    newest, seen_s, known = looks[0][0], 0, set()
    for time_s, _ in looks[1:]:
        if 0 < time_s - newest <= MAX_GAP_S:
            seen_s += time_s - newest
            known |= set(range(newest, time_s))
        if time_s > newest or time_s < newest - MAX_GAP_S:
            newest = time_s
    assert sum(h.observed_s for h in hours(shared)) == seen_s
    by_hour = {h.hour_s: (h.first_s, h.last_s) for h in hours(shared)}
    for hour_s, (first_s, last_s) in by_hour.items():
        inside = known & set(range(hour_s, hour_s + HOUR))
        assert (first_s, last_s - 1) == (min(inside), max(inside))
    assert set(by_hour) == {second - second % HOUR for second in known}
