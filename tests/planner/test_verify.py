"""A good plan holds; whatever is falsified in it is reported, with the names of who and where."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from benchmarks.random_snapshots import random_case
from benchmarks.stress import outside
from benchmarks.text import HOUR, iso
from planner.planfile import parse_plan, plan_to_dict
from planner.verify import broken_text, verify
from solver.rules import Broken
from tests.planner import tampering
from tests.planner.worlds import NOW_S, World, world
from tests.realdata import SHARED

CHECKER = SHARED / "verify_plan.py"
Data = dict[str, Any]


def scene() -> World:
    """Write a world in which something of everything is decided."""
    nodes = [
        {"names": "a[1-2]", "location": ["l1"]},
        {"names": "b[1-2]", "location": ["l2"]},
        {"name": "c1", "location": ["l3"], "state": "draining"},
        {"name": "d1", "location": ["l3"]},
    ]
    family = [
        {"name": "lab", "children": [{"name": "x", "weight": 3}, {"name": "y", "weight": 1}]},
        {"name": "z", "limit": 16},
    ]
    placement = [{"node": "b1", "gpus": 8}, {"node": "b2", "gpus": 8}]
    return world(
        family,
        nodes,
        [
            {"id": "safe", "on": "b2", "ran": "1h", "min_runtime": "3h", "allocation": "z"},
            {"id": "over", "on": "a1", "allocation": "lab/y"},
            {"id": "free", "on": "a2", "gpus": 4, "allocation": "z", "min_runtime": "0s"},
            {"id": "gang", "replicas": 2, "topology": {"required": "leaf"}, "allocation": "lab/x"},
            {"id": "soon", "replicas": 2, "topology": {"required": "leaf"}, "allocation": "lab/y"},
            {"id": "idle", "gpus": 2, "min_runtime": "0s", "allocation": "lab/y"},
            {"id": "many", "replicas": 2, "allocation": "z"},
            {"id": "never", "gpus": 9, "allocation": "lab/x"},
        ],
        levels=["leaf"],
        ratios={"lab/x": 0.1, "lab/y": 2.0, "z": 1.5},
        reservations=[{"workload": "soon", "start_at": iso(NOW_S + 2 * HOUR), "placement": placement}],
    )


WORLD = scene()
GOOD: Data = json.loads(json.dumps(plan_to_dict(WORLD.plan())))


def judged(plan: Data, site: bool = True) -> list[str]:
    """The broken rules of a plan for the scene."""
    read = parse_plan(json.dumps(plan), "plan.json")
    return verify(WORLD.snapshot, read, WORLD.site if site else None)


def changed(change: Callable[[Data, dict[str, Data]], object]) -> list[str]:
    """The broken rules of the scene's plan with a change, given its decisions by workload."""
    plan = json.loads(json.dumps(GOOD))
    change(plan, {d["workload"]: d for d in plan["decisions"]})
    return judged(plan)


def test_the_scene_has_all_that_is_falsified_below():
    actions = {d["workload"]: d["action"] for d in GOOD["decisions"]}
    assert actions == {
        "safe": "keep", "over": "preempt", "free": "preempt", "gang": "start", "soon": "wait",
        "idle": "start", "many": "wait", "never": "reject",
    }  # fmt: skip
    assert {p["node"] for d in GOOD["decisions"] if d["workload"] == "gang" for p in d["placement"]} == {
        "a1", "a2",
    }  # fmt: skip
    assert [r["workload"] for r in GOOD["reservations"]] == ["soon"]


def test_a_good_plan_holds_with_its_site_and_without():
    assert judged(GOOD) == []
    assert judged(GOOD, site=False) == []


def set_to(workload: str, **values: Any) -> Callable[[Data, dict[str, Data]], object]:
    """Change keys of one decision."""
    return lambda plan, by: by[workload].update(values)


def put(workload: str, *parts: tuple[str, int]) -> Callable[[Data, dict[str, Data]], object]:
    """Let a decision stand elsewhere."""
    return set_to(workload, placement=[{"node": n, "gpus": g} for n, g in parts])


def promise(**values: Any) -> Callable[[Data, dict[str, Data]], object]:
    """Change keys of the promise."""
    return lambda plan, by: plan["reservations"][0].update(values)


FALSE: dict[str, tuple[Callable[[Data, dict[str, Data]], object], list[str]]] = {
    "a start on a full node": (put("idle", ("b2", 2)), ["b2: capacity: 10 of 8 GPUs"]),
    "a start on a draining node": (put("idle", ("c1", 2)), ["idle: c1: health"]),
    "a gang in two leaves": (put("gang", ("a1", 8), ("b1", 8)), ["gang: topology"]),
    "half a gang": (put("gang", ("a1", 8)), ["gang: gang: 1 of 2 replicas placed"]),
    "no whole replicas": (put("gang", ("a1", 8), ("a2", 7)), ["gang: a2: gang: 7 GPUs"]),
    "a start nowhere": (put("gang"), ["gang: action"]),
    "a node that is not": (put("gang", ("a1", 8), ("x9", 8)), ["gang: unknown node x9"]),
    "kept on a node that is not": (put("safe", ("x9", 8)), ["safe: unknown node x9"]),
    "kept elsewhere": (put("safe", ("b1", 8)), ["safe: kept elsewhere than it runs"]),
    "a decision too few": (lambda plan, by: plan["decisions"].remove(by["many"]), ["many: no decision"]),
    "a decision too many": (lambda plan, by: plan["decisions"].append(by["many"]), ["many: decided twice"]),
    "a stranger": (
        lambda plan, by: plan["decisions"].append({**by["many"], "workload": "alien"}),
        ["alien: not in the snapshot"],
    ),
    "a protected victim": (
        set_to("safe", action="preempt", **{"for": ["idle"]}),
        ["safe: protected: preempted 7200 s before"],
    ),
    "a victim for nobody": (set_to("over", **{"for": []}), ["over: victim"]),
    "a victim for a stranger": (
        set_to("over", **{"for": ["alien"]}),
        ["over: makes room for alien, which is not in the snapshot"],
    ),
    "a victim for who waits": (set_to("over", **{"for": ["many"]}), ["over: victim"]),
    "a victim for unallocated work": (set_to("over", **{"for": ["idle"]}), ["over: unallocated"]),
    "victims for a start that is not": (
        set_to("gang", action="wait", expected_start=None),
        ["over: victim", "free: victim"],
    ),
    "work that waits kept": (set_to("many", action="keep"), ["many: action"]),
    "a needless victim": (put("gang", ("b1", 8), ("a2", 8)), ["over: needless"]),
    "what can run rejected": (set_to("many", action="reject"), ["many: reject"]),
    "a wait without a reason": (
        set_to("many", reason={"code": "x", "text": " "}),
        ["many: wait without a reason"],
    ),
    "longer protection": (
        set_to("gang", protected_until=iso(NOW_S + 9 * HOUR)),
        [f"gang: protected until {iso(NOW_S + 9 * HOUR)}, and by its contract until {iso(NOW_S + HOUR)}"],
    ),
    "no protection": (set_to("gang", protected_until=None), ["gang: protected until nothing"]),
    "protection for nothing": (
        set_to("idle", protected_until=iso(NOW_S + HOUR)),
        ["idle: protected until", "by its contract until nothing"],
    ),
    "protection that a run does not have": (
        set_to("safe", protected_until=iso(NOW_S + HOUR)),
        ["safe: protected until", f"by its contract until {iso(NOW_S + 2 * HOUR)}"],
    ),
    "another occupancy": (
        set_to("gang", occupancy="unallocated"),
        ["gang: start as unallocated, and by its contract it is allocated"],
    ),
    "another payer": (set_to("gang", allocation="z"), ["gang: 16 GPUs for z, and it is 16 GPUs for lab/x"]),
    "another size": (set_to("gang", gpus=8), ["gang: 8 GPUs for lab/x, and it is 16 GPUs"]),
    "a promise too early": (promise(start_at=iso(NOW_S + HOUR)), ["b2: promise: 16 of 8 GPUs"]),
    "a promise in the past": (promise(start_at=iso(NOW_S - HOUR)), ["soon: promise"]),
    "a promise later in silence": (promise(start_at=iso(NOW_S + 3 * HOUR)), ["soon: promise_moved"]),
    "a promise dropped in silence": (lambda plan, by: plan["reservations"].clear(), ["soon: promise_moved"]),
    "a promise in two leaves": (
        promise(placement=[{"node": n, "gpus": 8} for n in ("b1", "d1")]),
        ["soon: topology"],
    ),
    "a promise on a draining node": (
        promise(placement=[{"node": n, "gpus": 8} for n in ("c1", "d1")]),
        ["soon: c1: health"],
    ),
    "a promise nowhere": (promise(placement=[]), ["soon: promised a start nowhere"]),
    "a promise to a stranger": (
        promise(workload="alien"),
        ["alien: promised a start, and not in the snapshot"],
    ),
    "a promise to who starts": (promise(workload="gang"), ["gang: promise"]),
    "a promise made twice": (
        lambda plan, by: plan["reservations"].append(plan["reservations"][0]),
        ["soon: promised a start twice"],
    ),
    "another expectation than the promise": (
        set_to("soon", expected_start=iso(NOW_S + 3 * HOUR)),
        [f"soon: expected at {iso(NOW_S + 3 * HOUR)}, and promised {iso(NOW_S + 2 * HOUR)}"],
    ),
    "a plan before its snapshot": (
        lambda plan, by: plan.update(time=iso(NOW_S - 60)),
        [f"stale: the plan is for {iso(NOW_S - 60)}, before the snapshot's {iso(NOW_S)}"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FALSE)
def test_what_is_falsified_is_reported_by_name(what: str):
    change, expected = FALSE[what]
    found = changed(change)
    for words in expected:
        assert any(words in line for line in found), found


def test_a_limit_is_checked_where_the_site_is_known():
    def start_two(plan: Data, by: dict[str, Data]) -> None:
        parts = [{"node": n, "gpus": 8} for n in ("b1", "d1")]
        by["many"].update(
            action="start", placement=parts, occupancy="allocated", protected_until=iso(NOW_S + HOUR)
        )

    assert any("limit" in line for line in changed(start_two))


def moved_by(code: str, text: str) -> list[str]:
    """The broken rules if the promise of the scene is an hour later, for this reason."""

    def later(plan: Data, by: dict[str, Data]) -> None:
        plan["reservations"][0]["start_at"] = iso(NOW_S + 3 * HOUR)
        by["soon"].update(expected_start=iso(NOW_S + 3 * HOUR), reason={"code": code, "text": text})

    return changed(later)


def test_a_promise_that_moves_may_if_the_code_of_its_reason_says_so():
    assert moved_by("PromiseMoved", "later than it was promised, because a node failed") == []


@pytest.mark.parametrize("code", ["RanksBehind", "Promised", "Stopping"])
def test_a_word_that_looks_like_an_explanation_is_none(code: str):
    (found,) = moved_by(code, "ranks behind translater, later than it")
    assert found.startswith("soon: promise_moved")


def test_a_promise_that_falls_says_so_by_its_code():
    def lost(plan: Data, by: dict[str, Data]) -> None:
        plan["reservations"].clear()
        by["soon"].update(expected_start=None, reason={"code": "PromiseLost", "text": "a node failed"})

    assert changed(lost) == []


def test_what_the_interface_leaves_optional_may_be_absent():
    plan = json.loads(json.dumps(GOOD))
    for d in plan["decisions"]:
        for key in ("allocation", "gpus", "lost_gpu_hours"):
            d.pop(key, None)
        if d["action"] == "keep":
            for key in ("placement", "occupancy", "protected_until"):
                d.pop(key)
    assert judged(plan) == []


def test_a_plan_for_a_later_moment_is_judged_at_its_own_time():
    later = World(WORLD.site_data, WORLD.snapshot_data | {"time": iso(NOW_S + 60), "reservations": []})
    plan = later.plan()
    assert (
        verify(World(WORLD.site_data, WORLD.snapshot_data | {"reservations": []}).snapshot, plan, WORLD.site)
        == []
    )
    assert verify(later.snapshot, plan, WORLD.site) == []


def test_without_a_site_the_shares_of_the_plan_make_a_tree():
    for seed in range(0, 40, 2):
        w = World(*random_case(seed))
        w.site_data.pop("contract", None)  # it is taken as the default
        w.site_data.pop("preemption", None)
        w.site_data.pop("gpu_types", None)
        assert verify(w.snapshot, w.plan()) == []


def test_names_that_cannot_be_paths_do_not_stop_the_check():
    plan = json.loads(json.dumps(GOOD))
    for name in ("", "/", "a//b", "/a", "a/"):
        plan["shares"].append(plan["shares"][0] | {"allocation": name})
    assert judged(plan, site=False) == []


def test_a_broken_rule_says_who_and_where_if_it_concerns_somebody():
    names = WORLD.encoded().names
    j, n = names.index["gang"], names.node_index["b1"]
    assert broken_text(names, Broken("gang", j, n, "why")) == "gang: b1: gang: why"
    assert broken_text(names, Broken("brake", -1, -1, "why")) == "brake: why"
    assert broken_text(names, Broken("capacity", -1, n, "")) == "b1: capacity"


# --- random falsifications

ALWAYS_FOUND = {
    "break_a_gang", "swell_a_start", "drop_a_decision", "decide_twice", "start_what_waits",
    "preempt_what_is_kept", "reject_what_waits", "silence", "protect_otherwise", "swap_occupancy",
    "promise_nowhere", "promise_what_starts",
}  # fmt: skip
"""The others may turn one good plan into another."""

SEEDS = range(0, 60, 2)


def falsified(seed: int) -> list[tuple[str, World, Data, list[str]]]:
    """Falsify the plan of a random world in every way; return what was done, and what is found."""
    w = World(*random_case(seed))
    for entry in w.snapshot_data["workloads"]:
        _name_a_type(entry, w.snapshot_data)
    site, snapshot = w.site, w.snapshot
    good = json.dumps(plan_to_dict(w.plan()))
    assert verify(snapshot, parse_plan(good, "plan.json"), site) == []
    out = []
    for change in tampering.ALL:
        plan = json.loads(good)
        if change(Random(seed), w.snapshot_data, plan) and json.dumps(plan) != good:
            found = verify(snapshot, parse_plan(json.dumps(plan), "plan.json"), site)
            out.append((change.__name__, w, plan, found))
    return out


def _name_a_type(entry: Data, snapshot: Data) -> None:
    """Let a gang that accepts several GPU types name one: it never mixes them, and outside nobody knows."""
    if entry["state"] == "pending" and entry["replicas"] > 1:
        allowed = entry.get("clusters") or [c["name"] for c in snapshot["clusters"]]
        there = [n.get("gpu_type") for c in snapshot["clusters"] if c["name"] in allowed for n in c["nodes"]]
        types = entry.get("gpu_types") or sorted({t for t in there if t})
        if types:
            entry["gpu_types"] = types[:1]


@pytest.fixture(scope="module")
def falsifications() -> list[tuple[str, World, Data, list[str]]]:
    """Falsified plans of many random worlds."""
    return [case for seed in SEEDS for case in falsified(seed)]


def test_random_falsifications_are_found(falsifications: list[tuple[str, World, Data, list[str]]]):
    missed = [
        (kind, plan["time"]) for kind, _, plan, found in falsifications if kind in ALWAYS_FOUND and not found
    ]
    assert missed == []
    assert {kind for kind, *_ in falsifications} == {change.__name__ for change in tampering.ALL}
    for kind in {change.__name__ for change in tampering.ALL} - ALWAYS_FOUND:
        assert any(found for name, _, _, found in falsifications if name == kind), kind


@pytest.mark.skipif(not CHECKER.is_file(), reason="the outside checker is not here: set GANGPLAN_SHARED")
def test_what_an_outside_checker_finds_is_found(falsifications: list[tuple[str, World, Data, list[str]]]):
    check = outside(CHECKER)
    missed = []
    for kind, w, plan, found in falsifications:
        others = check(w.site_data, w.snapshot_data, plan)
        if others and not found:
            missed.append((kind, others))
    assert missed == []
