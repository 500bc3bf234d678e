import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings

from solver import cpsat
from tests.solver.linear_models import INF, brute_force, knapsacks, model, models

HARD = knapsacks(200, 30, seed=0)


def answering(monkeypatch, **response):
    """Let CP-SAT answer with this, whatever the model."""
    search = SimpleNamespace(
        set_parameters=lambda parameters: None, solve=lambda problem: SimpleNamespace(**response)
    )
    monkeypatch.setattr(cpsat.sat, "SolveWrapper", lambda: search)


@settings(max_examples=150)
@given(problem=models())
def test_the_answer_is_what_trying_every_point_finds(problem):
    best = brute_force(problem)
    answer = cpsat.solve(problem, time_limit_s=10, gap=0)
    assert answer.status == ("infeasible" if best == -INF else "optimal")
    assert answer.objective == pytest.approx(best, abs=1e-9)
    assert answer.bound >= best


def test_objectives_that_differ_in_the_twelfth_digit_are_told_apart():
    for better in (0, 1):
        objective = [1.0, 1.0]
        objective[better] += 1e-12
        answer = cpsat.solve(model(objective, [[1, 1]], row_upper=1), time_limit_s=5, gap=0)
        assert answer.x[better] == 1


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9, 1e15])
def test_the_bound_holds_at_every_size_of_objective(size):
    objective = size * np.array([1 / 3, math.pi, math.sqrt(2)])
    problem = model(objective, [[3, 5, 4]], upper=1000, row_upper=2999, offset=-size / 7)
    best = max(
        problem.value(np.array([a, b, (2999 - 3 * a - 5 * b) // 4], dtype=float))
        for b in range(590, 600)
        for a in range((2999 - 5 * b) // 3 + 1)
    )
    answer = cpsat.solve(problem, time_limit_s=10, gap=0)
    assert answer.status == "optimal"
    assert answer.objective == pytest.approx(best, rel=1e-12)
    assert best <= answer.bound <= best + 1e-9 * size * 1000


def test_a_column_fixed_at_a_huge_price_does_not_spoil_the_precision():
    for prices in ([1e12, 1e-5, 2e-5], [1e12, 2e-5, 1e-5]):
        problem = model(prices, [[1, 1, 1]], lower=[3, 0, 0], upper=[3, 1, 1], row_upper=4)
        answer = cpsat.solve(problem, time_limit_s=5, gap=0)
        assert answer.x[np.argmax(prices[1:]) + 1] == 1


def test_without_a_point_in_time_nothing_is_claimed():
    answer = cpsat.solve(HARD, time_limit_s=0, gap=0)
    assert (answer.status, answer.x, answer.bound) == ("unknown", None, INF)
    assert "within the time" in answer.note


def test_the_time_limit_is_kept_and_the_bound_is_above_the_point():
    answer = cpsat.solve(HARD, time_limit_s=1, gap=0)
    assert answer.seconds < 3
    assert answer.status == "feasible"
    assert answer.objective < answer.bound
    assert HARD.violation(answer.x) == 0


def test_a_bound_of_zero_before_the_proof_is_not_believed(monkeypatch):
    answering(monkeypatch, status=cpsat.sat.FEASIBLE, solution=[0], inner_objective_lower_bound=0)
    answer = cpsat.solve(model([-1.0], [[1]], row_upper=1), time_limit_s=5, gap=0)
    assert (answer.status, answer.bound) == ("feasible", INF)


def test_a_wrong_point_of_cp_sat_is_caught(monkeypatch):
    answering(monkeypatch, status=cpsat.sat.OPTIMAL, solution=[1, 1], inner_objective_lower_bound=-2)
    answer = cpsat.solve(model([1, 1], [[1, 1]], row_upper=1), time_limit_s=5, gap=0)
    assert (answer.status, answer.x) == ("unknown", None)
    assert "breaks the model" in answer.note


def test_a_model_too_large_for_whole_arithmetic_is_refused_with_the_reason():
    problem = model([1.0, 1.0], [[2.0**52, 2.0**52]], upper=2.0**52, row_upper=2.0**53)
    answer = cpsat.solve(problem, time_limit_s=5, gap=0)
    assert answer.status == "unknown"
    assert "overflow" in answer.note


def test_a_hint_neither_harms_nor_counts():
    problem = knapsacks(40, 8, seed=1)
    plain = cpsat.solve(problem, time_limit_s=20, gap=0)
    for hint in (plain.x, np.zeros(40), problem.upper):
        hinted = cpsat.solve(problem, time_limit_s=20, gap=0, start=hint)
        assert hinted.objective == pytest.approx(plain.objective)


def test_the_same_model_gives_the_same_point():
    problem = knapsacks(60, 10, seed=2)
    first, second = (cpsat.solve(problem, time_limit_s=30, gap=1e-3) for _ in range(2))
    assert first.status == "optimal"
    assert first.x.tolist() == second.x.tolist()
