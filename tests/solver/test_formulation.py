"""The model of a tier against the best of all plans node by node, and every family of rows as an LP file."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from solver import backends
from solver.board import Board
from solver.decide import opening
from solver.exact import exact
from solver.formulation import counts_of, evicted_of, first_of_each_class, formulate
from solver.lpfile import write_lp
from solver.polish import polish
from solver.problem import problem_of
from solver.shares import WITHIN
from tests.solver.factories import node, pending, state
from tests.solver.golden_worlds import WORLDS, families_of, model_for, models_of
from tests.solver.oracles import (
    MIXED,
    TIERS,
    TierOracle,
    between_bands,
    is_exact,
    order_of,
    tier_worlds,
    waiting,
)
from tests.solver.seeded import back_end, random_state


def answer(board: Board, tier: int, name: str):
    """Return the model of a tier and its best point."""
    f = formulate(problem_of(board, tier, waiting(board, tier)))
    solution = backends.solve(f.model, name, 20.0, 0.0, isolated=False)
    assert solution.status == "optimal", solution.note
    return f, solution


def close(a: float, b: float) -> bool:
    return a == pytest.approx(b, rel=1e-6, abs=1e-6)


# --- the optimum ------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(tier_worlds(), st.sampled_from(TIERS))
def test_on_a_divisor_chain_highs_finds_the_best_of_all_plans(board, tier):
    assume(is_exact(board, tier) and len(waiting(board, tier)))
    best = TierOracle(board, tier, waiting(board, tier)).best()
    assert close(answer(board, tier, "highs")[1].objective, best)


@settings(max_examples=80)
@given(tier_worlds(), st.sampled_from(TIERS))
def test_on_a_divisor_chain_cp_sat_finds_the_best_of_all_plans(board, tier):
    assume(is_exact(board, tier) and len(waiting(board, tier)))
    best = TierOracle(board, tier, waiting(board, tier)).best()
    assert close(answer(board, tier, "cp-sat")[1].objective, best)


@settings(max_examples=80)
@given(tier_worlds(MIXED), st.sampled_from(TIERS))
def test_off_the_chain_the_model_refuses_no_plan(board, tier):
    assume(len(waiting(board, tier)))
    best = TierOracle(board, tier, waiting(board, tier)).best()
    assert answer(board, tier, "highs")[1].objective >= best - 1e-6 * max(1, abs(best))


@settings(max_examples=80)
@given(tier_worlds(resources=True), st.sampled_from(TIERS))
def test_with_cpus_and_memory_the_model_refuses_no_plan(board, tier):
    assume(len(waiting(board, tier)))
    best = TierOracle(board, tier, waiting(board, tier)).best()
    assert answer(board, tier, "highs")[1].objective >= best - 1e-6 * max(1, abs(best))


def test_where_a_victim_ranks_between_two_that_wait_the_model_may_promise_too_much():
    board = between_bands()
    assert not is_exact(board, WITHIN)
    js = waiting(board, WITHIN)
    promised = answer(board, WITHIN, "highs")[1].objective
    true = TierOracle(board, WITHIN, js).best()
    price = board.order.price[js] * 8
    assert promised == pytest.approx(2 * price[0] + price[1] + price[2] - 1 / 3)
    assert true == pytest.approx(2 * price[0] + price[1] - 1 / 3)


def test_and_filling_what_is_left_makes_up_for_it():
    board = between_bands()
    js = waiting(board, WITHIN)
    solved, _ = exact(board, js, back_end("highs"), time.monotonic() + 20, 0.0)
    assert sorted(polish(solved, js, js[:0]).starts) == [1, 2, 3]


# --- what the answer means --------------------------------------------------------------------------------


@settings(max_examples=60)
@given(tier_worlds(), st.sampled_from(TIERS))
def test_an_answer_read_back_is_as_good_whole_and_feasible(board, tier):
    assume(len(waiting(board, tier)))
    f, solution = answer(board, tier, "highs")
    x = first_of_each_class(f, solution.x)
    assert f.model.violation(x) <= 1e-6
    assert close(f.model.value(x), solution.objective)
    gangs, pieces = counts_of(f, x)
    assert (pieces.sum(axis=1) == gangs * f.problem.classes.pieces).all()
    assert gangs.sum() == x[f.columns.start].sum()
    assert set(evicted_of(f, x).tolist()) <= set(f.problem.victims.index.tolist())


def test_of_workloads_alike_the_better_priced_start():
    asks = [pending(8, min_runtime_h=1, submitted_h_ago=h) for h in (1, 9, 5)]
    world = state([node(8), node(8)], asks)
    board = Board(world, order_of(world))
    f, solution = answer(board, WITHIN, "highs")
    assert f.problem.classes.count == 1
    starts = f.problem.starters()[np.rint(solution.x[f.columns.start]) == 1]
    assert sorted(starts) == [1, 2]


# --- golden files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", WORLDS)
def test_each_family_of_rows_reads_as_its_golden_file(family, golden):
    golden(f"{family}.lp", write_lp(model_for(family)))


def test_no_model_has_a_family_without_a_golden_file():
    shown = set().union(*(families_of(model_for(family)) for family in WORLDS))
    seen = set()
    for seed in range(24):
        board, pending_ = opening(random_state(seed))
        models: list = []
        exact(board, pending_, back_end("highs", models), time.monotonic() + 20, 1e-4)
        seen = seen.union(*map(families_of, models))
    assert len(seen) > 10
    assert seen <= shown


@pytest.mark.parametrize("family", WORLDS)
def test_the_back_ends_agree_on_every_golden_model(family):
    world = WORLDS[family]
    for model in models_of(Board(world, order_of(world))):
        a, b = (backends.solve(model, name, 20.0, 0.0, isolated=False) for name in ("highs", "cp-sat"))
        assert close(a.objective, b.objective)
