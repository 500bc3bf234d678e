"""Which nodes take work: what is unwell gets nothing new, and flapping nodes rest until they have settled."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cron.health import judge
from planner.cron.hooks import call_repair, sick_nodes
from planner.ledger.memory import NodeMemory
from planner.model.cluster import Cluster, Node
from planner.model.workload import Placement, Workload
from planner.sources.base import NodeFacts, World

NOW_S = 1_796_000_000
SETTLE_S = 300


def world(facts: dict[str, NodeFacts], states: dict[str, str] | None = None) -> World:
    """Return a world of four nodes, with half of n1 taken."""
    names = ("n0", "n1", "n2", "n3")
    nodes = tuple(Node(n, 8, state=(states or {}).get(n, "up")) for n in names)  # type: ignore[arg-type]
    run = Workload("7", "a", 1, 4, NOW_S, "running", started_s=NOW_S, placement=(Placement("n1", 4),))
    known = {n: facts.get(n, NodeFacts(busy=n == "n1")) for n in names}
    return World(NOW_S, (Cluster("c", (), nodes),), (run,), nodes=known)


def seen(health: object) -> dict[str, tuple[str, int]]:
    """Return state and GPUs of the nodes that are not simply up."""
    found = {n.name: (n.state, n.gpus) for n in health.clusters[0].nodes}  # type: ignore[attr-defined]
    return {name: what for name, what in found.items() if what != ("up", 8)}


def test_healthy_nodes_are_left_alone() -> None:
    health = judge(world({}), {}, {}, SETTLE_S)
    assert seen(health) == {}
    assert (health.drain, health.resume, health.empty, health.unwell) == ({}, (), {}, {})


def test_what_the_sites_check_finds_is_drained_at_once() -> None:
    health = judge(world({}), {"n2": "xid 79", "nowhere": "?"}, {}, SETTLE_S)
    assert health.drain == {"n2": "xid 79"}
    assert seen(health) == {"n2": ("draining", 8)}
    assert health.empty == {"n2": "xid 79"}


def test_a_node_that_does_not_answer_keeps_its_run_and_gets_nothing_new() -> None:
    quiet = {n: NodeFacts("does not answer", busy=n == "n1", failing=True) for n in ("n1", "n3")}
    health = judge(world(quiet), {}, {}, SETTLE_S)
    assert seen(health) == {"n1": ("up", 4), "n3": ("draining", 8)}
    assert health.unwell.keys() == {"n1", "n3"}


@pytest.mark.parametrize(("ago_s", "rests"), [(0, True), (SETTLE_S - 1, True), (SETTLE_S, False)])
def test_a_node_that_came_back_rests_until_it_has_settled(ago_s: int, rests: bool) -> None:
    health = judge(world({}), {}, {"n2": NodeMemory(NOW_S - ago_s)}, SETTLE_S)
    assert seen(health) == ({"n2": ("draining", 8)} if rests else {})
    assert ("n2" in health.settled) is not rests


def test_a_flapping_node_never_settles() -> None:
    memory: dict[str, NodeMemory] = {}
    for minute in range(20):
        shaky = {"n2": NodeFacts("does not answer", failing=True)} if minute % 3 == 0 else {}
        at = world(shaky)
        moved = World(NOW_S + 60 * minute, at.clusters, at.workloads, nodes=at.nodes)
        health = judge(moved, {}, memory, SETTLE_S)
        assert "n2" in seen(health)
        memory = dict(health.unwell)


def test_only_nodes_that_gangplan_drained_are_brought_back_and_only_when_settled() -> None:
    states = {"n2": "draining", "n3": "draining"}
    facts = {"n2": NodeFacts("gangplan: fan", ours=True), "n3": NodeFacts("by hand")}
    old = {"n2": NodeMemory(NOW_S - SETTLE_S), "n3": NodeMemory(NOW_S - SETTLE_S, True)}
    health = judge(world(facts, states), {}, old, SETTLE_S)
    assert health.resume == ("n2",)
    young = {"n2": NodeMemory(NOW_S - 1)}
    assert judge(world(facts, states), {}, young, SETTLE_S).resume == ()
    assert judge(world(facts, states), {"n2": "fan"}, old, SETTLE_S).resume == ()


def test_a_drain_of_ours_that_the_ledger_forgot_is_watched_anew() -> None:
    facts = {"n2": NodeFacts("gangplan: fan", ours=True)}
    health = judge(world(facts, {"n2": "draining"}), {}, {}, SETTLE_S)
    assert health.resume == ()
    assert health.unwell == {"n2": NodeMemory(NOW_S)}


def test_repair_is_called_for_once_and_only_when_the_node_is_empty() -> None:
    states = {"n1": "draining", "n2": "draining", "n3": "draining"}
    facts = {"n1": NodeFacts("a", busy=True), "n2": NodeFacts("b"), "n3": NodeFacts("c")}
    memory = {"n3": NodeMemory(0, repairing=True)}
    health = judge(world(facts, states), {}, memory, SETTLE_S)
    assert health.empty == {"n2": "b"}
    assert health.unwell["n3"].repairing


def test_a_reserved_node_is_no_patient() -> None:
    facts = {"n2": NodeFacts("reserved as maint", kept=True), "n1": NodeFacts(busy=True, kept=True)}
    health = judge(world(facts), {}, {}, SETTLE_S)
    assert seen(health) == {"n1": ("up", 4), "n2": ("draining", 8)}
    assert (health.empty, health.unwell) == ({}, {})


# -- the site's commands -----------------------------------------------------------------------------


def test_a_check_names_nodes_and_why() -> None:
    found = sick_nodes(["printf", "n1 xid 79 \\033[2J\\nn2\\n\\n"], 5)
    assert found == ({"n1": "xid 79 \\x1b[2J", "n2": "unhealthy"}, None)


@pytest.mark.parametrize("command", [["false"], ["/nowhere"], ["sleep", "5"]])
def test_a_check_that_fails_finds_nothing_and_is_told(command: list[str]) -> None:
    found, fault = sick_nodes(command, 1)
    assert found == {}
    assert fault is not None
    assert command[0] in fault


def test_a_repair_gets_node_and_reason_as_arguments_and_no_shell(tmp_path: Path) -> None:
    script = tmp_path / "repair"
    script.write_text(f'#!/bin/sh\nprintf "%s|%s" "$1" "$2" > {tmp_path}/got\n')
    script.chmod(0o755)
    assert call_repair([str(script)], "n1", "; rm -rf / $(id)") is None
    assert (tmp_path / "got").read_text() == "n1|; rm -rf / $(id)"
    assert call_repair(["false"], "n1", "x") == "false: exit code 1"
