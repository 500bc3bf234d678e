"""Who stands in the way, and what would help: against small worlds known by heart, and against other code."""

from __future__ import annotations

import numpy as np

from planner.reports.frames import packing
from planner.reports.frames.obstacles import in_the_way, obstacles, rooms
from planner.reports.frames.packing import loosened, moves, pack, places_all, weights
from planner.reports.frames.scene import scene_of
from planner.reports.pages.fragmentation import page
from solver.fragmentation import cells, earliest_fit_s
from solver.state import FOREVER_S, Level, Status
from tests.planner.reports.test_fragmentation import random_scene
from tests.planner.worlds import NOW, NOW_S, world

LEAVES = [
    {"names": "n[1-2]", "location": ["l1"]},
    {"names": "n[3-4]", "location": ["l2"]},
]


def scene(workloads, nodes="n[1-4]", **more):
    place = world(workloads=workloads, nodes=nodes, **more)
    return scene_of(place.site, place.snapshot)


def ids(found, js):
    return [found.encoded.names.workloads[j].id for j in js]


def guarded(id, on, ran="10m", **more):
    """Write work that is protected for two hours from its start."""
    return {"id": id, "on": on, "allocation": "b", "ran": ran, "min_runtime": "2h", **more}


def test_the_room_is_where_the_last_protection_ends_first():
    found = scene(
        [guarded("long", "n1"), guarded("short", "n3", ran="90m"), guarded("also", "n2", ran="90m"),
         guarded("last", "n4", ran="1h"), {"id": "w", "replicas": 2, "topology": {"required": "leaf"}}],
        LEAVES, levels=["leaf"],
    )  # fmt: skip
    (row,) = found.waiting
    best = rooms(found, row)[0]
    assert [found.encoded.names.nodes[n].name for n in best.cleared] == ["n3", "n4"]
    assert best.ready_s == NOW_S + 3600
    assert ids(found, in_the_way(found, best)) == ["last", "short"]
    frame = obstacles(found)
    assert frame["blocker"].tolist() == ["last", "short"]
    assert frame["nearest_place"].unique().tolist() == ["l2"]
    assert frame["clear_at"].unique().tolist() == ["2026-10-09T13:00:00Z"]
    assert frame["blocker_until"].tolist() == ["2026-10-09T13:00:00Z", "2026-10-09T12:30:00Z"]


def test_nodes_that_are_free_need_no_clearing():
    found = scene([guarded("v", "n[1-3]"), {"id": "w", "replicas": 4}])
    best = rooms(found, found.waiting[0])[0]
    assert (len(best.nodes), len(best.cleared)) == (4, 3)


def test_interruptible_work_is_in_the_way_without_a_time():
    found = scene(
        [{"id": "v", "on": "n[1-4]", "allocation": "b"}, {"id": "w", "replicas": 4}],
        ratios={"a": 1.0, "b": 1.0},
    )
    frame = obstacles(found)
    assert frame["blocker_until"].tolist() == ["interruptible"]
    assert frame["clear_at"].tolist() == [NOW]


def test_a_gang_that_no_place_can_hold_has_no_room():
    nodes = [{"names": "n[1-2]"}, {"names": "n[3-4]", "state": "down"}]
    found = scene([{"id": "w", "replicas": 3}], nodes)
    assert rooms(found, found.waiting[0]) == []
    frame = obstacles(found)
    assert frame["blocker"].isna().all()
    assert frame["nearest_place"].isna().all()


def test_segments_may_stand_apart_and_each_in_one_domain():
    work = [
        guarded("v", "n2"),
        {"id": "w", "replicas": 4, "gpus_per_replica": 4, "topology": {"required": "leaf", "segment": 2}},
    ]
    found = scene([*work, guarded("x", "n[3-4]"), guarded("y", "n1", gpus=4)], LEAVES, levels=["leaf"])
    best = rooms(found, found.waiting[0])[0]
    domain = cells(found.state, 0)
    seats = np.zeros(2, dtype=int)
    np.add.at(seats, domain[list(best.nodes)], found.state.nodes.gpus[list(best.nodes)] // 4)
    assert (seats // 2).sum() >= 2


def test_the_first_room_is_ready_when_other_code_says_that_the_gang_first_fits_for_certain():
    """For pieces that fill a node; smaller ones may fit before the last protection on their nodes ends."""
    seen = 0
    for seed in range(40):
        found = random_scene(seed)
        w, nodes = found.state.workloads, found.state.nodes
        for j in found.waiting:
            if w.segment[j] or w.pool_ok[j].sum() != 1 or (nodes.gpus != w.gpus_per_replica[j]).any():
                continue
            inside = found.up & w.pool_ok[j, nodes.pool]
            domain = np.where(inside, cells(found.state, int(w.required[j])), -1)
            size, replicas = int(w.gpus_per_replica[j]), int(w.replicas[j])
            time_s, _ = earliest_fit_s(nodes.gpus, found.protections, size, replicas, domain, found.now_s)
            best = rooms(found, j)
            assert (best[0].ready_s if best else FOREVER_S) == time_s
            seen += 1
    for found in (scene([guarded("v", "n[1-3]", ran=r), {"id": "w", "replicas": 2}]) for r in ("1m", "1h")):
        j = found.waiting[0]
        domain = cells(found.state, Level.NONE)
        time_s, _ = earliest_fit_s(found.state.nodes.gpus, found.protections, 8, 2, domain, NOW_S)
        assert rooms(found, j)[0].ready_s == time_s
        seen += 1
    assert seen >= 2


def test_every_room_has_seats_for_the_whole_gang_once_it_is_cleared():
    seen = 0
    for seed in range(12):
        found = random_scene(seed)
        w, nodes = found.state.workloads, found.state.nodes
        for j in found.waiting[:10]:
            for room in rooms(found, j):
                size = int(w.gpus_per_replica[j])
                free = np.where(np.isin(np.arange(nodes.count), room.cleared), nodes.gpus, found.free_gpus)
                used = list(room.nodes)
                assert (free[used] // size).sum() >= w.replicas[j]
                assert found.up[used].all()
                assert len(np.unique(nodes.pool[used])) == 1
                if not w.segment[j] and w.required[j] != Level.NONE:
                    assert len(np.unique(cells(found.state, int(w.required[j]))[used])) == 1
                seen += 1
    assert seen > 20


def test_without_its_level_a_gang_may_have_room_earlier():
    work = [guarded("x", "n1", ran="90m"), guarded("y", "n[2-3]"), guarded("z", "n4", ran="90m")]
    gang = {"id": "w", "replicas": 2, "topology": {"required": "leaf"}}
    found = scene([*work, gang], LEAVES, levels=["leaf"])
    j = found.waiting[0]
    assert rooms(found, j)[0].ready_s == NOW_S + 110 * 60
    assert rooms(found, j, anywhere=True)[0].ready_s == NOW_S + 30 * 60


# -- what would help ----------------------------------------------------------------------------------


def test_one_small_run_moves_so_that_a_gang_fits():
    found = scene([guarded("x", "n1", gpus=4), guarded("y", "n2", gpus=4), {"id": "w"}], "n[1-2]")
    told = moves(found).to_dict("records")
    assert [(m["fits"], m["moved_workloads"], m["moved_gpus"]) for m in told] == [(True, 1, 4)]
    assert told[0]["moved"] in ("x", "y")


def test_the_run_that_loses_less_work_moves_and_the_page_agrees_with_the_plan():
    late = {"on": "n1", "allocation": "b", "gpus": 4, "min_runtime": "1h"}
    runs = [
        {**late, "id": "long", "ran": "9h", "resumable": False},
        {**late, "id": "short", "on": "n2", "ran": "2h", "resumable": False},
    ]
    for order in (runs, runs[::-1]):
        found = scene(
            [*order, {"id": "w", "gpus": 4, "replicas": 2, "topology": {"required": "node"}}], "n[1-2]"
        )
        told = moves(found).to_dict("records")
        assert [(m["moved"], m["lost_gpu_hours"]) for m in told] == [("short", 8.0)]
        (advice,) = found.plan.defragmentation
        assert ([m.workload for m in advice.moves], advice.lost_gpu_hours) == (["short"], 8.0)


def test_a_gang_at_its_limit_is_not_told_that_its_rank_alone_would_do():
    for limit, then in ((8, "as soon as its limit allows it as well"), (16, "as soon as it ranks before")):
        found = scene(
            [{"id": "r", "on": "n1", "ran": "3h"}, guarded("x", "n2"), {"id": "w", "waited": "9h"}],
            "n[1-2]",
            budgets=[{"name": "a", "limit": limit}, {"name": "b"}],
            ratios={"a": 2.0, "b": 0.1},
        )
        (prose, *_) = page(found, "snapshot.json").parts
        assert f"it can have the room {then}" in dict(prose.paragraphs)["Waiting:"]


def test_where_all_is_full_no_move_helps():
    found = scene([guarded("x", "n[1-2]"), {"id": "w"}], "n[1-2]")
    assert moves(found)["fits"].tolist() == [False]


def test_unallocated_work_has_not_to_move():
    full = [{"id": "u", "on": "n[1-2]", "min_runtime": "0s", "allocation": "b"}]
    found = scene([*full, {"id": "w", "replicas": 2, "min_runtime": "0s", "allocation": "a"}], "n[1-2]")
    assert moves(found)[["fits", "moved_workloads"]].to_numpy().tolist() == [[True, 0]]


def test_scattered_runs_fit_on_one_node_when_packed_anew():
    found = scene([guarded(f"v{i}", f"n{i}", gpus=2) for i in range(1, 5)])
    packed = pack(found)
    assert (packed.there_gpus, packed.held_gpus, packed.compact_gpus) == (32, 8, 8)
    assert packed.spare_gpus == 24
    assert packed.inflated_gpus == 24


def test_a_gang_that_needs_a_leaf_keeps_one_when_packed_anew():
    gang = {**guarded("g", "n[1-2]", gpus=4), "topology": {"required": "leaf"}, "replicas": 4}
    gang |= {"on": ["n1", "n1", "n2", "n2"]}
    found = scene([gang], LEAVES, levels=["leaf"])
    assert pack(found).compact_gpus == 16


def test_an_empty_cluster_needs_nothing():
    packed = pack(scene([]))
    assert (packed.held_gpus, packed.compact_gpus, packed.inflated_gpus) == (0, 0, 0)


def test_packing_uses_no_more_than_there_is_and_no_less_than_is_held():
    for seed in range(8):
        found = random_scene(seed)
        packed = pack(found)
        assert packed.held_gpus <= packed.compact_gpus <= packed.there_gpus
        assert packed.held_gpus + packed.inflated_gpus <= packed.there_gpus


def test_what_is_loosened_waits_and_all_else_stands_where_it_stood():
    for seed in range(8):
        found = random_scene(seed)
        js = np.unique(found.part_workload)[::2]
        state = loosened(found, js)
        stands = np.isin(np.arange(state.workloads.count), np.setdiff1d(found.part_workload, js))
        assert ((state.workloads.status == Status.RUNNING) == stands).all()
        assert (state.workloads.status[js] == Status.PENDING).all()
        kept = ~np.isin(found.part_workload, js)
        held = np.zeros(state.nodes.count, dtype=np.int64)
        np.add.at(held, state.workloads.placement.node, state.workloads.placement.gpus)
        truth = np.zeros_like(held)
        np.add.at(truth, found.part_node[kept], found.part_gpus[kept])
        assert (held == truth).all()


def test_what_stands_alone_on_its_nodes_can_be_placed_again_there():
    found = scene([guarded("x", "n[1-2]"), guarded("y", "n[3-4]")])
    assert places_all(loosened(found, np.array([0, 1])), np.array([0, 1]))


def test_weights_of_the_fragmentation_term_change_places_only(monkeypatch):
    monkeypatch.setattr(packing, "WEIGHTS", (0.0, 1.0))
    found = scene([{"id": f"w{i}", "gpus": 2, "waited": f"{i}m"} for i in range(1, 4)])
    frame = weights(found)
    assert frame["weight"].tolist() == [0.0, 1.0]
    assert frame["room_gpus"].tolist() == [26, 26]
    assert frame["largest_gpus_cluster"].iloc[1] == 24  # three small runs share a node
