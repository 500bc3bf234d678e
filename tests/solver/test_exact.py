"""The exact rung: as good as the best of all plans, never behind greedy, and honest about what it proved."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings

from solver import backends
from solver.board import Board
from solver.decide import opening
from solver.exact import exact
from solver.formulation import formulate
from solver.greedy import greedy
from solver.linear import Solution, infeasible, no_answer
from solver.polish import polish
from solver.problem import problem_of
from solver.shares import BEYOND, WITHIN
from solver.state import State
from tests.solver.banded import ASK, BANDS, PAST, SHARES, board_of, pending_of
from tests.solver.factories import node, pending, running, state
from tests.solver.oracles import TIERS, TierOracle, is_exact, order_of, tier_worlds, waiting
from tests.solver.seeded import GAP, back_end, instance_state, random_state


def solved(board: Board, js=None, solve=None, gap: float = 1e-9, seconds: float = 60):
    js = pending_of(board) if js is None else js
    return exact(board, js, solve or back_end("highs"), time.monotonic() + seconds, gap)


def behind(a: tuple[float, ...], b: tuple[float, ...], gap: float) -> bool:
    """Tell whether objective `a` is below `b`, tier by tier, by more than the gap."""
    for x, y in zip(a, b, strict=True):
        if abs(x - y) > gap * max(abs(x), abs(y), 1.0):
            return x < y
    return False


# --- the best -----------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(tier_worlds())
def test_on_a_divisor_chain_the_first_tier_is_as_good_as_the_best_of_all_plans(board):
    tier = next((t for t in TIERS if len(waiting(board, t))), WITHIN)
    js = waiting(board, tier)
    assume(len(js) and is_exact(board, tier))
    best = TierOracle(board, tier, js).best()
    out, report = solved(board)
    assert report.bounds.get(tier, np.inf) >= best - 1e-6 * max(1, abs(best))
    assert polish(out, pending_of(board), js[:0]).objective()[tier] >= best - 1e-6 * max(1, abs(best))


@settings(max_examples=80)
@given(tier_worlds((1, 2, 3, 4, 5), resources=True))
def test_no_tier_is_worth_more_than_its_bound(board):
    js = pending_of(board)
    assume(len(js))
    out, report = solved(board)
    if WITHIN in report.bounds and len(waiting(board, BEYOND)) == 0:
        value = out.objective()[WITHIN]
        assert value <= report.bounds[WITHIN] + 1e-6 * max(1, abs(value))


@pytest.mark.parametrize("name", ["highs", "cp-sat"])
def test_on_random_worlds_it_is_never_behind_greedy(name):
    for seed in range(70):
        board, js = opening(random_state(seed))
        ours, _ = solved(board, js, back_end(name), gap=GAP)
        ours, theirs = (polish(b, js, js[:0]).objective()[:2] for b in (ours, greedy(board, js)))
        assert not behind(ours, theirs, 1e-5), seed


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_the_back_ends_agree_on_a_cluster_in_mid_flight(seed):
    gap = 1e-4
    board, js = opening(instance_state(16, 60, seed))
    for tier in TIERS:
        mine = js[board.order.tier[js] == tier]
        model = formulate(problem_of(board, tier, mine)).model
        a, b = (backends.solve(model, name, 30.0, gap, isolated=False) for name in ("highs", "cp-sat"))
        assert a.status == b.status == "optimal"
        assert abs(a.objective - b.objective) <= gap * max(abs(a.objective), abs(b.objective))
        assert max(a.objective, b.objective) <= min(a.bound, b.bound) * (1 + 1e-9)


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_plans_of_both_back_ends_are_worth_the_same_and_more_than_greedy(seed):
    board, js = opening(instance_state(16, 60, seed))
    a, b = (polish(solved(board, js, back_end(name), 1e-4)[0], js, js[:0]) for name in ("highs", "cp-sat"))
    g = polish(greedy(board, js), js, js[:0])
    assert a.objective()[0] == pytest.approx(b.objective()[0], rel=1e-3)
    assert not behind(a.objective(), g.objective(), 1e-4)
    assert not behind(b.objective(), g.objective(), 1e-4)


# --- whom and for whom --------------------------------------------------------------------------------------


def test_of_two_alike_the_earlier_of_the_order_has_the_place_whatever_the_gap():
    work = [pending(8, leaf_budget="low", submitted_h_ago=h, **ASK) for h in (2, 9, 5)]
    out, _ = solved(board_of([node(8)], work), gap=0.1)
    assert list(out.starts) == [1]


def test_work_within_its_share_is_served_before_work_beyond_that_would_fill_more():
    work = [pending(1, leaf_budget="high", **ASK), pending(8, leaf_budget="over", **ASK)]
    out, _ = solved(board_of([node(8)], work))
    assert list(out.starts) == [0]


def test_what_an_earlier_tier_keeps_a_later_one_does_not_displace():
    work = [running(8, [0], leaf_budget="high", **PAST), pending(8, leaf_budget="over", **ASK)]
    out, _ = solved(board_of([node(8)], work))
    assert (out.starts, out.victims) == ({}, {})


def test_among_later_victims_of_one_size_the_one_worth_least_goes():
    work = [
        running(8, [0], leaf_budget="over", submitted_h_ago=9, **PAST),
        running(8, [1], leaf_budget="over", submitted_h_ago=5, **PAST),
        pending(8, leaf_budget="low", **ASK),
    ]
    board = board_of([node(8)] * 2, work)
    assert board.order.price[0] > board.order.price[1]
    assert solved(board)[0].victims == {1: WITHIN}


def test_unallocated_work_goes_before_work_beyond_its_share():
    work = [
        running(8, [0], leaf_budget="over", **PAST),
        running(8, [1], leaf_budget="low", allocated=False),
        pending(8, leaf_budget="low", **ASK),
    ]
    assert solved(board_of([node(8)] * 2, work))[0].victims == {1: WITHIN}


def test_a_gang_is_traded_for_smaller_work_that_is_worth_more_together():
    work = [
        pending(8, 2, leaf_budget="mid", **ASK),
        pending(8, leaf_budget="low", **ASK),
        pending(4, leaf_budget="mid", submitted_h_ago=1, **ASK),
        pending(4, leaf_budget="mid", submitted_h_ago=1, **ASK),
    ]
    board = board_of([node(8)] * 2, work)
    assert sorted(solved(board)[0].starts) == [1, 2, 3]


# --- when a solver fails ------------------------------------------------------------------------------------


def failing(answer: Solution, after: int = 0):
    """Return a back end that answers so from the given call on."""
    calls = iter(range(10**6))

    def solve(model, time_limit_s, gap, start=None):
        return answer if next(calls) >= after else back_end("highs")(model, time_limit_s, gap, start)

    return solve


@pytest.mark.parametrize("answer", [no_answer("the child died"), infeasible(0.0, "no point exists")])
def test_a_tier_without_an_answer_is_served_greedily_and_the_report_says_why(answer):
    board, js = opening(random_state(8))
    assert len(js)
    out, report = solved(board, js, failing(answer))
    assert report.notes
    assert report.notes[0] == answer.note
    assert out.objective()[:2] == pytest.approx(greedy(board, js).objective()[:2])


@settings(max_examples=40)
@given(tier_worlds((1, 2, 3, 4, 5), resources=True))
def test_wherever_the_back_end_gives_up_there_is_a_lawful_board(board):
    js = pending_of(board)
    assume(len(js))
    for after in range(4):
        out, _ = solved(board, js, failing(no_answer("gone"), after))
        assert min(out.free_gpus.min(), out.free_cpus.min(), out.free_memory.min()) >= 0
        assert not behind(out.objective()[:1], greedy(board, js).objective()[:1], 1e-9)


def test_without_pending_work_nothing_is_solved():
    board = board_of([node(8)], [running(8, [0], leaf_budget="over", **PAST)])
    out, report = solved(board)
    assert (out.starts, report.bounds, report.notes) == ({}, {}, [])


# --- what is asked of a solver ------------------------------------------------------------------------------


def asked(world: State, gap: float, seconds: float) -> list[tuple[float, float, float]]:
    """Return time limit, gap and the most that the model could be worth, of every solve."""
    seen = []

    def solve(model, time_limit_s, gap, start=None):
        most = model.offset + float(np.maximum(model.objective, 0) @ model.upper)
        seen.append((time_limit_s, gap, most))
        return back_end("highs")(model, time_limit_s, gap, start)

    solved(Board(world, order_of(world)), solve=solve, gap=gap, seconds=seconds)
    return seen


def test_the_gap_is_no_more_than_that_share_of_the_cluster_at_price_one():
    starved = {
        "ratios": {"low": 0.0, "mid": 0.9},
        "entitled_gpu_h": dict.fromkeys(SHARES, 10**6),
        "shares": SHARES,
    }
    work = [pending(8, leaf_budget=leaf, **ASK) for leaf in ("low", "mid", "mid")]
    _, gap, most = asked(state([node(8)] * 2, work, **starved), 0.01, 60)[0]
    assert most > 8 * 8 * 1000  # the starved start alone
    assert gap * most <= 0.01 * 16 * 8 * (1 + 1e-9)


def test_the_first_tier_leaves_time_for_the_second():
    work = [pending(8, leaf_budget=leaf, **ASK) for leaf in ("low", "over")]
    limits = [limit for limit, _, _ in asked(state([node(8)] * 2, work, **BANDS), 1e-3, 10)]
    assert 0 < limits[0] <= 8
    assert all(limit <= 10 for limit in limits)
    assert max(limits[1:]) > limits[0]
