"""Strict priority with backfill, team limits on what cannot be preempted, and priorities that only rise."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.simulation.policies.ai2_priority import (
    HIGH,
    INFLATERS,
    LOW,
    NORMAL,
    PATIENCE_S,
    URGENT,
    Ai2Priority,
)
from planner.simulation.policies.base import Round
from tests.planner.simulation.policies.rounds import after, decide, everybody, setting_of
from tests.solver.factories import node, pending, running, state


def policy_for(world, *, users=(), inflaters=False) -> Ai2Priority:
    policy = Ai2Priority(setting_of(world, users=users))
    policy.impatient[:] = inflaters
    return policy


def board_of(nodes, workloads, **more):
    world = state(nodes, workloads, **more)
    return decide(policy_for(world), world).board


@pytest.mark.parametrize(
    ("priority", "grade"),
    [(-7, LOW), (-1, LOW), (0, NORMAL), (1, HIGH), (2, URGENT), (9, URGENT)],
)
def test_priorities_are_four_classes(priority, grade):
    world = state([node(8)], [pending(8, priority=priority)])
    assert policy_for(world).classes(Round(world, everybody(world))).tolist() == [grade]


def test_the_higher_class_goes_first_and_inside_a_class_the_older():
    queue = [
        pending(8, min_runtime_h=1, submitted_h_ago=9, priority=0),
        pending(8, min_runtime_h=1, submitted_h_ago=2, priority=1),
        pending(8, min_runtime_h=1, submitted_h_ago=3, priority=1),
    ]
    assert list(board_of([node(8), node(8)], queue, shares={"a": 1.0}).starts) == [2, 1]


def test_an_urgent_gang_that_does_not_fit_holds_nobody_up():
    queue = [pending(8, 3, min_runtime_h=1, priority=2), pending(8, min_runtime_h=1, priority=-1)]
    busy = running(8, [0], min_runtime_h=4)
    assert list(board_of([node(8)] * 3, [busy, *queue], shares={"a": 1.0}).starts) == [2]


def test_up_to_its_limit_a_teams_work_cannot_be_preempted_and_above_it_can():
    sizes = [12, 4, 4, 4]
    queue = [
        pending(size, leaf_budget="b", min_runtime_h=1, submitted_h_ago=9 - i) for i, size in enumerate(sizes)
    ]
    nodes = [node(8)] * 3 + [node(16)]
    world = state(nodes, [*queue, pending(4, leaf_budget="b")], shares={"a": 0.75, "b": 0.25})
    policy = policy_for(world)  # the limit of b is 10 of 40
    policy.firm[:] = True
    assert set(decide(policy, world).board.starts) == {0, 1, 2, 3, 4}
    assert policy.firm.tolist() == [False, True, True, False, False]


def test_who_may_evict_nobody_takes_no_turn_from_whoever_may():
    loose = [running(8, [0])]
    queue = [
        pending(8, leaf_budget="b", min_runtime_h=1, submitted_h_ago=9),  # above the limit of b, which is 0
        pending(8, leaf_budget="a", min_runtime_h=1),
    ]
    board = board_of([node(8)], [*loose, *queue], shares={"a": 1.0, "b": 0.0})
    assert list(board.starts) == [2]


def firm_and_loose(**rival):
    """Return a node that a team with a limit of 4 fills, past its min runtimes, and a rival's workload."""
    queue = [pending(4, leaf_budget="b", min_runtime_h=0.1, submitted_h_ago=h) for h in (2, 1)]
    wants = pending(4, leaf_budget="a", **rival)
    world = state([node(8)], [*queue, wants], shares={"a": 0.5, "b": 0.5})
    world.workloads.leaf[2] = -1
    policy = policy_for(world)
    verdict = decide(policy, world)
    assert policy.firm.tolist() == [True, False, False]
    world = after(world, verdict, 360)
    world.workloads.leaf[2] = 1
    return policy, world


@pytest.mark.parametrize(("priority", "victims"), [(-1, []), (0, [1]), (2, [1])])
def test_within_its_limit_a_team_takes_the_place_of_its_own_class_and_lower_ones(priority, victims):
    policy, world = firm_and_loose(min_runtime_h=1, priority=priority)
    assert list(decide(policy, world).board.victims) == victims


@pytest.mark.parametrize(("priority", "victims"), [(0, []), (1, [1])])
def test_above_its_limit_a_team_takes_the_place_of_lower_classes_only(priority, victims):
    policy, world = firm_and_loose(min_runtime_h=1, priority=priority)
    world.budgets.share_ppb[1:] = [0, 10**9]  # a has no GPUs of its own
    assert list(decide(policy, world).board.victims) == victims


def test_a_victim_that_starts_again_within_the_limit_cannot_be_preempted_any_more():
    policy, world = firm_and_loose(min_runtime_h=1, priority=2)
    world = after(world, decide(policy, world), 60, over=[0])
    decide(policy, world)
    assert policy.firm.tolist() == [True, True, True]


def test_nobody_is_preempted_inside_its_min_runtime():
    world = state(
        [node(8)],
        [running(8, [0], min_runtime_h=4, priority=-1), pending(8, min_runtime_h=1, priority=2)],
        shares={"a": 1.0},
    )
    assert not decide(policy_for(world), world).board.victims


@pytest.mark.parametrize(
    ("asks", "holds", "yields"), [(0, 0, True), (0, 1, False), (1, 0, True), (2, 2, True)]
)
def test_unallocated_work_yields_to_its_own_class_and_higher_ones_and_takes_nobodys_place(
    asks, holds, yields
):
    for min_runtime_h in (1, 0):
        workloads = [running(8, [0], priority=holds), pending(8, min_runtime_h=min_runtime_h, priority=asks)]
        victims = board_of([node(8)], workloads, shares={"a": 1.0}).victims
        assert bool(victims) == (yields and min_runtime_h > 0)


def test_an_impatient_user_raises_a_class_each_time_the_wait_has_lasted_again():
    world = state([node(8, state="down")], [pending(8, priority=-1, submitted_h_ago=0)])
    policy, seen = policy_for(world, inflaters=True), []
    for _ in range(8):
        seen.append(int(policy.classes(Round(world, everybody(world)))[0]))
        world = after(world, decide(policy, world), PATIENCE_S // 2)
    assert seen == [LOW, LOW, NORMAL, NORMAL, HIGH, HIGH, URGENT, URGENT]


def test_a_patient_user_never_raises():
    world = state([node(8, state="down")], [pending(8, submitted_h_ago=1000)])
    assert policy_for(world).classes(Round(world, everybody(world))).tolist() == [NORMAL]


def test_a_raise_outlives_the_run_and_the_wait_begins_anew_after_it():
    world = state([node(8)], [pending(8, submitted_h_ago=PATIENCE_S / 3600 + 1)])
    policy = policy_for(world, inflaters=True)
    verdict = decide(policy, world)
    world = after(world, verdict, 10 * PATIENCE_S)  # it runs for long, and time that it runs is no wait
    assert policy.classes(Round(world, everybody(world))).tolist() == [HIGH]
    verdict = decide(policy, world)
    verdict.board.evict(0, 0)
    world = after(world, verdict, PATIENCE_S - 1)
    assert policy.classes(Round(world, everybody(world))).tolist() == [HIGH]
    assert policy.classes(Round(replace(world, now_s=world.now_s + 1), everybody(world))).tolist() == [URGENT]


def test_raises_follow_the_row_of_the_trace_and_not_the_place_in_the_state():
    world = state([node(8, state="down")], [pending(8, submitted_h_ago=0)])
    policy = Ai2Priority(setting_of(state([node(8)], [pending(8, submitted_h_ago=0) for _ in range(5)])))
    policy.impatient[:] = True
    for row in (3, 3, 1):
        world = after(world, policy.decide(Round(world, np.array([row]))), PATIENCE_S)
    assert policy.raised.tolist() == [0, 2, 0, 1, 0]


@settings(max_examples=20)
@given(st.integers(0, 999))
def test_about_half_of_the_users_are_impatient_and_all_work_of_one_is_treated_alike(seed):
    users = [f"u{i % 200}" for i in range(400)]
    world = state([node(8)], [pending(1) for _ in users])
    impatient = Ai2Priority(setting_of(world, users=users, seed=seed)).impatient
    assert (impatient[:200] == impatient[200:]).all()
    assert abs(impatient.mean() - INFLATERS) < 0.2


def test_who_is_impatient_depends_on_the_seed_and_not_on_the_hash_of_the_process():
    code = (
        "from planner.simulation.policies.ai2_priority import _draw;"
        "print([round(_draw(s, u), 12) for s in (0, 1) for u in ('ann', 'bob')])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": str(h)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for h in (0, 7)
    }
    assert len(found) == 1
    assert len(set(eval(found.pop()))) == 4
