"""YARN's FairScheduler on the cases of its own tests: shares of the moment, starvation, preemption."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.simulation.policies.base import Round
from planner.simulation.policies.serving import Serving, Shapes
from planner.simulation.policies.yarn_fair import Queues, YarnFair
from tests.planner.simulation.policies.rounds import after, decide, everybody, paths_of, setting_of
from tests.solver.factories import HOUR_S, node, pending, running, state

SECOND = 1 / HOUR_S

TREE = {  # TestFairSchedulerFairShare: parentA weighs 8, parentB 1, root.default 1
    **{f"parentA/childA{i}": 0.2 for i in range(1, 5)},
    **{f"parentB/childB{i}": 0.05 for i in range(1, 3)},
    "default": 0.1,
}


def queues_of(world) -> Queues:
    return Queues(Serving(Round(world, everybody(world)), Shapes(world.workloads.count)))


def asks(leaf, gpus=1, **more):
    return pending(gpus, leaf_budget=leaf, min_runtime_h=SECOND, submitted_h_ago=0, **more)


@pytest.mark.parametrize(
    ("active", "percent"),
    [
        ({}, {}),
        ({"parentA/childA1": 2}, {"parentA/childA1": 100}),
        (
            {"parentA/childA1": 2, "parentA/childA2": 2, "parentA/childA3": 2},
            {"parentA/childA1": 100 / 3, "parentA/childA2": 100 / 3, "parentA/childA3": 100 / 3},
        ),
        (
            {"parentA/childA1": 2, "parentA/childA2": 3, "parentB/childB1": 1, "default": 1},
            {"parentA/childA1": 40, "parentA/childA2": 40, "parentB/childB1": 10, "default": 10},
        ),
    ],
)
def test_instantaneous_fair_shares_are_those_of_yarns_tree(active, percent):
    world = state([node(16)], [asks(leaf, gpus) for leaf, gpus in active.items()], shares=TREE)
    fair = dict(zip(paths_of(world, TREE), queues_of(world).fair, strict=True))
    assert {q: fair[q] / 16 * 100 for q in TREE if fair[q]} == pytest.approx(percent)


def test_a_limit_caps_a_share_and_the_siblings_have_the_rest():
    world = state([node(16)], [asks("a"), asks("b")], limits={"a": 3})
    assert queues_of(world).fair == [16, 3, 13]


def test_a_queue_starves_below_its_threshold_and_not_at_its_demand():
    """TestFSLeafQueue: 10 slots, A holds 4, B1 and B2 2 of 3 each; thresholds .4 and .6 of a share of 4."""
    shares = {"A": 0.2, "B/B1": 0.4, "B/B2": 0.4}
    runs = [
        running(1, [0], leaf_budget=leaf, min_runtime_h=SECOND)
        for leaf, count in [("A", 4), ("B/B1", 2), ("B/B2", 2)]
        for _ in range(count)
    ]
    world = state([node(10)], [*runs, asks("B/B1"), asks("B/B2")], shares=shares)
    queues, paths = queues_of(world), paths_of(world, shares)
    assert [queues.fair[paths.index(q)] for q in shares] == pytest.approx([2, 4, 4])
    for threshold, starves in [(0.4, False), (0.5, False), (0.6, True)]:  # below 1.6, 2 and 2.4
        starved = YarnFair(setting_of(world, shares), 0, threshold).starved(queues)
        assert starved[paths.index("B/B1")] == starved[paths.index("B/B2")] == starves
    fed = state(
        [node(10)], [*runs, *[running(1, [0], leaf_budget="B/B1", min_runtime_h=SECOND)]], shares=shares
    )
    assert not YarnFair(setting_of(fed, shares), 0, 0.9).starved(queues_of(fed)).any()  # they want no more


@pytest.mark.parametrize(("slots", "preempts"), [(10, False), (9, True)])
def test_nobody_preempts_while_no_more_than_80_percent_is_in_use(slots, preempts):
    shares = {"a": 0.5, "b": 0.5}
    runs = [running(1, [0], leaf_budget="a", min_runtime_h=SECOND) for _ in range(8)]
    world = state([node(slots)], runs + [asks("b") for _ in range(4)], shares=shares)
    target = YarnFair(setting_of(world, shares), timeout_s=0).targets(queues_of(world))
    assert (target[2] > 0) == preempts


def test_preemption_is_decided_after_the_time_out_and_not_before():
    """testPreemptionDecision: 6 slots held by A and B; C and D may each take up to 1.5 after 10 s."""
    shares = dict.fromkeys("ABCD", 0.25)
    runs = [running(1, [i // 2], leaf_budget="AB"[i // 3], min_runtime_h=SECOND) for i in range(6)]
    queue = [asks(leaf) for leaf in "CD" for _ in range(3)]
    world = state([node(2)] * 3, runs + queue, shares=shares)
    policy, seen = YarnFair(setting_of(world, shares), timeout_s=10), []
    for seconds in (6, 6, 6):
        seen.append(policy.targets(queues_of(world)).tolist())
        world = after(world, decide(YarnFair(setting_of(world, shares)), world), seconds)
    assert seen == [[0] * 5, [0] * 5, [0, 0, 0, 1.5, 1.5]]


def test_a_starved_queue_preempts_half_of_the_greedy_ones_containers():
    """TestFairSchedulerPreemption: 2 nodes of 4, 8 containers of 1 against 4 of 2: two of 2 start, 4 stay."""
    shares = {"child-1": 0.5, "child-2": 0.5}
    runs = [running(1, [i // 4], leaf_budget="child-1", min_runtime_h=SECOND) for i in range(8)]
    world = state([node(4)] * 2, runs + [asks("child-2", 2) for _ in range(4)], shares=shares)
    policy = YarnFair(setting_of(world, shares), timeout_s=1, threshold=1.0)
    verdict = decide(policy, world)
    assert not verdict.board.victims
    board = decide(policy, after(world, verdict, 1)).board
    assert len(board.victims) == 4
    assert len(board.starts) == 2


def test_only_queues_above_their_share_give_way_and_they_keep_it():
    shares = {"greedy": 0.25, "fair": 0.25, "poor": 0.5}
    runs = [running(1, [0], leaf_budget="greedy", min_runtime_h=SECOND) for _ in range(5)]
    runs += [running(1, [0], leaf_budget="fair", min_runtime_h=SECOND) for _ in range(3)]
    world = state([node(8)], runs + [asks("poor") for _ in range(8)], shares=shares)
    policy = YarnFair(setting_of(world, shares), timeout_s=0)
    victims = [int(world.workloads.leaf[r]) for r in decide(policy, world).board.victims]
    assert sorted(victims) == [1, 1, 1, 2]  # both keep their two


@pytest.mark.parametrize(("sizes", "victims"), [((3, 3), []), ((2, 4), [0])])
def test_a_queue_gives_no_gang_that_would_take_it_below_its_share(sizes, victims):
    runs = [running(gpus, [0], leaf_budget="a", min_runtime_h=SECOND) for gpus in sizes]
    world = state([node(7)], [*runs, asks("b", 3)])  # each has a share of 3.5
    assert list(decide(YarnFair(setting_of(world), timeout_s=0), world).board.victims) == victims


def test_a_queue_takes_no_more_than_it_wants():
    runs = [running(1, [0], leaf_budget="a", min_runtime_h=SECOND) for _ in range(8)]
    world = state([node(8)], [*runs, asks("b", 1)])
    assert YarnFair(setting_of(world), timeout_s=0).targets(queues_of(world)).tolist() == [0, 0, 1]


def test_what_a_victim_leaves_over_is_given_out_in_the_same_round():
    shares = {"a": 0.25, "b": 0.75}
    runs = [running(g, [0], leaf_budget="a", min_runtime_h=SECOND, started_h_ago=g) for g in (4, 2)]
    world = state([node(6)], [*runs, asks("b", 1), asks("a", 1)], shares=shares)
    board = decide(YarnFair(setting_of(world, shares), timeout_s=0), world).board
    assert (list(board.victims), sorted(board.starts)) == ([1], [2, 3])


def test_a_time_out_follows_its_queue_while_workloads_come_and_go():
    shares = {"a": 0.5, "b": 0.5}
    runs = [running(1, [0], leaf_budget="a", min_runtime_h=SECOND) for _ in range(4)]
    world = state([node(4)], runs + [asks("b") for _ in range(4)], shares=shares)
    policy = YarnFair(setting_of(world, shares), timeout_s=100)
    world = after(world, decide(policy, world), 60, over=[4])
    world = after(world, decide(policy, world), 60, over=[5])
    assert len(decide(policy, world).board.victims) == 2


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["p/a", "p/b", "q/c", "q/d"]), st.sampled_from([1, 2, 4])),
        min_size=1,
        max_size=20,
    )
)
def test_every_start_is_below_the_child_with_the_least_use_for_its_weight_at_every_level(jobs):
    shares = {"p/a": 0.4, "p/b": 0.2, "q/c": 0.3, "q/d": 0.1}
    queue = [
        pending(g, leaf_budget=b, min_runtime_h=1, submitted_h_ago=1 - i / 64)
        for i, (b, g) in enumerate(jobs)
    ]
    world = state([node(12)], queue, shares=shares)
    board = decide(YarnFair(setting_of(world, shares)), world).board
    b, leaf, gpus = world.budgets, world.workloads.leaf, world.workloads.gpus
    use, left, waiting = np.zeros(b.count), 12, set(range(len(jobs)))
    for j in board.starts:
        wants = {v for k in waiting if gpus[k] <= left for v in b.path(int(leaf[k]))}
        for v in b.path(int(leaf[j]))[:-1]:
            rivals = [c for c in wants if b.parent[c] == b.parent[v]]
            assert use[v] / b.share_ppb[v] <= min(use[c] / b.share_ppb[c] for c in rivals) + 1e-15
        use[b.path(int(leaf[j]))] += gpus[j]
        left -= gpus[j]
        waiting.remove(j)
    assert not any(gpus[k] <= left for k in waiting)
