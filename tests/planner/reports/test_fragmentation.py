"""How free GPUs lie: amounts that must order, and the grid of a toy as the truth over time."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import yaml
from hypothesis import given

from benchmarks.random_snapshots import random_case
from planner.errors import InputError
from planner.reports.frames import fragmentation as frames
from planner.reports.frames.scene import scene_of
from planner.reports.pages import holes
from planner.site import parse_site
from planner.snapshot import parse_snapshot
from tests.planner.reports.folders import PLAYED
from tests.planner.worlds import world

SEEDS = range(12)


def random_scene(seed):
    site_data, data = random_case(seed)
    site = parse_site(yaml.safe_dump(site_data), "site.yaml")
    return scene_of(site, parse_snapshot(json.dumps(data), "snapshot.json", site))


@pytest.fixture(scope="module")
def scenes():
    return [random_scene(seed) for seed in SEEDS]


def test_a_scene_holds_what_the_plan_places_and_nothing_else(scenes):
    for scene in scenes:
        placed = sum(p.gpus for d in scene.plan.decisions for p in d.placement)
        placed += sum(
            p.gpus for w in scene.encoded.names.workloads if w.state == "stopping" for p in w.placement
        )
        assert scene.held_gpus.sum() == placed
        free = scene.state.nodes.gpus[scene.up].sum() - scene.held_gpus[scene.up].sum()
        assert scene.free_gpus.sum() == free == scene.plan.fragmentation["free_gpus"]


def test_free_gpus_are_open_and_open_gpus_are_there(scenes):
    for scene in scenes:
        frame = frames.by_node(scene)
        assert (frame["free_gpus"] <= frame["open_gpus"]).all()
        assert (frame["open_gpus"] <= frame["gpus"]).all()
        bare = scene.node_until_s <= scene.now_s
        assert (frame["open_gpus"] == frame["gpus"])[bare].all()


def test_the_largest_gang_only_grows_with_time_and_with_the_level(scenes):
    for scene in scenes:
        frame = frames.by_level(scene)
        times = ["now_gpus", "now_or_interrupting_gpus", "in_1h_gpus", "in_8h_gpus"]
        for early, late in pairwise(times):
            assert (frame[early] <= frame[late]).all()
        wide = frame[frame["level"] == "cluster"][times].to_numpy()
        assert (frame[frame["level"] != "node"][times].to_numpy() <= wide).all()


def test_the_levels_of_the_frame_are_those_of_the_plan(scenes):
    for scene in scenes:
        told, frame = scene.plan.fragmentation["levels"], frames.by_level(scene).set_index("level")
        assert frame["now_gpus"].to_dict() == {level: found["largest_gang"] for level, found in told.items()}


def test_what_fits_in_one_domain_fits_anywhere_and_what_fits_anywhere_fits_together(scenes):
    for scene in scenes:
        frame = frames.by_size(scene)
        if "in_one_domain" in frame:
            assert (frame["in_one_domain"] <= frame["anywhere"]).all()
        assert (frame["anywhere"] <= frame["together"]).all()
        assert frame["anywhere"].iloc[0] == frame["together"].iloc[0] == scene.open_gpus.sum()


def test_holes_count_every_healthy_node_once(scenes):
    for scene in scenes:
        frame = frames.holes(scene)
        for column, gpus in (
            ("nodes_free", scene.free_gpus),
            ("nodes_open", scene.open_gpus),
        ):
            assert frame[column].sum() == scene.up.sum()
            assert (frame[column] * frame["gpus_on_node"]).sum() == gpus.sum()


@given(PLAYED)
def test_room_over_time_is_that_of_the_grid(played):
    toy, found = played
    times_s, room, names = _truth(toy, found)
    frame = frames.room_over_time(found.events, found.nodes, found.outages, times_s)
    places = {row.node: f"{row.cluster}/{row.location}".rstrip("/") for row in found.nodes.itertuples()}
    for domain, row in frame.domains.set_index("domain").iterrows():
        members = [i for i, name in enumerate(names) if places[name] == domain]
        assert row.tolist() == room[members].sum(axis=0).tolist()
    assert frame.largest["room_gpus"].tolist() == room.sum(axis=0).tolist()


@given(PLAYED)
def test_the_largest_gang_over_time_is_the_most_whole_nodes_of_one_kind_in_one_domain(played):
    toy, found = played
    times_s, room, names = _truth(toy, found)
    largest = frames.room_over_time(found.events, found.nodes, found.outages, times_s).largest
    at = {row.node: row for row in found.nodes.itertuples()}
    for level in ("leaf", "cluster"):
        for column in range(len(times_s)):
            sums = Counter()
            for i, name in enumerate(names):
                node = at[name]
                if room[i, column] == node.gpus and (level == "cluster" or node.location):
                    inside = node.location if level == "leaf" else ""
                    sums[node.cluster, inside, node.gpu_type, node.gpus] += node.gpus
            assert largest[f"largest_gpus_{level}"].iloc[column] == max(sums.values(), default=0)


def _truth(toy, found):
    """Return times, the room of each node at each (int64[N, T]), and the nodes' names."""
    times_s = np.unique(np.linspace(0, found.end_s - 1, 40, dtype=np.int64))
    healthy = np.stack([_health(toy, t) for t in times_s], axis=1)
    gpus = toy.history.inventory.nodes.gpus
    room = np.where(healthy, gpus[:, None] - toy.allocated[:, times_s], 0)
    return times_s, room, list(toy.history.inventory.node_names)


def _health(toy, time_s):
    """Return which nodes are up after all that happened up to a second."""
    h = toy.history
    state = h.inventory.nodes.state.copy()
    for at_s, n, new in zip(h.node_time_s, h.node, h.node_state, strict=True):
        if at_s <= time_s:
            state[n] = new
    return state == 0


def test_a_plan_of_another_snapshot_is_refused_with_all_that_is_wrong():
    here = world(workloads=[{"id": "w"}, {"id": "x"}])
    later = world(workloads=[{"id": "w"}, {"id": "y"}], time="2026-10-09T13:00:00Z")
    with pytest.raises(InputError) as caught:
        scene_of(here.site, here.snapshot, later.plan())
    assert len(caught.value.messages) == 3
    assert all("write the plan that was made from it" in fault for fault in caught.value.messages)


def test_a_plan_on_unknown_nodes_is_refused():
    here, other = world(workloads=[{"id": "w"}]), world(workloads=[{"id": "w"}], nodes="m1")
    with pytest.raises(InputError, match="node m1, which is not in the snapshot"):
        scene_of(here.site, here.snapshot, other.plan())


def test_one_gang_that_would_fit_is_one_gang():
    half = {"allocation": "b", "gpus": 4, "ran": "10m", "min_runtime": "2h"}
    here = world(workloads=[{**half, "id": f"w{n}", "on": f"n{n}"} for n in (1, 2)], nodes="n[1-2]")
    scene = scene_of(here.site, here.snapshot)
    (sizes,) = (part for part in holes.now(scene, frames.by_level(scene)) if part.name == "sizes")
    assert sizes.sentence.endswith("8 open GPUs; standing together they would hold 1 such gang")
