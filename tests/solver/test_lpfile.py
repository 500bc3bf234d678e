import highspy
import numpy as np
import pytest
from hypothesis import given, settings

from solver.linear import Block
from solver.lpfile import names, write_lp
from tests.solver.linear_models import INF, brute_force, model, models

GOLDEN = r"""\ offset 2.5
Maximize
 objective: + 1 y(0,1) - 0.125 y(0,2) + 1e-07 keep_run(m1)
Subject To
 fit(0,8): + 8 y(0,1) + 1 y(0,2) <= 64
 gang(1): + 1 y(0,1) - 2 keep_run(m1) = 0
 gang(2): + 1 y(0,2) >= -3
 gang(3): + 1 y(0,2) <= 2
 gang(3).low: + 1 y(0,2) >= 1
\ gang(4) is free
 gang(5): + 0 y(0,1) <= 0
Bounds
 0 <= y(0,1) <= 4
 0 <= y(0,2) <= 4
 -1 <= keep_run(m1) <= 1
General
 y(0,1) keep_run(m1)
End
"""


def named_model():
    plain = model(
        [1, -0.125, 1e-7],
        [[8, 1, 0], [1, 0, -2], [0, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]],
        lower=[0, 0, -1],
        upper=[4, 4, 1],
        row_lower=[-INF, 0, -3, 1, -INF, -INF],
        row_upper=[64, 0, INF, 2, INF, 0],
        integer=[True, False, True],
        offset=2.5,
    )
    rows = (Block("fit", np.array([[0, 8]])), Block("gang", np.arange(1, 6)[:, None]))
    columns = (Block("y", np.array([[0, 1], [0, 2]])), Block("keep run", np.array([[-1]])))
    return type(plain)(**{**plain.__dict__, "rows": rows, "columns": columns})


def test_the_text_of_a_model_shows_every_family_row_and_bound():
    assert write_lp(named_model()) == GOLDEN


def test_names_hold_nothing_that_a_solver_keeps_for_itself():
    blocks = [Block("y-z [a]", np.array([[-2, 3]])), Block("keep", np.array([[1]]))]
    assert names(blocks) == ["y_z__a_(m2,3)", "keep(1)"]


def test_long_rows_are_broken_into_lines_that_every_reader_takes():
    text = write_lp(model([1.0] * 500, [[1] * 500], row_upper=3))
    assert max(map(len, text.splitlines())) <= 110
    assert text.count("x(499)") == 4


@settings(max_examples=60)
@given(problem=models())
def test_another_program_that_reads_the_text_finds_the_same_optimum(problem, tmp_path_factory):
    best = brute_force(problem)
    if not problem.shape[1] or best == -INF:
        return
    path = tmp_path_factory.mktemp("lp") / "model.lp"
    path.write_text(write_lp(problem))
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) != highspy.HighsStatus.kError
    highs.run()
    assert highs.getObjectiveValue() + problem.offset == pytest.approx(best, abs=1e-5)
