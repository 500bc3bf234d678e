"""The greedy rung: in order, on free places first, for no more than a start is worth, and by the rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from solver.board import Board
from solver.greedy import eviction_cost, greedy, victims_for, worth
from solver.shares import ALLOCATED_VICTIM, BEYOND, UNALLOCATED, WITHIN
from tests.solver.banded import ASK, PAST, board_of, pending_of
from tests.solver.factories import node, pending, running
from tests.solver.oracles import TIERS, TierOracle, is_exact, tier_worlds, waiting


def run(nodes, workloads, **more) -> Board:
    board = board_of(nodes, workloads, **more)
    return greedy(board, pending_of(board))


def test_the_first_of_the_order_has_the_last_place():
    out = run([node(8)], [pending(8, leaf_budget="mid", **ASK), pending(8, leaf_budget="low", **ASK)])
    assert list(out.starts) == [1]


def test_what_is_smaller_starts_where_the_first_of_the_order_does_not_fit():
    work = [pending(8, 2, leaf_budget="low", **ASK), pending(8, leaf_budget="mid", **ASK)]
    assert list(run([node(8)], work).starts) == [1]


def test_free_places_come_before_victims():
    work = [running(8, [0], leaf_budget="over", **PAST), pending(8, leaf_budget="low", **ASK)]
    out = run([node(8), node(8)], work)
    assert (out.starts, out.victims) == ({1: [(1, 1)]}, {})


@pytest.mark.parametrize(
    ("victim", "asks", "yields"),
    [
        ({"leaf_budget": "high", **PAST}, "low", True),
        ({"leaf_budget": "mid", **PAST}, "low", True),
        ({"leaf_budget": "low", **PAST}, "low", False),  # of one band: nobody ranks clearly before
        ({"leaf_budget": "low", **PAST}, "mid", False),
        ({"leaf_budget": "over", **PAST}, "high", True),
        ({"leaf_budget": "high", **PAST}, "over", False),
        ({"leaf_budget": "low", "allocated": False}, "over", True),
        ({"leaf_budget": "over", "min_runtime_h": 8, "started_h_ago": 1}, "low", False),
    ],
)
def test_a_victim_ranks_after_whoever_it_makes_room_for(victim, asks, yields):
    out = run([node(8)], [running(8, [0], **victim), pending(8, leaf_budget=asks, **ASK)])
    assert (list(out.victims), list(out.starts)) == (([0], [1]) if yields else ([], []))


def test_nobody_is_evicted_for_less_than_it_costs():
    work = [running(8, [0], leaf_budget="mid", **PAST), pending(1, leaf_budget="low", **ASK)]
    out = run([node(8)], work)
    assert (out.starts, out.victims) == ({}, {})  # 1 GPU at price 10 against 8 at 2.5


def test_a_restart_that_costs_more_than_the_start_is_worth_is_not_paid():
    work = [running(8, [0], leaf_budget="over", **PAST), pending(8, leaf_budget="mid", **ASK)]
    hours = 1 / 0.4 * 8 / ALLOCATED_VICTIM
    assert list(run([node(8)], work, restart_cost_s=int(hours * 3600) - 60).starts) == [1]
    assert list(run([node(8)], work, restart_cost_s=int(hours * 3600) + 60).starts) == []


def test_unallocated_work_goes_before_work_beyond_its_share():
    work = [
        running(8, [0], leaf_budget="over", **PAST),
        running(8, [1], leaf_budget="low", allocated=False),
        pending(8, leaf_budget="low", **ASK),
    ]
    assert run([node(8), node(8)], work).victims == {1: WITHIN}


def test_the_brake_stops_an_eviction_that_is_too_large():
    work = [running(8, [0], leaf_budget="over", **PAST), pending(8, leaf_budget="low", **ASK)]
    assert list(run([node(8)], work, max_preempted_gpus=7).starts) == []
    assert list(run([node(8)], work, max_preempted_gpus=8).starts) == [1]


def test_a_limit_stops_a_start_though_there_is_room():
    work = [running(4, [0], leaf_budget="low", min_runtime_h=8), pending(8, leaf_budget="low", **ASK)]
    assert list(run([node(16)], work, limits={"low": 11}).starts) == []
    assert list(run([node(16)], work, limits={"low": 12}).starts) == [1]


def test_unallocated_work_is_not_the_business_of_this_rung():
    board = board_of([node(8)], [pending(8, allocated=False)])
    assert pending_of(board).tolist() == []


def test_the_cost_of_a_victim_is_its_restart_and_in_the_same_tier_its_worth_too():
    work = [
        running(4, [0], leaf_budget="high", **PAST),
        running(4, [0], leaf_budget="over", **PAST),
        running(4, [0], leaf_budget="low", allocated=False),
        pending(4, leaf_budget="low", **ASK),
        pending(4, leaf_budget="over", **ASK),
    ]
    board = board_of([node(16)], work, restart_cost_s=1800)
    own = [worth(board, r) for r in range(3)]
    within, beyond = eviction_cost(board, 3), eviction_cost(board, 4)
    assert within[0] == pytest.approx(4 * 0.5 + own[0])
    assert within[1] == pytest.approx(4 * 0.5 * ALLOCATED_VICTIM, rel=0.02)
    assert within[2] == pytest.approx(4 * 0.5, rel=0.02)
    assert beyond[1] == pytest.approx(4 * 0.5 + own[1])
    assert board.order.tier[:3].tolist() == [WITHIN, BEYOND, UNALLOCATED]


@pytest.mark.parametrize("hard", [0, 1])
@pytest.mark.parametrize("over", [False, True])
def test_of_two_victims_the_one_goes_that_loses_less(hard, over):
    leaf = "over" if over else "low"
    work = [
        running(
            4, [i], leaf_budget=leaf, allocated=over, min_runtime_h=1, started_h_ago=3, resumable=i != hard
        )
        for i in range(2)
    ]
    assert list(run([node(4)] * 2, [*work, pending(4, leaf_budget="low", **ASK)]).victims) == [1 - hard]


def test_what_a_victim_loses_does_not_keep_it():
    work = [running(4, [0], leaf_budget="over", min_runtime_h=1, started_h_ago=99, resumable=False)]
    assert list(run([node(4)], [*work, pending(4, leaf_budget="low", **ASK)]).victims) == [0]


@settings(max_examples=60)
@given(tier_worlds(resources=True))
def test_victims_are_standing_interruptible_and_rank_later_in_no_earlier_tier(board):
    order, protected = board.order, board.state.protected
    for j in pending_of(board).tolist():
        for r in np.flatnonzero(victims_for(board, j)).tolist():
            assert board.standing[r]
            assert not protected[r]
            assert order.band[r] > order.band[j]
            assert order.tier[r] >= order.tier[j]


@settings(max_examples=60)
@given(tier_worlds(resources=True))
def test_the_board_that_it_is_given_stays_as_it_was(board):
    before = (board.free_gpus.tolist(), board.standing.tolist(), dict(board.starts), dict(board.victims))
    greedy(board, pending_of(board))
    after = (board.free_gpus.tolist(), board.standing.tolist(), dict(board.starts), dict(board.victims))
    assert after == before


@settings(max_examples=60)
@given(tier_worlds(resources=True))
def test_no_node_limit_or_brake_is_overdrawn(board):
    out, b = greedy(board, pending_of(board)), board.state.budgets
    assert (out.free_gpus >= 0).all()
    assert (out.free_cpus >= 0).all()
    assert (out.free_memory >= 0).all()
    assert out.brake_room() >= 0
    limited = b.limit_gpus >= 0
    most = np.maximum(b.limit_gpus, out.held_before)
    assert (out.held_gpus <= most)[limited].all()


@settings(max_examples=60)
@given(tier_worlds())
def test_it_is_never_worth_more_than_the_best_of_all_plans(board):
    tier = next((t for t in TIERS if len(waiting(board, t))), WITHIN)
    js = waiting(board, tier)
    if len(js) and is_exact(board, tier):
        assert greedy(board, js).objective()[tier] <= TierOracle(board, tier, js).best() + 1e-6
