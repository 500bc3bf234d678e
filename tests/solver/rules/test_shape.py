"""Each rule of shape, broken alone on an otherwise good plan."""

from dataclasses import replace

import numpy as np
import pytest

from solver.check import check
from solver.state import Action, Spread
from tests.solver.factories import decisions, node, pending, promise, running, state, stopping


def broken(world, plan):
    return sorted({b.rule for b in check(world, plan)})


def one_of_each():
    return state(
        nodes=4 * [node()],
        workloads=[pending(min_runtime_h=1), running(at=[1]), stopping(at=[2]), pending(gpus=9)],
        promises=[promise(0, 1, [3])],
    )


def test_a_plan_with_one_of_each_action_holds():
    world = one_of_each()
    assert broken(world, decisions(world, start={0: [0]}, reject=[3])) == []


def test_an_empty_world_has_an_empty_plan():
    world = state(nodes=[])
    assert broken(world, decisions(world)) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda plan: replace(plan, action=plan.action[:-1]),
        lambda plan: replace(plan, action=plan.action + 3),
        lambda plan: replace(plan, placement=Spread.of([[(4, 8, 1)], [], [], []])),
        lambda plan: replace(plan, placement=Spread.of([[(-1, 8, 1)], [], [], []])),
        lambda plan: replace(plan, placement=Spread.of([[(0, 8, 1)]])),
        lambda plan: replace(plan, placement=replace(plan.placement, gpus=np.array([8, 8]))),
        lambda plan: replace(plan, placement=replace(plan.placement, ptr=np.array([0, 2, 1, 1, 1]))),
        lambda plan: replace(plan, promised=np.array([4])),
        lambda plan: replace(plan, promised_start_s=np.array([0])),
        lambda plan: replace(plan, promised_placement=Spread.of([[(0, 8, 1)]])),
        lambda plan: replace(plan, promised=np.array([0, 0]), promised_start_s=np.array([0, 0])),
        lambda plan: replace(plan, victims_for={4: [0]}),
        lambda plan: replace(plan, victims_for={1: [-1]}),
    ],
)
def test_arrays_that_contradict_each_other_are_malformed_and_nothing_else(spoil):
    world = one_of_each()
    assert broken(world, spoil(decisions(world, start={0: [0]}, reject=[3]))) == ["malformed"]


@pytest.mark.parametrize(
    ("workload", "action"),
    [(0, Action.KEEP), (0, Action.PREEMPT), (1, Action.WAIT), (2, Action.WAIT), (2, Action.REJECT)],
)
def test_an_action_that_the_status_does_not_allow_is_reported(workload, action):
    world = state(nodes=3 * [node()], workloads=[pending(), running(at=[1]), stopping(at=[2])])
    plan = decisions(world)
    plan.action[workload] = action
    assert [(b.rule, b.workload) for b in check(world, plan)] == [("action", workload)]


def test_a_start_without_a_place_is_reported():
    world = state(nodes=[node()], workloads=[pending()])
    assert broken(world, decisions(world, start={0: []})) == ["action"]


def test_a_place_without_a_start_is_reported():
    world = state(nodes=[node()], workloads=[pending()])
    plan = replace(decisions(world), placement=Spread.of([[(0, 8, 1)]]))
    assert broken(world, plan) == ["action"]


def test_a_start_that_no_allocation_pays_for_is_reported():
    world = state(nodes=[node()], workloads=[pending(leaf_budget=-1)])
    assert broken(world, decisions(world, start={0: [0]})) == ["action"]
    assert broken(world, decisions(world, reject=[0])) == []


TWO_LEAVES = [*2 * [node(leaf="l1")], *2 * [node(leaf="l2")]]
THREE_LEAVES = [*TWO_LEAVES, node(leaf="l3")]
CROSSED = [node(leaf="l1"), node(leaf="l1", gpu_type="b200"), node(leaf="l2")]
TWO_POOLS = [node(cluster="c1"), node(cluster="c1", gpu_type="b200"), node(cluster="c2")]


@pytest.mark.parametrize(
    ("nodes", "wish"),
    [
        (TWO_LEAVES, pending(replicas=4)),
        (TWO_LEAVES, pending(replicas=2, required="leaf")),
        (TWO_LEAVES, pending(replicas=4, required="leaf", segment=2)),
        (TWO_LEAVES, pending(gpus=4, replicas=2, required="node")),
        (THREE_LEAVES, pending(replicas=2, required="leaf")),
        (THREE_LEAVES, pending(replicas=4, required="leaf", segment=2)),
        ([*TWO_LEAVES, node(gpu_type="b200")], pending(replicas=4, required="leaf", segment=2)),
        (TWO_POOLS, pending()),
        (TWO_POOLS, pending(gpu_types=("b200",))),
        ([node(state="down")], pending()),
        ([node(cpus=8)], pending(gpus=0, cpus=4, replicas=2)),
        ([node()], pending(memory_gib=9999)),
    ],
)
def test_what_fits_the_empty_inventory_is_not_rejected(nodes, wish):
    world = state(nodes=nodes, workloads=[wish, running(at=[0])])
    plan = decisions(world, reject=[0], preempt={1: []} if nodes[0].state == "down" else {})
    assert broken(world, plan) == ["reject"]


@pytest.mark.parametrize(
    ("nodes", "wish"),
    [
        (TWO_LEAVES, pending(replicas=5)),
        (TWO_LEAVES, pending(replicas=3, required="leaf")),
        (TWO_LEAVES, pending(replicas=3, required="leaf", segment=2)),
        (TWO_LEAVES, pending(replicas=6, required="leaf", segment=3)),
        (TWO_LEAVES, pending(gpus=4, replicas=3, required="node")),
        (TWO_LEAVES, pending(required="unknown")),
        (CROSSED, pending(replicas=2, required="leaf")),
        (TWO_POOLS, pending(replicas=2)),
        (TWO_POOLS, pending(gpu_types=("a100",))),
        ([node(cpus=8)], pending(cpus=9)),
        ([node(memory_gib=8)], pending(gpus=1, memory_gib=5, replicas=2)),
    ],
)
def test_what_can_never_run_is_rejected(nodes, wish):
    world = state(nodes=nodes, workloads=[wish])
    assert broken(world, decisions(world, reject=[0])) == []


def test_what_is_larger_than_a_limit_above_it_is_rejected():
    gangs = [pending(replicas=2, leaf_budget=leaf) for leaf in ("t/a", "b", "c")]
    limits = {"t": 15, "b": 16, "c": 0}
    world = state(2 * [node()], gangs, shares={"t/a": 0.5, "b": 0.3, "c": 0.2}, limits=limits)
    plan = decisions(world, reject=[0, 1, 2])
    assert [(b.rule, b.workload) for b in check(world, plan)] == [("reject", 1)]
