"""A moment of a simulation put together from its tables: the grid of a toy tells what was so."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from planner.model.budget import leaf_shares
from planner.reports.frames.moment import most_waited_for_s, simulated_site, snapshot_at
from planner.reports.frames.scene import scene_of
from planner.simulation.cut import ORIGIN_S
from planner.simulation.history import Event
from tests.planner.reports.folders import PLAYED


@given(PLAYED)
def test_what_runs_at_a_moment_holds_the_gpus_of_the_grid(played):
    toy, found = played
    names = toy.history.inventory.node_names
    for at_s in np.linspace(0, found.end_s - 1, 7, dtype=np.int64).tolist():
        snapshot = snapshot_at(found, at_s)
        held = dict.fromkeys(names, 0)
        for w in snapshot.workloads:
            for part in w.placement:
                held[part.node] += part.gpus
        assert list(held.values()) == (toy.allocated + toy.unallocated)[:, at_s].tolist()
        assert snapshot.time_s == ORIGIN_S + at_s


@given(PLAYED)
def test_everybody_who_was_submitted_and_is_not_over_is_there_and_waits_or_runs(played):
    toy, found = played
    h = toy.history
    for at_s in np.linspace(0, found.end_s - 1, 7, dtype=np.int64).tolist():
        last = {}
        for time_s, row, event in zip(h.events.time_s, h.events.workload, h.events.event, strict=True):
            if time_s <= at_s and not h.terms.refused[row]:
                last[h.trace.id[row]] = Event(event)
        runs = {w.id: w.state == "running" for w in snapshot_at(found, at_s).workloads}
        over = (Event.FINISH, Event.CANCEL)
        assert runs == {name: event == Event.START for name, event in last.items() if event not in over}


@given(PLAYED)
def test_the_site_of_a_simulation_has_its_shares(played):
    shares = leaf_shares(simulated_site(played[1]).budgets)
    assert {a: round(float(s), 9) for a, s in shares.items()} == {
        a: round(s, 9) for a, s in played[1].shares.items()
    }


@given(PLAYED)
def test_a_plan_can_be_made_at_the_moment_that_is_shown(played):
    _, found = played
    at_s = most_waited_for_s(found)
    scene = scene_of(simulated_site(found), snapshot_at(found, at_s))
    assert len(scene.plan.decisions) == len(snapshot_at(found, at_s).workloads)


@given(PLAYED)
def test_the_moment_shown_is_a_sample_or_the_end(played):
    _, found = played
    assert most_waited_for_s(found) in {*found.cluster["time_s"].tolist(), found.end_s}
