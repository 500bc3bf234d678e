"""Every decision has a reason that names what stands in the way, in whole and correct sentences."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.text import HOUR, iso
from planner.model.plan import Reason
from tests.planner.worlds import NOW_S, World, by_id, world

IN_AN_HOUR = iso(NOW_S + HOUR)


def reason(w: World, workload: str, backend: str = "greedy") -> Reason:
    """Why this is decided for a workload."""
    return by_id(w.plan(backend))[workload].reason


def reservation(workload: str, at_s: int, *nodes: str, gpus: int = 8) -> dict[str, Any]:
    """Write a promise of the previous plan."""
    placement = [{"node": n, "gpus": gpus} for n in nodes]
    return {"workload": workload, "start_at": iso(at_s), "placement": placement}


def contested(r: dict[str, Any] | None = None, **asks: Any) -> World:
    """Write a world of one node that `r` of b holds and `j` of a would like to have."""
    ratios, site = asks.pop("ratios", {"a": 0.1, "b": 1.9}), asks.pop("site", None)
    running = {"id": "r", "allocation": "b", "on": "n1", **(r or {})}
    return world(nodes="n1", workloads=[running, {"id": "j", **asks}], ratios=ratios, site=site)


def promised(**asks: Any) -> World:
    """Write a world where `big` is promised both nodes in an hour, when `safe` ends, and `j` waits too."""
    return world(
        nodes="n[1-2]",
        workloads=[
            {"id": "safe", "on": "n2", "ran": "1h", "min_runtime": "2h", "allocation": "b"},
            {"id": "big", "replicas": 2, "min_runtime": "4h"},
            {"id": "j", "allocation": "b", "min_runtime": "4h", **asks},
        ],
        reservations=[reservation("big", NOW_S + HOUR, "n1", "n2")],
    )


# --- what runs


def test_protection_says_until_when():
    found = reason(contested(r={"ran": "30m"}), "r")
    assert (found.code, found.text) == ("Protected", "inside its min runtime until 2026-10-09T12:30:00Z")


def test_what_goes_on_past_its_protection_says_who_pays():
    found = reason(contested(ratios={"a": 1.9, "b": 0.1}), "r")
    assert found.code == "KeepInterruptible"
    assert "charged to b" in found.text


def test_unallocated_work_that_stays_says_that_nobody_needs_its_gpus():
    w = world(workloads=[{"id": "u", "on": "n1", "min_runtime": "0s"}])
    assert reason(w, "u").code == "KeepUnallocated"


def test_what_is_stopping_says_so():
    assert reason(contested(r={"state": "stopping"}), "r").code == "Stopping"


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({}, ["b (1.90 of its share)", "past its min runtime", "with its progress"]),
        ({"resumable": False}, ["b (1.90 of its share)", "not resumable and starts over"]),
        ({"min_runtime": "0s"}, ["it is unallocated;"]),
    ],
)
def test_a_victim_says_for_whom_and_how_both_stand(run: dict[str, Any], words: list[str]):
    found = reason(contested(r=run), "r")
    assert found.code == "MadeRoom"
    for word in ["makes room for j of a (0.10 of its share)", *words]:
        assert word in found.text


def test_a_victim_of_no_allocation_of_the_site_is_not_taken_for_another_ones():
    found = reason(contested(r={"allocation": "closed"}), "r")
    assert found.code == "MadeRoom"
    assert "closed (no allocation of this site)" in found.text


def test_a_draining_node_is_named():
    w = world(nodes=[{"name": "bad", "state": "draining"}], workloads=[{"id": "r", "on": "bad"}])
    found = reason(w, "r")
    assert found.code == "NodeDraining"
    assert found.text.startswith("bad is draining")


def test_a_failed_node_is_named_and_the_promise_with_it():
    nodes = [{"name": "bad", "state": "down"}, {"names": "n[1-2]"}]
    w = world(nodes=nodes, workloads=[{"id": "r", "on": ["bad", "n1"]}])
    found = reason(w, "r")
    (promise,) = w.plan().reservations
    assert found.code == "NodeDown"
    assert found.text.startswith("bad is down")
    assert f"promised a start at {iso(promise.start_s)}" in found.text


def test_several_failed_nodes_are_named_in_the_plural():
    nodes = [{"names": "bad[1-2]", "state": "down"}]
    w = world(nodes=nodes, workloads=[{"id": "r", "on": "bad[1-2]"}])
    assert reason(w, "r").text.startswith("bad1, bad2 are down")


# --- what starts


def test_a_start_says_where_how_long_and_who_made_room():
    found = reason(contested(), "j")
    assert found.code == "Start"
    for word in ("starts on n1", "protected for 1h", "r made room", "a has had 0.10 of its share"):
        assert word in found.text


def test_a_start_on_several_nodes_counts_and_folds_them():
    assert (
        "starts on 3 nodes, n[1-3],"
        in reason(world(nodes="n[1-3]", workloads=[{"id": "j", "replicas": 3}]), "j").text
    )


def test_a_long_list_of_victims_is_counted():
    many = {"id": "r{i}", "on": "n1", "copies": 8, "gpus": 1, "allocation": "b"}
    w = world(nodes="n1", workloads=[many, {"id": "j"}], ratios={"a": 0.1, "b": 1.9})
    assert "r0, r1, r2 and 5 more made room" in reason(w, "j").text


def test_an_unallocated_start_says_that_it_is_free():
    found = reason(world(workloads=[{"id": "u", "min_runtime": "0s"}]), "u")
    assert found.code == "StartUnallocated"
    assert "first to make room" in found.text


def test_a_start_in_the_debug_lane_says_so():
    holds = {"id": "r{i}", "allocation": "b", "on": "n[1-4]", "copies": 4, "min_runtime": "0s"}
    debug = {"id": "d", "min_runtime": "15m", "gpus": 1}
    found = reason(world(workloads=[holds, debug], ratios={"a": 3.0}), "d")
    assert found.code == "StartInDebugLane"


def test_a_start_that_was_promised_says_so():
    w = promised()
    w.snapshot_data["time"] = iso(NOW_S + HOUR)
    assert reason(w, "big").code == "StartAsPromised"


# --- what waits


def test_who_ranks_before_is_named_with_its_ratio_and_its_gpus():
    found = reason(contested(ratios={"a": 1.9, "b": 0.5}), "j")
    assert found.code == "RanksBehind"
    for word in ("a (1.90 of its share)", "number 2 of 2", "after b (0.50; 8 GPUs)", "It needs 8 GPUs"):
        assert word in found.text


def test_work_of_its_own_allocation_that_goes_first_is_counted():
    w = world(nodes="n1", workloads=[{"id": "old", "waited": "2h"}, {"id": "young", "waited": "1h"}])
    found = reason(w, "young")
    assert found.code == "RanksBehind"
    assert "after 8 GPUs of its own" in found.text


def test_the_brake_is_named_where_only_it_stands_in_the_way():
    brake = {"preemption": {"max_gpus_per_round": 4}}
    found = reason(contested(site=brake, r={"min_runtime": "0s"}), "j")
    assert "number 1 of 1" in found.text
    assert "8 with work that ranks behind it, of which a round preempts 4 at most" in found.text


def test_what_was_given_out_ahead_of_the_order_is_counted():
    w = world(
        nodes="n1",
        workloads=[
            {"id": "debug", "gpus": 2, "min_runtime": "15m", "allocation": "b"},
            {"id": "j", "topology": {"required": "node"}},
        ],
        ratios={"a": 0.1, "b": 1.9},
    )
    found = reason(w, "j")
    assert "2 given out ahead of the order" in found.text
    assert "6 GPUs that it may use are free" in found.text


def test_protected_work_is_named_by_its_place_and_its_end():
    found = reason(contested(r={"ran": "1h", "min_runtime": "3h"}), "j")
    assert found.code == "Protected"
    for word in (
        "needs 8 GPUs",
        "k comes closest",
        "0 of 1 replica",
        "8 GPUs protected until 2026-10-09T14:00:00Z",
    ):
        assert word in found.text
    assert "expected to start at 2026-10-09T14:00:00Z" in found.text


def test_the_closest_of_several_domains_is_named():
    nodes = [{"names": "a[1-2]", "location": ["l1"]}, {"names": "b[1-2]", "location": ["l2"]}]
    long = {"min_runtime": "8h", "ran": "1h", "allocation": "b"}
    w = world(
        nodes=nodes,
        levels=["leaf"],
        workloads=[
            {"id": "x", "on": "a[1-2]", **long},
            {"id": "y", "on": "b1", **long},
            {"id": "j", "replicas": 2, "topology": {"required": "leaf"}},
        ],
    )
    text = reason(w, "j").text
    assert "leaf l2 comes closest, with room for 1 of 2 replicas beside 8 GPUs protected" in text


def test_work_that_is_still_leaving_is_not_called_protected():
    found = reason(contested(r={"state": "stopping"}), "j")
    assert "still leaving" in found.text


def test_a_limit_is_named_with_its_owner_and_what_is_held():
    family = [{"name": "l", "limit": 16, "children": [{"name": "x"}, {"name": "y"}]}]
    w = world(
        family,
        workloads=[
            {"id": "r", "on": "n1", "allocation": "l/x", "min_runtime": "8h"},
            {"id": "j", "replicas": 2, "allocation": "l/y"},
        ],
    )
    found = reason(w, "j")
    assert found.code == "AtLimit"
    assert found.text.startswith("l holds 8 GPUs and its limit is 16: 2 x 8 GPUs more would pass it")


def test_a_limit_counts_what_is_promised_to_others():
    family = [{"name": "a", "limit": 16}, {"name": "b"}]
    busy = {"id": "r", "on": "n[1-4]", "replicas": 4, "allocation": "b", "min_runtime": "4h"}
    gangs = [{"id": name, "replicas": 2} for name in ("g1", "g2")]
    ahead = {"plan_ahead": {"reservations": 8}}
    w = world(family, nodes="n[1-4]", workloads=[busy, *gangs], ratios={"a": 0.1, "b": 0.9}, site=ahead)
    found = [reason(w, name) for name in ("g1", "g2")]
    assert [r.code for r in found] == ["Promised", "AtLimit"]
    assert found[1].text.startswith("a holds 0 GPUs, is promised 16 and its limit is 16: 2 x 8 GPUs more")


def test_a_limit_lowered_below_what_is_held_says_that_nothing_starts():
    family = [{"name": "a", "limit": 4}, {"name": "b"}]
    w = world(family, workloads=[{"id": "r", "on": "n1", "min_runtime": "8h"}, {"id": "j", "gpus": 1}])
    found = reason(w, "j")
    assert found.code == "AtLimit"
    assert found.text.startswith("a holds 8 GPUs and its limit is 4: beyond it nothing starts")


def test_free_gpus_in_too_small_pieces_are_fragmentation():
    rivals = {"id": "r{i}", "on": "n[1-2]", "copies": 2, "gpus": 4, "allocation": "b"}
    w = world(nodes="n[1-2]", workloads=[rivals, {"id": "j"}], ratios={"a": 1.9, "b": 0.1})
    found = reason(w, "j")
    assert found.code == "Fragmented"
    for word in (
        "8 GPUs that it may use are free",
        "2 nodes have too little for one replica",
        "the most on one node: 4 GPUs",
    ):
        assert word in found.text


def test_what_would_fit_without_its_topology_or_in_part_is_said():
    nodes = [{"names": "a[1-2]", "location": ["l1"]}, {"names": "b[1-2]", "location": ["l2"]}]
    rivals = {"id": "r{i}", "on": ["a1", "b1"], "copies": 2, "allocation": "b", "min_runtime": "8h"}
    wish = {"id": "j", "replicas": 2, "topology": {"required": "leaf"}}
    text = reason(world(nodes=nodes, levels=["leaf"], workloads=[rivals, wish]), "j").text
    assert "It would fit now if it did not need a single leaf" in text
    text = reason(
        world(nodes=nodes, levels=["leaf"], workloads=[rivals, {"id": "j", "replicas": 3}]), "j"
    ).text
    assert "2 replicas would fit now" in text


def test_unhealthy_nodes_are_blamed_where_only_they_are_missing():
    nodes = [{"name": "n1"}, {"name": "n2", "state": "down"}]
    found = reason(world(nodes=nodes, workloads=[{"id": "j", "replicas": 2}]), "j")
    assert found.code == "TooFewHealthyNodes"
    assert "1 of 2 replicas" in found.text


def test_segments_in_several_domains_are_not_blamed_on_unhealthy_nodes():
    nodes = [{"names": "a[1-2]", "location": ["l1"]}, {"names": "b[1-2]", "location": ["l2"]}]
    rival = {"id": "r", "on": "a1", "allocation": "b", "min_runtime": "8h"}
    wish = {"id": "j", "replicas": 4, "topology": {"required": "leaf", "segment": 2}}
    assert reason(world(nodes=nodes, levels=["leaf"], workloads=[rival, wish]), "j").code == "Protected"


def test_unallocated_work_without_room_is_told_what_a_min_runtime_would_do():
    found = reason(contested(min_runtime="0s"), "j")
    assert found.code == "NoFreeGpus"
    assert "no GPU that it may use is free. A min runtime would give it a claim" in found.text


def test_who_has_no_share_is_not_told_to_ask_for_a_min_runtime():
    w = world(
        {"a": 0, "b": 1}, "n1", [{"id": "r", "on": "n1", "allocation": "b"}, {"id": "j", "min_runtime": "0s"}]
    )
    assert "min runtime" not in reason(w, "j").text


def test_a_replica_without_gpus_speaks_of_what_it_asks_for():
    nodes = [{"name": "n1", "cpus": 64}]
    rival = {"id": "r", "on": "n1", "cpus_per_replica": 60, "allocation": "b"}
    w = world(
        nodes=nodes, workloads=[rival, {"id": "j", "gpus": 0, "cpus_per_replica": 16, "min_runtime": "0s"}]
    )
    found = reason(w, "j")
    assert "it asks for 16 CPUs, and there is room for 0 of 1 replica" in found.text


# --- promises


def test_a_promise_says_when_and_where():
    found = reason(promised(), "big")
    assert found.code == "Promised"
    assert found.text == (
        f"is promised a start at {IN_AN_HOUR} on 2 nodes, n[1-2]; "
        f"until then it waits for 1 protected workload (safe), until {IN_AN_HOUR} at the latest"
    )


def test_what_fits_only_on_promised_nodes_is_told_for_how_long_it_would():
    found = reason(promised(), "j")
    assert found.code == "Held"
    for word in ("would fit on n1", f"promised to others from {IN_AN_HOUR}", "its min runtime of 4h"):
        assert word in found.text
    assert "With a min runtime of at most 1h it could start now" in found.text
    assert by_id(promised(min_runtime="1h").plan())["j"].action == "start"


@pytest.mark.parametrize(("floor", "told"), [("1h", True), ("61m", False)])
def test_no_min_runtime_is_recommended_that_the_site_would_raise(floor: str, told: bool):
    there = promised()
    there.site_data["contract"] = {"min_min_runtime": floor}
    found = reason(there, "j")
    assert found.code == "Held"
    assert ("it could start now" in found.text) == told


def moved(until: str) -> World:
    """Write a world where `j` was promised a node for in an hour that is down now, and `r` has the other."""
    running = {"id": "r", "on": "n1", "ran": "1h", "min_runtime": until, "allocation": "b"}
    return world(
        nodes=[{"name": "n1"}, {"name": "n2", "state": "down"}],
        workloads=[running, {"id": "j"}],
        reservations=[reservation("j", NOW_S + HOUR, "n2")],
    )


def test_a_promise_that_moves_to_a_later_time_says_so_and_why():
    d = by_id(moved("4h").plan())["j"]
    assert (d.reason.code, d.expected_start_s) == ("PromiseMoved", NOW_S + 3 * HOUR)
    why = "because a node it was promised has left service"
    assert f"later than it was promised ({IN_AN_HOUR}), {why}" in d.reason.text


def test_a_promise_that_moves_to_another_place_in_time_is_not_called_later():
    d = by_id(moved("90m").plan())["j"]
    assert (d.reason.code, d.expected_start_s) == ("PromiseMoved", NOW_S + HOUR // 2)
    assert f"no longer where it was promised ({IN_AN_HOUR}), because" in d.reason.text
    assert "later" not in d.reason.text


def test_a_promise_that_falls_says_later_and_what_stands_in_the_way():
    w = world(
        nodes=[{"name": "n1", "state": "down"}],
        workloads=[{"id": "j"}],
        reservations=[reservation("j", NOW_S + HOUR, "n1")],
    )
    found = reason(w, "j")
    assert found.code == "PromiseLost"
    assert found.text.startswith(
        "later than it was promised, because a node it was promised has left service; "
    )


def test_a_promise_that_is_due_and_braked_is_not_said_to_be_elsewhere():
    free = {"min_runtime": "0s", "allocation": "b"}
    w = world(
        nodes="n[1-2]",
        workloads=[
            {"id": "r", "on": "n1", **free}, {"id": "q", "on": "n2", **free}, {"id": "i"}, {"id": "j"},
        ],
        reservations=[reservation("i", NOW_S, "n1"), reservation("j", NOW_S, "n2")],
        site={"preemption": {"max_gpus_per_round": 8}},
    )  # fmt: skip
    found = reason(w, "j")
    assert found.code == "Promised"
    assert f"is promised a start at {iso(NOW_S)} on n2, as before; it cannot start yet, because" in found.text


def test_a_promise_that_another_one_overlaps_says_so():
    both = [reservation(j, NOW_S + HOUR, "n1") for j in ("i", "j")]
    w = world(
        nodes="n1",
        workloads=[
            {"id": "r", "on": "n1", "ran": "1h", "min_runtime": "2h", "allocation": "b"},
            *({"id": j, "min_runtime": "2h"} for j in ("i", "j")),
        ],
        reservations=both,
    )
    found = reason(w, "j")
    assert found.code == "PromiseMoved"
    assert found.text.endswith("because its place is promised to i at that time")


def test_a_promise_to_what_is_unallocated_now_says_that_it_is():
    w = world(
        nodes="n1", workloads=[{"id": "r", "on": "n1", "allocation": "b"}, {"id": "j", "min_runtime": "0s"}]
    )
    w.snapshot_data["reservations"] = [reservation("j", NOW_S + HOUR, "n1")]
    found = reason(w, "j")
    assert found.code == "PromiseLost"
    assert found.text.startswith("later than it was promised, because it is unallocated now, and only")


def test_unallocated_work_that_fills_what_does_not_fit_is_worth_no_more():
    w = world(
        nodes="n[1-2]",
        workloads=[
            {"id": "r", "on": "n1", "allocation": "b"},
            {"id": "gang", "replicas": 2},
            {"id": "free", "min_runtime": "0s", "allocation": "b"},
        ],
        ratios={"a": 1.2, "b": 1.21},
    )
    assert by_id(w.plan())["free"].action == "start"
    found = reason(w, "gang").text
    assert "8 filled with unallocated work as long as it does not fit" in found
    assert "worth more" not in found
