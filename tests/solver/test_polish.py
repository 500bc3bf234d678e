"""The polish: no victim without need, nothing idle that somebody could use."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.board import Board
from solver.decide import decide
from solver.greedy import greedy
from solver.placing import find_free
from solver.polish import fill, fill_unallocated, give_back, polish, spare_victims
from solver.shares import WITHIN
from solver.state import FOREVER_S, SolveParams, Status
from tests.solver.banded import ASK, PAST, board_of
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running
from tests.solver.oracles import tier_worlds
from tests.solver.seeded import random_state


def waits(board: Board) -> tuple[np.ndarray, np.ndarray]:
    """Return pending allocated work in order, and unallocated."""
    w, sequence = board.state.workloads, board.order.sequence
    pending_ = w.status == Status.PENDING
    return sequence[pending_[sequence]], np.flatnonzero(pending_ & ~w.allocated)


def evicted(board: Board, *victims: int) -> Board:
    for r in victims:
        board.evict(r, WITHIN)
    return board


# --- victims ----------------------------------------------------------------------------------------------


def test_a_victim_that_nobody_needs_is_given_back():
    board = evicted(board_of([node(8)], [running(8, [0], leaf_budget="over", **PAST)]), 0)
    give_back(board)
    assert board.victims == {}
    assert board.standing[0]


def test_of_two_victims_with_one_place_the_best_of_the_order_has_it():
    runs = [running(4, [0], leaf_budget=leaf, **PAST) for leaf in ("over", "high", "mid")]
    work = [*runs, running(4, [0], allocated=False), pending(12, leaf_budget="low", **ASK)]
    board = evicted(board_of([node(16)], work), 0, 1, 2, 3)
    board.start(4, [(0, 1)])
    give_back(board)
    assert sorted(board.victims) == [0, 1, 3]


def test_a_victim_stays_where_its_place_is_taken_on_any_of_its_nodes():
    work = [running(4, [0, 1], leaf_budget="over", **PAST), pending(8, leaf_budget="low", **ASK)]
    board = evicted(board_of([node(8), node(8)], work), 0)
    board.start(1, [(1, 1)])
    give_back(board)
    assert list(board.victims) == [0]


def test_a_victim_is_spared_where_its_gainers_fit_elsewhere():
    work = [
        running(8, [0], leaf_budget="over", **PAST),
        pending(4, leaf_budget="low", **ASK),
        pending(4, leaf_budget="mid", **ASK),
    ]
    board = evicted(board_of([node(8), node(4), node(4)], work), 0)
    board.start(1, [(0, 1)])
    board.start(2, [(0, 1)])
    spare_victims(board)
    assert board.victims == {}
    assert sorted(n for parts in board.starts.values() for n, _ in parts) == [1, 2]


def test_a_victim_is_not_spared_where_one_of_its_gainers_has_nowhere_to_go():
    work = [
        running(8, [0], leaf_budget="over", **PAST),
        pending(4, leaf_budget="low", **ASK),
        pending(4, leaf_budget="mid", **ASK),
    ]
    board = evicted(board_of([node(8), node(4)], work), 0)
    board.start(1, [(0, 1)])
    board.start(2, [(0, 1)])
    spare_victims(board)
    assert list(board.victims) == [0]
    assert sorted(board.starts) == [1, 2]


def test_sparing_one_victim_gives_back_others_that_this_makes_room_for():
    work = [
        running(4, [0], leaf_budget="mid", **PAST),
        running(4, [0, 1], leaf_budget="over", **PAST),
        pending(4, 2, leaf_budget="low", **ASK),
    ]
    board = evicted(board_of([node(8), node(8), node(8)], work), 0, 1)
    board.start(2, [(0, 2)])
    spare_victims(board)
    assert board.victims == {}


def test_who_has_started_keeps_what_it_was_promised_until_nobody_is_taken_back_any_more():
    late = pending(8, min_runtime_h=9, leaf_budget="low")
    work = [running(8, [0], leaf_budget="over", **PAST), pending(8, leaf_budget="low", **ASK), late]
    board = evicted(board_of([node(8), node(8)], work), 0)
    board.promise(1, NOW_S + 900, [(1, 1)])
    board.start(1, [(0, 1)])
    spare_victims(board)
    assert board.starts == {1: [(1, 1)]}
    assert board.hold_s.tolist() == [FOREVER_S, NOW_S + 900]
    assert not board.free_slots(2).any()


def test_at_last_its_nodes_are_free_for_others():
    late = pending(8, min_runtime_h=9, leaf_budget="low")
    board = board_of([node(8), node(8)], [pending(8, leaf_budget="low", **ASK), late])
    board.promise(0, NOW_S + 900, [(1, 1)])
    board.start(0, [(0, 1)])
    polish(board, np.array([1]), np.array([], dtype=np.int64))
    assert board.starts == {0: [(0, 1)], 1: [(1, 1)]}
    assert (board.hold_s == FOREVER_S).all()


def test_a_victim_whose_gainer_moved_to_spare_another_one_has_its_place_back_from_who_ranks_behind():
    work = [
        running(4, [0], leaf_budget="mid", **PAST),
        running(4, [0, 1], leaf_budget="high", **PAST),
        running(4, [1], min_runtime_h=8),
        pending(8, leaf_budget="low", **ASK),
        pending(4, leaf_budget="over", **ASK),
    ]
    board = evicted(board_of([node(8), node(8), node(8)], work), 0, 1)
    board.start(3, [(0, 1)])  # both made room for this one, which could have stood on the last node
    board.start(4, [(1, 1)])
    polish(board, *waits(board))
    assert board.victims == {}
    assert board.starts == {3: [(2, 1)]}


def test_a_victim_is_not_spared_where_work_of_an_earlier_tier_could_start():
    work = [
        running(8, [0], leaf_budget="over", **PAST),
        pending(8, leaf_budget="low", **ASK),
        pending(4, 2, leaf_budget="mid", **ASK),
    ]
    board = evicted(board_of([node(8), node(8)], work), 0)
    board.start(1, [(0, 1)])
    out = polish(board, *waits(board))
    assert (sorted(out.starts), list(out.victims)) == ([1, 2], [0])


# --- filling ----------------------------------------------------------------------------------------------


def test_filling_follows_the_order_and_leaves_out_what_does_not_fit():
    work = [
        pending(4, leaf_budget="mid", **ASK),
        pending(8, leaf_budget="low", **ASK),
        pending(4, leaf_budget="high", **ASK),
        pending(4, leaf_budget="low", **ASK),
    ]
    board = board_of([node(6)], work)
    fill(board, waits(board)[0])
    assert list(board.starts) == [3]


def test_filling_evicts_nobody_and_respects_limits_and_promises():
    work = [
        running(4, [0], leaf_budget="over", **PAST),
        pending(8, leaf_budget="low", **ASK),
        pending(2, leaf_budget="mid", **ASK),
        pending(2, leaf_budget="high", **ASK),
        pending(1, leaf_budget="over", min_runtime_h=4),
    ]
    board = board_of([node(8)], work, limits={"mid": 1})
    board.hold_s[0] = NOW_S + 2 * HOUR_S
    fill(board, waits(board)[0])
    assert (list(board.starts), board.victims) == ([3], {})


def test_a_limited_workload_does_not_stop_others_that_are_alike():
    work = [pending(2, leaf_budget="low", **ASK), pending(2, leaf_budget="mid", **ASK)]
    board = board_of([node(8)], work, limits={"low": 1})
    fill(board, waits(board)[0])
    assert list(board.starts) == [1]


def test_unallocated_work_goes_to_the_allocation_that_holds_the_least_of_it():
    free = {"allocated": False}
    work = [
        running(3, [0], leaf_budget="low", **free),
        running(1, [0], leaf_budget="mid", **free),
        running(4, [0], leaf_budget="high", min_runtime_h=8),
        *(pending(1, leaf_budget="low", submitted_h_ago=9, **free) for _ in range(3)),
        *(pending(1, leaf_budget="mid", **free) for _ in range(3)),
        *(pending(1, leaf_budget="high", **free) for _ in range(4)),
    ]
    board = board_of([node(8), node(5)], work)
    fill_unallocated(board, waits(board)[1])
    leaf = board.state.workloads.leaf
    started = [int(leaf[j]) for j in board.starts]
    # held: low 3, mid 1, high 0 (protected work does not count); then always who holds the least
    assert started == [3, 2, 3, 2, 3]


def test_unallocated_work_of_one_allocation_goes_by_priority_then_submit():
    asks = [{}, {"priority": 1}, {"submitted_h_ago": 9}, {"priority": 1, "submitted_h_ago": 9}]
    board = board_of([node(3)], [pending(1, allocated=False, **more) for more in asks])
    fill_unallocated(board, waits(board)[1])
    assert list(board.starts) == [3, 1, 2]


# --- on random worlds -------------------------------------------------------------------------------------


@st.composite
def disturbed(draw) -> Board:
    """Draw a board on which greedy has been, and somebody has evicted more than was needed."""
    board = draw(tier_worlds(resources=draw(st.booleans())))
    board = greedy(board, waits(board)[0])
    more = np.flatnonzero(board.standing & board.interruptible).tolist()
    for r in draw(st.lists(st.sampled_from(more), unique=True, max_size=3)) if more else []:
        if board.brake_room() >= board.state.workloads.gpus[r]:
            board.evict(r, WITHIN)
    return board


@settings(max_examples=80)
@given(disturbed())
def test_no_victim_is_left_whose_place_is_free(board):
    out = polish(board, *waits(board))
    assert not [r for r in out.victims if out.place_is_free(r)]


@settings(max_examples=80)
@given(disturbed())
def test_nothing_waits_that_fits_and_is_within_its_limits(board):
    out = polish(board, *waits(board))
    for j in np.concatenate(waits(board)).tolist():
        if not out.standing[j] and out.limit_room(j) >= out.state.workloads.gpus[j]:
            assert find_free(out, j) is None


@settings(max_examples=80)
@given(disturbed())
def test_no_tier_becomes_worth_less_unless_an_earlier_one_gains(board):
    before = board.objective()
    after = polish(board.copy(), *waits(board)).objective()
    for a, b in zip(before, after, strict=True):
        assert b >= a - 1e-9
        if b > a + 1e-9:
            break


@settings(max_examples=80)
@given(disturbed())
def test_the_books_stay_in_order(board):
    out = polish(board, *waits(board))
    b = out.state.budgets
    assert (out.free_gpus >= 0).all()
    assert (out.free_cpus >= 0).all()
    assert (out.free_memory >= 0).all()
    limited = b.limit_gpus >= 0
    assert (out.held_gpus <= np.maximum(b.limit_gpus, out.held_before))[limited].all()
    assert out.preempted_gpus == sum(int(out.state.workloads.gpus[r]) for r in out.victims)


def test_who_is_spared_may_leave_room_to_spare_the_next():
    """One of 1,000 random worlds in which a plan kept a victim whose gainer had come to fit elsewhere."""
    outcome = decide(random_state(2602), SolveParams("greedy"))
    assert outcome.broken == []
    assert outcome.report.notes == []
