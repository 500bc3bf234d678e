"""The figures of `summary.json`: as an outside audit finds them, and as the interface names them."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import yaml
from hypothesis import given

from planner.simulation.history import Event
from planner.simulation.metrics.measure import measure
from planner.simulation.metrics.summary import summary
from planner.simulation.output import write
from solver.state import NodeState
from tests.planner.simulation.histories import SITE, scene
from tests.planner.simulation.toy import TOYS, Toy
from tests.realdata import SHARED

INTERFACE = """
end_s, availability, occupancy, unallocated_share, delivered_over_owed, worst_delivered_over_owed,
allocations_at_95, wait_p50_s, wait_p90_s, debug_wait_p90_s, largest_wait_p50_s, largest_wait_p90_s,
placement_wait_p90_s, largest_placement_wait_p90_s, promise_error_p90_s, preemptions,
preempted_gpu_hours_lost, goodput, rounds, solve_seconds_p50, solve_seconds_p90, wall_seconds
"""
SUBMIT, START, PREEMPT, FINISH = Event.SUBMIT, Event.START, Event.PREEMPT, Event.FINISH

needs_audit = pytest.mark.skipif(
    not (SHARED / "verify_simulation.py").is_file(), reason="the audit is not here: set GANGPLAN_SHARED"
)


@pytest.fixture(scope="module")
def audit() -> Iterator[ModuleType]:
    """Yield the audit, which recomputes the figures from the files that were written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SHARED)
        patch.setattr(os, "fsync", lambda handle: None)  # many small files, and no crash to survive
        yield importlib.import_module("verify_simulation")


@needs_audit
@given(toy=TOYS)
def test_an_outside_audit_of_the_files_finds_the_same_figures(audit, tmp_path_factory, toy: Toy):
    folder = tmp_path_factory.mktemp("toy")
    trace, nodes = toy.write_inputs(folder)
    write(toy.history, folder)
    broken, figures = audit.audit(yaml.safe_load(SITE), trace, folder, nodes)
    assert broken == []
    told = summary(measure(toy.history))
    for name, value in figures.items():
        assert told[name] == (None if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)), name


@needs_audit
def test_the_audit_counts_what_is_submitted_in_the_last_second_too(audit, tmp_path):
    events = [(0, "w", SUBMIT, {}), (100, "w", START, {"e1": 8})]
    toy = Toy(scene({"w": {}, "x": {"submitted_s": 900}}, events, end_s=900), *[np.zeros(0)] * 3)
    trace, nodes = toy.write_inputs(tmp_path)
    assert write(toy.history, tmp_path)["wait_p50_s"] == 50
    assert audit.audit(yaml.safe_load(SITE), trace, tmp_path, nodes)[0] == []


def test_the_keys_of_the_interface_come_first_and_in_its_order():
    wanted = INTERFACE.replace(",", " ").split()
    assert list(summary(measure(scene({}, [], end_s=0))))[: len(wanted)] == wanted


def test_of_nothing_there_is_nothing_to_say():
    counts = {
        "end_s", "allocations_at_95", "preemptions", "preempted_gpu_hours_lost", "rounds", "exact_rounds",
        "placed_between_rounds", "workloads", "refused", "finished", "unstarted", "largest_unstarted",
        "promised", "promises_kept", "promises_late_by_node", "promises_late_otherwise",
    }  # fmt: skip
    figures = summary(measure(scene({}, [], end_s=0)))
    assert all(figures.pop(name) == 0 for name in counts)
    assert (figures.pop("policy"), figures.pop("wall_seconds")) == ("told", 1.5)
    assert set(figures.values()) == {None}


@given(toy=TOYS)
def test_every_summary_is_strict_json(toy):
    figures = summary(measure(toy.history))
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_a_worked_example():
    """The one of docs/metrics.md: two hours of 38 GPUs, a node of 8 down in the second."""
    jobs = {"a": {"replicas": 2, "runtime_s": 9999}, "b": {"min_runtime_s": 0}, "c": {"submitted_s": 3600}}
    events = [
        (0, "a", SUBMIT, {}),
        (0, "b", SUBMIT, {}),
        (0, "b", START, {"e3": 8}),
        (1800, "a", START, {"e1": 8, "e2": 8}),
        (3600, "b", FINISH, {"e3": 8}),
        (3600, "c", SUBMIT, {}),
    ]
    figures = summary(
        measure(
            scene(
                jobs,
                events,
                end_s=7200,
                outages=[(3600, "e4", NodeState.DOWN)],
                placement_wait_s={"a": 600, "c": 900},
                promises=[(0, "a", 1700)],
                samples=[(0, 30, 0, 4), (3600, 14, 8, 10)],
                solve_s=(1.0, 3.0),
            )
        )
    )
    owed = 3 / 3.7 / 3 * (38 + 30)  # the share of lab/a; it asks for more in both hours
    expected = {
        "availability": 68 / 76,
        "occupancy": (24 + 8) / 68,
        "unallocated_share": 8 / 32,
        "delivered_over_owed": 1.0,
        "worst_delivered_over_owed": 24 / owed,
        "allocations_at_95": 1,
        "wait_p50_s": 2700,
        "wait_p90_s": 3420,
        "largest_wait_p50_s": 1800,
        "debug_wait_p90_s": None,
        "placement_wait_p90_s": 870,
        "largest_placement_wait_p90_s": 600,
        "promise_error_p90_s": 100,
        "promises_kept": 0,
        "promises_late_otherwise": 1,
        "solve_seconds_p50": 2.0,
        "stranded_gpus_mean": 7.0,
        "unstarted": 1,
        "largest_unstarted": 0,
    }
    assert {name: figures[name] for name in expected} == pytest.approx(expected)


def test_what_an_allocation_gets_beyond_what_it_is_owed_makes_up_for_nobody():
    jobs = {"greedy": {"allocation": "c"}, "poor": {"allocation": "lab/b", "replicas": 4}}
    events = [(0, "greedy", START, {"e1": 8})]
    figures = summary(measure(scene(jobs, events, end_s=3600)))
    shares = {"c": 0.7 / 3.7, "lab/b": 2 / 3.7}
    owed = shares["c"] * 38, min(shares["lab/b"] * 38, 32)
    assert figures["worst_delivered_over_owed"] == 0
    assert figures["delivered_over_owed"] == pytest.approx(owed[0] / sum(owed))


def test_exactly_95_percent_is_enough():
    site = SITE.replace("weight: 0.7", "weight: 0").replace('"w[1-2]", gpus: 3', '"w[1-2]", gpus: 4')
    jobs = {"b": {"allocation": "lab/b", "replicas": 4}}
    events = [(0, "b", START, {f"e{i}": 8 for i in (1, 2, 3, 4)})]
    over_s = 2850  # 32 GPUs so long are 91,200 GPU-seconds; two thirds of 40 for an hour are 96,000
    full = scene(jobs, [*events, (over_s, "b", PREEMPT, {})], end_s=3600, site=site)
    less = scene(jobs, [*events, (over_s - 1, "b", PREEMPT, {})], end_s=3600, site=site)
    assert summary(measure(full))["worst_delivered_over_owed"] == 0.95
    assert [summary(measure(h))["allocations_at_95"] for h in (full, less)] == [1, 0]


def test_utilisation_is_weighted_by_what_was_held_and_silent_traces_do_not_count():
    jobs = {
        "a": {"gpu_utilization": 1.0},
        "b": {"gpu_utilization": 0.2},
        "c": {},
        "d": {"gpu_utilization": 0.5},
    }
    events = [(0, key, START, {node: 8}) for key, node in (("a", "e1"), ("b", "e2"), ("c", "e3"))]
    figures = summary(measure(scene(jobs, [*events, (300, "a", FINISH, {"e1": 8})], end_s=1200)))
    assert figures["gpu_utilization"] == pytest.approx((1.0 * 300 + 0.2 * 1200) / 1500)
