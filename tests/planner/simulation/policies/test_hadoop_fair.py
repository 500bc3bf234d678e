"""The 2009 Fair Scheduler on the cases of its own tests (TestFairScheduler), a slot being a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from planner.simulation.policies.base import Round
from planner.simulation.policies.hadoop_fair import HadoopFair, _Pools
from planner.simulation.policies.serving import Serving, Shapes
from tests.planner.simulation.policies.rounds import after, decide, everybody, setting_of
from tests.solver.factories import HOUR_S, node, pending, state

SECOND = 1 / HOUR_S


def tasks(count, pool, **more):
    """Write `count` tasks of one slot each, protected for a second only."""
    return [
        pending(1, leaf_budget=pool, min_runtime_h=SECOND, submitted_h_ago=0, **more) for _ in range(count)
    ]


def ours(setting, **minimum):
    return HadoopFair(setting, minimum, min_share_timeout_s=60, fair_share_timeout_s=60)


def held(world, verdict, pool):
    """Return the GPUs that a pool holds once the verdict is carried out."""
    return int((verdict.board.standing & (world.workloads.leaf == pool)).sum())


def join(world, policy, verdict, seconds, waiting):
    """Return the world later, with the workloads of leaf -1 that were `waiting` to be submitted now there."""
    later = after(world, verdict, seconds)
    for rows, leaf in waiting:
        later.workloads.leaf[rows] = leaf
    return later


SHARES = {"default": 0.5, "poolA": 0.5}


def two_pools(first: int, second: int, gpus: int = 4, shares=SHARES):
    """Return a cluster that `first` tasks of the default pool fill, and `second` ones to be submitted."""
    world = state(
        [node(2) for _ in range(gpus // 2)], tasks(first, "default") + tasks(second, "poolA"), shares=shares
    )
    world.workloads.leaf[first:] = -1
    return world


@pytest.mark.parametrize(("minimum", "needs", "preempted"), [(2, 10, 2), (3, 1, 1)])
def test_min_share_preemption_waits_for_its_time_out_and_takes_what_is_lacking_and_wanted(
    minimum, needs, preempted
):
    """testMinSharePreemption: min share 2 of 4 slots, none at 59 s, two at 61 s; WithSmallJob: 3, one."""
    world = two_pools(10, needs)
    policy = ours(setting_of(world, SHARES), poolA=minimum)
    world = join(world, policy, decide(policy, world), 20, [(slice(10, None), 2)])
    verdict = decide(policy, world)  # the second job is there from now on
    for seconds, taken in [(59, 0), (2, preempted)]:
        world = after(world, verdict, seconds)
        verdict = decide(policy, world)
        assert len(verdict.board.victims) == taken
    assert held(world, verdict, 1) == 4 - preempted
    assert held(world, verdict, 2) == preempted


def test_the_most_recently_started_tasks_are_preempted():
    world = two_pools(4, 10)
    world.workloads.leaf[2:4] = -1
    policy = ours(setting_of(world, SHARES), poolA=2)
    world = join(world, policy, decide(policy, world), 10, [(slice(2, 4), 1)])
    world = join(world, policy, decide(policy, world), 10, [(slice(4, None), 2)])
    world = after(world, decide(policy, world), 61)
    assert sorted(decide(policy, world).board.victims) == [2, 3]


def test_min_and_fair_share_together_preempt_the_larger_claim_and_not_the_sum():
    """testMinAndFairSharePreemption: 4 slots, both shares are 2: two tasks are preempted."""
    world = two_pools(10, 10)
    policy = ours(setting_of(world, SHARES), poolA=2)
    world = join(world, policy, decide(policy, world), 20, [(slice(10, None), 2)])
    world = after(world, decide(policy, world), 61)
    pools = _Pools(Serving(Round(world, everybody(world)), Shapes(20)), np.array([0, 0, 2]))
    assert policy._targets(world.now_s, pools).tolist() == [0, 0, 2]
    assert len(decide(policy, world).board.victims) == 2


def test_fair_share_preemption_below_half_takes_up_to_the_fair_share():
    """testFairSharePreemption: 8 slots, 6 + 2 + 0 run, fair share 8/3: at 61 s the third job takes two."""
    shares = {"one": 1 / 3, "two": 1 / 3, "three": 1 / 3}
    world = state(
        [node(2) for _ in range(4)],
        tasks(6, "one") + tasks(10, "two") + tasks(10, "three"),
        shares=shares,
    )
    world.workloads.leaf[6:] = -1
    policy = ours(setting_of(world, shares))
    world = join(world, policy, decide(policy, world), 1, [(slice(6, 16), 2)])
    verdict = decide(policy, world)
    assert [held(world, verdict, pool) for pool in (1, 2)] == [6, 2]
    world = join(world, policy, verdict, 1, [(slice(16, None), 3)])
    verdict = decide(policy, world)
    pools = _Pools(Serving(Round(world, everybody(world)), Shapes(26)), np.zeros(4))
    assert pools.fair[1:] == pytest.approx([8 / 3] * 3)
    for seconds, expected in [(59, [6, 2, 0]), (2, [4, 2, 2])]:
        world = after(world, verdict, seconds)
        verdict = decide(policy, world)
        assert policy._targets(world.now_s, pools).tolist()[:3] == [0, 0, 0]  # the second is at half
        assert [held(world, verdict, pool) for pool in (1, 2, 3)] == expected


def test_deficits_grow_by_fair_share_less_use():
    """testLargeJobs: 4 slots; alone 4 x 100, then 2 - 4 and 2 - 0 for 200, then 2 - 0 and 2 - 4 for 50."""
    shares = {"one": 0.5, "two": 0.5}
    world = state([node(2), node(2)], tasks(10, "one") + tasks(10, "two"), shares=shares)
    policy, seen = HadoopFair(setting_of(world, shares), {}), []
    policy.then_s = world.now_s

    class Stub:
        demand = np.array([0.0, 10, 10])

    for gap, seconds in [([0, 4, 0], 100), ([0, -2, 2], 200), ([0, 2, -2], 50)]:
        policy.gap = np.array(gap, dtype=float)
        policy._accrue(policy.then_s + seconds, Stub)
        seen.append(policy.deficit[1:].tolist())
    assert seen == [[400, 0], [0, 400], [100, 300]]


def test_deficits_grow_from_round_to_round_by_the_gap_that_the_round_left():
    shares = {"one": 0.5, "two": 0.5}
    queue = [pending(1, leaf_budget=pool, min_runtime_h=4) for pool in shares for _ in range(10)]
    world = state([node(2), node(2)], queue, shares=shares)
    policy = HadoopFair(setting_of(world, shares), {})
    verdict = decide(policy, world)  # no deficits yet: the first pool takes all four slots
    for seconds, owed in [(100, 200), (50, 300)]:  # two of its own for each second
        world = after(world, verdict, seconds)
        verdict = decide(policy, world)
        assert policy.deficit.tolist() == [0, -owed, owed]


def test_the_last_victim_may_take_its_pool_below_its_fair_share():
    shares = {"one": 0.5, "two": 0.5}
    gangs = [pending(3, leaf_budget="one", min_runtime_h=SECOND, submitted_h_ago=0) for _ in range(2)]
    world = state([node(8)], [*gangs, pending(4, leaf_budget="two", min_runtime_h=1)], shares=shares)
    world.workloads.leaf[2] = -1
    policy = ours(setting_of(world, shares))
    world = join(world, policy, decide(policy, world), 5, [(slice(2, None), 2)])
    world = after(world, decide(policy, world), 61)
    assert len(decide(policy, world).board.victims) == 1  # 6 held, 4 fair, 3 left


def test_what_a_victim_leaves_over_is_given_out_in_the_same_round():
    world = state(
        [node(8)],
        [
            *(pending(4, leaf_budget="default", min_runtime_h=SECOND, submitted_h_ago=0) for _ in range(2)),
            *tasks(2, "default"),
            pending(2, leaf_budget="poolA", min_runtime_h=1),
        ],
        shares=SHARES,
    )
    world.workloads.leaf[2:] = -1
    policy = ours(setting_of(world, SHARES))
    world = join(world, policy, decide(policy, world), 5, [(slice(2, 4), 1), (slice(4, None), 2)])
    world = after(world, decide(policy, world), 61)
    board = decide(policy, world).board
    assert (len(board.victims), sorted(board.starts)) == (1, [2, 3, 4])


def test_a_pool_that_wants_nothing_is_owed_nothing():
    shares = {"one": 0.5, "two": 0.5}
    world = state([node(2), node(2)], tasks(3, "one") + tasks(3, "two"), shares=shares)
    policy = HadoopFair(setting_of(world, shares), {})
    world = after(world, decide(policy, world), 100)
    decide(policy, world)
    assert policy.deficit[2] > 0
    world = after(world, decide(policy, world), 100, over=range(6))
    decide(policy, world)
    assert policy.deficit.tolist() == [0, 0, 0]


def test_needy_pools_are_served_by_deficit_before_all_others_and_then_the_highest_deficit():
    """testLargeJobsWithPools: 4 slots, min shares 0, 1, 2, deficits 900, 100, 200: job3, job3, job2, job1."""
    shares = {"default": 1 / 3, "poolA": 1 / 3, "poolB": 1 / 3}
    queue = tasks(10, "default") + tasks(10, "poolA") + tasks(10, "poolB")
    world = state([node(2), node(2)], queue, shares=shares)
    policy = HadoopFair(setting_of(world, shares), {"poolA": 1, "poolB": 2})
    policy.deficit[:], policy.then_s = [0, 900, 100, 200], world.now_s
    served = [1 + j // 10 for j in decide(policy, world).board.starts]
    assert served == [3, 3, 2, 1]
    pools = _Pools(Serving(Round(world, everybody(world)), Shapes(30)), policy._minimum(None))
    assert pools.fair[1:] == pytest.approx([1, 1, 2])  # testLargeJobsWithPools: fair shares


def test_for_a_gang_larger_than_its_pools_claim_no_more_than_the_claim_is_evicted():
    world = state(
        [node(8)],
        [*tasks(8, "default"), pending(6, leaf_budget="poolA", min_runtime_h=1, submitted_h_ago=0)],
        shares=SHARES,
    )
    world.workloads.leaf[8:] = -1
    policy = ours(setting_of(world, SHARES))
    world = join(world, policy, decide(policy, world), 1, [(slice(8, None), 2)])
    for _ in range(5):
        verdict = decide(policy, world)
        assert not verdict.board.victims
        world = after(world, verdict, 60)


def test_half_of_the_share_is_the_minimum_where_none_is_given():
    world = state([node(8), node(8), node(8, state="down")], tasks(1, "default"), shares=SHARES)
    serving = Serving(Round(world, everybody(world)), Shapes(1))
    assert HadoopFair(setting_of(world, SHARES))._minimum(serving).tolist() == [0, 4, 4]
