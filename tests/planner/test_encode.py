"""Names to arrays: an order that is ours alone, exact units, and what is not known made visible."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from benchmarks.random_snapshots import random_case
from benchmarks.text import iso
from planner.encode import encode
from planner.errors import InputError
from planner.model.site import Site
from solver.state import FOREVER_S, MICRO, Level, NodeState, Status
from tests.planner.worlds import NOW_S, World, world

HOUR_S, DAY_S, WEEK_S = 3_600, 86_400, 604_800
UNIT = HOUR_S * MICRO  # micro budget units in one budget unit


def assert_same(one: Any, other: Any) -> None:
    """Check that two structures of arrays are alike to the last number."""
    if is_dataclass(one):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def leaf(w: World, path: str) -> int:
    """Index of an allocation."""
    return w.encoded().names.budgets.index(path)


# --- order


@pytest.mark.parametrize("seed", range(0, 120, 4))
def test_the_order_of_the_input_leaves_no_trace_in_the_arrays(seed: int):
    original = World(*random_case(seed))
    one, other = original.encoded(), original.shuffled(seed).encoded()
    assert_same(one.state, other.state)
    assert one.names.index == other.names.index
    assert one.names.node_index == other.names.node_index
    assert one.warnings == other.warnings


def test_nodes_go_by_cluster_location_and_name_and_workloads_by_id():
    w = world(
        clusters=[
            {"name": "z", "levels": ["rack"], "nodes": [{"name": "b", "location": ["r1"]}]},
            {
                "name": "y",
                "levels": ["rack"],
                "nodes": [
                    {"name": "a", "location": ["r2"]},
                    {"name": "d", "location": ["r1"]},
                    {"name": "c", "location": ["r1"]},
                ],
            },
        ],
        workloads=[{"id": "9"}, {"id": "10"}, {"id": "a"}],
    )
    names = w.encoded().names
    assert [n.name for n in names.nodes] == ["c", "d", "a", "b"]
    assert [x.id for x in names.workloads] == ["10", "9", "a"]


# --- domains and pools


def test_a_domain_is_its_whole_path_in_its_own_cluster():
    w = world(
        clusters=[
            {
                "name": "x",
                "levels": ["block", "leaf"],
                "nodes": [
                    {"names": "a[1-2]", "location": ["b1", "l1"]},
                    {"name": "a3", "location": ["b1", "l2"]},
                    {"name": "a4", "location": ["b2", "l1"]},
                ],
            },
            {"name": "y", "levels": ["block", "leaf"], "nodes": [{"name": "c1", "location": ["b1", "l1"]}]},
        ]
    )
    block, inner = w.encoded().state.nodes.domain
    assert block[0] == block[1] == block[2]
    assert inner[0] == inner[1]
    assert len(set(block)) == 3
    assert len(set(inner)) == 4
    assert not set(block) & set(inner)


def test_a_node_has_no_domain_at_levels_that_it_or_its_cluster_lacks():
    w = world(
        clusters=[
            {
                "name": "x",
                "levels": ["block", "leaf"],
                "nodes": [{"name": "a", "location": ["b1"]}, {"name": "b", "location": []}],
            },
            {"name": "y", "levels": ["rack"], "nodes": [{"name": "c", "location": ["r1"]}]},
        ]
    )
    e = w.encoded()
    known = {
        (name, level): bool(e.state.nodes.domain[k, e.names.node_index[name]] >= 0)
        for name in "abc"
        for k, level in enumerate(e.names.levels)
    }
    assert e.names.levels == ("block", "leaf", "rack")
    assert {pair for pair, there in known.items() if there} == {("a", "block"), ("c", "rack")}


def test_a_level_of_one_name_is_one_level_of_all_clusters():
    clusters = [
        {"name": "x", "levels": ["leaf"], "nodes": [{"name": "a", "location": ["l"]}]},
        {"name": "y", "levels": ["block", "leaf"], "nodes": [{"name": "b", "location": ["b", "l"]}]},
    ]
    w = world(clusters=clusters, workloads=[{"id": "j", "topology": {"required": "leaf"}}])
    e = w.encoded()
    row = int(e.state.workloads.required[0])
    assert e.names.levels[row] == "leaf"
    assert (e.state.nodes.domain[row] >= 0).all()


def test_a_pool_is_one_type_of_one_cluster_and_a_nameless_type_is_one_too():
    w = world(
        clusters=[
            {
                "name": "x",
                "nodes": [
                    {"name": "a", "gpu_type": "h100"},
                    {"name": "b", "gpu_type": "b200"},
                    {"name": "c"},
                    {"name": "e", "gpu_type": "h100"},
                ],
            },
            {"name": "y", "nodes": [{"name": "d", "gpu_type": "h100"}]},
        ],
        workloads=[
            {"id": "any"},
            {"id": "cluster", "clusters": ["y"]},
            {"id": "both", "clusters": ["x"], "gpu_types": ["h100"]},
            {"id": "none", "gpu_types": ["mi300"]},
        ],
    )
    e = w.encoded()
    n, names = e.state.nodes, e.names
    assert set(names.pools) == {("x", None), ("x", "b200"), ("x", "h100"), ("y", "h100")}
    assert [names.pools[p] for p in n.pool] == [
        (c.name, x.gpu_type) for c, x in zip(names.node_cluster, names.nodes, strict=True)
    ]
    ok = {
        k: {
            pool
            for pool, yes in zip(names.pools, e.state.workloads.pool_ok[names.index[k]], strict=True)
            if yes
        }
        for k in ("any", "cluster", "both", "none")
    }
    assert ok == {
        "any": set(names.pools),
        "cluster": {("y", "h100")},
        "both": {("x", "h100")},
        "none": set(),
    }


# --- budgets, exactly


@pytest.mark.parametrize(("charge", "micro"), [("1.37", 1_370_000), ("2", 2_000_000), ("0.000001", 1)])
def test_a_charge_is_exact_and_an_unnamed_type_costs_one(charge: str, micro: int):
    nodes = [{"name": "a", "gpu_type": "h100"}, {"name": "b", "gpu_type": "other"}]
    w = world(nodes=nodes, site={"gpu_types": {"h100": {"charge": float(charge)}}})
    e = w.encoded()
    assert dict(zip(e.names.pools, e.state.policy.charge_micro.tolist(), strict=True)) == {
        ("k", "h100"): micro,
        ("k", "other"): MICRO,
    }


def test_use_is_exact_to_the_micro_unit_and_adds_up_through_the_tree():
    family = [{"name": "l", "children": [{"name": "x"}, {"name": "y"}]}, {"name": "v"}]
    w = world(family, usage={"l/x": 8123.457, "l/y": 0.1, "v": 1e-9})
    b = w.encoded().state.budgets
    at = {path: int(b.usage[leaf(w, path)]) for path in ("", "l", "l/x", "l/y", "v")}
    assert at["l/x"] == 8_123_457 * UNIT // 1000
    assert at["l/y"] == UNIT // 10
    assert at["v"] == round(Fraction(UNIT, 10**9))
    assert at["l"] == at["l/x"] + at["l/y"]
    assert at[""] == at["l"] + at["v"]


def test_what_is_entitled_is_share_times_capacity_times_history():
    nodes = [{"names": "n[1-3]", "gpus": 7, "gpu_type": "h100"}, {"name": "m", "gpus": 5}]
    for history, seconds in (("7d", WEEK_S), ("3d", 3 * DAY_S), ("61m", 3_660), (None, WEEK_S)):
        more = {} if history is None else {"history": history}
        w = world({"a": 1, "b": 2}, nodes, site={"gpu_types": {"h100": {"charge": 1.37}}}, **more)
        if history is None:
            del w.snapshot_data["history"]
        micro_a_second = 21 * 1_370_000 + 5 * MICRO
        entitled = w.encoded().state.budgets.entitled
        assert entitled[leaf(w, "a")] == round(Fraction(micro_a_second * seconds, 3))
        assert entitled[leaf(w, "b")] == round(Fraction(2 * micro_a_second * seconds, 3))


def test_a_fresh_site_counts_an_hour_at_least():
    w = world({"a": 1, "b": 3}, "n[1-2]", history="1m")
    b = w.encoded().state.budgets
    assert b.entitled[leaf(w, "a")] == 4 * UNIT
    assert b.entitled[leaf(w, "b")] == 12 * UNIT


def test_what_is_down_is_nobodys_capacity_and_what_drains_still_is():
    nodes = [{"name": "u"}, {"name": "g", "state": "draining"}, {"name": "d", "state": "down"}]
    w = world({"a": 1}, nodes, history="1h")
    assert w.encoded().state.budgets.entitled[leaf(w, "a")] == 16 * UNIT


def test_an_entitlement_that_is_given_is_taken_and_an_hour_is_the_least():
    w = world({"a": 1, "b": 1, "c": 1, "d": 1}, "n[1-2]", entitled={"a": 12.5, "b": 0.25, "d": 0})
    b = w.encoded().state.budgets
    assert b.entitled[leaf(w, "a")] == 25 * UNIT // 2
    assert b.entitled[leaf(w, "b")] == b.entitled[leaf(w, "d")] == 4 * UNIT
    assert b.entitled[leaf(w, "c")] == 4 * 168 * UNIT  # not named: today's share


def test_a_weight_of_zero_is_entitled_to_nothing():
    w = world({"a": 1, "z": 0}, "n[1-2]", entitled={"z": 100})
    b = w.encoded().state.budgets
    assert (b.entitled[leaf(w, "z")], b.share_ppb[leaf(w, "z")]) == (0, 0)


def test_a_tumbling_window_counts_since_it_tumbled():
    look = {"window": "1d", "type": "tumbling"}
    w = world({"a": 1}, "n[1-2]", site={"fair_share": {"lookback": look}}, history="1d")
    assert w.encoded().state.budgets.entitled[1] == 16 * 12 * UNIT  # it is noon
    young = world({"a": 1}, "n[1-2]", site={"fair_share": {"lookback": look}}, history="2h")
    assert young.encoded().state.budgets.entitled[1] == 16 * 2 * UNIT


def test_a_half_life_weighs_the_past_by_its_age():
    half_h = 12
    look = {"window": "7d", "half_life": f"{half_h}h"}
    w = world({"a": 1}, "n[1-2]", site={"fair_share": {"lookback": look}})
    hours = half_h / math.log(2) * (1 - 2 ** (-168 / half_h))
    assert w.encoded().state.budgets.entitled[1] == pytest.approx(16 * hours * UNIT, rel=1e-12)


def test_more_use_than_can_be_counted_is_refused_and_not_wrapped():
    w = world({"a": 1, "b": 1, "c": 1}, usage=dict.fromkeys("abc", 10**9))
    with pytest.raises(InputError, match="budget units"):
        w.encoded()


# --- policy


@pytest.mark.parametrize(
    ("nodes", "lane", "max_gpus", "gpus"),
    [
        ("n[1-100]", "4%", 16, 32),
        ("n[1-100]", "3.99%", 16, 31),
        ("n[1-10]", "4%", 16, 16),
        ("n[1-4]", "4%", 16, 8),
        ("n[1-4]", "100%", 0, 8),
        ("n[1-100]", "0%", 16, 0),
    ],
)
def test_the_debug_lane_is_its_share_at_least_its_largest_at_most_a_quarter(nodes, lane, max_gpus, gpus):
    contract = {"debug": {"lane": lane, "max_gpus": max_gpus}}
    assert world(nodes=nodes, site={"contract": contract}).encoded().state.policy.lane_gpus == gpus


def test_nodes_that_are_down_are_no_part_of_the_lane():
    nodes = [{"names": "n[1-50]"}, {"names": "d[1-50]", "state": "down"}]
    assert world(nodes=nodes).encoded().state.policy.lane_gpus == 16


def test_the_choices_of_the_site_reach_the_solver():
    chosen = {
        "fair_share": {"order": "fair_tree", "band": 0.125},
        "preemption": {"restart_cost": "7m", "max_gpus_per_round": 24},
    }
    policy = world(site=chosen).encoded().state.policy
    assert (policy.order, policy.band, policy.restart_cost_s, policy.max_preempted_gpus) == (
        "fair_tree",
        0.125,
        420,
        24,
    )
    assert world().encoded().state.policy.max_preempted_gpus == -1


def test_limits_stand_at_their_budgets():
    family = [{"name": "l", "limit": 12, "children": [{"name": "x", "limit": 0}, {"name": "y"}]}]
    w = world(family)
    limits = w.encoded().state.budgets.limit_gpus
    assert [int(limits[leaf(w, p)]) for p in ("", "l", "l/x", "l/y")] == [-1, 12, 0, -1]


# --- workloads


def test_protection_lasts_from_the_start_of_an_allocated_run_and_from_nothing_else():
    w = world(
        workloads=[
            {"id": "run", "on": "n1", "ran": "30m", "min_runtime": "1h"},
            {"id": "cut", "on": "n2", "ran": "30m", "min_runtime": "20h", "time_limit": "2h"},
            {"id": "free", "on": "n3", "ran": "30m", "min_runtime": "1h", "occupancy": "unallocated"},
            {"id": "stop", "on": "n4", "ran": "30m", "min_runtime": "1h", "state": "stopping"},
            {"id": "wait", "min_runtime": "1h"},
        ]
    )
    e = w.encoded()
    until = dict(zip(e.names.index, e.state.workloads.protected_until_s.tolist(), strict=True))
    began_s = NOW_S - 1_800
    assert until == {"run": began_s + 3_600, "cut": began_s + 7_200, "free": 0, "stop": 0, "wait": 0}
    status = dict(zip(e.names.index, e.state.workloads.status.tolist(), strict=True))
    assert (status["run"], status["stop"], status["wait"]) == (
        Status.RUNNING,
        Status.STOPPING,
        Status.PENDING,
    )


def test_what_a_workload_asks_for_is_in_the_solvers_units():
    asks = {
        "cpus_per_replica": 0.5,
        "memory_per_replica": "2TiB",
        "priority": -3,
        "resumable": False,
        "topology": {"required": "node", "segment": 2},
        "replicas": 4,
    }
    e = world(workloads=[{"id": "j", "gpus": 3, **asks}]).encoded()
    w = e.state.workloads
    assert (w.replicas[0], w.gpus_per_replica[0], w.gpus[0]) == (4, 3, 12)
    assert (w.cpus_milli[0], w.memory_bytes[0]) == (500, 2 << 40)
    assert (w.priority[0], bool(w.resumable[0]), w.segment[0]) == (-3, False, 2)
    assert w.time_limit_s[0] == FOREVER_S


def test_levels_that_nobody_has_are_unknown_as_a_demand_and_dropped_as_a_wish():
    wishes = {
        "known": {"required": "leaf"},
        "node": {"required": "node"},
        "nowhere": {"required": "moon"},
        "dream": {"preferred": "moon"},
        "wish": {"preferred": "leaf"},
    }
    w = world(levels=["leaf"], workloads=[{"id": k, "topology": v} for k, v in wishes.items()])
    e = w.encoded()
    at = {
        k: (int(e.state.workloads.required[j]), int(e.state.workloads.preferred[j]))
        for k, j in e.names.index.items()
    }
    assert at == {
        "known": (0, Level.NONE),
        "node": (Level.NODE, Level.NONE),
        "nowhere": (Level.UNKNOWN, Level.NONE),
        "dream": (Level.NONE, Level.NONE),
        "wish": (Level.NONE, 0),
    }


def test_an_unknown_allocation_has_no_leaf_and_is_warned_about_where_it_runs():
    w = world(
        workloads=[{"id": "r", "on": "n1", "allocation": "gone"}, {"id": "p", "allocation": "gone"}],
    )
    e = w.encoded()
    assert set(e.state.workloads.leaf) == {-1}
    assert [x.partition(":")[0] for x in e.warnings if "gone" in x and "not an allocation" in x] == ["r"]


def test_an_inner_budget_is_no_allocation():
    w = world([{"name": "l", "children": [{"name": "x"}]}], workloads=[{"id": "j", "allocation": "l"}])
    assert w.encoded().state.workloads.leaf[0] == -1


def test_replicas_without_gpus_count_one_for_each_entry():
    nodes = [{"name": "n1", "cpus": 64}, {"name": "n2", "cpus": 64}]
    w = world(
        nodes=nodes,
        workloads=[{"id": "c", "gpus": 0, "cpus_per_replica": 16, "on": ["n1", "n2", "n1"]}],
    )
    w.snapshot_data["workloads"][0]["placement"] = [{"node": n, "gpus": 0} for n in ("n1", "n2", "n1")]
    placed = w.encoded().state.workloads.placement
    assert np.bincount(placed.node, placed.replicas).tolist() == [2, 1]
    assert placed.gpus.sum() == 0


def test_a_promise_keeps_its_time_and_loses_the_places_that_are_gone():
    promise = {"workload": "p", "start_at": iso(NOW_S + 600)}
    promise["placement"] = [{"node": "n1", "gpus": 8}, {"node": "scrapped", "gpus": 8}]
    w = world(workloads=[{"id": "p", "replicas": 2}], reservations=[promise])
    promises = w.encoded().state.promises
    assert promises.start_s.tolist() == [NOW_S + 600]
    assert promises.placement.node.tolist() == [0]
    assert promises.placement.replicas.sum() == 1


def test_nodes_carry_their_health_and_what_is_not_counted_is_zero():
    nodes = [
        {"name": "a", "cpus": 1.5, "memory": "1G"},
        {"name": "b", "state": "draining"},
        {"name": "c", "state": "down"},
    ]
    n = world(nodes=nodes).encoded().state.nodes
    assert n.state.tolist() == [NodeState.UP, NodeState.DRAINING, NodeState.DOWN]
    assert n.cpus_milli.tolist() == [1_500, 0, 0]
    assert n.memory_bytes.tolist() == [1 << 30, 0, 0]


def test_carrying_an_overdraft_without_a_ledger_is_said():
    w = world(site={"fair_share": {"carry_overdraft": True}})
    assert any("carry_overdraft" in text for text in w.encoded().warnings)
    assert world().encoded().warnings == ()


def test_a_world_of_nothing_is_encoded():
    nothing = world({"a": 1}, nodes=[])
    state = encode(Site(nothing.site.budgets), nothing.snapshot).state
    assert (state.nodes.count, state.workloads.count) == (0, 0)
    assert state.budgets.entitled.tolist() == [0, 0]
