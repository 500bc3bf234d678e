"""Runs, gainers and bars of the timeline: the same as in the history, by other means."""

from __future__ import annotations

import base64
from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from planner.reports.frames.runs import gainers_of, parts_of, preemptions_of, runs_of
from planner.reports.frames.scene import scene_of
from planner.reports.frames.simulated import Simulated
from planner.reports.frames.timeline import ENDS, of_scene, of_simulation, packed, stretches
from planner.simulation.history import Event
from planner.simulation.metrics.measure import measure
from planner.simulation.metrics.summary import summary
from planner.simulation.output import write
from tests.planner.reports.folders import PLAYED
from tests.planner.simulation.histories import scene as told
from tests.planner.worlds import world


@given(PLAYED)
def test_runs_are_those_of_the_metrics(played):
    toy, found = played
    runs, truth = runs_of(found), measure(toy.history).runs
    ids = np.array(toy.history.trace.id, dtype=object)
    mine = sorted(
        zip(runs["workload"], runs["start_s"], runs["end_s"], runs["gpus"], runs["ended"] != "", strict=True)
    )
    theirs = sorted(
        zip(ids[truth.workload], truth.start_s, truth.end_s, truth.gpus, truth.ended.tolist(), strict=True)
    )
    assert mine == theirs
    assert runs["lost_gpu_s"].sum() == toy.history.events.lost_gpu_s.sum()


@given(PLAYED)
def test_every_gainer_starts_in_the_second_of_the_preemption_on_a_node_of_the_victim(played):
    toy, found = played
    runs, e = runs_of(found), toy.history.events
    gained = gainers_of(runs)
    ids = toy.history.trace.id
    starts = defaultdict(set)
    for i in np.flatnonzero(e.event == Event.START):
        for n in e.placement.node[e.placement.part(i)].tolist():
            starts[int(e.time_s[i]), n].add(ids[e.workload[i]])
    names = {name: n for n, name in enumerate(toy.history.inventory.node_names)}
    assert len(gained) == (e.event == Event.PREEMPT).sum()
    for row, gainers in gained.items():
        run = runs.loc[row]
        there = set().union(*(starts[run["end_s"], names[n]] for n, _ in parts_of(run["nodes"])))
        assert set(gainers) == there - {run["workload"]}


@given(PLAYED)
def test_the_matrix_adds_up_to_all_preemptions_and_all_that_was_lost(played):
    toy, found = played
    frame, figures = preemptions_of(found, runs_of(found)), summary(measure(toy.history))
    assert frame["preemptions"].sum() == pytest.approx(figures["preemptions"])
    assert frame["lost_gpu_hours"].sum() == pytest.approx(figures["preempted_gpu_hours_lost"])


def test_a_preemption_for_two_allocations_is_divided_by_their_gpus(tmp_path):
    jobs = {
        "v": {"replicas": 2},
        "x": {"allocation": "lab/b"},
        "y": {"allocation": "c", "gpus_per_replica": 2},
        "z": {},
    }
    both = {"e1": 8, "e2": 8}
    events = [
        (0, "v", Event.START, both),
        (0, "z", Event.START, {"e3": 8}),
        (60, "v", Event.PREEMPT, both),
        (60, "x", Event.START, {"e1": 8}),
        (60, "y", Event.START, {"e2": 2}),
        (90, "z", Event.PREEMPT, {"e3": 8}),
    ]
    write(told(jobs, events, end_s=100), tmp_path)
    found = Simulated(tmp_path)
    rows = preemptions_of(found, runs_of(found)).set_index(["gainer", "victim"])
    assert rows["preemptions"].to_dict() == {
        ("lab/b", "lab/a"): 0.8, ("c", "lab/a"): 0.2, ("nobody", "lab/a"): 1.0,
    }  # fmt: skip
    assert rows["gpus"].to_dict()["lab/b", "lab/a"] == pytest.approx(12.8)


@given(PLAYED)
def test_bars_cover_the_gpus_of_every_run_on_its_nodes_and_never_overlap(played):
    found = of_simulation(played[1])
    runs, where = runs_of(played[1]), np.repeat(found.nodes["node"], found.nodes["gpus"]).tolist()
    taken = np.zeros((len(where), found.end_s), dtype=bool)
    by_run = defaultdict(list)
    for run, row, rows in found.bars.itertuples(index=False):
        start, end = runs.loc[run, ["start_s", "end_s"]]
        assert not taken[row : row + rows, start:end].any()
        taken[row : row + rows, start:end] = True
        by_run[run] += where[row : row + rows]
    for run, places, start, end in zip(
        runs.index, runs["nodes"], runs["start_s"], runs["end_s"], strict=True
    ):
        held = {n: g for n, g in parts_of(places) if g}
        assert dict(Counter(by_run[run])) == (held if end > start else {})


@given(PLAYED)
def test_bars_and_grid_tell_the_same_of_every_node_in_every_second(played):
    toy, found = played
    timeline, runs = of_simulation(found), runs_of(found)
    first = np.cumsum([0, *timeline.nodes["gpus"]])
    names = {name: n for n, name in enumerate(toy.history.inventory.node_names)}
    held = np.zeros((len(timeline.nodes), timeline.end_s), dtype=np.int64)
    for run, row, rows in timeline.bars.itertuples(index=False):
        start, end = runs.loc[run, ["start_s", "end_s"]]
        for n in range(len(timeline.nodes)):
            here = min(row + rows, first[n + 1]) - max(row, first[n])
            held[n, start:end] += max(here, 0)
    order = [names[name] for name in timeline.nodes["node"]]
    assert (held == (toy.allocated + toy.unallocated)[order]).all()


def test_stretches_are_the_rows_without_gaps():
    assert stretches([]) == []
    assert stretches([3]) == [(3, 1)]
    assert stretches([0, 1, 2, 5, 7, 8]) == [(0, 3), (5, 1), (7, 2)]


def numbers(text: str, kind: str) -> list[int]:
    return np.frombuffer(base64.b64decode(text), dtype=f"<{kind}").tolist()


@given(PLAYED)
def test_packed_arrays_hold_what_the_frames_hold(played):
    found = of_simulation(played[1])
    data = packed(found, {})
    runs, ids = found.runs, found.workloads["id"].tolist()
    assert [ids[i] for i in numbers(data["run"]["workload"], "u4")] == runs["workload"].tolist()
    assert numbers(data["run"]["start"], "i4") == runs["start_s"].tolist()
    assert numbers(data["run"]["end"], "i4") == runs["end_s"].tolist()
    assert [ENDS[i] for i in numbers(data["run"]["ended"], "u1")] == runs["ended"].tolist()
    assert numbers(data["bar"]["row"], "u4") == found.bars["row"].tolist()
    payers = [data["allocations"][i] for i in numbers(data["allocation"], "u2")]
    assert payers == found.workloads["allocation"].tolist()
    over = [None if s < 0 else s for s in numbers(data["over"], "i4")]
    assert over == [None if s is pd.NA else s for s in found.workloads["end_s"].tolist()]
    assert {int(r): [ids[g] for g in gs] for r, gs in data["gainers"].items()} == found.gainers


def test_a_promise_is_outlined_from_when_it_was_made_to_its_start(tmp_path):
    events = [(50, "w", Event.START, {"e1": 8})]
    write(told({"w": {}}, events, end_s=100, promises=[(10, "w", 40)]), tmp_path)
    found = of_simulation(Simulated(tmp_path))
    assert found.holds.to_dict("records") == [
        {"workload": "w", "from_s": 10, "until_s": 50, "row": 0, "rows": 8}
    ]


def test_a_promise_that_moved_is_outlined_until_the_next_one_took_its_place(tmp_path):
    events = [(60, "w", Event.START, {"e1": 8})]
    write(told({"w": {}}, events, end_s=100, promises=[(10, "w", 40), (30, "w", 60)]), tmp_path)
    found = of_simulation(Simulated(tmp_path))
    assert found.holds[["from_s", "until_s"]].to_numpy().tolist() == [[10, 30], [30, 60]]


def test_the_timeline_of_a_plan_ends_victims_now_and_begins_gainers_in_their_rows():
    place = world(
        workloads=[{"id": "v", "on": "n1", "allocation": "b"}, {"id": "w", "gpus": 8, "allocation": "a"}],
        nodes="n1",
        ratios={"a": 0.2, "b": 3.0},
    )
    found = of_scene(scene_of(place.site, place.snapshot))
    runs = found.runs.set_index("workload")
    assert (runs["ended"]["v"], runs["end_s"]["v"]) == ("preempt", found.now_s)
    assert runs["start_s"]["w"] == found.now_s
    assert runs["protected_s"]["w"] == found.now_s + 3600
    assert list(found.gainers.values()) == [["w"]]
    assert found.bars["row"].tolist() == [0, 0]


def test_the_timeline_of_a_plan_outlines_its_reservations():
    workloads = [
        {"id": "p", "on": "n[1-4]", "allocation": "b", "ran": "10m", "min_runtime": "1h"},
        {"id": "w", "replicas": 4, "allocation": "a"},
    ]
    place = world(workloads=workloads, ratios={"a": 0.2, "b": 1.0}, site={"plan_ahead": {"reservations": 4}})
    found = of_scene(scene_of(place.site, place.snapshot))
    assert found.holds["workload"].unique().tolist() == ["w"]
    assert found.holds["rows"].sum() == 32
    assert set(found.holds["until_s"] - found.now_s) == {50 * 60}
