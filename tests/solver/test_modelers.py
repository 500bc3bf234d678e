import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pulp
import pytest
from hypothesis import given, settings

from solver import isolate, modelers
from solver.lpfile import names
from tests.solver.linear_models import INF, brute_force, knapsacks, model, models
from tests.solver.test_isolate import soon

HARD = knapsacks(200, 30, seed=0)
TINY = model([2, 3], [[1, 1]], upper=5, row_upper=6)


def saying(monkeypatch, values, status, sol_status=None, after_s=0.0):
    """Let PuLP's wrapper bring these values and claims."""

    def solve(problem):
        time.sleep(after_s)
        for variable, value in zip(problem.variables(), values, strict=True):
            variable.varValue = value
        problem.assignStatus(status, sol_status)

    engine = SimpleNamespace(name="FAKE", actualSolve=solve)
    monkeypatch.setattr(modelers, "_engine", lambda *arguments: engine)


@settings(max_examples=50)
@given(problem=models())
def test_the_answer_of_cbc_is_what_trying_every_point_finds(problem):
    best = brute_force(problem)
    answer = modelers.solve(problem, time_limit_s=10, gap=0)
    assert answer.status == ("infeasible" if best == -INF else "optimal")
    assert answer.objective == pytest.approx(best, abs=1e-6)
    assert answer.bound >= best - 1e-6 or best == -INF


@pytest.mark.parametrize("solver", modelers.NAMES)
def test_every_solver_answers_or_says_what_to_install(solver):
    answer = modelers.solve(TINY, time_limit_s=10, gap=0, solver=solver)
    if answer.status == "unknown":
        assert "not installed or not licensed" in answer.note
        assert "pip install" in answer.note or "PATH" in answer.note
    else:
        assert (answer.status, answer.objective) == ("optimal", 17)


def test_cbc_is_always_there():
    assert modelers.solve(TINY, time_limit_s=10, gap=0, solver="cbc").x.tolist() == [1, 5]


def test_the_time_limit_is_kept_and_leaves_a_point():
    answer = modelers.solve(HARD, time_limit_s=1, gap=0)
    assert answer.seconds < 3
    assert answer.status == "feasible"
    assert HARD.violation(answer.x) == 0


def test_the_same_model_gives_the_same_point():
    problem = knapsacks(40, 8, seed=2)
    first, second = (modelers.solve(problem, time_limit_s=20, gap=1e-3) for _ in range(2))
    assert first.status == "optimal"
    assert first.x.tolist() == second.x.tolist()


def test_rows_and_columns_keep_the_names_of_their_families():
    ranged = model([1, 1], [[1, 1], [1, 2]], row_lower=[-INF, 1], row_upper=[1, 2])
    problem, variables = modelers._problem(ranged)
    assert [v.name for v in variables] == names(ranged.columns) == ["x(0)", "x(1)"]
    for row in ("row(0)", "row(1)", "row(1).low"):
        assert problem.get_constraint_by_name(row) is not None


def test_cbc_prints_nothing_and_leaves_no_file(monkeypatch, tmp_path, capfd):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    modelers.solve(TINY, time_limit_s=10, gap=0)
    assert (capfd.readouterr(), list(tmp_path.iterdir())) == (("", ""), [])


def test_cbc_killed_at_the_deadline_leaves_no_file_and_no_process(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    outcome = isolate.run(lambda: modelers.solve(HARD, time_limit_s=60, gap=0), (), 1.0)
    assert outcome.note == "no answer within 1.0 s"
    assert list(tmp_path.iterdir()) == []
    assert soon(lambda: not any(str(tmp_path) in command for command in commands()))


def commands():
    """Yield the command line of every process, with its arguments."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_text()


def test_a_wrong_point_is_caught(monkeypatch):
    saying(monkeypatch, [5.0, 5.0], pulp.LpStatusOptimal)
    answer = modelers.solve(TINY, time_limit_s=10, gap=0)
    assert (answer.status, answer.x) == ("unknown", None)
    assert "breaks the model" in answer.note


def test_optimal_when_the_time_was_up_is_not_believed(monkeypatch):
    saying(monkeypatch, [1.0, 1.0], pulp.LpStatusOptimal, after_s=0.2)
    answer = modelers.solve(TINY, time_limit_s=0.2, gap=0)
    assert (answer.status, answer.objective, answer.bound) == ("feasible", 5, INF)


def test_infeasible_when_the_time_was_up_is_not_believed(monkeypatch):
    saying(monkeypatch, [None, None], pulp.LpStatusInfeasible, after_s=0.2)
    assert modelers.solve(TINY, time_limit_s=0.2, gap=0).status == "unknown"


def test_infeasible_beside_a_feasible_point_is_not_believed(monkeypatch):
    saying(monkeypatch, [1.0, 1.0], pulp.LpStatusInfeasible)
    assert modelers.solve(TINY, time_limit_s=10, gap=0).status == "feasible"


def test_a_point_that_is_only_feasible_has_no_bound(monkeypatch):
    saying(monkeypatch, [1.0, 1.0], pulp.LpStatusOptimal, pulp.LpSolutionIntegerFeasible)
    answer = modelers.solve(TINY, time_limit_s=10, gap=0.1)
    assert (answer.status, answer.bound) == ("feasible", INF)


@pytest.mark.parametrize("offset", [0.0, -40.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_bound_of_a_claim_reaches_as_far_as_the_gap(monkeypatch, sign, offset):
    saying(monkeypatch, [1.0], pulp.LpStatusOptimal)
    worst = 100.0 * sign
    problem = model([worst], [[1]], row_upper=1, offset=offset)
    answer = modelers.solve(problem, time_limit_s=10, gap=0.2)
    reach = answer.bound - offset
    assert reach - worst == pytest.approx(0.2 * max(abs(reach), abs(worst)))


def test_a_wrapper_that_raises_is_a_note(monkeypatch):
    def fail(problem):
        raise pulp.PulpSolverError("no licence today")

    engine = SimpleNamespace(name="FAKE", actualSolve=fail)
    monkeypatch.setattr(modelers, "_engine", lambda *arguments: engine)
    answer = modelers.solve(TINY, time_limit_s=10, gap=0, solver="gurobi")
    assert answer.status == "unknown"
    assert answer.note == "gurobi: PulpSolverError: no licence today"


def test_the_bound_of_the_solvers_own_model_is_used_where_there_is_one(monkeypatch):
    saying(monkeypatch, [1.0, 5.0], pulp.LpStatusNotSolved)
    engine = modelers._engine()
    engine.name = "GUROBI"
    plain = engine.actualSolve

    def solve(problem):
        plain(problem)
        problem.solverModel = SimpleNamespace(ObjBound=17.0)

    engine.actualSolve = solve
    answer = modelers.solve(TINY, time_limit_s=10, gap=0)
    assert (answer.status, answer.bound) == ("optimal", 17)


def test_columns_that_never_reach_the_solver_stay_at_their_lower_bound():
    problem = model([1, 0], [[1, 0]], lower=[0, 2], upper=3, row_upper=3)
    assert modelers.solve(problem, time_limit_s=10, gap=0).x.tolist() == [3, 2]
    assert np.isfinite(modelers.solve(problem, time_limit_s=10, gap=0).bound)
