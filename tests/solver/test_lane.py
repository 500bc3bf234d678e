"""The debug lane: who goes first, how much at once, and who makes room."""

from __future__ import annotations

import numpy as np
import pytest

from solver.board import Board
from solver.lane import run_lane
from solver.shares import WITHIN
from solver.state import Status
from tests.solver.factories import node, pending, running, state
from tests.solver.oracles import order_of

PAST = {"min_runtime_h": 1, "started_h_ago": 5}
SHARES = {"a": 0.25, "b": 0.25, "c": 0.25, "over": 0.25}
WORLD = {
    "shares": SHARES,
    "ratios": {"a": 0.9, "b": 0.9, "c": 0.9, "over": 3.0},
    "entitled_gpu_h": dict.fromkeys(SHARES, 10**6),
}


def debug(leaf: str, gpus: int = 1, **more):
    return pending(gpus, leaf_budget=leaf, min_runtime_h=0.25, debug=True, **more)


def busy(gpus: int, at, leaf: str = "a"):
    """A debug workload inside its min runtime."""
    return running(gpus, at, leaf_budget=leaf, min_runtime_h=0.25, started_h_ago=0.1, debug=True)


def laned(nodes, workloads, lane_gpus: int, **more) -> tuple[Board, list[int]]:
    world = state(nodes, workloads, lane_gpus=lane_gpus, **WORLD | more)
    board = Board(world, order_of(world))
    sequence = board.order.sequence
    return board, run_lane(board, sequence[world.workloads.status[sequence] == Status.PENDING])


def test_without_a_lane_nobody_goes_ahead():
    assert laned([node(8)], [debug("a")], 0)[1] == []


def test_only_debug_workloads_go_ahead_of_any_allocation():
    work = [debug("over"), pending(1, leaf_budget="a", min_runtime_h=0.25), debug("a")]
    board, started = laned([node(8)], work, 8)
    assert sorted(started) == [0, 2]
    assert board.ahead == {0, 2}


def test_the_least_lane_use_goes_first_then_the_oldest_then_by_id():
    asks = [
        debug("a", submitted_h_ago=9),
        debug("a", submitted_h_ago=8),
        debug("b", submitted_h_ago=3),
        debug("b", submitted_h_ago=2),
        debug("c", submitted_h_ago=3),
    ]
    # a has the oldest; then b and c have used nothing, b's comes by id; then all have one
    assert laned([node(8)], asks, 5)[1] == [0, 2, 4, 1, 3]


def test_debug_work_that_runs_counts_as_lane_use_of_its_allocation():
    work = [busy(2, [0], "a"), debug("a", submitted_h_ago=9), debug("b", submitted_h_ago=1)]
    assert laned([node(8)], work, 3)[1] == [2]


def test_the_lane_is_as_large_as_it_is():
    asks = [debug("a", 3, submitted_h_ago=9), debug("b", 3, submitted_h_ago=8), debug("c", 1)]
    assert laned([node(8)], asks, 5)[1] == [0, 2]  # what is too large for the rest leaves it to others
    assert laned([node(8)], asks, 7)[1] == [0, 1, 2]
    assert laned([node(8)], [busy(4, [0]), *asks], 5)[1] == [3]


def test_debug_work_past_its_protection_fills_no_lane():
    past = running(4, [0], leaf_budget="a", min_runtime_h=0.25, started_h_ago=2, debug=True)
    assert laned([node(8)], [past, debug("b", 4)], 4)[1] == [1]


def test_a_limit_holds_in_the_lane_too():
    assert laned([node(8)], [debug("a", 2), debug("b", 2)], 8, limits={"a": 1})[1] == [1]


VICTIMS = {
    "unallocated": {"leaf_budget": "a", "allocated": False},
    "beyond": {"leaf_budget": "over", **PAST},
    "within": {"leaf_budget": "a", **PAST},
    "protected": {"leaf_budget": "over", "min_runtime_h": 8},
}


@pytest.mark.parametrize(
    ("there", "goes"),
    [
        (["within", "beyond", "unallocated"], "unallocated"),
        (["within", "beyond", "protected"], "beyond"),
        (["within", "protected", "protected"], "within"),
        (["protected", "protected", "protected"], None),
    ],
)
def test_victims_are_unallocated_work_then_beyond_its_share_then_within(there, goes):
    work = [running(8, [i], **VICTIMS[kind]) for i, kind in enumerate(there)]
    board, started = laned([node(8)] * 3, [*work, debug("over", 2)], 8)
    assert [there[r] for r in board.victims] == ([goes] if goes else [])
    assert started == ([3] if goes else [])


@pytest.mark.parametrize("other", ["beyond", "within"])
def test_unallocated_work_goes_first_however_much_of_it(other):
    work = [running(8, [0], **VICTIMS["unallocated"]), running(2, [1], **VICTIMS[other]), debug("a", 2)]
    board, started = laned([node(8), node(2)], work, 8)
    assert (started, list(board.victims)) == ([2], [0])


@pytest.mark.parametrize("turn", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_work_beyond_its_share_goes_only_where_unallocated_work_is_not_enough(turn):
    kinds = [("beyond", "beyond", "unallocated")[i] for i in turn]
    work = [running(1, [0], **VICTIMS[kind]) for kind in kinds]
    board, started = laned([node(3)], [*work, debug("over", 2)], 8)
    assert started == [3]
    assert sorted(kinds[r] for r in board.victims) == ["beyond", "unallocated"]


@pytest.mark.parametrize("starved", [0, 1])
def test_of_victims_that_cost_the_same_the_one_worth_least_goes(starved):
    leaves = ("a", "b") if starved == 0 else ("b", "a")
    work = [running(8, [i], leaf_budget=leaf, **PAST) for i, leaf in enumerate(leaves)]
    ratios = WORLD["ratios"] | {"a": 0.1}
    board, started = laned([node(8)] * 2, [*work, debug("over", 2)], 8, ratios=ratios)
    assert (started, list(board.victims)) == ([2], [1 - starved])


def test_free_places_come_before_victims():
    board, started = laned([node(8), node(2)], [running(8, [0], **VICTIMS["unallocated"]), debug("a", 2)], 8)
    assert (started, board.victims, board.starts) == ([1], {}, {1: [(1, 1)]})


def test_a_victim_whose_restart_costs_more_than_the_start_is_worth_stays():
    work = [running(1, range(8), **VICTIMS["within"]), debug("over", 1)]
    nodes = [node(1)] * 8
    # worth: 1 GPU at price 1 for 8 hours; restart: 8 GPUs for so many seconds
    assert laned(nodes, work, 8, restart_cost_s=3590)[1] == [1]
    assert laned(nodes, work, 8, restart_cost_s=3601)[1] == []


def test_the_brake_holds_in_the_lane_too():
    work = [running(8, [0], **VICTIMS["unallocated"]), debug("a", 2)]
    assert laned([node(8)], work, 8, max_preempted_gpus=7)[1] == []
    assert laned([node(8)], work, 8, max_preempted_gpus=8)[1] == [1]


def test_what_stands_already_is_not_started_again():
    world = state([node(8)], [debug("a")], lane_gpus=8, **WORLD)
    board = Board(world, order_of(world))
    board.start(0, [(0, 1)])
    assert run_lane(board, np.array([0])) == []
    assert board.order.tier[0] == WITHIN
