"""The rows of domains and seas: what is bound to a leaf and what roams, against the best of all plans."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from solver import backends
from solver.board import Board
from solver.formulation import formulate
from solver.problem import problem_of
from solver.shares import WITHIN
from tests.solver.factories import node, pending, running, state
from tests.solver.linear_models import INF
from tests.solver.oracles import TierOracle, is_exact, order_of, waiting

WORLD = {"ratios": {"a": 0.3, "b": 0.6}, "entitled_gpu_h": {"a": 1000, "b": 1000}}
CHAIN = (1, 2, 4, 8)


def board_of(nodes, work) -> Board:
    world = state(nodes, work, **WORLD)
    return Board(world, order_of(world))


def best_of(board: Board) -> float:
    model = formulate(problem_of(board, WITHIN, waiting(board, WITHIN))).model
    answer = backends.solve(model, "highs", 20.0, 0.0, isolated=False)
    assert answer.status == "optimal"
    return answer.objective


@st.composite
def leafy_worlds(draw) -> Board:
    """Draw nodes of two leaves with holes and victims; gangs bound to a leaf, of pieces small and large, and
    pieces that roam."""
    nodes, work = [], []
    for n in range(draw(st.integers(2, 4))):
        nodes.append(node(8, leaf=draw(st.sampled_from(["l1", "l2"]))))
        left = 8
        for size in draw(st.lists(st.sampled_from([1, 2, 3, 4, 8]), max_size=2)):
            if size <= left:
                left -= size
                kind = draw(st.sampled_from(["held", "held", "free", "free", "past"]))
                more = {"held": {"min_runtime_h": 8}, "free": {"allocated": False}}
                past = {"min_runtime_h": 1, "started_h_ago": 5}
                work.append(running(size, [n], leaf_budget="b", **more.get(kind, past)))
    for _ in range(draw(st.integers(1, 4))):
        size, count = draw(st.sampled_from(CHAIN)), draw(st.integers(1, 6))
        bound = draw(st.booleans())
        work.append(
            pending(
                size,
                min(count, 16 // size) if bound else min(count, 3),
                required="leaf" if bound else None,
                leaf_budget="a" if bound else draw(st.sampled_from("ab")),
                min_runtime_h=1,
            )
        )
    return board_of(nodes, work)


@settings(max_examples=150)
@given(leafy_worlds())
def test_with_small_pieces_bound_to_leaves_the_model_finds_the_best_of_all_plans(board):
    assume(is_exact(board, WITHIN))
    best = TierOracle(board, WITHIN, waiting(board, WITHIN)).best()
    assert best_of(board) == pytest.approx(best, rel=1e-6, abs=1e-6)


@settings(max_examples=80)
@given(leafy_worlds())
def test_and_it_refuses_no_plan_whoever_ranks_between(board):
    best = TierOracle(board, WITHIN, waiting(board, WITHIN)).best()
    assert best_of(board) >= best - 1e-6 * max(1, abs(best))


def test_a_small_piece_in_each_leaf_leaves_no_room_for_a_large_one():
    nodes = [node(8, leaf="l1"), node(8, leaf="l2")]
    asks = [pending(1, 7, required="leaf", submitted_h_ago=9, min_runtime_h=1) for _ in range(2)]
    model = formulate(
        problem_of(
            board := board_of(nodes, [*asks, pending(8, min_runtime_h=1)]), WITHIN, waiting(board, WITHIN)
        )
    ).model
    everything = np.where([f.startswith("start") for b in model.columns for f in b.names()], 1, 0)
    assert best_of(board) < model.value(everything)


def test_a_gang_of_halves_in_one_leaf_takes_whole_nodes_for_what_fits_nowhere_beside():
    """Of four halves two fit beside what is held, the others break a node that a whole piece wants."""
    nodes = [*[node(8, leaf="l1")] * 3, node(8, leaf="l2")]
    held = [running(4, [n], leaf_budget="b", min_runtime_h=8) for n in (0, 1)]
    board = board_of(
        nodes, [*held, pending(4, 4, required="leaf", min_runtime_h=1), pending(8, min_runtime_h=1)]
    )
    f = formulate(problem_of(board, WITHIN, waiting(board, WITHIN)))
    rows = [name for b in f.model.rows for name in b.names()]
    columns = [name for b in f.model.columns for name in b.names()]
    row = next(i for i, name in enumerate(rows) if name.startswith("buddy") and name.split(",")[1] == "8")
    halves = next(
        i
        for i, c in zip(f.columns.place, f.columns.place_class, strict=True)
        if f.problem.classes.size[c] == 4
    )
    assert f.model.matrix[[row], :].toarray()[0, halves] == 1, (rows[row], columns[halves])
    assert f.model.row_upper[row] < INF
