"""Seats: all of an answer on a divisor chain, true sizes and resources always, and good company."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.overstatement import FAMILIES, measure
from solver import backends
from solver.board import Board
from solver.formulation import counts_of, evicted_of, first_of_each_class, formulate
from solver.problem import problem_of
from solver.reseat import reseat
from solver.seating import protection_ends, seat
from solver.shares import WITHIN
from solver.state import Status
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state
from tests.solver.oracles import (
    CHAINS,
    MIXED,
    TIERS,
    between_bands,
    is_exact,
    lawful,
    order_of,
    packs,
    tier_worlds,
    waiting,
)
from tests.solver.seeded import back_end

HIGHS = back_end("highs")
ASK = {"min_runtime_h": 1}
PLENTY = {"entitled_gpu_h": {"a": 10**6, "b": 10**6}}


def board_of(nodes, workloads, **more) -> Board:
    world = state(nodes, workloads, **PLENTY | more)
    return Board(world, order_of(world))


def solved(board: Board, tier: int, solve=None):
    """Solve a tier and seat the answer; return the seats and the worth that the model found."""
    f = formulate(problem_of(board, tier, waiting(board, tier)))
    solution = backends.solve(f.model, "highs", 20.0, 0.0, isolated=False)
    x = first_of_each_class(f, solution.x)
    return seat(f.problem, *counts_of(f, x), evicted_of(f, x), solve), solution.objective


def obeys(board: Board) -> bool:
    """Tell whether every start is whole and lawful, and no node is overdrawn."""
    n, w = board.state.nodes, board.state.workloads
    for j, parts in board.starts.items():
        counts = [sum(k for m, k in parts if m == i) for i in range(n.count)]
        if sum(counts) != w.replicas[j] or not lawful(board.state, j, counts):
            return False
        if any(n.state[i] or board.hold_s[i] < NOW_S + w.min_runtime_s[j] for i, k in enumerate(counts) if k):
            return False
    return bool(min(board.free_gpus.min(), board.free_cpus.min(), board.free_memory.min()) >= 0)


# --- completeness -----------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(tier_worlds(), st.sampled_from(TIERS))
def test_on_a_divisor_chain_everything_finds_a_seat_and_is_worth_what_the_model_says(board, tier):
    assume(is_exact(board, tier) and len(waiting(board, tier)))
    seated, objective = solved(board, tier)
    assert seated.unseated == []
    assert obeys(seated.board)
    assert seated.board.objective()[tier] == pytest.approx(objective, rel=1e-9, abs=1e-6)


@settings(max_examples=100)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=5),
    st.sampled_from(CHAINS).flatmap(lambda chain: st.lists(st.sampled_from(chain), min_size=1, max_size=8)),
)
def test_pieces_of_a_chain_find_a_seat_whenever_they_pack(free, pieces):
    held = [running(8 - f, [i], leaf_budget="b", min_runtime_h=8) for i, f in enumerate(free) if f < 8]
    board = board_of([node(8) for _ in free], [*held, *(pending(size, **ASK) for size in pieces)])
    assume(packs(free, pieces))
    problem = problem_of(board, WITHIN, waiting(board, WITHIN))
    gangs = np.array([len(m) for m in problem.classes.members])
    seated = seat(problem, gangs, gangs[:, None], np.zeros(0, dtype=np.int64))
    assert seated.unseated == []
    assert len(seated.board.starts) == len(pieces)


@settings(max_examples=80)
@given(
    st.one_of(tier_worlds(MIXED), tier_worlds(resources=True), tier_worlds(MIXED, resources=True)),
    st.sampled_from(TIERS),
    st.booleans(),
)
def test_off_the_chain_what_is_seated_is_lawful_and_what_is_not_is_told(board, tier, exactly):
    assume(len(waiting(board, tier)))
    f = formulate(problem_of(board, tier, waiting(board, tier)))
    x = first_of_each_class(f, backends.solve(f.model, "highs", 20.0, 0.0, isolated=False).x)
    gangs, pieces = counts_of(f, x)
    seated = seat(f.problem, gangs, pieces, evicted_of(f, x), HIGHS if exactly else None)
    assert obeys(seated.board)
    assert (len(seated.board.starts) < gangs.sum()) == bool(seated.unseated)
    assert all(0 < want.pieces <= pieces[want.c, want.d] for want in seated.unseated)


def test_a_domain_that_largest_first_does_not_fill_is_seated_exactly():
    asks = [pending(3, 2, **ASK), pending(2, 4, **ASK)]
    board = board_of([node(7), node(7)], asks)
    assert solved(board, WITHIN)[0].unseated
    seated, _ = solved(board, WITHIN, HIGHS)
    assert seated.unseated == []
    assert seated.board.free_gpus.tolist() == [0, 0]


@pytest.mark.parametrize(("size", "found"), [(2, True), (3, False)])
def test_exact_seating_finds_a_way_or_says_that_there_is_none(size, found):
    each = np.array([[3, 0, 0], [size, 0, 0]])
    seats = reseat(
        HIGHS,
        wanted=np.array([2, 4 if size == 2 else 3]),
        each=each,
        upto=np.array([1, 1]),
        room=np.array([[7, 7]]),
        free=np.full((2, 2), 10),
    )
    assert (seats is not None) == found
    if found:
        assert (each[:, 0] @ seats <= 7).all()


def test_what_finds_no_seat_in_its_domain_takes_one_in_another_of_its_gang():
    # Two domains of one pool; the model sees 8 + 5 free GPUs there, and 3 pieces of 4.
    nodes = [node(8), node(5)]
    board = board_of(nodes, [pending(4, 3, **ASK)])
    problem = problem_of(board, WITHIN, waiting(board, WITHIN))
    small = int(problem.domains.of_node[1])
    pieces = np.zeros((1, 2), dtype=np.int64)
    pieces[0, small], pieces[0, 1 - small] = 2, 1
    seated = seat(problem, np.array([1]), pieces, np.zeros(0, dtype=np.int64))
    assert seated.board.starts == {0: [(0, 2), (1, 1)]}


def test_off_the_chain_the_rows_overstate_less_than_one_percent_of_what_fits_in_the_mean():
    usual = next(family for family in FAMILIES if "mostly" in family.name)
    found = [measure(usual, seed) for seed in range(40)]
    assert all(m.proven and m.overstatement > -1e-6 for m in found)
    assert np.mean([m.overstatement for m in found]) < 0.01


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_what_is_overstated_is_lost_to_no_plan(family):
    found = [measure(family, seed) for seed in range(12)]
    assert np.mean([m.shortfall for m in found]) < 0.001
    assert min(m.shortfall for m in found) > -1e-6


# --- gangs ------------------------------------------------------------------------------------------------


def test_of_workloads_alike_the_first_of_the_order_have_the_seats():
    between = running(8, [2], leaf_budget="b", min_runtime_h=1, started_h_ago=2)
    asks = [pending(8, leaf_budget=leaf, **ASK) for leaf in ("b", "a", "b", "a")]
    board = board_of([node(8)] * 3, [between, *asks], ratios={"a": 0.1, "b": 0.6})
    problem = problem_of(board, WITHIN, waiting(board, WITHIN))
    assert [sorted(m.tolist()) for m in problem.classes.members] == [[2, 4], [1, 3]]
    last = np.array([0, 2])  # the solve gave the seats to the two of the later band
    seated = seat(problem, last, last[:, None], np.zeros(0, dtype=np.int64))
    assert sorted(seated.board.starts) == [2, 4]


def test_segments_of_several_gangs_stay_whole_where_a_domain_has_nodes_of_many_shapes():
    nodes = [node(g, leaf=leaf) for g, leaf in ((4, "l1"), (5, "l1"), (12, "l2"), (13, "l2"))]
    board = board_of(nodes, [pending(4, 4, required="leaf", segment=2, **ASK) for _ in range(2)])
    seated, _ = solved(board, WITHIN)
    assert sorted(seated.board.starts) == [0, 1]
    assert obeys(seated.board)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["l1", "l2", "l3"])), min_size=1, max_size=7),
    st.integers(1, 3),
    st.sampled_from([(2, 1), (4, 2), (4, 1), (6, 2), (6, 3)]),
)
def test_gangs_in_segments_are_seated_whole(drawn, count, shape):
    replicas, segment = shape
    nodes = [node(2 * slots + slots % 2, leaf=leaf) for slots, leaf in drawn]
    asks = [pending(2, replicas, required="leaf", segment=segment, **ASK) for _ in range(count)]
    seated, _ = solved(board_of(nodes, asks), WITHIN)
    assert seated.unseated == []
    assert obeys(seated.board)


def test_a_gang_on_one_node_stands_there_as_one_part():
    board = board_of([node(8), node(8)], [pending(2, 3, required="node", **ASK)])
    seated, _ = solved(board, WITHIN)
    assert [k for _, k in seated.board.starts[0]] == [3]


def test_a_piece_takes_no_seat_that_a_victim_ranking_before_it_has_given_up():
    seated, _ = solved(between_bands(), WITHIN)
    assert [want.pieces for want in seated.unseated] == [1]
    assert sorted(seated.board.starts) == [1, 2]


# --- company ----------------------------------------------------------------------------------------------


def test_a_small_piece_goes_where_it_leaves_the_least():
    held = [running(8 - f, [i], leaf_budget="b", min_runtime_h=8) for i, f in enumerate((8, 5, 3)) if f < 8]
    board = board_of([node(8)] * 3, [*held, pending(3, **ASK)])
    assert solved(board, WITHIN)[0].board.starts == {2: [(2, 1)]}


def test_of_nodes_left_alike_one_that_is_protected_as_long_anyway_is_taken():
    held = [
        running(4, [i], leaf_budget="b", min_runtime_h=1 + h, started_h_ago=1)
        for i, h in enumerate((1, 9, 3))
    ]
    board = board_of([node(8)] * 3, [*held, pending(4, min_runtime_h=4)])
    assert solved(board, WITHIN)[0].board.starts == {3: [(1, 1)]}


def test_cpus_and_memory_stop_a_seat_that_gpus_allow():
    nodes = [node(8, cpus=16, memory_gib=16)] * 2
    asks = [pending(1, cpus=10, **ASK), pending(1, memory_gib=10, cpus=10, **ASK), pending(1, cpus=6, **ASK)]
    seated, _ = solved(board_of(nodes, asks), WITHIN, HIGHS)
    assert len(seated.board.starts) == 3
    assert obeys(seated.board)


def test_when_protection_ends_on_a_node():
    work = [
        running(1, [0, 1], min_runtime_h=3, started_h_ago=1),
        running(1, [1], min_runtime_h=9, started_h_ago=1),
        running(1, [2], min_runtime_h=1, started_h_ago=1),
        pending(1, min_runtime_h=5),
        pending(1, allocated=False),
    ]
    board = board_of([node(8)] * 4, work)
    board.start(3, [(0, 1)])
    board.start(4, [(3, 1)])
    ends = protection_ends(board)
    assert ends[:3].tolist() == [NOW_S + 5 * HOUR_S, NOW_S + 8 * HOUR_S, 0]
    assert ends[3] <= NOW_S
    assert board.state.workloads.status[3] == Status.PENDING
