"""The story of one workload from a plan alone: what happens, why, and how its allocation stands."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest

from benchmarks.random_snapshots import random_case
from benchmarks.text import HOUR, iso
from planner.errors import InputError
from planner.model.plan import Plan
from planner.place import after
from planner.planfile import parse_plan
from planner.round import plan_round
from planner.story import story
from tests.planner.samples import PLAN
from tests.planner.worlds import NOW_S, World, by_id, world


def told(plan: Plan, workload: str) -> dict[str, str]:
    """The labelled lines about a workload."""
    lines = story(plan, workload)
    assert len(dict(lines)) == len(lines) or [k for k, _ in lines].count("warning") > 1
    return dict(lines)


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Plan a round in which something of everything happens."""
    nodes = [{"names": "n[1-3]"}]
    return world(
        nodes=nodes,
        workloads=[
            {"id": "safe", "on": "n1", "ran": "1h", "min_runtime": "2h", "allocation": "b"},
            {"id": "over", "on": "n2", "gpus": 4, "allocation": "b"},
            {"id": "free", "on": "n2", "gpus": 4, "allocation": "b", "min_runtime": "0s"},
            {"id": "small", "gpus": 1, "min_runtime": "1m", "waited": "3h"},
            {"id": "one", "waited": "2h"},
            {"id": "two", "waited": "1h"},
            {"id": "three", "replicas": 2, "waited": "30m"},
            {"id": "never", "gpus": 9},
        ],
        ratios={"a": 0.1, "b": 1.5},
    ).plan()


def test_a_start_tells_where_how_long_and_who_made_room(plan: Plan):
    lines = told(plan, "one")
    assert lines["workload"] == "one, 8 GPUs for a"
    assert lines["decision"] == f"start (Start) at {iso(NOW_S)}"
    assert lines["protected"] == f"until {iso(NOW_S + HOUR)}"
    assert re.fullmatch(r"n\d", lines["nodes"])
    assert "expected" not in lines


def test_victims_and_gainers_tell_of_each_other(plan: Plan):
    victims = [d.workload for d in plan.decisions if d.action == "preempt"]
    assert victims
    for victim in victims:
        lines = told(plan, victim)
        assert re.fullmatch(r"\d+\.\d\d GPU-hours", lines["lost work"])
        for gainer in lines["made room for"].split(", "):
            assert victim in told(plan, gainer)["room made by"].split(", ")


def test_what_waits_tells_when_it_is_expected_or_that_nobody_knows(plan: Plan):
    waits = {d.workload: d.expected_start_s for d in plan.decisions if d.action == "wait"}
    assert waits
    for workload, start_s in waits.items():
        said = told(plan, workload)["expected"]
        assert said.startswith("no start" if start_s is None else f"a start at {iso(start_s)}")


def test_one_gpu_is_singular_and_a_clamped_contract_is_warned_about(plan: Plan):
    lines = told(plan, "small")
    assert lines["workload"] == "small, 1 GPU for a"
    assert "1m" in lines["warning"]
    assert "5m" in lines["warning"]
    assert "warning" not in told(plan, "one")


def test_a_rejection_is_told_without_a_time(plan: Plan):
    lines = told(plan, "never")
    assert lines["decision"].startswith("reject (ReplicaTooLarge)")
    assert not {"expected", "promised", "nodes", "protected"} & lines.keys()


def test_its_allocation_is_told_with_ratio_rank_and_gpus(plan: Plan):
    said = told(plan, "safe")["allocation"]
    assert said.startswith("b has had 1.50 of its share (")
    assert "number 2 of 2 by ratio" in said


def test_a_promise_is_told_with_its_place_and_is_no_forecast():
    placement = [{"node": n, "gpus": 8} for n in ("n1", "n2")]
    promise = {"workload": "big", "start_at": iso(NOW_S + HOUR), "placement": placement}
    w = world(
        nodes="n[1-2]",
        workloads=[
            {"id": "safe", "on": "n2", "ran": "1h", "min_runtime": "2h", "allocation": "b"},
            {"id": "big", "replicas": 2},
        ],
        reservations=[promise],
    )
    lines = told(w.plan(), "big")
    assert lines["promised"] == f"a start at {iso(NOW_S + HOUR)} on n[1-2]"
    assert "expected" not in lines


def test_an_unknown_workload_is_refused_with_those_whose_names_are_close(plan: Plan):
    with pytest.raises(InputError) as caught:
        story(plan, "e")
    (message,) = caught.value.messages
    assert "'e'" in message
    assert "did you mean free, never, one?" in message
    with pytest.raises(InputError, match=r"does not know workload 'zzz': it came or ended since, or may not"):
        story(plan, "zzz")


def test_of_work_that_is_not_planned_it_tells_what_the_plan_warns_of(plan: Plan):
    why = "17 is not planned: asks for constraint fast, submit it without"
    warned = replace(plan, warnings=(*plan.warnings, "1 is another", why, "17: comment: is not JSON"))
    lines = story(warned, "17")
    assert lines[:2] == [("workload", "17"), ("decision", f"none at {iso(NOW_S)}")]
    assert lines[2:] == [("warning", why), ("warning", "17: comment: is not JSON")]


def test_a_plan_of_the_interface_alone_is_told():
    plan = parse_plan(PLAN, "plan.yaml")
    assert told(plan, "1201")["workload"] == "1201"
    assert told(plan, "1201")["room made by"] == "1189"
    assert told(plan, "1230")["promised"].endswith("on saturn-007")
    assert told(plan, "1189")["lost work"] == "1.30 GPU-hours"


def test_every_workload_of_any_plan_has_a_story_in_whole_lines():
    for seed in range(20):
        plan = World(*random_case(seed)).plan()
        for d in plan.decisions:
            for label, text in story(plan, d.workload):
                assert label
                assert text == text.strip() != ""
                assert "\n" not in text
                assert not re.search(r"None|nan|(?<!\d)1 GPUs", text)


def test_moves_that_would_let_a_gang_start_are_told_to_both_sides():
    plan = world(
        nodes="n[1-3]",
        workloads=[
            *({"id": f"r{n}", "on": f"n{n}", "gpus": 4, "ran": "3h", "allocation": "b"} for n in (1, 2)),
            {"id": "safe", "on": "n3", "gpus": 4, "ran": "1h", "min_runtime": "8h", "allocation": "b"},
            {"id": "gang", "gpus": 4, "replicas": 2, "topology": {"required": "node"}},
        ],
        ratios={"a": 1.5, "b": 0.1},
        site={"plan_ahead": {"reservations": 0}},
    ).plan()
    lines = told(plan, "gang")
    found = re.fullmatch(
        r"now on (n\d), if (r\d) was requeued and held until then; \2 could then go on elsewhere; "
        r"0.7 GPU-hours of work would be lost",
        lines["could start"],
    )
    assert found
    assert told(plan, found[2])["could move"] == f"gang could start {lines['could start']}"
    assert "could move" not in told(plan, "safe")


def crowded(seed: int) -> World:
    """Draw four nodes of 4 GPUs, most held by work past its protection, and gangs and others that wait."""
    rng = Random(seed)
    held = [
        {
            "id": f"r{n}",
            "on": f"n{n}",
            "gpus": rng.choice((2, 4)),
            "min_runtime": rng.choice(("1h", "1h", "8h")),
        }
        for n in (1, 2, 3, 4)
    ]
    waiting = [
        {"id": f"w{k}", "gpus": rng.choice((1, 2, 4)), "replicas": rng.choice((1, 2, 3)), "waited": f"{k}h"}
        for k in range(4)
    ]
    work = [w | {"allocation": rng.choice("ab")} for w in (*held, *waiting)]
    ratios = {name: rng.uniform(0.1, 2) for name in "ab"}
    return world(nodes=[{"names": "n[1-4]", "gpus": 4}], workloads=work, ratios=ratios)


def test_a_gang_that_is_advised_starts_once_who_moves_is_held():
    advised = 0
    for seed in range(200):
        there = crowded(seed)
        plan = there.plan()
        for advice in plan.defragmentation:
            advised += 1
            gone = {m.workload for m in advice.moves}
            left = after(there.snapshot, plan)
            held = replace(left, workloads=tuple(w for w in left.workloads if w.id not in gone))
            assert by_id(plan_round(there.site, held, "greedy"))[advice.workload].action == "start"
    assert advised > 15
