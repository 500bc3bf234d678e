"""The tables of a simulation: their cells agree with the history, with each other and with the summary."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from planner.simulation import tables
from planner.simulation.history import Event
from planner.simulation.metrics.hours import HOUR_S
from planner.simulation.metrics.measure import measure
from planner.simulation.metrics.summary import summary
from planner.simulation.tables import COLUMNS, FRAMES, columns, pieces
from solver.state import NodeState
from tests.planner.simulation.histories import scene
from tests.planner.simulation.toy import TOYS

START, FINISH, SUBMIT, CANCEL = Event.START, Event.FINISH, Event.SUBMIT, Event.CANCEL


def gpu_s(hours: pd.Series) -> np.ndarray:
    """Return GPU-hours as the whole GPU-seconds that they came from."""
    return np.rint(hours.to_numpy() * HOUR_S).astype(np.int64)


@given(TOYS)
def test_every_table_has_its_declared_columns(toy):
    m = measure(toy.history)
    assert FRAMES.keys() == COLUMNS.keys()
    for table, frame in FRAMES.items():
        assert list(frame(m)) == list(columns(m, table)), table


@given(TOYS)
def test_events_keep_their_order_and_places_name_every_gpu(toy):
    e, frame = toy.history.events, tables.events(measure(toy.history))
    assert (frame["time_s"] == e.time_s).all()
    for i, (event, gpus, places) in enumerate(
        zip(frame["event"], frame["gpus"], frame["nodes"], strict=True)
    ):
        held = Counter({p.rpartition(":")[0]: int(p.rpartition(":")[2]) for p in places.split("|") if p})
        assert sum(held.values()) in ((gpus,) if event in ("start", "preempt", "finish") else (0, gpus)), i


@given(TOYS)
def test_pieces_of_events_make_up_the_whole(toy):
    m = measure(toy.history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PIECE", 7)
        found = list(pieces(m, "events"))
    assert max(map(len, found)) <= 7
    pd.testing.assert_frame_equal(pd.concat(found, ignore_index=True), tables.events(m))


@given(TOYS)
def test_the_hours_balance_to_the_second(toy):
    frame = tables.hours(measure(toy.history))
    parts = sum(gpu_s(frame[name]) for name in ("unavailable", "allocated", "unallocated", "idle"))
    assert (gpu_s(frame["capacity"]) == parts).all()


@given(TOYS)
def test_allocations_add_up_to_the_hours_and_to_the_workloads(toy):
    m = measure(toy.history)
    frame, hours, work = tables.allocations(m), tables.hours(m), tables.workloads(m)
    for kind in ("allocated", "unallocated"):
        column = "delivered_" + kind
        assert (gpu_s(frame.groupby("hour")[column].sum()) == gpu_s(hours[kind])).all()
        mine = work[work["occupancy"] == kind].groupby("allocation")["delivered_gpu_s"].sum()
        for name, hours_of_it in frame.groupby("allocation")[column].sum().items():
            assert round(hours_of_it * HOUR_S) == mine.get(name, 0)
    assert (frame["owed"] <= frame["demand"] * (1 + 1e-12)).all()


@given(TOYS)
def test_every_wait_is_its_budget_wait_and_its_placement_wait(toy):
    frame = tables.workloads(measure(toy.history))
    frame = frame[frame["state"] != "refused"]
    assert (frame["wait_s"] == frame["budget_wait_s"] + frame["placement_wait_s"]).all()
    assert (frame[["wait_s", "budget_wait_s", "placement_wait_s"]] >= 0).all(axis=None)


@given(TOYS)
def test_the_waits_of_the_summary_are_those_of_the_workloads(toy):
    m = measure(toy.history)
    figures, frame = summary(m), tables.workloads(m)
    waits = frame[(frame["occupancy"] == "allocated") & (frame["state"] != "refused")]
    for name, rows in (("", waits), ("debug_", waits[waits["debug"]]), ("largest_", waits[waits["largest"]])):
        told = figures[f"{name}wait_p90_s"]
        assert told == (pytest.approx(rows["wait_s"].astype(float).quantile(0.9)) if len(rows) else None)
    assert figures["unstarted"] == (waits["starts"] == 0).sum()
    assert figures["preempted_gpu_hours_lost"] == pytest.approx(frame["lost_gpu_s"].sum() / HOUR_S)


@given(TOYS)
def test_in_every_sample_held_and_free_gpus_make_up_what_is_available(toy):
    m = measure(toy.history)
    frame, total = tables.cluster(m), int(toy.history.inventory.nodes.gpus.sum())
    available = frame["availability"] * total
    held = frame["occupancy"].fillna(0) * available
    assert (held + frame["free_gpus"]).tolist() == pytest.approx(available.tolist())


def test_workloads_tell_what_became_of_each():
    jobs = {"done": {}, "gone": {}, "huge": {"gpus_per_replica": 99}, "runs": {}, "waits": {}}
    jobs["nobody"] = {"allocation": "nobody"}
    jobs["future"] = {"submitted_s": 1001}
    events = [
        (10, "done", START, {"e1": 8}),
        (20, "done", FINISH, {"e1": 8}),
        (30, "gone", CANCEL, {}),
        (0, "huge", CANCEL, {}),
        (40, "runs", START, {"e1": 8}),
    ]
    frame = tables.workloads(measure(scene(jobs, events, end_s=1000, promises=[(5, "runs", 35)])))
    frame = frame.set_index("id")
    states = {"done": "finished", "gone": "cancelled", "huge": "refused", "nobody": "refused"}
    assert frame["state"].to_dict() == {**states, "runs": "running", "waits": "pending"}
    assert frame["allocation"]["nobody"] == "nobody"
    assert frame["promised_start_s"].dropna().to_dict() == {"runs": 35}
    assert frame["first_start_s"].dropna().to_dict() == {"done": 10, "runs": 40}
    assert frame["end_s"].dropna().to_dict() == {"done": 20, "gone": 30, "huge": 0}
    assert frame["wait_s"].dropna().to_dict() == {"done": 10, "gone": 30, "runs": 40, "waits": 1000}


def test_times_that_are_missing_leave_the_others_whole_numbers():
    frame = tables.workloads(measure(scene({"w": {}, "x": {}}, [(7, "w", START, {})], end_s=100)))
    assert frame["first_start_s"].dtype == "Int64"
    assert frame["first_start_s"].tolist() == [7, pd.NA]


def test_levels_are_listed_from_the_node_outwards():
    m = measure(scene({}, [], end_s=10, samples=[(0, 38, 0, 0)]))
    wide = [name for name in columns(m, "cluster") if name.startswith("largest")]
    assert wide == ["largest_gpus_node", "largest_gpus_leaf", "largest_gpus_cluster"]


def test_nothing_is_occupied_where_nothing_is_available():
    names = ["e1", "e2", "e3", "e4", "w1", "w2"]
    dark = [(0, name, NodeState.DOWN) for name in names]
    frame = tables.cluster(measure(scene({}, [], end_s=10, outages=dark, samples=[(5, 0, 38, 0)])))
    assert frame["availability"].tolist() == [0.0]
    assert frame["occupancy"].isna().all()


def test_at_the_very_end_what_runs_is_held_and_what_has_just_finished_is_not():
    events = [(0, "w", START, {"e1": 8}), (0, "x", START, {"e2": 8}), (100, "x", FINISH, {"e2": 8})]
    m = measure(scene({"w": {}, "x": {}}, events, end_s=100, samples=[(99, 22, 0, 0), (100, 30, 0, 0)]))
    assert (tables.cluster(m)["occupancy"] * 38).tolist() == pytest.approx([16, 8])
