"""The story of a gang that waits: whom it waits for, and when it would start if it asked for less."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.text import HOUR, iso
from planner.model.plan import Reason
from planner.planfile import plan_to_dict
from planner.whatif import looser, what_if
from tests.planner.test_whatif import asking
from tests.planner.worlds import NOW_S, World, by_id, world


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
