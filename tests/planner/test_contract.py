from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.contract import effective
from planner.model.site import Contract, DebugRule
from planner.model.workload import Workload

HALF = Fraction(1, 2)
MINUTE, HOUR = 60, 3_600
PENDING = Workload("j1", "a", replicas=2, gpus_per_replica=4, submitted_s=0, state="pending")
RUNNING = replace(PENDING, state="running", started_s=0)
CONTRACT = Contract(8 * HOUR, 5 * MINUTE, 0, DebugRule(15 * MINUTE, 16))


def asks(min_runtime_s, **other) -> Workload:
    return replace(PENDING, min_runtime_s=min_runtime_s, **other)


@pytest.mark.parametrize(
    ("asked_s", "limit_s", "gets_s"),
    [
        (HOUR, None, HOUR),
        (0, None, 0),
        (9 * HOUR, None, 8 * HOUR),
        (60, None, 5 * MINUTE),
        (8 * HOUR, 15 * MINUTE, 15 * MINUTE),
        (9 * HOUR, 2 * HOUR, 2 * HOUR),
        (60, 2 * MINUTE, 2 * MINUTE),
        (15 * MINUTE, 15 * MINUTE, 15 * MINUTE),
        (0, MINUTE, 0),
    ],
)
def test_min_runtimes_are_held_between_their_bounds(asked_s, limit_s, gets_s):
    got = effective(asks(asked_s, time_limit_s=limit_s), CONTRACT, HALF)
    assert got.min_runtime_s == gets_s
    assert got.allocated == (gets_s > 0)
    assert len(got.warnings) == (asked_s != gets_s)


def test_a_warning_names_the_workload_what_it_asked_and_what_it_gets():
    (warning,) = effective(asks(8 * HOUR, time_limit_s=15 * MINUTE), CONTRACT, HALF).warnings
    for word in ("j1", "8h", "15m", "time limit"):
        assert word in warning


def test_who_says_nothing_gets_the_default_without_a_warning():
    contract = replace(CONTRACT, default_min_runtime_s=HOUR)
    got = effective(asks(None, time_limit_s=10 * MINUTE), contract, HALF)
    assert (got.min_runtime_s, got.allocated, got.warnings) == (10 * MINUTE, True, ())
    assert not effective(asks(None), CONTRACT, HALF).allocated


def test_a_share_of_nothing_is_unallocated_and_says_so_to_who_asked_for_more():
    got = effective(asks(HOUR), CONTRACT, Fraction(0))
    assert (got.min_runtime_s, got.allocated, got.debug) == (0, False, False)
    assert "share of 0" in got.warnings[0]
    assert effective(asks(0), CONTRACT, Fraction(0)).warnings == ()


def test_a_run_keeps_the_occupancy_it_has():
    kept = effective(replace(RUNNING, min_runtime_s=0, occupancy="allocated"), CONTRACT, HALF)
    assert (kept.min_runtime_s, kept.allocated, kept.debug) == (0, True, False)
    free = effective(replace(RUNNING, min_runtime_s=HOUR, occupancy="unallocated"), CONTRACT, HALF)
    assert (free.allocated, free.debug) == (False, False)


def test_what_pending_work_once_was_says_nothing_of_its_next_run():
    assert effective(asks(HOUR, occupancy="unallocated"), CONTRACT, HALF).allocated
    assert not effective(asks(0, occupancy="allocated"), CONTRACT, HALF).allocated


def test_a_run_that_says_nothing_goes_by_its_min_runtime():
    assert effective(replace(RUNNING, min_runtime_s=HOUR), CONTRACT, HALF).allocated
    assert not effective(replace(RUNNING, min_runtime_s=0), CONTRACT, HALF).allocated


def test_a_promise_outlives_the_share_that_it_was_given_for():
    got = effective(replace(RUNNING, min_runtime_s=HOUR, occupancy="allocated"), CONTRACT, Fraction(0))
    assert (got.min_runtime_s, got.allocated) == (HOUR, True)


@pytest.mark.parametrize(
    ("asked_s", "replicas", "debug"),
    [(15 * MINUTE, 4, True), (15 * MINUTE + 1, 4, False), (15 * MINUTE, 5, False), (0, 1, False)],
)
def test_debug_work_is_short_small_and_allocated(asked_s, replicas, debug):
    assert effective(asks(asked_s, replicas=replicas), CONTRACT, HALF).debug is debug


@given(
    st.one_of(st.none(), st.integers(0, 20 * HOUR)),
    st.one_of(st.none(), st.integers(1, 20 * HOUR)),
    st.integers(0, HOUR),
    st.integers(HOUR, 9 * HOUR),
)
def test_nobody_is_protected_longer_than_the_site_or_the_time_limit_allows(asked_s, limit_s, low_s, high_s):
    contract = Contract(high_s, low_s)
    got = effective(asks(asked_s, time_limit_s=limit_s), contract, HALF)
    assert 0 <= got.min_runtime_s <= min(high_s, limit_s or high_s)
    assert got.min_runtime_s == 0 or got.min_runtime_s >= min(low_s, limit_s or low_s)
    assert (got.min_runtime_s == 0) == (not asked_s)
