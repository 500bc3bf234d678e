"""Runs and fates, read from the events."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from planner.simulation.history import Event
from planner.simulation.metrics.measure import measure
from planner.simulation.metrics.runs import NEVER, Fate
from tests.planner.simulation.histories import scene
from tests.planner.simulation.toy import TOYS


def test_a_life_is_cut_into_its_runs():
    events = [
        (0, "w", Event.SUBMIT, {}),
        (60, "w", Event.START, {"e1": 8}),
        (100, "w", Event.PREEMPT, {"e1": 8}),
        (100, "w", Event.START, {"e2": 8}),
        (400, "w", Event.FINISH, {"e2": 8}),
    ]
    m = measure(scene({"w": {}}, events, end_s=500))
    assert list(zip(m.runs.start_s, m.runs.end_s, strict=True)) == [(60, 100), (100, 400)]
    f = m.fates
    assert (f.fate[0], f.starts[0], f.preemptions[0]) == (Fate.FINISHED, 2, 1)
    assert (f.first_start_s[0], f.over_s[0], f.wait_s[0], f.delivered_gpu_s[0]) == (60, 400, 60, 340 * 8)


def test_what_still_runs_at_the_end_runs_to_the_end():
    m = measure(scene({"w": {}}, [(10, "w", Event.START, {"e1": 8})], end_s=500))
    assert (m.runs.end_s[0], m.fates.fate[0], m.fates.over_s[0]) == (500, Fate.RUNNING, NEVER)


def test_a_wait_without_a_start_ends_with_the_cancel_or_with_the_simulation():
    jobs = {"gone": {}, "left": {"submitted_s": 100}, "later": {"submitted_s": 501}}
    m = measure(scene(jobs, [(50, "gone", Event.CANCEL, {})], end_s=500))
    assert m.fates.wait_s.tolist() == [50, 400, 0]
    assert m.fates.submitted.tolist() == [True, True, False]
    assert m.fates.fate.tolist() == [Fate.CANCELLED, Fate.PENDING, Fate.PENDING]


@given(TOYS)
def test_whoever_started_and_was_not_stopped_is_running_or_finished(toy):
    f = measure(toy.history).fates
    stopped = f.starts == f.preemptions
    running, finished = f.fate == Fate.RUNNING, f.fate == Fate.FINISHED
    assert not (stopped & (running | finished)).any()
    assert (stopped | running | finished | (f.fate == Fate.CANCELLED)).all()


@given(TOYS)
def test_the_runs_hold_exactly_the_gpus_of_the_grid(toy):
    m = measure(toy.history)
    assert m.runs.gpu_s[m.runs.allocated].sum() == toy.allocated.sum()
    assert m.runs.gpu_s[~m.runs.allocated].sum() == toy.unallocated.sum()
    assert m.fates.delivered_gpu_s.sum() == (toy.allocated + toy.unallocated).sum()


@given(TOYS)
def test_what_is_lost_was_held_before(toy):
    f = measure(toy.history).fates
    assert (f.lost_gpu_s <= f.delivered_gpu_s).all()
    assert f.lost_gpu_s.sum() == toy.history.events.lost_gpu_s.sum()
    assert np.all((f.lost_gpu_s == 0) | (f.preemptions > 0))
