"""Lives of workloads, second by second, and the laws that hold in every simulation."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.round import plan_round
from planner.simulation.cut import ORIGIN_S, cut
from planner.simulation.engine import Engine, Options
from planner.simulation.history import Event
from planner.simulation.policies.budget import BudgetGreedy
from planner.snapshot import parse_snapshot
from solver.feasible import rejections
from tests.planner.simulation.small import HOUR, happened, outages, run, site, trace


def test_work_that_fits_starts_in_the_round_of_its_submit_and_ends_after_its_runtime():
    history = run(site(), trace({"submitted_s": 120, "runtime_s": 1000}))
    assert happened(history) == [(120, "w0", "submit"), (120, "w0", "start"), (1120, "w0", "finish")]
    assert history.end_s == 1120


def test_work_submitted_between_rounds_starts_at_once_on_free_nodes():
    history = run(site(), trace({"submitted_s": 7}))
    assert happened(history)[:2] == [(7, "w0", "submit"), (7, "w0", "start")]
    assert history.effort.placed_between == 1


def test_a_run_of_no_length_ends_after_it_has_started():
    history = run(site(), trace({"submitted_s": 60, "runtime_s": 0}))
    assert [x[2] for x in happened(history)] == ["submit", "start", "finish"]


def test_a_time_limit_ends_the_workload():
    history = run(site(), trace({"runtime_s": 5 * HOUR, "time_limit_s": HOUR}))
    assert happened(history)[-1] == (HOUR, "w0", "finish")


def test_what_can_never_run_is_cancelled_in_the_second_of_its_submit():
    history = run(site(), trace({"submitted_s": 7, "replicas": 5}, {"submitted_s": 9, "gpus_per_replica": 9}))
    assert [x for x in happened(history) if x[2] == "cancel"] == [(7, "w0", "cancel"), (9, "w1", "cancel")]
    assert history.terms.refused.all()


def test_no_round_is_asked_about_what_can_never_run(monkeypatch):
    asked, decide = [], BudgetGreedy.decide

    def watched(self, round_):
        asked.append(rejections(round_.state).any())
        return decide(self, round_)

    monkeypatch.setattr(BudgetGreedy, "decide", watched)
    of, work = site(2), trace({"replicas": 3}, {"gpus_per_replica": 9}, *[{"replicas": 2}] * 3)
    run(of, work, outages(of, (500, "n1", "down"), (9000, "n1", "up")))
    assert asked
    assert not any(asked)


def test_cancelling_ends_what_waits_and_what_runs():
    full = [{"replicas": 4, "runtime_s": 2 * HOUR, "cancelled_after_s": 500}, {"cancelled_after_s": 100}]
    history = run(site(), trace(*full))
    assert happened(history, "w0")[-1] == (500, "w0", "cancel")
    assert happened(history, "w1") == [(0, "w1", "submit"), (100, "w1", "cancel")]


def test_what_comes_free_is_given_out_in_the_next_round():
    history = run(site(1), trace({"runtime_s": 90}, {"runtime_s": 60}))
    assert (120, "w1", "start") in happened(history)


def interrupted(**more):
    """One node: unallocated work of two hours, then funded work of one hour after an hour."""
    first = {"min_runtime_s": 0, "runtime_s": 2 * HOUR, **more}
    return run(site(1), trace(first, {"submitted_s": HOUR, "allocation": "b"}))


def test_resumable_work_keeps_its_progress_less_the_restart_cost():
    history = interrupted()
    assert happened(history, "w0")[1:] == [
        (0, "w0", "start"),
        (HOUR, "w0", "preempt"),
        (2 * HOUR, "w0", "start"),
        (2 * HOUR + 2 * HOUR - (HOUR - 600), "w0", "finish"),
    ]
    assert history.events.lost_gpu_s.sum() == 600 * 8


def test_work_that_is_not_resumable_starts_over():
    history = interrupted(resumable=False)
    assert happened(history, "w0")[-1] == (4 * HOUR, "w0", "finish")
    assert history.events.lost_gpu_s.sum() == HOUR * 8


def test_a_run_loses_no_more_than_it_has_done():
    first = {"min_runtime_s": 0, "runtime_s": 2 * HOUR}
    history = run(site(1), trace(first, {"submitted_s": 120, "allocation": "b"}))
    assert history.events.lost_gpu_s.sum() == 120 * 8


def test_a_node_that_fails_requeues_what_stood_on_it_whole_and_at_once():
    here = site(2)
    work = trace({"replicas": 2, "runtime_s": 2 * HOUR, "min_runtime_s": 2 * HOUR})
    history = run(here, work, outages(here, (1000, "n2", "down"), (5000, "n2", "up")))
    assert happened(history) == [
        (0, "w0", "submit"),
        (0, "w0", "start"),
        (1000, "w0", "preempt"),
        (5040, "w0", "start"),
        (5040 + 2 * HOUR - 400, "w0", "finish"),
    ]


def test_failed_work_goes_before_what_waits_longer():
    here = site(2)
    work = trace(
        {"runtime_s": 4 * HOUR, "min_runtime_s": 4 * HOUR, "submitted_s": 60},
        {"runtime_s": 1080, "min_runtime_s": 1000, "submitted_s": 120, "allocation": "b"},
        *({"submitted_s": 180 + i, "runtime_s": 6 * HOUR} for i in range(3)),
    )
    first_node = happened(run(here, work), "w0")
    assert first_node[1] == (60, "w0", "start")
    e = run(here, work).events
    mine = next(i for i, w in enumerate(e.workload.tolist()) if w == 0 and e.event[i] == Event.START)
    node = f"n{int(e.placement.node[e.placement.part(mine)][0]) + 1}"
    history = run(here, work, outages(here, (900, node, "down")))
    assert next(w for t, w, what in happened(history) if t > 900 and what == "start") == "w0"


def test_a_draining_node_starts_nothing_and_keeps_what_is_protected():
    here = site(1)
    work = trace({"runtime_s": 3 * HOUR, "min_runtime_s": 2 * HOUR}, {"submitted_s": HOUR})
    history = run(here, work, outages(here, (HOUR, "n1", "draining"), (5 * HOUR, "n1", "up")))
    assert happened(history, "w0")[1:3] == [(0, "w0", "start"), (2 * HOUR, "w0", "preempt")]
    assert min(t for t, _, what in happened(history) if what == "start" and t > 0) == 5 * HOUR


def test_a_draining_node_is_emptied_though_nobody_waits():
    unallocated = {"runtime_s": 20 * HOUR, "min_runtime_s": 0}
    alone = {"replicas": 2, "gpus_per_replica": 8, **unallocated}
    history = run(site(2), trace(alone), outages(site(2), (1000, "n1", "draining")), end_s=4 * HOUR)
    assert happened(history, "w0")[1:] == [(0, "w0", "start"), (1020, "w0", "preempt")]
    protected = trace({**alone, "min_runtime_s": HOUR})
    history = run(site(2), protected, outages(site(2), (1000, "n1", "draining")), end_s=4 * HOUR)
    assert happened(history, "w0")[1:] == [(0, "w0", "start"), (HOUR, "w0", "preempt")]


def test_whom_a_draining_node_requeues_starts_elsewhere_in_the_next_round():
    here = site(2)
    work = trace({"runtime_s": 20 * HOUR, "min_runtime_s": 0})
    node = f"n{int(run(here, work, end_s=60).events.placement.node[0]) + 1}"
    history = run(here, work, outages(here, (1000, node, "draining")), end_s=2 * HOUR)
    assert [x[::2] for x in happened(history, "w0")[2:]][:2] == [(1020, "preempt"), (1080, "start")]


def test_without_an_end_it_ends_when_all_work_is_over_whatever_was_still_to_come():
    cancelled = {"runtime_s": HOUR, "cancelled_after_s": 240 * HOUR}
    history = run(site(2), trace(cancelled), outages(site(2), (100 * HOUR, "n1", "down")))
    assert history.end_s == HOUR


def test_every_start_that_was_promised_is_kept_in_the_history():
    """The node fails twice, and each time who stood on it is promised another start."""
    here, long = site(2), {"runtime_s": 9000, "min_runtime_s": 7200}
    work = trace(long, {**long, "allocation": "b"}, {"submitted_s": 600, "runtime_s": 3000})
    events = outages(
        here, (1000, "n1", "down"), (2000, "n1", "up"), (3000, "n1", "down"), (20_000, "n1", "up")
    )
    history = run(here, work, events)
    made = zip(history.promised_at_s.tolist(), history.promised.tolist(), strict=True)
    assert list(made) == [(1020, history.trace.id.index("w0")), (3000, history.trace.id.index("w0"))]


def test_rounds_in_which_nothing_can_change_are_skipped():
    week = 7 * 86_400
    history = run(site(1), trace({"runtime_s": week, "min_runtime_s": 8 * HOUR}), end_s=week)
    assert history.effort.rounds == 1
    protected = run(site(1), trace({"runtime_s": 8 * HOUR, "min_runtime_s": 8 * HOUR}, {"submitted_s": 60}))
    assert protected.effort.rounds <= 4


def test_work_that_can_never_get_its_turn_does_not_keep_the_simulation_going():
    capped = site(1, budgets=None)
    history = run(capped, trace({"allocation": "a"}, {"submitted_s": 30, "replicas": 1}), end_s=None)
    assert history.end_s == 2 * HOUR


def test_the_end_cuts_runs_off():
    history = run(site(), trace({"runtime_s": 10 * HOUR}), end_s=HOUR)
    assert history.end_s == HOUR
    assert [x[2] for x in happened(history)] == ["submit", "start"]


busy = st.lists(
    st.fixed_dictionaries(
        {
            "allocation": st.sampled_from(["a", "b"]),
            "submitted_s": st.integers(0, 3 * HOUR),
            "replicas": st.integers(1, 4),
            "gpus_per_replica": st.sampled_from([1, 2, 4, 8]),
            "runtime_s": st.integers(0, 3 * HOUR),
            "min_runtime_s": st.sampled_from([0, 300, 1800, HOUR, 2 * HOUR]),
            "resumable": st.booleans(),
            "cancelled_after_s": st.sampled_from([-1, -1, 1000]),
        }
    ),
    min_size=1,
    max_size=15,
)
changes = st.lists(
    st.tuples(
        st.integers(0, 4 * HOUR), st.sampled_from(["n1", "n3"]), st.sampled_from(["up", "down", "draining"])
    ),
    max_size=4,
).map(sorted)


def columns(history):
    e = history.events
    return [
        x.tolist() for x in (e.time_s, e.workload, e.event, e.lost_gpu_s, e.placement.node, e.placement.gpus)
    ]


@settings(max_examples=30)
@given(busy, changes, st.integers(0, 6 * HOUR))
def test_a_stopped_and_resumed_simulation_is_the_same(rows, events, stop_s):
    here, work = site(), trace(*rows)
    engine = Engine(here, work, Options("budget-greedy", end_s=6 * HOUR), outages(here, *events))
    engine.run(stop_s)
    resumed = pickle.loads(pickle.dumps(engine))
    resumed.run()
    assert columns(resumed.history()) == columns(run(here, work, outages(here, *events), end_s=6 * HOUR))


@settings(max_examples=30)
@given(busy, changes)
def test_every_second_of_capacity_is_held_free_or_down(rows, events):
    here, work = site(), trace(*rows)
    history = run(here, work, outages(here, *events), end_s=6 * HOUR, sample_s=60)
    e, used = history.events, np.zeros(6 * HOUR + 1, dtype=np.int64)
    for i, kind in enumerate(e.event.tolist()):
        part = e.placement.part(i)
        sign = 1 if kind == Event.START else -1
        used[e.time_s[i]] += sign * e.placement.gpus[part].sum()
    used = np.cumsum(used)
    assert (used >= 0).all()
    assert (used <= 32).all()
    health = np.zeros((4, 6 * HOUR + 1), dtype=np.int64)
    for t, n, state in zip(history.node_time_s, history.node, history.node_state, strict=True):
        health[n, t:] = state
    for k, t in enumerate(history.samples.time_s.tolist()):
        if (health[:, t] != 0).any():
            continue  # draining nodes hold work that is not free either
        assert history.samples.free_gpus[k] == 32 - used[t]


@settings(max_examples=30)
@given(busy, st.integers(1, 180))
def test_a_round_decides_what_plan_decides_on_the_snapshot_of_its_second(rows, minute):
    here, work = site(), trace(*rows)
    engine = Engine(here, work, Options("budget-greedy", end_s=6 * HOUR))
    engine.settle(minute * 60)
    snapshot = parse_snapshot(json.dumps(cut(engine.world, minute * 60)), "snapshot.json", here)
    assert snapshot.time_s == ORIGIN_S + minute * 60
    plan = plan_round(here, snapshot, "greedy")
    before = len(engine.recorder.events)
    engine.run(minute * 60 + 1)
    new = happened(engine.history())[before:]
    made = {d.workload for d in plan.decisions if d.action == "start"}
    assert {w for _, w, what in new if what == "start"} == made
    assert {w for _, w, what in new if what == "preempt"} == {
        d.workload for d in plan.decisions if d.action == "preempt"
    }


@pytest.mark.parametrize("policy", ["budget", "budget-greedy"])
def test_the_same_simulation_twice_is_the_same(policy):
    rng = np.random.default_rng(5)
    rows = [
        {
            "allocation": "ab"[k % 2],
            "submitted_s": int(rng.integers(0, 4 * HOUR)),
            "replicas": int(rng.choice([1, 1, 2, 4])),
            "runtime_s": int(rng.integers(60, 2 * HOUR)),
            "min_runtime_s": int(rng.choice([0, 600, HOUR])),
        }
        for k in range(40)
    ]
    assert columns(run(site(), trace(*rows), policy=policy)) == columns(
        run(site(), trace(*rows), policy=policy)
    )


def test_outages_number_nodes_as_the_site_file_lists_them():
    nodes = [{"name": name, "gpus": 8} for name in ("z", "a", "x")]
    here = site(clusters=[{"name": "c", "levels": [], "nodes": nodes}])
    history = run(here, trace(), outages(here, (60, "z", "down")), end_s=120)
    assert history.inventory.node_names[int(history.node[0])] == "z"


def test_the_inventory_is_that_of_the_beginning():
    here = site(2)
    history = run(here, trace({}), outages(here, (60, "n1", "down")))
    assert (history.inventory.nodes.state == 0).all()
