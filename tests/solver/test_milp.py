import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import highspy
import numpy as np
import pytest
from hypothesis import given, settings

from solver import isolate, milp
from tests.solver.linear_models import INF, brute_force, knapsacks, model, models

HARD = knapsacks(200, 30, seed=0)


def use_threads(count):
    """Let somebody else run HiGHS in this thread, with that many threads."""
    highs = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", count), ("time_limit", 0.3)):
        highs.setOptionValue(option, value)
    highs.addVars(2, np.zeros(2), np.ones(2))
    highs.changeColsIntegrality(2, np.arange(2), np.array([highspy.HighsVarType.kInteger] * 2))
    assert highs.run() == highspy.HighsStatus.kOk
    return highs


@pytest.fixture
def other_pool():
    highspy.Highs.resetThreadScheduler(False)
    use_threads(2)
    yield
    highspy.Highs.resetThreadScheduler(False)


@settings(max_examples=150)
@given(problem=models())
def test_the_answer_is_what_trying_every_point_finds(problem):
    best = brute_force(problem)
    answer = milp.solve(problem, time_limit_s=10, gap=0)
    assert answer.status == ("infeasible" if best == -INF else "optimal")
    assert answer.objective == pytest.approx(best, abs=1e-6)
    assert answer.bound >= best - 1e-6 or best == -INF


def test_a_model_without_whole_columns_is_bounded_too():
    problem = model([1, 2], [[1, 1]], upper=[3, 4], row_upper=5, integer=False)
    answer = milp.solve(problem, time_limit_s=5, gap=0)
    assert (answer.status, answer.objective, answer.bound) == ("optimal", 9, 9)


@settings(max_examples=60)
@given(problem=models())
def test_within_bounds_it_finds_the_best_point_there_and_proves_nothing(problem):
    middle = np.floor((problem.lower + problem.upper) / 2)
    best = brute_force(replace(problem, upper=middle))
    answer = milp.solve(problem, time_limit_s=10, gap=0, within=(problem.lower, middle))
    if problem.matrix.nnz and best == -INF:
        assert (answer.status, answer.x) == ("unknown", None)
    elif problem.matrix.nnz:
        assert (answer.status, answer.bound) == ("feasible", INF)
        assert (answer.x <= middle + 1e-6).all()
        assert answer.objective == pytest.approx(best, abs=1e-6)


def test_what_is_relaxed_aside_leaves_no_trace():
    problem = knapsacks(30, 8, seed=3)
    relaxation = milp.Relaxation(problem, time.monotonic() + 60)
    relaxation.solve(problem.lower, problem.upper)
    before = relaxation.highs.getBasis()
    with relaxation.aside():
        relaxation.solve(problem.lower, np.minimum(problem.upper, 1))
        assert relaxation.highs.getBasis().col_status != before.col_status
    assert relaxation.highs.getBasis().col_status == before.col_status


def test_the_time_limit_is_kept_and_leaves_a_point_and_a_bound():
    answer = milp.solve(HARD, time_limit_s=0.5, gap=0)
    assert answer.seconds < 2
    assert answer.status == "feasible"
    assert answer.objective < answer.bound < INF
    assert HARD.violation(answer.x) == 0


def test_a_start_is_better_than_nothing_when_there_is_no_time():
    good = milp.solve(HARD, time_limit_s=0.5, gap=0)
    answer = milp.solve(HARD, time_limit_s=0, gap=0, start=good.x)
    assert answer.objective >= good.objective - 1e-6


def test_a_start_that_breaks_the_model_does_no_harm():
    problem = knapsacks(20, 8, seed=1)
    plain = milp.solve(problem, time_limit_s=5, gap=0)
    misled = milp.solve(problem, time_limit_s=5, gap=0, start=problem.upper + 1)
    assert misled.objective == pytest.approx(plain.objective)


def test_the_same_model_gives_the_same_point():
    problem = knapsacks(60, 10, seed=2)
    first, second = (milp.solve(problem, time_limit_s=20, gap=1e-3) for _ in range(2))
    assert first.status == "optimal"
    assert first.x.tolist() == second.x.tolist()


def test_a_wrong_point_of_highs_is_caught(monkeypatch):
    wrong = SimpleNamespace(col_value=[1.0, 1.0], row_dual=[0.0])
    monkeypatch.setattr(highspy.Highs, "getSolution", lambda self: wrong)
    answer = milp.solve(model([1, 1], [[1, 1]], row_upper=1), time_limit_s=5, gap=0)
    assert (answer.status, answer.x) == ("unknown", None)
    assert "breaks the model" in answer.note


def test_an_option_that_highs_refuses_is_an_error():
    with pytest.raises(RuntimeError, match="HiGHS refused"):
        milp.solve(model([1, 1], [[1, 1]], row_upper=1), time_limit_s=5, gap=-1)


@pytest.mark.usefixtures("other_pool")
def test_another_number_of_threads_in_this_process_is_no_obstacle():
    assert milp.solve(knapsacks(20, 8, seed=0), time_limit_s=5, gap=0).status == "optimal"


@pytest.mark.usefixtures("other_pool")
def test_a_child_of_a_process_with_a_pool_of_threads_solves():
    problem = knapsacks(20, 8, seed=0)
    outcome = isolate.run(lambda: milp.solve(problem, time_limit_s=5, gap=0), (), 8)
    assert outcome.value is not None, outcome.note
    assert outcome.value.status == "optimal"


def test_any_thread_may_solve():
    problem = knapsacks(20, 8, seed=0)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(milp.solve(problem, time_limit_s=5, gap=0)))
    thread.start()
    thread.join()
    assert answers[0].x.tolist() == milp.solve(problem, time_limit_s=5, gap=0).x.tolist()


def test_nothing_is_printed_even_in_a_fresh_process():
    script = """
from tests.solver.linear_models import knapsacks
from solver import milp
print(milp.solve(knapsacks(20, 8, 0), time_limit_s=5, gap=0).status)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("optimal\n", "")
