"""One round from files to a plan: complete, exact, and the same for the same world."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import planner.round
from benchmarks.random_snapshots import random_case
from planner.errors import PlanRejectedError
from planner.model.plan import Plan
from planner.planfile import plan_to_dict, schema
from planner.round import plan_round
from planner.site import load_site
from planner.snapshot import load_snapshot
from planner.verify import verify
from solver.rules import Broken
from tests.planner.worlds import NOW_S, World, by_id, plan_data, world

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = [("ai2", "snapshot.json"), ("two-clusters", "snapshot.yaml")]
MINUTE, HOUR = 60, 3_600


def plan_text(w: World, backend: str) -> str:
    """A plan as text, less the time that the solver took."""
    return json.dumps(plan_data(w.plan(backend)), indent=1)


# --- form


@pytest.mark.parametrize(("name", "file"), EXAMPLES)
def test_the_plan_of_an_example_keeps_its_schema_and_holds(name: str, file: str):
    site = load_site(ROOT / "examples" / name / "site.yaml")
    snapshot = load_snapshot(ROOT / "examples" / name / file, site)
    plan = plan_round(site, snapshot)
    jsonschema.validate(json.loads(json.dumps(plan_to_dict(plan), allow_nan=False)), schema())
    assert verify(snapshot, plan, site) == []


@pytest.fixture(scope="module")
def plans() -> list[tuple[World, Plan]]:
    """Many small worlds and their plans."""
    worlds = [World(*random_case(seed)) for seed in range(60)]
    return [(w, w.plan("greedy")) for w in worlds]


def test_every_workload_has_one_decision_and_they_go_by_id(plans: list[tuple[World, Plan]]):
    for w, plan in plans:
        ids = [x["id"] for x in w.snapshot_data["workloads"]]
        assert [d.workload for d in plan.decisions] == sorted(ids)


def test_every_plan_keeps_the_schema_and_holds_only_plain_values(plans: list[tuple[World, Plan]]):
    form = jsonschema.Draft202012Validator(schema())
    for _, plan in plans:
        data = plan_to_dict(plan)
        form.validate(json.loads(json.dumps(data, allow_nan=False)))
        assert plain(data), "a number of numpy cannot be written as YAML"


def plain(value: object) -> bool:
    """Whether a value is made of Python's own types alone."""
    if type(value) is dict:
        return all(type(k) is str and plain(v) for k, v in value.items())
    if type(value) is list:
        return all(map(plain, value))
    return value is None or type(value) in (str, int, float, bool)


def test_an_expected_start_is_ahead_and_a_promise_is_what_is_expected(plans: list[tuple[World, Plan]]):
    seen = 0
    for _, plan in plans:
        promised = {r.workload: r.start_s for r in plan.reservations}
        for d in plan.decisions:
            if d.action == "wait" and d.workload in promised:
                assert d.expected_start_s == promised[d.workload] >= plan.time_s
            elif d.expected_start_s is not None and d.workload not in promised:
                seen += 1
                assert (d.action, d.expected_start_s > plan.time_s) == ("wait", True)
    assert seen > 10


def test_what_is_kept_stands_where_it_stood_and_is_protected_as_long_as_it_was(
    plans: list[tuple[World, Plan]],
):
    for w, plan in plans:
        runs = {x.id: x for x in w.snapshot.workloads}
        for d in plan.decisions:
            if d.action == "keep":
                assert sorted(map(str, d.placement)) == sorted(map(str, runs[d.workload].placement))
                assert d.protected_until_s is None or d.protected_until_s > plan.time_s
            elif d.action != "start":
                assert (d.placement, d.protected_until_s, d.occupancy) == ((), None, None)


# --- the same world, the same plan


@pytest.mark.parametrize("backend", ["greedy", "highs"])
@pytest.mark.parametrize("seed", [1, 5, 8, 12, 19, 35, 74, 83])
def test_the_order_of_the_input_leaves_no_trace_in_the_plan(seed: int, backend: str):
    w = World(*random_case(seed))
    assert plan_text(w.shuffled(seed), backend) == plan_text(w, backend)


DIGEST = """
import hashlib
from tests.planner.test_round import digest
print(digest())
"""


def digest() -> str:
    """A digest of the plans of some worlds."""
    texts = [plan_text(World(*random_case(seed)), "auto") for seed in range(8)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def test_the_hash_seed_of_the_process_leaves_no_trace_in_the_plan():
    found = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {digest()}


# --- preemption


@pytest.mark.parametrize(
    ("victim", "cost", "lost_gpu_s"),
    [
        ({"ran": "3h"}, "10m", 8 * 10 * MINUTE),
        ({"ran": "3h"}, "0s", 0),
        ({"ran": "5m", "min_runtime": "0s"}, "10m", 8 * 5 * MINUTE),
        ({"ran": "10m", "min_runtime": "0s"}, "10m", 8 * 10 * MINUTE),
        ({"ran": "3h", "resumable": False}, "10m", 8 * 3 * HOUR),
        ({"ran": "5m", "resumable": False, "min_runtime": "0s"}, "10m", 8 * 5 * MINUTE),
        ({"ran": "0s", "min_runtime": "0s"}, "10m", 0),
    ],
)
def test_a_preemption_loses_what_restarts_cost_and_never_more_than_was_done(victim, cost, lost_gpu_s):
    w = world(
        nodes="n1",
        workloads=[{"id": "r", "allocation": "b", "on": "n1", **victim}, {"id": "new"}],
        ratios={"a": 0.1, "b": 1.9},
        site={"preemption": {"restart_cost": cost}},
    )
    d = by_id(w.plan())["r"]
    assert (d.action, d.victims_for) == ("preempt", ("new",))
    assert d.lost_gpu_hours == lost_gpu_s / 3600


def test_what_is_stopping_is_to_be_preempted_and_loses_nothing_anew():
    w = world(workloads=[{"id": "s", "on": "n[1-2]", "state": "stopping"}])
    d = by_id(w.plan())["s"]
    assert (d.action, d.lost_gpu_hours, d.victims_for) == ("preempt", None, ())


def test_a_start_is_protected_from_now_for_what_the_contract_gives():
    asks = {"want": "4h", "much": "30h", "little": "1m", "nothing": "0s"}
    w = world(workloads=[{"id": k, "min_runtime": v, "gpus": 4} for k, v in asks.items()])
    until = {k: d.protected_until_s for k, d in by_id(w.plan()).items()}
    assert until == {
        "want": NOW_S + 4 * HOUR,
        "much": NOW_S + 8 * HOUR,
        "little": NOW_S + 5 * MINUTE,
        "nothing": None,
    }


def test_what_was_asked_for_and_not_given_is_in_the_plans_warnings():
    asks = {"much": "30h", "little": "1m", "fine": "1h"}
    w = world(workloads=[{"id": k, "min_runtime": v} for k, v in asks.items()])
    found = " | ".join(w.plan().warnings)
    for words in (("much", "30h", "8h"), ("little", "1m", "5m")):
        assert all(word.replace("30h", "1d6h") in found for word in words)
    assert "fine" not in found


# --- nodes that leave service


def test_a_draining_node_keeps_what_is_protected_and_says_when_it_is_empty():
    w = world(
        nodes=[{"name": "sick", "state": "draining"}, {"name": "well"}],
        workloads=[
            {"id": "safe", "on": "sick", "gpus": 2, "ran": "1h", "min_runtime": "2h"},
            {"id": "safer", "on": "sick", "gpus": 2, "ran": "1h", "min_runtime": "4h"},
            {"id": "over", "on": "sick", "gpus": 2, "ran": "3h", "min_runtime": "1h"},
            {"id": "free", "on": "sick", "gpus": 2, "min_runtime": "0s"},
            {"id": "new", "gpus": 8},
        ],
    )
    plan = w.plan()
    actions = {k: d.action for k, d in by_id(plan).items()}
    assert actions == {
        "safe": "keep", "safer": "keep", "over": "preempt", "free": "preempt", "new": "start",
    }  # fmt: skip
    assert {p.node for p in by_id(plan)["new"].placement} == {"well"}
    (node,) = plan.nodes
    assert (node.node, node.state, node.empty_at_s) == ("sick", "draining", NOW_S + 3 * HOUR)


def test_a_draining_node_that_nothing_protected_holds_is_empty_now():
    w = world(
        nodes=[{"name": "sick", "state": "draining"}, {"name": "well"}],
        workloads=[{"id": "over", "on": "sick"}],
    )
    (node,) = w.plan().nodes
    assert node.empty_at_s == NOW_S


def test_a_gang_that_lost_a_node_goes_whole_though_protected_and_is_promised_a_start():
    w = world(
        nodes=[{"name": "n1", "state": "down"}, {"names": "n[2-4]"}],
        workloads=[
            {"id": "gang", "on": "n[1-2]", "ran": "1h", "min_runtime": "8h"},
            {"id": "busy", "on": "n3", "ran": "1h", "min_runtime": "3h", "allocation": "b"},
            {"id": "free", "on": "n4", "min_runtime": "0s"},
        ],
    )
    plan = w.plan()
    found = by_id(plan)
    assert (found["gang"].action, found["busy"].action) == ("preempt", "keep")
    assert (found["gang"].victims_for, found["gang"].protected_until_s) == ((), None)
    (promise,) = plan.reservations
    assert (promise.workload, {p.node for p in promise.placement}) == ("gang", {"n2", "n4"})
    (node,) = plan.nodes
    assert (node.node, node.state, node.empty_at_s) == ("n1", "down", None)


def test_unallocated_work_that_lost_a_node_is_promised_nothing():
    w = world(
        nodes=[{"name": "n1", "state": "down"}, {"names": "n[2-4]"}],
        workloads=[{"id": "free", "on": "n[1-2]", "min_runtime": "0s"}],
    )
    plan = w.plan()
    assert by_id(plan)["free"].action == "preempt"
    assert plan.reservations == ()


def test_healthy_nodes_are_not_listed():
    assert world().plan().nodes == ()


# --- fragmentation


def test_fragmentation_is_that_of_the_cluster_as_the_plan_leaves_it():
    nodes = [
        {"names": "a[1-2]", "location": ["b1", "l1"]},
        {"names": "a[3-4]", "location": ["b1", "l2"]},
        {"names": "a[5-6]", "location": ["b2", "l3"]},
        {"name": "a7", "location": ["b2", "l4"], "state": "down"},
    ]
    w = world(
        nodes=nodes,
        levels=["block", "leaf"],
        workloads=[
            {"id": "r", "on": "a1", "gpus": 3, "min_runtime": "8h"},
            {"id": "s", "on": "a5", "gpus": 8, "min_runtime": "8h"},
            {"id": "wide", "replicas": 5, "topology": {"required": "block"}},
        ],
    )
    found = w.plan().fragmentation
    # free: a1 5, a2 8, a3 8, a4 8, a6 8; what waits is 5 x 8 in one block, and no block takes it
    assert (found["free_gpus"], found["sliver_nodes"], found["sliver_gpus"]) == (37, 1, 5)
    largest = {level: row["largest_gang"] for level, row in found["levels"].items()}
    assert largest == {"node": 8, "leaf": 16, "block": 24, "cluster": 32}
    whole = {level: row["whole"] for level, row in found["levels"].items()}
    assert whole == {"node": 2, "leaf": 1, "block": 0, "cluster": 0}
    assert found["levels"]["block"]["stranded"] == 37


def test_a_start_of_this_round_is_no_longer_free():
    before, after = world(), world(workloads=[{"id": "j"}])
    assert before.plan().fragmentation["free_gpus"] == 32
    assert after.plan().fragmentation["free_gpus"] == 24


# --- the ladder


def test_another_backend_than_the_sites_may_be_asked_for():
    w = world(
        nodes="n1",
        workloads=[{"id": "r", "on": "n1", "allocation": "b"}, {"id": "j"}],
        ratios={"b": 1.5},
        site={"solver": {"backend": "cp-sat"}},
    )
    assert plan_round(w.site, w.snapshot).solver.backend in ("cp-sat", "greedy")
    assert plan_round(w.site, w.snapshot, "greedy").solver.status == "greedy"


def test_a_plan_that_breaks_a_rule_is_not_returned_and_the_rule_is_said_in_names(monkeypatch):
    w = world(workloads=[{"id": "job-7", "on": "n3"}])
    honest = planner.round.decide

    def lying(state, params):
        return replace(honest(state, params), broken=[Broken("protected", 0, 2, "preempted too early")])

    monkeypatch.setattr(planner.round, "decide", lying)
    with pytest.raises(PlanRejectedError) as caught:
        w.plan()
    assert caught.value.broken == ["job-7: n3: protected: preempted too early"]
    assert caught.value.exit_code == 3
