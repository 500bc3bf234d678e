"""Each team stays on its own nodes, uses them fully, and nobody else may."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.simulation.policies.fifo import Fifo
from planner.simulation.policies.monopoly import Monopoly, owners
from tests.planner.simulation.policies.rounds import after, decide, setting_of
from tests.solver.factories import node, pending, running, state

SHARES = {"a": 0.75, "b": 0.25}
FOUR = [node(8)] * 4  # three of a, the last one of b


def board_of(nodes, workloads, **more):
    world = state(nodes, workloads, shares=SHARES, **more)
    return decide(Monopoly(setting_of(world)), world).board


@pytest.mark.parametrize(
    ("nodes", "shares", "stretches"),
    [
        ([8] * 4, {"a": 0.75, "b": 0.25}, "aaab"),
        ([8] * 4, {"a": 0.6, "b": 0.4}, "aabb"),  # 2.4 nodes and 1.6: the third node's middle is at 2.5
        ([8] * 2, {"a": 0.1, "b": 0.9}, "bb"),  # a tenth of two nodes holds the middle of none
        ([8, 4, 4], {"a": 0.5, "b": 0.5}, "abb"),
        ([8] * 3, {"a": 0.0, "b": 1.0}, "bbb"),
    ],
)
def test_a_stretch_of_nodes_is_as_long_as_the_share(nodes, shares, stretches):
    world = state([node(gpus) for gpus in nodes], shares=shares)
    assert "".join("?ab"[v] for v in owners(world).tolist()) == stretches


def test_idle_gpus_of_another_team_stay_idle():
    queue = [pending(8, leaf_budget="b", min_runtime_h=1) for _ in range(4)]
    board = board_of(FOUR, queue)
    assert board.starts == {0: [(3, 1)]}
    assert board.free_gpus.sum() == 24


def test_a_gang_larger_than_its_teams_nodes_never_starts():
    assert not board_of(FOUR, [pending(8, 2, leaf_budget="b", min_runtime_h=1)]).starts


def test_inside_a_team_priority_comes_first_and_then_submit():
    queue = [
        pending(8, leaf_budget="b", min_runtime_h=1, submitted_h_ago=3),
        pending(8, leaf_budget="b", min_runtime_h=1, submitted_h_ago=1, priority=1),
    ]
    assert list(board_of(FOUR, queue).starts) == [1]


def test_unallocated_work_comes_after_all_allocated_work_of_its_team():
    queue = [
        pending(8, leaf_budget="b", submitted_h_ago=3, priority=9),
        pending(8, leaf_budget="b", min_runtime_h=1, submitted_h_ago=1),
    ]
    assert list(board_of(FOUR, queue).starts) == [1]


def test_own_unallocated_work_makes_room_the_least_lost_first():
    mine = [running(4, [3], leaf_budget="b", started_h_ago=3), running(4, [3], leaf_budget="b")]
    board = board_of(FOUR, [*mine, pending(4, leaf_budget="b", min_runtime_h=1)])
    assert (board.starts, list(board.victims)) == ({2: [(3, 1)]}, [1])


def test_own_allocated_work_stays():
    mine = [running(8, [3], leaf_budget="b", min_runtime_h=0.1, started_h_ago=3)]
    board = board_of(FOUR, [*mine, pending(8, leaf_budget="b", min_runtime_h=1)])
    assert not board.starts
    assert not board.victims


def test_a_team_that_finds_no_place_does_not_block_another_with_the_same_wish():
    queue = [
        pending(8, 2, leaf_budget="b", min_runtime_h=1, submitted_h_ago=3),
        pending(8, 2, leaf_budget="a", min_runtime_h=1),
    ]
    assert list(board_of(FOUR, queue).starts) == [1]


jobs = st.builds(
    pending,
    gpus=st.sampled_from([1, 2, 4, 8]),
    replicas=st.integers(1, 2),
    leaf_budget=st.sampled_from(["a", "b"]),
    min_runtime_h=st.sampled_from([0, 0.1]),
    priority=st.integers(0, 2),
)


@settings(max_examples=60)
@given(st.lists(jobs, min_size=1, max_size=14), st.lists(st.integers(0, 13), max_size=3))
def test_no_workload_ever_stands_on_a_node_of_another_team(queue, over):
    world = state(FOUR, queue, shares=SHARES)
    policy, owner = Monopoly(setting_of(world)), owners(world)
    for _ in range(3):
        verdict = decide(policy, world)
        for j in np.flatnonzero(verdict.board.standing).tolist():
            assert {owner[n] for n, _ in verdict.board.parts(j)} == {world.workloads.leaf[j]}
        world = after(world, verdict, 900, [j for j in over if j < len(queue)])


@settings(max_examples=60)
@given(st.lists(jobs, min_size=1, max_size=14))
def test_a_team_that_owns_everything_is_served_first_come_first_served(queue):
    mine = [job for job in queue if job.leaf_budget == "a" and not job.priority]
    world = state(FOUR, mine, shares={"a": 1.0})
    alone, fifo = (decide(policy(setting_of(world)), world).board for policy in (Monopoly, Fifo))
    assert alone.starts == fifo.starts
