"""Branch and bound: right wherever it comes to an end, and honest wherever it is stopped."""

from __future__ import annotations

import itertools
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from solver import milp
from solver.branch import _Sides, branch, proven_bound
from tests.solver.linear_models import INF, brute_force, knapsacks, model, models

PLENTY = 10_000


def relax_with(problem):
    return milp.Relaxation(problem, time.monotonic() + 60).solve


@settings(max_examples=150)
@given(problem=models())
def test_left_alone_it_finds_what_trying_every_point_finds(problem):
    assume(problem.matrix.nnz)  # HiGHS leaves the rest to whoever asks
    found = branch(problem, relax_with(problem), 0.0, PLENTY)
    best = brute_force(problem)
    assert found.objective == pytest.approx(best, abs=1e-6)
    assert found.bound == pytest.approx(best, abs=1e-5)
    assert (found.x is None) == (best == -INF)
    assert found.x is None or problem.violation(found.x) <= 1e-6


@settings(max_examples=100)
@given(problem=models(), most=st.integers(0, 6))
def test_stopped_at_any_moment_it_claims_no_more_than_is_so(problem, most):
    found = branch(problem, relax_with(problem), 0.0, most)
    best = brute_force(problem)
    assert found.objective <= best + 1e-6
    assert found.bound >= best - 1e-6


@settings(max_examples=150)
@given(problem=models())
def test_without_details_it_claims_no_more_than_is_so(problem):
    assume(problem.matrix.nnz)
    found = branch(problem, relax_with(problem), 0.0, PLENTY, details=False)
    best = brute_force(problem)
    assert found.objective <= best + 1e-6
    assert found.bound >= best - 1e-6


@settings(max_examples=100)
@given(problem=models(), gap=st.sampled_from([0.0, 0.01, 0.3]))
def test_likely_parts_are_parts_of_the_model_and_the_smaller_lies_in_the_larger(problem, gap):
    found = branch(problem, relax_with(problem), gap, PLENTY)
    boxes = (*found.likely, (problem.lower, problem.upper))
    for (low, high), (wider_low, wider_high) in itertools.pairwise(boxes):
        assert (wider_low <= low).all()
        assert (low <= high).all()
        assert (high <= wider_high).all()


def test_what_a_gap_cannot_pay_stays_in_a_likely_part():
    """Two knapsacks: in the second one thing is worth all the others, and leaving it would break any gap."""
    rows = [[3.0, 3, 3, 0, 0], [0, 0, 0, 5, 5]]
    problem = model([5.0, 5, 5, 1000, 1], rows, upper=[1] * 5, row_upper=[5, 5])
    found = branch(problem, relax_with(problem), 0.001, PLENTY, details=False)
    for low, high in found.likely:
        assert (low[3], high[3]) == (1, 1)
        assert (low[:3] < high[:3]).any()
    assert found.likely


def test_a_whole_point_among_the_details_is_kept():
    problem = model([0.0, 1.0], [[0, -3]], lower=[0, -1], upper=[0, 0], row_lower=2, row_upper=3)
    assert branch(problem, relax_with(problem), 0.0, PLENTY).objective == -1


@settings(max_examples=200)
@given(problem=models(), up=st.booleans())
def test_a_column_that_rounding_leaves_alone_has_no_point_on_that_side(problem, up):
    assume(len(problem.objective))
    middle = (problem.lower + problem.upper) / 2
    goal = np.ceil(middle[0]) if up else np.floor(middle[0])
    first, side = np.array([0]), np.array([up])
    low, high = _Sides(problem).moved(first, side, middle, problem.lower, problem.upper)
    if (low[0] if up else high[0]) == goal:
        return
    bounds = {"lower": problem.lower.copy(), "upper": problem.upper.copy()}
    bounds["lower" if up else "upper"][0] = goal
    assert brute_force(replace(problem, **bounds)) == -INF


def test_rounding_off_is_done_aside():
    problem = knapsacks(20, 8, seed=1)
    inside, asides, calls = [False], [], []

    @contextmanager
    def aside():
        inside[0] = True
        yield
        inside[0] = False
        asides.append(len(calls))

    relax = relax_with(problem)
    branch(problem, lambda *b: (calls.append(inside[0]), relax(*b))[1], 0.0, 30, aside=aside)
    assert asides
    assert any(calls)
    assert not all(calls)


@settings(max_examples=60)
@given(problem=models(), most=st.integers(0, 6))
def test_a_clock_that_strikes_leaves_what_was_found_before(problem, most):
    relax, left = relax_with(problem), [most]

    def until_it_strikes(lower, upper):
        left[0] -= 1
        if left[0] < 0:
            raise TimeoutError
        return relax(lower, upper)

    struck = branch(problem, until_it_strikes, 0.0, PLENTY)
    stopped = branch(problem, relax_with(problem), 0.0, most)
    assert (struck.objective, struck.bound) == (stopped.objective, stopped.bound)


@settings(max_examples=100)
@given(
    models(max_columns=3),
    st.lists(st.floats(-50, 50), min_size=4, max_size=4),
)
def test_whatever_the_duals_their_bound_holds(problem, duals):
    bound = proven_bound(problem, np.array(duals[: problem.shape[0]]), problem.lower, problem.upper)
    assert bound >= brute_force(problem) - 1e-6


def test_a_gap_is_enough_when_it_is_reached():
    problem = knapsacks(60, 10, seed=2)
    used = []
    for gap in (0.2, 0.02):
        calls = []
        relax = relax_with(problem)
        found = branch(problem, lambda *b, r=relax, c=calls: (c.append(1), r(*b))[1], gap, PLENTY)
        assert found.bound - found.objective <= gap * found.bound
        used.append(len(calls))
    assert used[0] < used[1]


def test_a_feasible_start_is_a_floor_and_another_one_is_ignored():
    problem = knapsacks(20, 8, seed=1)
    good = branch(problem, relax_with(problem), 0.0, PLENTY)
    assert branch(problem, relax_with(problem), 0.0, 0, start=good.x).objective == good.objective
    assert branch(problem, relax_with(problem), 0.0, 0, start=problem.upper + 1).x is None


def test_what_sums_up_others_is_decided_first():
    """Twelve gangs in twelve places alike: it is how many that is fractional, and one branch settles it."""
    places, units = 12, 3
    total = [1.0] + [-1.0] * places
    room = [0.0] + [2.0 * units] * places
    problem = model(
        [5.0] + [0.0] * places,
        [total, room],
        upper=[places] + [1] * places,
        row_lower=[0, -INF],
        row_upper=[0, 7 * units],
        integer=[False] + [True] * places,
    )
    calls = []
    relax = relax_with(problem)
    found = branch(problem, lambda *b: (calls.append(1), relax(*b))[1], 0.0, PLENTY)
    assert found.objective == 15
    assert len(calls) <= 6
