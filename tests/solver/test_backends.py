import faulthandler
import itertools
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings

from solver import backends, cpsat, milp, modelers
from solver.linear import Solution, infeasible
from tests.solver.linear_models import INF, brute_force, knapsacks, model, models

TINY = model([2, 3], [[1, 1]], upper=5, row_upper=6)
EXACT = ("highs", "cp-sat", "cbc")


def abort(model, **how):
    faulthandler.disable()  # pytest's report of it is not what these tests are about
    os.abort()


def hang(model, **how):
    time.sleep(60)


def fail(model, **how):
    raise RuntimeError("the reason")


def claim_infeasible(model, **how):
    return infeasible(0.1)


def nonsense(model, **how):
    return 42


def wrong_point(model, **how):
    return Solution("optimal", np.full(2, 5.0), 25.0, 25.0, 0.1)


def wrong_objective(model, **how):
    return Solution("optimal", np.array([1.0, 0.0]), 17.0, 17.0, 0.1)


def run(script):
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )


@settings(max_examples=25)
@given(problem=models(max_columns=3, max_rows=3))
@pytest.mark.parametrize("name", [*EXACT, "auto"])
def test_every_back_end_finds_in_a_child_what_trying_every_point_finds(name, problem):
    best = brute_force(problem)
    answer = backends.solve(problem, name, 10, 0)
    assert answer.status == ("infeasible" if best == -INF else "optimal")
    assert answer.objective == pytest.approx(best, abs=1e-6)
    assert answer.bound >= answer.objective


@pytest.mark.parametrize("seed", range(3))
def test_back_ends_agree_within_the_gap(seed):
    problem = knapsacks(50, 8, seed)
    answers = [backends.solve(problem, name, 20, 1e-3) for name in EXACT]
    assert [a.status for a in answers] == ["optimal"] * 3, [a.note for a in answers]
    for one, other in itertools.permutations(answers, 2):
        assert one.bound >= other.objective - 1e-6
        assert one.objective >= other.objective * (1 - 1e-3) - 1e-6


@pytest.mark.parametrize("name", EXACT)
def test_a_child_answers_as_the_process_itself_does(name):
    problem = knapsacks(30, 6, seed=4)
    apart, here = (backends.solve(problem, name, 20, 1e-3, isolated=i) for i in (True, False))
    assert apart.x.tolist() == here.x.tolist()
    assert apart.backend == here.backend == name


@pytest.mark.parametrize(
    ("broken", "note"),
    [
        (abort, "highs: killed by signal 6"),
        (fail, "highs: RuntimeError: the reason"),
        (nonsense, "highs: answered with something else"),
        (wrong_point, "the solver's answer breaks the model by 4"),
    ],
)
@pytest.mark.parametrize("name", ["highs", "auto"])
def test_a_broken_highs_is_a_note_and_auto_asks_the_witness(monkeypatch, broken, note, name):
    monkeypatch.setattr(milp, "solve", broken)
    answer = backends.solve(TINY, name, 10, 0)
    assert answer.note == note
    if name == "auto":
        assert (answer.backend, answer.status, answer.objective) == ("cp-sat", "optimal", 17)
    else:
        assert (answer.backend, answer.status, answer.x) == ("highs", "unknown", None)


@pytest.mark.parametrize("broken", [fail, nonsense, wrong_point])
def test_a_broken_highs_is_a_note_in_this_process_too(monkeypatch, broken):
    monkeypatch.setattr(milp, "solve", broken)
    assert backends.solve(TINY, "highs", 10, 0, isolated=False).status == "unknown"
    assert backends.solve(TINY, "auto", 10, 0, isolated=False).objective == 17


def test_the_objective_and_the_proof_are_recomputed_from_the_point(monkeypatch):
    monkeypatch.setattr(milp, "solve", wrong_objective)
    answer = backends.solve(TINY, "highs", 10, 0.1)
    assert (answer.status, answer.objective, answer.bound) == ("feasible", 2, 17)


def test_highs_is_not_believed_alone_that_nothing_is_feasible(monkeypatch):
    monkeypatch.setattr(milp, "solve", claim_infeasible)
    assert backends.solve(TINY, "auto", 10, 0).objective == 17
    monkeypatch.setattr(cpsat, "solve", claim_infeasible)
    assert backends.solve(TINY, "auto", 10, 0).status == "infeasible"
    monkeypatch.setattr(cpsat, "solve", fail)
    answer = backends.solve(TINY, "auto", 10, 0)
    assert (answer.status, answer.backend) == ("infeasible", "highs")
    assert "cp-sat: RuntimeError" in answer.note


@pytest.mark.parametrize("name", ["highs", "auto"])
def test_a_hanging_back_end_costs_its_time_limit_and_a_little_grace(monkeypatch, name):
    monkeypatch.setattr(milp, "solve", hang)
    answer = backends.solve(TINY, name, 0.2, 0)
    assert answer.status == "unknown"
    assert answer.note.startswith("highs: no answer within")
    assert answer.seconds < 2.5


def test_a_broken_installation_is_a_note(monkeypatch):
    def broken(module):
        raise OSError("libhighs.so: cannot open")

    monkeypatch.setattr(backends.importlib, "import_module", broken)
    backends.warm(["auto"])
    answer = backends.solve(TINY, "highs", 1, 0)
    assert (answer.status, answer.note) == ("unknown", "libhighs.so: cannot open")


@pytest.mark.parametrize("isolated", [True, False])
def test_an_unknown_name_is_a_note_that_lists_the_known_ones(isolated):
    answer = backends.solve(TINY, "higgs", 1, 0, isolated=isolated)
    assert answer.status == "unknown"
    assert all(name in answer.note for name in backends.NAMES)


@pytest.mark.parametrize("name", modelers.NAMES)
def test_every_solver_behind_pulp_can_be_asked_for_by_name(name):
    answer = backends.solve(TINY, name, 10, 0)
    assert answer.backend == name
    assert answer.objective == 17 or "not installed or not licensed" in answer.note


def test_the_names_are_those_of_the_back_ends():
    assert set(backends.NAMES) == {"auto", "highs", "cp-sat", *modelers.NAMES}


def test_an_answer_worse_than_the_start_is_still_an_answer(monkeypatch):
    monkeypatch.setattr(milp, "solve", wrong_objective)
    answer = backends.solve(TINY, "highs", 10, 0, start=np.array([1.0, 5.0]))
    assert answer.x.tolist() == [1, 0]


def test_the_start_reaches_the_back_end(monkeypatch):
    def echo(model, *, time_limit_s, gap, start, **_):
        return Solution("feasible", start, model.value(start), INF, 0.0)

    monkeypatch.setattr(milp, "solve", echo)
    answer = backends.solve(TINY, "highs", 10, 0, start=np.array([2.0, 4.0]))
    assert answer.x.tolist() == [2, 4]


@pytest.fixture
def questions(monkeypatch):
    """HiGHS as one that finds 15 of 17 by branching, 17 where that was likely, and notes what it is asked."""
    asked = []
    part = (np.zeros(2), np.array([1.0, 5.0]))

    def answers(model, *, time_limit_s, gap, start, **how):
        asked.append((*how, None if start is None else start.tolist()))
        if "branching" in how:
            return Solution("feasible", np.array([0.0, 5.0]), 15.0, 17.0, 0.1, likely=(part,))
        if "within" in how:
            assert how["within"] is part
            return Solution("feasible", np.array([1.0, 5.0]), 17.0, INF, 0.1)
        return Solution("optimal", start, model.value(start), 17.0, 0.1)

    monkeypatch.setattr(milp, "solve", answers)
    return asked


def test_highs_looks_where_branching_found_it_likely_and_the_bound_of_branching_proves_it(questions):
    answer = backends.solve(TINY, "highs", 10, 0, isolated=False)
    assert (answer.status, answer.objective, answer.bound) == ("optimal", 17, 17)
    assert questions == [("branching", None), ("within", [0, 5])]


def test_a_bound_outlives_answers_without_a_point(monkeypatch):
    def knows_a_bound_only(model, *, branching=False, **_):
        return Solution("unknown", None, -INF, 18.0 if branching else INF, 0.1)

    monkeypatch.setattr(milp, "solve", knows_a_bound_only)
    answer = backends.solve(TINY, "highs", 10, 0, isolated=False)
    assert (answer.status, answer.x, answer.bound) == ("unknown", None, 18)


def test_what_is_proven_already_is_not_asked_again(questions):
    answer = backends.solve(TINY, "highs", 10, 0.2, isolated=False)
    assert (answer.status, answer.objective) == ("optimal", 15)
    assert questions == [("branching", None)]


def test_a_solver_that_is_not_used_is_not_imported():
    script = """
import sys
from solver import backends
def loaded(): return sorted({"highspy", "ortools", "pulp", "pandas"} & set(sys.modules))
print(loaded()); backends.warm(["highs"]); print(loaded()); backends.warm(["auto", "nobody"]); print(loaded())
"""
    done = run(script)
    assert done.stdout.splitlines() == ["[]", "['highspy']", "['highspy', 'ortools']"], done.stderr


def test_stdout_stays_clean_whichever_back_end_solves():
    script = """
from solver import backends
from tests.solver.linear_models import knapsacks
problem = knapsacks(20, 6, seed=0)
names = ("highs", "cp-sat", "cbc", "auto")
print({backends.solve(problem, n, 20, 0, isolated=i).status for n in names for i in (False, True)})
"""
    done = run(script)
    assert (done.stdout, done.stderr) == ("{'optimal'}\n", "")


@pytest.mark.parametrize("order", [1, -1])
def test_all_solvers_live_in_one_process_in_either_import_order(order):
    script = f"""
import importlib
for library in ["ortools.sat.python.cp_model", "highspy", "scipy.optimize", "pulp"][::{order}]:
    importlib.import_module(library)
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from solver import backends
from tests.solver.linear_models import knapsacks
problem = knapsacks(20, 6, seed=0)
values = [backends.solve(problem, n, 20, 0, isolated=False).objective for n in {EXACT}[::{order}]]
rows = LinearConstraint(problem.matrix, problem.row_lower, problem.row_upper)
found = milp(-problem.objective, constraints=rows, bounds=Bounds(problem.lower, problem.upper), integrality=1)
values.append(problem.offset - found.fun)
assert max(values) - min(values) < 1e-3, values
"""
    done = run(script)
    assert done.returncode == 0, done.stderr
