"""A place for one gang: found wherever a search over all places finds one, and always a lawful one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from solver.board import Board
from solver.evictable import Evictable
from solver.placing import choose, find_by_eviction, find_free, make_room
from solver.shares import WITHIN
from solver.state import Level, NodeState, Status
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state
from tests.solver.oracles import fits_somewhere, lawful, order_of, tier_worlds
from tests.solver.worlds import worlds


def board_of(nodes, workloads, **more) -> Board:
    world = state(nodes, workloads, **more)
    return Board(world, order_of(world))


PAST = {"min_runtime_h": 1, "started_h_ago": 5}


def nodes_of(parts) -> list[int]:
    return sorted(n for n, k in parts for _ in range(k))


def waits(board: Board) -> list[int]:
    return np.flatnonzero(board.state.workloads.status == Status.PENDING).tolist()


def obeys(board: Board, j: int, parts) -> bool:
    """Tell whether a place is whole, lawful and within what is free, holds included."""
    world, w = board.state, board.state.workloads
    counts = [0] * world.nodes.count
    for n, k in parts:
        counts[n] += k
    used = [i for i, k in enumerate(counts) if k]
    ends_s = world.now_s + int(w.min_runtime_s[j])
    return (
        sum(counts) == w.replicas[j]
        and lawful(world, j, counts)
        and all(world.nodes.state[i] == NodeState.UP for i in used)
        and all(not w.allocated[j] or ends_s <= board.hold_s[i] for i in used)
        and all(counts[i] * w.gpus_per_replica[j] <= board.free_gpus[i] for i in used)
        and all(counts[i] * w.cpus_milli[j] <= board.free_cpus[i] for i in used)
        and all(counts[i] * w.memory_bytes[j] <= board.free_memory[i] for i in used)
    )


# --- free places ------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(st.one_of(tier_worlds(resources=True), worlds().map(lambda w: Board(w, order_of(w)))))
def test_a_place_is_found_exactly_where_there_is_one(board):
    for j in waits(board):
        found = find_free(board, j)
        slots = board.free_slots(j)
        assert (found is not None) == fits_somewhere(board.state, j, slots.tolist())
        assert found is None or obeys(board, j, found)


@st.composite
def preferring(draw) -> tuple[Board, int]:
    """Draw a gang that requires one level and prefers another."""
    where = {"block": st.sampled_from(["b1", "b2"]), "leaf": st.sampled_from(["l1", "l2"])}
    sizes = draw(st.lists(st.sampled_from([4, 8, 16]), min_size=1, max_size=6))
    levels = st.sampled_from([None, "block", "leaf"])
    ask = pending(4, draw(st.integers(1, 4)), required=draw(levels), preferred=draw(levels))
    nodes = [node(g, **{level: draw(names) for level, names in where.items()}) for g in sizes]
    return board_of(nodes, [ask], levels=["block", "leaf"]), 0


@given(preferring())
def test_a_preference_never_costs_the_place_nor_breaks_what_is_required(drawn):
    board, j = drawn
    found = find_free(board, j)
    assert (found is not None) == fits_somewhere(board.state, j, board.free_slots(j).tolist())
    assert found is None or obeys(board, j, found)


@given(preferring())
def test_a_preferred_domain_is_taken_where_one_holds_the_whole_gang(drawn):
    board, j = drawn
    n, w = board.state.nodes, board.state.workloads
    level = int(w.preferred[j])
    assume(level >= 0)
    slots = board.free_slots(j)
    whole = [
        d
        for d in np.unique(n.domain[level])
        if fits_somewhere(board.state, j, np.where(n.domain[level] == d, slots, 0).tolist())
    ]
    if whole:
        assert len({int(n.domain[level, i]) for i, _ in find_free(board, j)}) == 1


def test_the_tightest_domain_that_holds_the_gang_is_taken():
    nodes = [node(leaf="l1")] * 3 + [node(leaf="l2")] * 2 + [node(leaf="l3")]
    board = board_of(nodes, [pending(8, 2, required="leaf"), pending(8, 2), pending(8, 4)])
    assert nodes_of(find_free(board, 0)) == [3, 4]
    assert nodes_of(find_free(board, 1)) == [3, 4]  # no leaf is required, and none is broken in two
    assert set(nodes_of(find_free(board, 2))) >= {0, 1, 2}  # the largest whole, the tightest for the rest


def test_a_piece_goes_to_the_node_that_is_left_with_the_least():
    held = [running(5, [1], **PAST), running(6, [2], **PAST)]
    board = board_of(
        [node(8)] * 3, [*held, pending(2), pending(3), pending(4), pending(1, 2, required="node")]
    )
    assert [nodes_of(find_free(board, j)) for j in (2, 3, 4, 5)] == [[2], [1], [0], [2, 2]]


def test_segments_fill_whole_domains_and_one_pool():
    nodes = [*([node(leaf="l1")] * 3), *([node(leaf="l2")] * 2), *([node(leaf="l3", gpu_type="b200")] * 9)]
    board = board_of(
        nodes, [pending(8, 4, required="leaf", segment=2), pending(8, 6, required="leaf", segment=2)]
    )
    first, second = (nodes_of(find_free(board, j)) for j in (0, 1))
    assert len([i for i in first if i < 3]) == 2
    assert [i for i in first if i >= 3] == [3, 4]
    assert all(i >= 5 for i in second)


def test_a_level_that_is_a_single_node_holds_all_replicas():
    board = board_of(
        [node(8), node(16)], [pending(4, 3, required="node"), pending(4, 4, required="node", segment=2)]
    )
    assert nodes_of(find_free(board, 0)) == [1, 1, 1]
    assert obeys(board, 1, find_free(board, 1))


def test_what_asks_for_no_gpus_finds_a_place_by_its_cpus():
    board = board_of([node(8, cpus=1), node(8, cpus=4)], [pending(0, 2, cpus=2), pending(0, 3, cpus=2)])
    assert nodes_of(find_free(board, 0)) == [1, 1]
    assert find_free(board, 1) is None


def test_slots_given_to_choose_are_all_it_uses():
    board = board_of([node(8)] * 3, [pending(8, 2)])
    assert nodes_of(choose(board, 0, np.array([1, 0, 1]))) == [0, 2]
    assert choose(board, 0, np.array([1, 0, 0])) is None


# --- by eviction ------------------------------------------------------------------------------------------


def costs(board: Board) -> np.ndarray:
    return board.state.workloads.gpus.astype(float)


def evictable(board: Board) -> np.ndarray:
    return board.standing & board.interruptible


def cleared(board: Board, victims) -> Board:
    trial = board.copy()
    for r in victims:
        trial.evict(r, WITHIN)
    return trial


@settings(max_examples=80)
@given(tier_worlds(resources=True), st.data())
def test_a_move_is_lawful_evicts_only_whom_it_may_and_nobody_that_it_does_not_need(board, data):
    may = (
        evictable(board)
        & np.array(data.draw(st.lists(st.booleans(), min_size=99, max_size=99)))[: len(board.standing)]
    )
    for j in waits(board):
        move = find_by_eviction(board, j, may, costs(board))
        if move is None:
            continue
        assert all(may[r] for r in move.victims)
        assert obeys(cleared(board, move.victims), j, move.parts)
        for r in move.victims:
            fewer = cleared(board, [v for v in move.victims if v != r])
            assert find_free(fewer, j) is None


@settings(max_examples=80)
@given(tier_worlds(resources=True))
def test_a_move_is_found_wherever_the_gang_fits_with_all_victims_gone(board):
    w, may = board.state.workloads, evictable(board)
    empty = cleared(board, np.flatnonzero(may))
    for j in waits(board):
        if w.segment[j] and w.required[j] != Level.NONE:
            continue  # segments are placed only where the nodes first chosen make whole ones
        fits = find_free(empty, j) is not None
        assert (find_by_eviction(board, j, may, costs(board)) is not None) == fits


def test_the_cheapest_node_makes_room():
    runs = [running(8, [i], allocated=False) for i in range(3)]
    board = board_of([node(8)] * 3, [*runs, pending(8), pending(8, 2)])
    cost = np.array([3.0, 1.0, 2.0, 0, 0])
    assert find_by_eviction(board, 3, evictable(board), cost).victims == [1]
    assert find_by_eviction(board, 4, evictable(board), cost).victims == [1, 2]


def test_one_victim_that_is_enough_goes_rather_than_several_that_cost_as_much():
    runs = [
        running(2, [0], allocated=False),
        running(2, [0], allocated=False),
        running(4, [0], allocated=False),
    ]
    board = board_of([node(8)], [*runs, pending(4)])
    assert find_by_eviction(board, 3, evictable(board), np.array([1.0, 1.0, 2.0, 0])).victims == [2]
    assert find_by_eviction(board, 3, evictable(board), np.array([0.5, 1.0, 2.0, 0])).victims == [0, 1]


def test_of_nodes_that_cost_the_same_the_one_where_least_is_freed_makes_room():
    wide, whole = running(4, [1, 2], allocated=False), running(8, [0], allocated=False)
    board = board_of([node(8), node(4), node(4)], [whole, wide, pending(1)])
    assert find_by_eviction(board, 2, evictable(board), costs(board)).victims == [1]


def test_allocated_work_that_ends_in_time_starts_on_nodes_held_for_others_first():
    short, long = (pending(8, min_runtime_h=h) for h in (1, 3))
    board = board_of([node(8)] * 2, [short, long, pending(8, allocated=False)])
    board.hold_s[1] = board.state.now_s + 2 * HOUR_S
    assert [find_free(board, j) for j in range(2)] == [[(1, 1)], [(0, 1)]]


def test_what_fits_beside_all_evicts_nobody():
    board = board_of([node(8)] * 2, [running(8, [0], allocated=False), pending(8)])
    move = find_by_eviction(board, 1, evictable(board), costs(board))
    assert (move.parts, move.victims) == ([(1, 1)], [])


@pytest.mark.parametrize("most", [7.9, 8.1])
def test_room_is_made_only_for_less_than_it_may_cost(most):
    board = board_of([node(8)], [running(8, [0], allocated=False), pending(2)])
    move = make_room(board, 1, Evictable(board, evictable(board), costs(board)), most)
    assert (move is not None) == (most > 8)


def test_a_gang_spread_wide_is_paid_for_once():
    runs = [
        running(8, [0, 1], allocated=False, started_h_ago=0),
        running(8, [2], allocated=False, started_h_ago=0),
        running(8, [3], allocated=False, started_h_ago=0),
    ]
    board = board_of([node(8)] * 4, [*runs, pending(8, 2)])
    assert find_by_eviction(board, 3, evictable(board), np.array([1.9, 2.0, 2.0, 0])).victims == [0]


@pytest.mark.parametrize("hours", [1, 3])
def test_no_move_uses_a_node_that_is_promised_too_soon(hours):
    board = board_of([node(8)], [running(8, [0], allocated=False), pending(8, min_runtime_h=2)])
    board.hold_s[0] = NOW_S + hours * HOUR_S
    move = find_by_eviction(board, 1, evictable(board), costs(board))
    assert (move is not None) == (hours == 3)
