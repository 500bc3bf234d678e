"""Percentiles, and how true promises were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.simulation.history import Event
from planner.simulation.metrics.measure import measure
from planner.simulation.metrics.waits import (
    kept_start_s,
    largest,
    percentile,
    promise_errors_s,
    promise_fates,
)
from solver.promises import Moved
from tests.planner.simulation.histories import SITE, scene

SUBMIT, START, PREEMPT, CANCEL = Event.SUBMIT, Event.START, Event.PREEMPT, Event.CANCEL


def test_percentiles_lie_on_the_line_between_neighbours():
    values = np.array([40, 10, 30, 20])
    assert [percentile(values, q) for q in (0, 50, 90, 100)] == pytest.approx([10, 25, 37, 40])


def test_a_percentile_of_nothing_is_none():
    assert percentile(np.zeros(0), 90) is None


@pytest.mark.parametrize(
    ("claim", "events", "errors_s"),
    [
        ("kept", [(700, "w", START, {"e1": 8})], [0]),
        ("late", [(760, "w", START, {"e1": 8})], [60]),
        ("started in the second in which it was made", [(100, "w", START, {"e1": 8})], [600]),
        ("early", [(500, "w", START, {"e1": 8})], [200]),
        ("overdue at the end of 1000 s", [], [300]),
        ("overdue when cancelled", [(800, "w", CANCEL, {})], [100]),
        ("cancelled before it was due", [(650, "w", CANCEL, {})], []),
    ],
)
def test_a_promise_is_judged_by_the_start_or_by_how_long_it_was_overdue(claim, events, errors_s):
    history = scene({"w": {}}, events, end_s=1000, promises=[(100, "w", 700)])
    m = measure(history)
    assert promise_errors_s(history, m.runs, m.fates).tolist() == errors_s, claim


def test_a_promise_that_is_not_due_before_the_end_is_not_judged():
    history = scene({"w": {}}, [], end_s=1000, promises=[(100, "w", 1001)])
    m = measure(history)
    assert not len(promise_errors_s(history, m.runs, m.fates))


def test_only_the_first_promise_of_a_workload_is_judged():
    promises = [(300, "w", 950), (100, "w", 700), (200, "v", 800)]
    events = [(900, "v", START, {"e2": 8}), (950, "w", START, {"e1": 8})]
    history = scene({"w": {}, "v": {}}, events, end_s=1000, promises=promises)
    m = measure(history)
    assert sorted(promise_errors_s(history, m.runs, m.fates).tolist()) == [100, 250]


def test_a_promise_to_what_was_preempted_is_judged_by_its_next_start():
    events = [
        (0, "w", START, {"e1": 8}),
        (100, "w", PREEMPT, {"e1": 8}),
        (400, "w", START, {"e1": 8}),
        (0, "x", START, {"e2": 8}),
    ]
    promises = [(100, "w", 380), (100, "x", 500)]
    history = scene({"w": {}, "x": {}}, events, end_s=1000, promises=promises)
    assert kept_start_s(history, measure(history).runs).tolist() == [400, -1]


def test_the_largest_ask_for_at_least_the_given_part_of_all_gpus():
    site = SITE.replace('"w[1-2]", gpus: 3', '"w[1-2]", gpus: 4')  # a quarter of 40 GPUs is 10
    jobs = {"ten": {"replicas": 2, "gpus_per_replica": 5}, "nine": {"replicas": 3, "gpus_per_replica": 3}}
    history = scene(jobs, [], end_s=1000, site=site)
    assert dict(zip(history.trace.id, largest(history).tolist(), strict=True)) == {"ten": True, "nine": False}


@pytest.mark.parametrize(
    ("start_s", "why", "fates"),
    [
        (700, None, (1, 0, 0)),
        (500, None, (1, 0, 0)),
        (759, None, (1, 0, 0)),
        (760, None, (0, 0, 1)),
        (900, Moved.TAKEN, (0, 0, 1)),
        (900, Moved.NODE_LOST, (0, 1, 0)),
        (700, Moved.NODE_LOST, (1, 0, 0)),
    ],
)
def test_a_promise_is_kept_to_the_round_or_late_for_a_node_or_for_something_else(start_s, why, fates):
    events = [(start_s, "w", START, {"e1": 8})]
    history = scene({"w": {}}, events, end_s=1000, promises=[(100, "w", 700)])
    if why is not None:
        history = replace(history, moved_at_s=np.array([200]), moved=np.array([0]), moved_why=np.array([why]))
    m = measure(history)
    assert promise_fates(history, m.runs, m.fates) == fates


def test_how_much_the_largest_ask_for_is_compared_exactly():
    """As floats 0.07 x 100 is a little more than 7."""
    site = SITE.replace('"w[1-2]", gpus: 3', '"w[1-2]", gpus: 34').replace("0.25", "0.07")
    history = scene({"seven": {"replicas": 7, "gpus_per_replica": 1}}, [], end_s=1000, site=site)
    assert int(history.inventory.nodes.gpus.sum()) == 100
    assert largest(history).tolist() == [True]
