"""Names to arrays: an order that is ours alone, exact units, and what is not known made visible."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from benchmarks.random_snapshots import random_case
from benchmarks.text import iso
from planner.encode import encode
from planner.errors import InputError
from planner.model.site import Site
from planner.model.snapshot import Reservation
from planner.model.workload import Placement
from solver.state import FOREVER_S, Level, NodeState, Status
from tests.planner.worlds import NOW_S, World, world


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


def test_work_on_unknown_nodes_and_promises_to_unknown_work_are_refused_together():
    w = world(workloads=[{"id": "r", "on": "n1"}])
    run = w.snapshot.workloads[0]
    lost = replace(run, placement=(Placement("gone", 8), Placement("n1", 8)))
    promise = Reservation("alien", NOW_S + 600, (Placement("n1", 8),))
    with pytest.raises(InputError) as refused:
        encode(w.site, replace(w.snapshot, workloads=(lost,), reservations=(promise,)))
    assert refused.value.messages == [
        "r: unknown node gone, write one of the inventory",
        "alien: promised a start, and not in the snapshot, leave the promise out",
    ]


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


def test_a_world_of_nothing_is_encoded():
    nothing = world({"a": 1}, nodes=[])
    state = encode(Site(nothing.site.budgets), nothing.snapshot).state
    assert (state.nodes.count, state.workloads.count) == (0, 0)
    assert state.budgets.entitled.tolist() == [0, 0]
