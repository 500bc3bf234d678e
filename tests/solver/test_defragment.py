"""Advice: the moves make room, throw away what they say, and touch nothing that is protected."""

from __future__ import annotations

import numpy as np
import pytest

from solver.decide import decide
from solver.defragment import Advice, advise
from solver.shares import losses_gpu_s
from solver.state import SolveParams
from tests.solver.factories import HOUR_S, node, pending, promise, running, state
from tests.solver.oracles import lawful
from tests.solver.seeded import random_state


def advice_in(world) -> tuple[list[Advice], object]:
    outcome = decide(world, SolveParams("greedy"))
    return advise(outcome.board), outcome


def scattered(**more):
    """Half of each of two nodes runs interruptible work that ranks before the gang of a whole node."""
    runs = [running(4, [n], min_runtime_h=1, started_h_ago=3, leaf_budget="b") for n in (0, 1)]
    return state(
        [node(8)] * 3, [*runs, running(4, [2], min_runtime_h=9, started_h_ago=1, leaf_budget="b"),
        pending(4, 2, min_runtime_h=1, leaf_budget="a", required="node")],
        usage_gpu_h={"a": 300.0}, **more,
    )  # fmt: skip


def test_a_run_could_go_on_elsewhere_and_make_a_node_whole():
    (advice,), _ = advice_in(scattered(reservations=0))
    assert advice.gang == 3
    assert advice.parts in ([(0, 2)], [(1, 2)])
    (move,) = advice.moves
    assert move.workload == advice.parts[0][0]
    assert len(move.to) == 1
    assert move.to[0][0] != advice.parts[0][0]
    assert move.lost_gpu_s == 4 * 600


def test_its_own_promise_is_not_in_the_way_of_a_gang():
    world = scattered(reservations=8, promises=[promise(3, 8, [2, 2])])
    (advice,), outcome = advice_in(world)
    assert 3 in outcome.board.promised
    assert advice.gang == 3


def held_on(n: int):
    """Keep a node for hours to come."""
    return running(8, [n], min_runtime_h=9, started_h_ago=1, leaf_budget="b")


def test_what_finds_no_other_place_is_said_to_wait():
    runs = [running(8, [n], min_runtime_h=1, started_h_ago=3, leaf_budget="b") for n in (0, 1)]
    world = state(
        [node(8)] * 4,
        [*runs, held_on(2), held_on(3), pending(8, 2, min_runtime_h=1, leaf_budget="a")],
        usage_gpu_h={"a": 300.0},
        reservations=0,
    )
    (advice,), _ = advice_in(world)
    assert [move.to for move in advice.moves] == [[], []]
    assert advice.lost_gpu_s == 2 * 8 * 600


def test_protected_work_is_never_moved():
    runs = [running(8, [0], min_runtime_h=9, started_h_ago=1, leaf_budget="b")]
    world = state([node(8)], [*runs, pending(4, 2, min_runtime_h=1, leaf_budget="a")], reservations=0)
    assert advice_in(world)[0] == []


def one_node_for(*others):
    """Let a gang of `a` wait for a node where work of `b` runs that ranks before it; `others` wait too."""
    moves = running(4, [0], min_runtime_h=1, started_h_ago=3, leaf_budget="b")
    gang = pending(2, 2, min_runtime_h=1, leaf_budget="a")
    nodes = [node(4), node(8)]
    return state(
        nodes, [moves, held_on(1), gang, *others], ratios={"a": 0.9, "b": 0.1}, reservations=0, lane_gpus=0
    )


def test_room_that_whoever_ranks_before_the_gang_would_take_is_no_advice():
    small = pending(1, min_runtime_h=1, leaf_budget="b")
    assert [a.gang for a in advice_in(one_node_for())[0]] == [2]
    assert advice_in(one_node_for(small))[0] == []
    assert [a.gang for a in advice_in(one_node_for(pending(1, min_runtime_h=1, leaf_budget="a")))[0]] == [2]


def test_a_place_that_a_start_of_the_same_plan_has_is_not_counted_as_free():
    gang = pending(4, 2, min_runtime_h=1, leaf_budget="a")
    moves = running(4, [0], min_runtime_h=1, started_h_ago=3, leaf_budget="b")
    work = [moves, held_on(2), gang, pending(4)]
    world = state([node(4), node(4), node(8)], work, ratios={"a": 0.9, "b": 0.1}, reservations=0)
    found, outcome = advice_in(world)
    assert outcome.board.starts == {3: [(1, 1)]}
    assert found == []


@pytest.mark.parametrize("first", [30, 70, 110])
def test_on_random_worlds_everybody_has_room_once_all_has_moved(first):
    advised = 0
    for seed in range(first, first + 40):
        world = random_state(seed)
        advice, outcome = advice_in(world)
        board, w = outcome.board, world.workloads
        for a in advice:
            advised += 1
            gone = [m.workload for m in a.moves]
            assert (board.interruptible & board.standing)[gone].all()
            assert [m.lost_gpu_s for m in a.moves] == losses_gpu_s(world)[gone].tolist()
            free = board.free_gpus.copy()
            for m in a.moves:
                for n, k in board.parts(m.workload):
                    free[n] += k * w.gpus_per_replica[m.workload] * bool(board.usable[n])
            for j, parts in ((a.gang, a.parts), *((m.workload, m.to) for m in a.moves if m.to)):
                counts = np.zeros(world.nodes.count, dtype=np.int64)
                for n, k in parts:
                    counts[n] += k
                    free[n] -= k * w.gpus_per_replica[j]
                assert counts.sum() == w.replicas[j]
                assert lawful(world, j, counts.tolist())
            assert (free >= 0).all()
    assert advised


def test_losses_are_never_more_than_has_been_done():
    world = scattered(reservations=0, restart_cost_s=9 * HOUR_S)
    (advice,), _ = advice_in(world)
    assert advice.lost_gpu_s == 4 * 3 * HOUR_S
