"""Where the GPU time went: exact, to the second, against a grid of every GPU in every second."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.simulation.history import Event
from planner.simulation.metrics.hours import HOUR_S, integrals
from planner.simulation.metrics.measure import measure
from solver.state import NodeState
from tests.planner.simulation.histories import scene
from tests.planner.simulation.toy import TOYS


def by_hour(per_second: np.ndarray) -> np.ndarray:
    """Add up the seconds of each hour, the last axis."""
    return np.add.reduceat(per_second, range(0, per_second.shape[-1], HOUR_S), axis=-1)


steps = st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 2), st.integers(-9, 9)), max_size=20)


@given(steps, st.integers(1, 8000))
def test_integrals_are_the_sums_of_the_seconds(changes, end_s):
    time_s, series, change = np.array(changes, dtype=np.int64).reshape(-1, 3).T
    rate = np.zeros((3, 9001), dtype=np.int64)
    for t, k, c in changes:
        rate[k, t:] += c
    assert (integrals(time_s, series, change, 3, end_s) == by_hour(rate[:, :end_s])).all()


def test_no_time_is_one_empty_hour():
    zero = np.zeros(1, dtype=np.int64)
    assert integrals(zero, zero, zero + 5, 2, 0).tolist() == [[0], [0]]


@given(TOYS)
def test_every_gpu_second_is_delivered_idle_or_unavailable(toy):
    h, gpus = measure(toy.history).hours, toy.history.inventory.nodes.gpus[:, None]
    held = toy.allocated + toy.unallocated
    idle = gpus * ~toy.down - held
    assert (idle >= 0).all()
    assert (h.capacity_gpu_s == by_hour((gpus * np.ones_like(held)).sum(axis=0))).all()
    assert (h.unavailable_gpu_s == by_hour((gpus * toy.down).sum(axis=0))).all()
    assert (h.allocated_gpu_s.sum(axis=0) == by_hour(toy.allocated.sum(axis=0))).all()
    assert (h.unallocated_gpu_s.sum(axis=0) == by_hour(toy.unallocated.sum(axis=0))).all()
    assert (h.idle_gpu_s == by_hour(idle.sum(axis=0))).all()
    assert h.capacity_gpu_s.sum() == gpus.sum() * toy.history.end_s


@given(TOYS)
def test_each_allocation_receives_what_its_events_say(toy):
    history, m = toy.history, measure(toy.history)
    e, sums = history.events, dict.fromkeys(m.hours.allocations, 0)
    began: dict[int, int] = {}
    for t, who, what in zip(e.time_s.tolist(), e.workload.tolist(), e.event.tolist(), strict=True):
        if what == Event.START:
            began[who] = t
        elif what != Event.SUBMIT and who in began:
            sums[history.trace.allocation[who]] += (t - began.pop(who)) * int(history.terms.gpus[who])
    for who, t in began.items():
        sums[history.trace.allocation[who]] += (history.end_s - t) * int(history.terms.gpus[who])
    received = (m.hours.allocated_gpu_s + m.hours.unallocated_gpu_s).sum(axis=1)
    assert dict(zip(m.hours.allocations, received.tolist(), strict=True)) == sums


@given(TOYS)
def test_in_no_hour_is_more_delivered_allocated_than_was_demanded(toy):
    h = measure(toy.history).hours
    assert (h.allocated_gpu_s <= h.demand_gpu_s).all()


def test_demand_lasts_from_submit_to_the_end_of_the_work_whether_it_runs_or_not():
    events = [
        (600, "w", Event.SUBMIT, {}),
        (3000, "w", Event.START, {"e1": 8}),
        (3500, "w", Event.PREEMPT, {"e1": 8}),
        (4000, "w", Event.CANCEL, {}),
    ]
    h = measure(scene({"w": {"submitted_s": 600}}, events, end_s=9000)).hours
    assert h.demand_gpu_s[h.allocations.index("lab/a")].tolist() == [3000 * 8, 400 * 8, 0]


def test_refused_and_unallocated_work_demands_nothing():
    jobs = {"huge": {"gpus_per_replica": 99}, "free": {"min_runtime_s": 0}}
    events = [(0, "huge", Event.SUBMIT, {}), (0, "huge", Event.CANCEL, {}), (0, "free", Event.SUBMIT, {})]
    assert not measure(scene(jobs, events, end_s=900)).hours.demand_gpu_s.any()


def test_owed_is_the_smaller_of_share_and_demand_in_each_hour():
    jobs = {"w": {"submitted_s": 3600, "replicas": 2}}
    outage = [(1800, "e1", NodeState.DOWN), (7200, "e1", NodeState.UP)]
    h = measure(scene(jobs, [], end_s=7200 + 60, outages=outage)).hours
    parts, bottom = h.owed(h.allocations.index("lab/a"))
    share = Fraction(3, 1) / Fraction(37, 10) / 3
    assert [Fraction(p, bottom) for p in parts] == [0, share * 30 * 3600, min(share * 38, 16) * 60]


def test_a_draining_node_is_available_and_one_that_is_down_is_not():
    outage = [(100, "e1", NodeState.DRAINING), (200, "e1", NodeState.DOWN), (250, "e1", NodeState.DRAINING)]
    h = measure(scene({}, [], end_s=3600, outages=outage)).hours
    assert h.unavailable_gpu_s.tolist() == [50 * 8]


def test_a_node_that_the_site_says_is_down_is_not_available():
    history = scene({}, [], end_s=3600, outages=[(600, "w1", NodeState.UP)])
    inventory = history.inventory
    state = inventory.nodes.state.copy()
    state[inventory.node_names.index("w1")] = NodeState.DOWN
    history = replace(history, inventory=replace(inventory, nodes=replace(inventory.nodes, state=state)))
    assert measure(history).hours.unavailable_gpu_s.tolist() == [600 * 3]
