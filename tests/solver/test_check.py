"""The whole check on random worlds: good plans break nothing, and spoiled ones what a slow reading finds."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from solver.check import check
from solver.plan import Decisions
from solver.state import Action, NodeState, State, Status
from tests.solver.factories import decisions, renumbered, renumbered_plan
from tests.solver.reading import Reading
from tests.solver.worlds import first_fit, seat, worlds


def codes(world: State, plan: Decisions) -> set[str]:
    return {b.rule for b in check(world, plan)}


@given(worlds())
def test_a_plan_made_by_first_fit_breaks_no_rule(world):
    everybody = frozenset(range(world.workloads.count))
    assert check(world, decisions(world, **first_fit(world)), explained=everybody) == []


@st.composite
def spoiled(draw) -> tuple[State, Decisions]:
    """Draw a world and a first-fit plan with one to three random changes."""
    world = draw(worlds())
    plan, w = first_fit(world), world.workloads
    assume(w.count > 0)
    anyone, anywhere = st.integers(0, w.count - 1), st.integers(0, world.nodes.count - 1)
    for _ in range(draw(st.integers(1, 3))):
        j, g, at = draw(anyone), draw(anyone), draw(st.lists(anywhere, min_size=1, max_size=4))
        waits, runs = w.status[j] == Status.PENDING, w.status[j] == Status.RUNNING
        match draw(st.sampled_from(["start", "preempt", "evict", "evict", "reject", "promise", "drop"])):
            case "start" if waits:
                plan["start"][j] = at
            case "evict" if runs and w.status[g] == Status.PENDING:
                plan["preempt"][j] = [g]
                plan["start"][g] = (seat(w.placement, j) * 4)[: w.replicas[g]]
            case "preempt" if runs:
                plan["preempt"][j] = draw(st.lists(anyone, max_size=2, unique=True))
            case "reject" if waits and j not in plan["start"]:
                plan["reject"].append(j)
            case "promise":
                plan["promised"][j] = (draw(st.sampled_from([-1, 0, 0.01, 1, 3])), at)
            case "drop" if plan["start"].get(j):
                plan["start"][j] = plan["start"][j][1:]
    out = decisions(world, **plan)
    if draw(st.integers(0, 9)) == 0:
        out.action[draw(anyone)] = draw(st.sampled_from(list(Action)))
    return world, out


@settings(max_examples=150)
@given(spoiled())
def test_the_rules_broken_are_those_that_a_slow_reading_finds(drawn):
    world, plan = drawn
    assert codes(world, plan) == Reading(world, plan).broken()


@settings(max_examples=25)
@given(worlds(), st.data())
def test_a_dropped_replica_is_always_caught(world, data):
    plan = first_fit(world)
    assume(plan["start"])
    j = data.draw(st.sampled_from(sorted(plan["start"])))
    plan["start"][j] = plan["start"][j][:-1]
    assert codes(world, decisions(world, **plan)) & {"gang", "action"}


@settings(max_examples=25)
@given(worlds(), st.data())
def test_an_eviction_inside_the_min_runtime_is_always_caught(world, data):
    plan = first_fit(world)
    spared = [j for j in np.flatnonzero(world.protected).tolist() if j not in plan["preempt"]]
    assume(spared)
    j = data.draw(st.sampled_from(spared))
    plan["preempt"][j] = list(plan["start"])
    assert "protected" in codes(world, decisions(world, **plan))


@settings(max_examples=25)
@given(worlds(), st.data())
def test_a_node_given_out_twice_is_always_caught(world, data):
    plan, w = first_fit(world), world.workloads
    waits = [j for j in np.flatnonzero(w.status == Status.PENDING).tolist() if w.gpus_per_replica[j]]
    assume(waits)
    j, i = data.draw(st.sampled_from(waits)), data.draw(st.integers(0, world.nodes.count - 1))
    w.replicas[j] = world.nodes.gpus[i] // w.gpus_per_replica[j] + 1
    plan["start"][j] = [i] * int(w.replicas[j])
    plan["promised"].pop(j, None)
    assert "capacity" in codes(world, decisions(world, **plan))


@settings(max_examples=25)
@given(worlds(), st.data())
def test_a_part_moved_to_another_pool_or_to_a_sick_node_is_always_caught(world, data):
    plan, n = first_fit(world), world.nodes
    moves = [
        (j, i)
        for j, at in plan["start"].items()
        for i in range(n.count)
        if n.state[i] != NodeState.UP or (n.pool[i] != n.pool[at[0]] and len(at) > 1)
    ]
    assume(moves)
    j, i = data.draw(st.sampled_from(moves))
    plan["start"][j] = [*plan["start"][j][:-1], i]
    assert codes(world, decisions(world, **plan)) & {"pool", "health"}


@settings(max_examples=50)
@given(spoiled(), st.data())
def test_the_order_of_the_nodes_changes_nothing(drawn, data):
    world, plan = drawn
    order = data.draw(st.permutations(range(world.nodes.count)))
    assert codes(renumbered(world, order), renumbered_plan(plan, order)) == codes(world, plan)
