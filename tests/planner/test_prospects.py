"""The story of a gang that waits: whom it waits for, and when it would start if it asked for less."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.text import HOUR, iso
from planner.model.plan import Reason
from planner.planfile import plan_to_dict
from planner.prospects import LOOKED_AT
from planner.whatif import looser, what_if
from tests.planner.test_whatif import asking
from tests.planner.worlds import NOW_S, World, by_id, job, world


def two_leaves(hours: tuple[int, ...], gang: dict | None = None) -> World:
    """Write two leaves of two nodes, each node protected for so many hours more, and a gang of one leaf."""
    nodes = [
        {"names": f"n[{2 * k + 1}-{2 * k + 2}]", "location": [f"l{k + 1}"]} for k in range(len(hours) // 2)
    ]
    held = [
        {"id": f"r{n}", "on": f"n{n}", "ran": "1h", "min_runtime": f"{h + 1}h", "allocation": "b"}
        for n, h in enumerate(hours, start=1)
    ]
    ask = {"id": "gang", "replicas": 2, "topology": {"required": "leaf"}, "waited": "1h"}
    return world(
        nodes=nodes, levels=["leaf"], workloads=[*held, ask | (gang or {})], ratios={"a": 0.1, "b": 0.5},
        site={"plan_ahead": {"reservations": 8}},
    )  # fmt: skip


def reason(of: World) -> Reason:
    return by_id(of.plan())["gang"].reason


def test_a_promise_names_its_leaf_whom_it_waits_for_and_what_would_be_earlier():
    found = reason(two_leaves((1, 5, 2, 4)))
    assert found.code == "Promised"
    assert found.text == (
        f"is promised a start at {iso(NOW_S + 4 * HOUR)} on 2 nodes, n[3-4], leaf l2; until then it waits "
        f"for 2 protected workloads (r4, r3), until {iso(NOW_S + 4 * HOUR)} at the latest. "
        f"It would start at {iso(NOW_S + 2 * HOUR)} if it accepted two leaves"
    )


def test_what_two_leaves_do_not_better_is_not_said():
    assert "It would start" not in reason(two_leaves((1, 1, 2, 4))).text


def test_a_single_replica_is_told_of_no_leaves():
    assert "It would start" not in reason(two_leaves((7, 7, 1, 7), {"replicas": 1})).text


def waiting_for(*work: dict, **more) -> str:
    """Return why a gang of half of each of two nodes waits, beside others."""
    gang = {"id": "gang", "replicas": 2, "gpus": 4}
    return reason(
        world(
            nodes="n[1-2]", workloads=[*work, gang], ratios={"a": 0.1, "b": 0.5},
            site={"plan_ahead": {"reservations": 8}}, **more,
        )
    ).text  # fmt: skip


def run(id: str, gpus: int, hours: int) -> dict:
    """Write a run on both nodes that is protected for so many hours more."""
    on = {"on": "n[1-2]", "ran": "1h", "allocation": "b"}
    return {"id": id, "gpus": gpus, "min_runtime": f"{hours + 1}h", **on}


def promised_at(hours: int, workload: str = "gang", gpus: int = 4) -> list[dict]:
    """Write a promise of both nodes."""
    placement = [{"node": n, "gpus": gpus} for n in ("n1", "n2")]
    return [{"workload": workload, "start_at": iso(NOW_S + hours * HOUR), "placement": placement}]


def test_a_promise_waits_for_those_who_must_go_and_not_for_those_beside_whom_there_is_room():
    text = waiting_for(run("beside", 2, 7), run("blocks", 6, 1))
    until = f"until {iso(NOW_S + HOUR)} at the latest"
    assert text.endswith(f"; until then it waits for 1 protected workload (blocks), {until}")


def test_a_promise_waits_for_an_earlier_one_on_its_nodes():
    before = {"id": "before", "replicas": 2, "min_runtime": "1h"}
    carried = [*promised_at(1, "before", gpus=8), *promised_at(2)]
    text = waiting_for(run("r", 8, 1), before, reservations=carried)
    assert f"until then it waits for 2 workloads (before, r), until {iso(NOW_S + 2 * HOUR)}" in text


def test_a_promise_far_ahead_says_that_it_starts_before_or_has_room_made():
    text = waiting_for(run("r", 8, 2), reservations=promised_at(999))
    assert f"; it waits for 1 protected workload (r), until {iso(NOW_S + 2 * HOUR)} at the latest; " in text
    assert text.endswith(
        "it starts earlier wherever it finds room, and at its time who is left there makes room"
    )
    assert "until then" not in text


def one_leaf(**more) -> World:
    """Write a leaf of three nodes where the start that is certain first is not the one worth the most."""
    held = [
        {"id": f"r{n}", "on": f"n{n}", "ran": "1h", "min_runtime": m, "allocation": "b"}
        for n, m in ((1, "3h"), (2, "195m"))
    ]
    return world(
        nodes=[{"names": "n[1-3]", "location": ["l1"]}], levels=["leaf"],
        workloads=[*held, {"id": "gang", "replicas": 2, "topology": {"required": "leaf"}}],
        ratios={"a": 0.5, "b": 0.5}, site={"plan_ahead": {"reservations": 8}}, **more,
    )  # fmt: skip


def test_where_all_is_one_leaf_two_bring_nothing():
    there = one_leaf()
    assert by_id(there.plan())["gang"].expected_start_s == NOW_S + 135 * 60
    assert "would start" not in reason(there).text


def test_gangs_without_a_level_do_not_use_up_the_looks_at_looser_wishes():
    there = two_leaves((1, 5, 2, 4))
    held = {"id": "h", "on": "t1", "ran": "1h", "min_runtime": "4h", "allocation": "b", "gpus": 32}
    first = {"id": "d{i}", "copies": LOOKED_AT, "gpus": 1, "clusters": ["t"]}
    there.snapshot_data["clusters"].append({"name": "t", "levels": [], "nodes": [{"name": "t1", "gpus": 32}]})
    there.snapshot_data["workloads"][:0] = [*job(**held), *job(**first)]
    assert "if it accepted two leaves" in reason(there).text


def test_looser_wishes_are_two_domains_and_none():
    gang = asking(HOUR)
    assert looser(gang) == []
    wide = World(
        two_leaves((1, 5, 2, 4)).site_data, two_leaves((1, 5, 2, 4)).snapshot_data
    ).snapshot.workloads[-1]
    assert [(t.required, t.segment) for t in looser(wide)] == [("leaf", 1), (None, None)]


def test_what_if_tries_looser_topologies_with_the_min_runtime_asked_for():
    there = two_leaves((1, 5, 2, 4))
    *others, gang = there.snapshot.workloads
    trials = what_if(there.site, replace(there.snapshot, workloads=tuple(others)), gang)
    starts = {
        (t.min_runtime_s, t.topology.required, t.topology.segment): t.decision.expected_start_s
        for t in trials
    }
    asked_s = gang.min_runtime_s
    assert starts[asked_s, "leaf", None] == NOW_S + 4 * HOUR
    assert starts[asked_s, "leaf", 1] == starts[asked_s, None, None] == NOW_S + 2 * HOUR


def test_the_plan_says_so_without_being_asked_for_more():
    data = plan_to_dict(two_leaves((1, 5, 2, 4)).plan())
    (promise,) = data["reservations"]
    assert promise["start_at"] == iso(NOW_S + 4 * HOUR)
