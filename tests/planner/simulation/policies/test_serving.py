"""The turns that all baselines share: whoever was passed over has another look when room was made."""

from __future__ import annotations

from dataclasses import replace

from planner.simulation.policies.base import Round
from planner.simulation.policies.serving import Serving, Shapes
from tests.planner.simulation.policies.rounds import everybody
from tests.solver.factories import node, pending, running, state


def serving_of(world) -> Serving:
    return Serving(Round(world, everybody(world)), Shapes(world.workloads.count))


def test_room_left_by_a_victim_goes_to_who_was_passed_over_first():
    runs = [running(8, [0, 1]), running(8, [2], min_runtime_h=4)]  # 16 unallocated GPUs make room at once
    passed = pending(4, leaf_budget="a", min_runtime_h=1, required="node", cpus=2)
    taker = pending(8, leaf_budget="b", min_runtime_h=1)
    world = state([node(8), node(8, cpus=4), node(8)], [*runs, passed, taker])
    serving = serving_of(world)
    serving.hopeless.add((serving.shape[2], 0))  # as if it had been tried in vain
    serving.in_order([2, 3], serving.take)
    assert set(serving.board.starts) == {2, 3}


def test_a_turn_goes_to_the_chosen_leaf_and_within_it_to_the_first_that_fits():
    queue = [
        pending(8, 2, leaf_budget="a", min_runtime_h=1),  # does not fit one node
        pending(2, leaf_budget="a", min_runtime_h=1),
        pending(2, leaf_budget="b", min_runtime_h=1),
        pending(2, leaf_budget="a", min_runtime_h=1),
    ]
    world = state([node(8)], queue)
    serving, asked = serving_of(world), []

    def last(leaves):
        asked.append(sorted(leaves))
        return max(leaves)

    serving.by_turn(serving.pending, last)
    assert list(serving.board.starts) == [2, 1, 3]
    assert asked == [[1, 2], [1], [1]]


def test_only_the_least_work_is_lost_and_unallocated_work_goes_before_allocated():
    runs = [
        running(4, [0], started_h_ago=5),
        running(4, [0], started_h_ago=1),
        running(4, [1], started_h_ago=0.5, min_runtime_h=0.1),
        running(4, [1], started_h_ago=9, min_runtime_h=0.1),
    ]
    world = state([node(8), node(8)], [*runs, pending(4, min_runtime_h=1)])
    for may, victim in [([0, 1, 2, 3], 1), ([0, 2, 3], 0), ([2, 3], 2)]:
        serving = serving_of(world)
        mask = serving.unallocated & False
        mask[may] = True
        assert serving.evict_for(4, mask)
        assert list(serving.board.victims) == [victim]


def test_in_use_counts_allocated_work_up_the_tree_as_the_board_changes():
    world = state(
        [node(8), node(8)],
        [
            running(4, [0], leaf_budget="t/a", min_runtime_h=0.1),
            running(4, [0], leaf_budget="t/b"),
            pending(8, leaf_budget="t/b", min_runtime_h=1),
        ],
        shares={"t/a": 0.5, "t/b": 0.5},
    )
    serving = serving_of(world)
    assert serving.in_use == [4, 4, 4, 0]
    serving.start_at(2, [(0, 1)], [0, 1])
    assert serving.in_use == [8, 8, 0, 8]


def test_shapes_are_remembered_by_row_and_tell_apart_what_a_search_tells_apart():
    queue = [
        pending(2),
        pending(2, min_runtime_h=1),
        pending(2, leaf_budget="b"),
        pending(2, cpus=1),
        pending(2, gpu_types=("b200",)),
        pending(2, 2, required="leaf"),
        pending(2, 2, required="leaf", segment=1),
    ]
    world = state([node(8, leaf="l1"), node(8, gpu_type="b200")], queue)
    shapes = Shapes(11)
    rows = everybody(world) + 4
    found = shapes.of(Round(world, rows)).tolist()
    assert found == [0, 1, 0, 2, 3, 4, 5]
    assert shapes.number.tolist() == [-1] * 4 + found


def test_neither_protected_work_nor_for_unallocated_work_is_anybody_evicted():
    runs = [running(8, [0], min_runtime_h=4), running(8, [1])]
    world = state([node(8), node(8)], [*runs, pending(8, 2, min_runtime_h=1), pending(8)])
    serving = serving_of(world)
    everyone = serving.unallocated | True
    assert not serving.evict_for(2, everyone)
    assert not serving.evict_for(3, everyone)


def test_the_brake_and_the_bound_on_allocated_victims_hold():
    runs = [running(4, [0]), running(4, [0], min_runtime_h=0.1)]
    world = state([node(8)], [*runs, pending(8, min_runtime_h=1)], max_preempted_gpus=7)
    serving = serving_of(world)
    everyone = serving.unallocated | True
    assert not serving.evict_for(2, everyone)
    free = serving_of(replace(world, policy=replace(world.policy, max_preempted_gpus=8)))
    assert not free.evict_for(2, everyone, most_gpus=3)
    assert free.evict_for(2, everyone, most_gpus=4)


def test_room_left_by_a_victim_goes_to_leaves_whose_turn_had_passed():
    runs = [running(8, [0, 1])]  # one victim makes room on two nodes
    queue = [
        pending(8, leaf_budget="a"),  # may evict nobody
        pending(8, leaf_budget="b", min_runtime_h=1),
    ]
    world = state([node(8), node(8)], [*runs, *queue])
    serving = serving_of(world)
    serving.by_turn(serving.pending, min)
    assert set(serving.board.starts) == {1, 2}
