"""Each team stays within its own GPUs, uses them fully, and nobody else may."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.simulation.policies.division import owned_gpus
from planner.simulation.policies.monopoly import Monopoly
from tests.planner.simulation.policies.rounds import after, decide, setting_of
from tests.solver.factories import node, pending, running, state

SHARES = {"a": 0.75, "b": 0.25}


def board_of(nodes, workloads, **more):
    world = state(nodes, workloads, shares=SHARES, **more)
    return decide(Monopoly(setting_of(world)), world).board


def test_idle_gpus_of_another_team_stay_idle():
    queue = [pending(4, leaf_budget="b", min_runtime_h=1) for _ in range(4)]
    board = board_of([node(8), node(8)], queue)  # b owns 4 of 16
    assert list(board.starts) == [0]
    assert board.free_gpus.sum() == 12


def test_a_gang_larger_than_its_teams_quota_never_starts():
    assert not board_of([node(8)], [pending(4, leaf_budget="b", min_runtime_h=1)]).starts


def test_inside_a_team_priority_comes_first_and_then_submit():
    queue = [
        pending(8, leaf_budget="b", min_runtime_h=1, submitted_h_ago=3),
        pending(8, leaf_budget="b", min_runtime_h=1, submitted_h_ago=1, priority=1),
    ]
    assert list(board_of([node(8)] * 4, queue).starts) == [1]


def test_own_unallocated_work_gives_back_the_quota_though_the_cluster_has_free_nodes():
    mine = [running(4, [0], leaf_budget="b"), running(4, [0], leaf_budget="b", started_h_ago=3)]
    board = board_of([node(8)] * 4, [*mine, pending(4, leaf_budget="b", min_runtime_h=1)])
    assert (board.starts, list(board.victims)) == ({2: [(0, 1)]}, [0])


def test_a_victim_that_turns_out_not_to_be_needed_stays():
    mine = [
        running(1, [0], leaf_budget="b", started_h_ago=0.1),  # cheapest, and not enough
        running(7, [1], leaf_budget="b", started_h_ago=3),
    ]
    board = board_of([node(8)] * 4, [*mine, pending(7, leaf_budget="b", min_runtime_h=1)])
    assert (list(board.starts), list(board.victims)) == ([2], [1])


def test_victims_on_nodes_that_the_start_does_not_use_stay():
    mine = [
        running(1, [0], leaf_budget="b", started_h_ago=0.1),
        running(2, [1], leaf_budget="b", started_h_ago=1),
        running(2, [1], leaf_budget="b", started_h_ago=2),
        running(3, [2], leaf_budget="b", min_runtime_h=0.1),
    ]
    board = board_of([node(8)] * 4, [*mine, pending(4, leaf_budget="b", min_runtime_h=1)])
    assert (board.starts, sorted(board.victims)) == ({4: [(1, 1)]}, [1, 2])


def test_nobody_gives_way_whose_nodes_the_start_cannot_use():
    mine = [running(4, [n], leaf_budget="b", started_h_ago=n + 1) for n in range(2)]
    waits = pending(8, leaf_budget="b", min_runtime_h=1)  # needs the quota of both, and one node
    board = board_of([node(8)] * 4, [*mine, waits])
    assert not board.starts
    assert not board.victims


def test_under_a_limit_of_the_site_the_victims_give_back_enough_for_it_too():
    mine = [
        running(2, [0], leaf_budget="b", started_h_ago=0.1),
        running(4, [1], leaf_budget="b", started_h_ago=1),
    ]
    gang = pending(4, leaf_budget="b", min_runtime_h=1)
    assert list(board_of([node(8)] * 4, [*mine, gang]).victims) == [0]
    assert list(board_of([node(8)] * 4, [*mine, gang], limits={"b": 6}).victims) == [1]


def test_the_brake_holds():
    mine = [running(8, [0], leaf_budget="b")]
    waits = pending(8, leaf_budget="b", min_runtime_h=1)
    for most, victims in [(7, []), (8, [0])]:
        board = board_of([node(8)] * 4, [*mine, waits], max_preempted_gpus=most)
        assert list(board.victims) == victims


def test_the_unallocated_work_of_another_team_is_safe():
    others = [running(8, [n], leaf_budget="a") for n in range(3)] + [running(8, [3], leaf_budget="a")]
    board = board_of([node(8)] * 4, [*others, pending(8, leaf_budget="b", min_runtime_h=1)])
    assert not board.starts
    assert not board.victims


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
def test_no_team_ever_holds_more_than_it_owns(queue, over):
    world = state([node(8)] * 3, queue, shares=SHARES)
    policy, quota = Monopoly(setting_of(world)), owned_gpus(world)
    for _ in range(3):
        board = decide(policy, world).board
        assert (board.held_gpus[1:] <= quota[1:]).all()
        verdict = decide(policy, world)
        world = after(world, verdict, 900, [j for j in over if j < len(queue)])


@settings(max_examples=60)
@given(st.integers(0, 2), st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=6))
def test_allocated_work_of_a_team_starts_as_if_it_had_no_unallocated_work(loose, queue):
    """Where each unallocated run holds a whole node, one of them is room for any workload."""
    nodes = [node(8) for _ in range(8)]
    unallocated = [running(8, [n], leaf_budget="b") for n in range(loose)]
    waits = [
        pending(gpus, leaf_budget="b", min_runtime_h=1, submitted_h_ago=-i) for i, gpus in enumerate(queue)
    ]
    crowded = board_of(nodes, unallocated + waits)
    assert sorted(j - loose for j in crowded.starts) == sorted(board_of(nodes, waits).starts)
