"""Small random linear models, and the exact answer to each by trying every point."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array

from solver.linear import Block, LinearModel

INF = math.inf


def model(
    objective, rows=(), lower=0, upper=1, row_lower=-INF, row_upper=INF, integer=True, offset=0.0
) -> LinearModel:
    """Make a model from lists; scalars are repeated."""
    n, m = len(objective), len(rows)

    def filled(value, size, dtype=float):
        return np.array(np.broadcast_to(value, size), dtype=dtype)

    return LinearModel(
        objective=np.array(objective, dtype=float),
        offset=offset,
        lower=filled(lower, n),
        upper=filled(upper, n),
        integer=filled(integer, n, bool),
        matrix=csr_array(np.array(rows, dtype=float).reshape(m, n)),
        row_lower=filled(row_lower, m),
        row_upper=filled(row_upper, m),
        rows=(Block("row", np.arange(m)[:, None]),),
        columns=(Block("x", np.arange(n)[:, None]),),
    )


def knapsacks(columns: int, rows: int, seed: int, density: float = 0.3, room: int = 60) -> LinearModel:
    """Make a model of the size at which solvers start to search."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 9, (rows, columns)) * (rng.random((rows, columns)) < density)
    return model(
        rng.random(columns) * 10, weights, upper=rng.integers(1, 5, columns), row_upper=room, offset=1.5
    )


@st.composite
def models(draw, max_columns: int = 4, max_rows: int = 4) -> LinearModel:
    """Draw a model with at most 256 points; its first column may be continuous.

    That column has coefficients of at most 1 in all rows, so it is whole in some optimum.
    """
    n, m = draw(st.integers(0, max_columns)), draw(st.integers(0, max_rows))
    lower = draw(st.lists(st.integers(-2, 2), min_size=n, max_size=n))
    width = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    values = st.one_of(st.integers(-5, 5), st.floats(-100, 100, width=32), st.floats(-1e-3, 1e-3))
    objective = draw(st.lists(values, min_size=n, max_size=n))
    entries = st.integers(-4, 4)
    rows = [draw(st.lists(entries, min_size=n, max_size=n)) for _ in range(m)]
    continuous = n > 0 and draw(st.booleans())
    if continuous:
        rows = [[max(-1, min(1, row[0])), *row[1:]] for row in rows]
    low = draw(st.lists(st.sampled_from([-INF, -3, 0, 1, 2]), min_size=m, max_size=m))
    room = draw(st.lists(st.sampled_from([0, 1, 4, INF]), min_size=m, max_size=m))
    high = [
        INF if math.isinf(a) and math.isinf(b) else (b if math.isinf(a) else a + b)
        for a, b in zip(low, room, strict=True)
    ]
    return model(
        objective,
        rows,
        lower,
        [a + b for a, b in zip(lower, width, strict=True)],
        low,
        high,
        [not continuous] + [True] * (n - 1) if n else True,
        draw(st.sampled_from([0.0, -7.25, 1000.5])),
    )


def brute_force(problem: LinearModel) -> float:
    """Return the best objective of all whole points; -inf where none is feasible."""
    ranges = [range(int(a), int(b) + 1) for a, b in zip(problem.lower, problem.upper, strict=True)]
    best = -INF
    for point in itertools.product(*ranges):
        x = np.array(point, dtype=float)
        activity = problem.matrix @ x
        if np.all(activity >= problem.row_lower) and np.all(activity <= problem.row_upper):
            best = max(best, problem.offset + float(problem.objective @ x))
    return best
