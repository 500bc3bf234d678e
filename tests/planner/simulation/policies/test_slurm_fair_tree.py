"""Slurm: decayed usage orders the accounts, QOS alone preempts, time limits make room for backfill."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.simulation.policies.base import Round
from planner.simulation.policies.slurm_fair_tree import HALF_LIFE_S, MAX_TIME_S, SlurmFairTree
from tests.planner.simulation.policies.rounds import after, decide, setting_of
from tests.solver.factories import node, pending, running, state


def policy_for(world, **usage) -> SlurmFairTree:
    policy = SlurmFairTree(setting_of(world))
    policy.then_s = world.now_s
    for v, amount in usage.items():
        policy.usage[int(v[1:])] = amount
    return policy


def test_a_three_node_job_preempts_three_of_five_and_two_run_on():
    """preempt.html, "A Simple Example": 5 nodes, 5 jobs, a 3-node job of the higher class."""
    runs = [running(8, [n], started_h_ago=0.1 - n / 100) for n in range(5)]
    world = state([node(8)] * 5, [*runs, pending(8, 3, min_runtime_h=0.1)])
    board = decide(policy_for(world), world).board
    assert list(board.starts) == [5]
    assert len(board.victims) == 3


def test_no_qos_preempts_its_own():
    runs = [running(8, [0], min_runtime_h=0.1, leaf_budget="a"), running(8, [1], leaf_budget="a")]
    rival = [pending(8, min_runtime_h=1, leaf_budget="b"), pending(8, leaf_budget="b")]
    world = state([node(8)] * 2, [*runs, *rival])
    board = decide(policy_for(world, v1=1e9), world).board
    assert (list(board.starts), list(board.victims)) == ([2], [1])


def test_usage_halves_in_seven_days_and_grows_by_what_is_held():
    world = state([node(8, gpu_type="b200")], [running(8, [0], leaf_budget="a")], charges={"b200": 2})
    policy = policy_for(world, v2=1000.0)
    world = after(world, decide(policy, world), 100)
    decide(policy, world)
    decay = 0.5 ** (100 / HALF_LIFE_S)
    assert policy.usage == pytest.approx([0, 8 * 2 * 100, 1000 * decay])
    world = after(world, decide(policy, world), HALF_LIFE_S)
    policy.rate[:] = 0
    decide(policy, world)
    assert policy.usage == pytest.approx([0, 800, 500 * decay])


def test_both_qos_are_charged_from_their_start_and_victims_no_longer():
    queue = [pending(8, leaf_budget="a", min_runtime_h=1), pending(2, leaf_budget="b")]
    world = state([node(8), node(4)], [*queue, running(8, [0], leaf_budget="b")])
    policy = policy_for(world)
    decide(policy, world)  # the first takes the place of the last
    assert policy.rate.tolist() == [0, 8, 2]


def test_usage_is_that_of_the_allocation_whatever_the_order_of_the_state():
    world = state([node(8)], [running(4, [0], leaf_budget="a"), running(2, [0], leaf_budget="b")])
    policy = policy_for(world)
    verdict = decide(policy, world)
    only_b = after(world, verdict, 60, over=[0])
    policy.decide(Round(only_b, np.array([0, 1])))
    assert policy.usage.tolist() == [0, 240, 120]
    assert policy.rate.tolist() == [0, 0, 2]


def test_the_account_with_the_higher_level_fairshare_goes_first_whatever_its_users_priority():
    queue = [
        pending(8, leaf_budget="x/rich", min_runtime_h=1, submitted_h_ago=9, priority=9),
        pending(8, leaf_budget="y/poor", min_runtime_h=1, submitted_h_ago=1),
        pending(8, leaf_budget="y/rich", min_runtime_h=1, submitted_h_ago=5, priority=9),
    ]
    shares = {"x/rich": 0.5, "y/poor": 0.25, "y/rich": 0.25}
    world = state([node(8)], queue, shares=shares)
    starts = []
    for usage in ({"v2": 90.0, "v5": 10.0}, {"v2": 10.0, "v4": 80.0, "v5": 10.0}):
        starts += list(decide(policy_for(world, **usage), world).board.starts)
    assert starts == [1, 0]  # below y the poor one; with y above its share, x


def test_the_allocated_qos_goes_first_whatever_the_rank():
    queue = [
        pending(8, leaf_budget="b", submitted_h_ago=9, priority=9),
        pending(8, leaf_budget="a", min_runtime_h=1),
    ]
    world = state([node(8)], queue)
    assert list(decide(policy_for(world, v1=1e9), world).board.starts) == [1]


def test_a_short_job_is_backfilled_and_a_long_one_waits_for_the_blocked_gang():
    busy = running(8, [0], min_runtime_h=4, time_limit_h=2, started_h_ago=1)  # ends in an hour
    gang = pending(8, 2, min_runtime_h=1, submitted_h_ago=9)
    short = pending(8, min_runtime_h=0.5, time_limit_h=1, submitted_h_ago=2)
    long = pending(8, min_runtime_h=0.5, time_limit_h=1.01, submitted_h_ago=3)
    world = state([node(8)] * 2, [busy, gang, long, short])
    assert list(decide(policy_for(world), world).board.starts) == [3]


def test_without_time_limits_everybody_is_taken_to_run_for_the_partitions_longest():
    busy = running(8, [0], min_runtime_h=4, started_h_ago=1)
    gang = pending(8, 2, min_runtime_h=1, submitted_h_ago=9)
    hour = MAX_TIME_S / 3600 - 1
    fits = pending(8, min_runtime_h=0.5, time_limit_h=hour, submitted_h_ago=1)
    unlimited = pending(8, min_runtime_h=0.5, submitted_h_ago=2)
    world = state([node(8)] * 2, [busy, gang, unlimited, fits])
    assert list(decide(policy_for(world), world).board.starts) == [3]


def test_unallocated_work_reserves_nothing_and_starts_on_no_reserved_node_that_it_may_hold_too_long():
    busy = running(8, [0], min_runtime_h=4, time_limit_h=2, started_h_ago=1)
    wide = pending(8, 2, submitted_h_ago=9)  # unallocated, blocked: no reservation
    small = pending(8, submitted_h_ago=1)
    world = state([node(8)] * 2, [busy, wide, small])
    assert list(decide(policy_for(world), world).board.starts) == [2]
    world = state([node(8)] * 2, [busy, pending(8, 2, min_runtime_h=1), small])
    assert not decide(policy_for(world), world).board.starts


@settings(max_examples=40)
@given(st.lists(st.sampled_from([60, 3600, 86_400]), min_size=1, max_size=6), st.integers(0, 2))
def test_usage_is_the_decayed_integral_of_what_was_held(steps, extra):
    world = state(
        [node(8)],
        [running(2, [0], leaf_budget="a"), *(pending(2, leaf_budget="b") for _ in range(extra))],
    )
    policy, expected = policy_for(world), np.zeros(3)
    for seconds in steps:
        verdict = decide(policy, world)
        expected = expected * 0.5 ** (seconds / HALF_LIFE_S) + np.array([0, 2, 2 * extra]) * seconds
        world = after(world, verdict, seconds)
    decide(policy, world)
    assert policy.usage == pytest.approx(expected)
