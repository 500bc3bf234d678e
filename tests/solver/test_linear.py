import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from solver.linear import Block, checked_answer, trivial_answer
from tests.solver.linear_models import INF, brute_force, model, models


def test_a_block_names_its_rows_by_family_and_labels():
    assert list(Block("fit", np.array([[0, 8], [3, -1]])).names()) == ["fit[0,8]", "fit[3,-1]"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"objective": [1], "rows": [[0.5]]}, "coefficients"),
        ({"objective": [1], "upper": 1.5}, "bounds of columns"),
        ({"objective": [1], "upper": INF}, "bounds of columns"),
        ({"objective": [math.nan]}, "objective"),
        ({"objective": [1], "offset": INF}, "objective"),
        ({"objective": [1], "rows": [[1]], "row_upper": 2.5}, "bounds of rows"),
        ({"objective": [1], "rows": [[1]], "row_lower": INF}, "bounds of rows"),
        ({"objective": [1], "rows": [[1]], "row_upper": math.nan}, "bounds of rows"),
    ],
)
def test_a_model_that_is_not_whole_cannot_be_made(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        model(**arguments)


def test_a_model_whose_sizes_disagree_cannot_be_made():
    good = model([1, 2], [[1, 1]], row_upper=1)
    for wrong in ({"upper": np.ones(3)}, {"row_upper": np.ones(2)}, {"rows": ()}, {"columns": ()}):
        with pytest.raises(ValueError, match="not a linear model"):
            type(good)(**{**good.__dict__, **wrong})


def test_duplicate_and_zero_entries_of_the_matrix_are_merged():
    good = model([1, 1], [[2, 3]], row_upper=9)
    parts = csr_array((np.array([1.0, 3.0, 1.0, 0.0]), np.array([0, 1, 0, 1]), np.array([0, 4])), (1, 2))
    same = type(good)(**{**good.__dict__, "matrix": parts})
    assert same.matrix.nnz == 2
    assert same.matrix.toarray().tolist() == [[2, 3]]


def test_violation_is_the_largest_amount_by_which_any_promise_is_broken():
    problem = model([1, 1], [[1, 2]], lower=0, upper=5, row_lower=1, row_upper=4)
    assert problem.violation(np.array([2.0, 1.0])) == 0
    assert problem.violation(np.array([5.0, 5.0])) == 11
    assert problem.violation(np.array([0.0, 0.0])) == 1
    assert problem.violation(np.array([-3.0, 3.0])) == 3
    assert problem.violation(np.array([2.0, 0.75])) == 0.25
    assert problem.violation(np.array([2.0])) == INF
    assert problem.violation(np.array([2.0, math.nan])) == INF


@given(models())
def test_trivial_answers_agree_with_trying_every_point(problem):
    answer = trivial_answer(problem)
    if answer is None:
        assert problem.matrix.nnz > 0
    else:
        assert answer.objective == pytest.approx(brute_force(problem), abs=1e-9)
        assert answer.bound >= answer.objective
        assert (answer.status == "infeasible") == (answer.x is None)


@pytest.mark.parametrize(
    "crossing",
    [model([1], lower=2, upper=1), model([1], [[1]], row_lower=1, row_upper=0)],
)
def test_crossing_bounds_are_infeasible(crossing):
    assert trivial_answer(crossing).status == "infeasible"


def test_whole_columns_come_back_exactly_whole():
    problem = model([1, 1], [[1, 1]], upper=5, row_upper=7)
    answer = checked_answer(problem, np.array([2.9999999, -1e-9]), 7.0, 0.0, 0.0)
    assert answer.x.tolist() == [3, 0]
    assert not np.signbit(answer.x).any()
    assert answer.objective == 3


def test_a_continuous_column_keeps_its_fraction_where_the_rows_allow_it():
    problem = model([1, 1], [[2, 1]], upper=5, row_upper=7, integer=[True, False])
    assert checked_answer(problem, np.array([1.0, 2.5]), 9.0, 0.0, 0.0).x.tolist() == [1, 2.5]


def test_a_continuous_column_that_misses_its_row_by_a_hair_is_rounded_with_it():
    problem = model([1, 1], [[64, -1]], upper=64, row_lower=0, row_upper=0, integer=[True, False])
    answer = checked_answer(problem, np.array([0.9999999, 63.9999936]), INF, 0.0, 0.0)
    assert answer.x.tolist() == [1, 64]


@pytest.mark.parametrize("point", [[1.0, 1.0], [2.0], [math.nan, 0.0]])
def test_a_point_that_breaks_the_model_is_no_answer(point):
    problem = model([1, 1], [[1, 1]], row_upper=1)
    answer = checked_answer(problem, np.array(point), 5.0, 0.1, 0.0)
    assert (answer.status, answer.x, answer.objective, answer.bound) == ("unknown", None, -INF, INF)
    assert answer.note


@given(
    objective=st.floats(-1e6, 1e6),
    bound=st.one_of(st.floats(-2e6, 2e6), st.sampled_from([INF, -INF, math.nan])),
    gap=st.floats(0, 0.5),
)
def test_optimal_means_that_the_bound_is_real_and_within_the_gap(objective, bound, gap):
    answer = checked_answer(model([0.0], offset=objective), np.zeros(1), bound, gap, 0.0)
    assert answer.bound >= answer.objective
    slack = 1e-6 * max(1, abs(objective))
    if answer.status == "optimal":
        assert objective - slack <= bound <= objective + gap * max(abs(bound), abs(objective)) + slack
    elif objective <= bound < INF:
        assert bound - objective > gap * max(abs(bound), abs(objective))


def test_a_bound_below_the_objective_proves_nothing():
    answer = checked_answer(model([1.0]), np.ones(1), 0.0, 0.5, 0.0)
    assert (answer.status, answer.bound) == ("feasible", INF)
