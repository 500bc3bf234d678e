"""Promises: kept when due, held until then, moved for a stated reason, made to a gang that lost a node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.ahead import claims_of
from solver.board import Board
from solver.check import check
from solver.decide import decide
from solver.promises import Moved, keep_promises
from solver.shares import BEYOND, UNALLOCATED, WITHIN
from solver.state import FOREVER_S, Action, SolveParams
from tests.solver.factories import HOUR_S, NOW_S, node, pending, promise, running, state, stopping
from tests.solver.oracles import fits_somewhere, order_of, room_at
from tests.solver.worlds import seat, worlds

PAST = {"min_runtime_h": 1, "started_h_ago": 5}
ASK = {"min_runtime_h": 1}


def board_of(nodes, workloads, **more) -> Board:
    world = state(nodes, workloads, **more)
    return Board(world, order_of(world))


class Kept:
    """What became of promises, and those that the board makes from now on."""

    def __init__(self, board: Board) -> None:
        book = keep_promises(board)
        self.met, self.moved = book.met, book.moved
        self.start_s = {j: start_s for j, (start_s, _) in board.promised.items()}
        self.parts = {j: parts for j, (_, parts) in board.promised.items()}


def kept(nodes, workloads, promises, **more):
    board = board_of(nodes, workloads, promises=promises, **more)
    return board, Kept(board)


def hours_until(book, j: int) -> float:
    return (book.start_s[j] - NOW_S) / HOUR_S


# --- due --------------------------------------------------------------------------------------------------


def test_a_due_promise_starts_on_its_nodes_whoever_may_be_interrupted_there():
    work = [
        pending(8, 2, leaf_budget="b", **ASK),
        running(8, [1], leaf_budget="a", **PAST),
        running(8, [2], allocated=False),
    ]
    board, book = kept([node(8)] * 4, work, [promise(0, 0, [1, 2])], ratios={"a": 0.1, "b": 3.0})
    assert board.order.tier[[0, 1]].tolist() == [BEYOND, WITHIN]  # rule 7 does not hold for a promise
    assert board.starts == {0: [(1, 1), (2, 1)]}
    assert sorted(board.victims) == [1, 2]
    assert board.ahead == {0}
    assert (book.met, book.moved, book.start_s) == ([0], {}, {})


@pytest.mark.parametrize(("seconds", "due"), [(-3600, True), (0, True), (59, True), (60, False)])
def test_a_promise_is_due_until_the_next_round(seconds, due):
    work = [pending(8, **ASK), running(8, [0], allocated=False)]
    board, book = kept([node(8)], work, [promise(0, seconds / HOUR_S, [0])], due_s=60)
    assert list(board.starts) == ([0] if due else [])
    assert list(book.start_s) == ([] if due else [0])


def test_a_promise_whose_place_is_protected_until_its_time_moves_nobody_before_it():
    """A round comes before the promise is due, the next one after: until then the place is not given up."""
    work = [
        pending(8, **ASK),
        running(8, [0], min_runtime_h=1, started_h_ago=1 - 30 / HOUR_S),
        running(8, [1], **PAST),
    ]
    board, book = kept([node(8)] * 2, work, [promise(0, 30 / HOUR_S, [0])], due_s=60)
    assert (board.starts, board.victims, book.moved) == ({}, {}, {})
    assert board.promised[0][1] == [(0, 1)]


def test_only_whom_the_start_needs_goes_the_latest_tier_first():
    work = [
        pending(4, **ASK),
        running(2, [0], leaf_budget="a", **PAST),
        running(2, [0], leaf_budget="b", **PAST),
        running(2, [0], allocated=False),
        running(1, [0], allocated=False),
    ]
    board, _ = kept([node(8)], work, [promise(0, 0, [0])], ratios={"a": 0.1, "b": 3.0})
    assert board.order.tier[1:].tolist() == [WITHIN, BEYOND, UNALLOCATED, UNALLOCATED]
    assert board.victims.keys() < {2, 3, 4}
    assert board.free_gpus[0] >= 0
    assert not [r for r in board.victims if board.place_is_free(r)]


def test_a_claim_of_its_own_gpu_type_and_resources_counts():
    work = [
        pending(2, cpus=6, **ASK),
        running(1, [0], allocated=False, cpus=4),
        running(4, [0], allocated=False),
    ]
    board, _ = kept([node(8, cpus=8)], work, [promise(0, 0, [0])])
    assert list(board.victims) == [1]


# --- later ------------------------------------------------------------------------------------------------


def test_a_promise_that_is_not_due_is_carried_and_its_nodes_are_held():
    work = [pending(8, 2, **ASK), running(8, [1], min_runtime_h=3, started_h_ago=1)]
    board, book = kept([node(8)] * 3, work, [promise(0, 2, [0, 1])])
    assert board.starts == {}
    assert hours_until(book, 0) == 2
    assert (board.hold_s[:2] == NOW_S + 2 * HOUR_S).all()
    assert board.hold_s[2] == FOREVER_S
    assert board.settled() == [0]
    assert sorted(n for n, _ in board.promised[0][1]) == [0, 1]


def test_a_promise_is_kept_early_where_its_nodes_are_free():
    board, book = kept([node(8)], [pending(8, **ASK)], [promise(0, 2, [0])])
    assert list(board.starts) == [0]
    assert book.met == [0]


def test_but_never_early_on_nodes_that_are_promised_to_another_in_the_meantime():
    work = [
        pending(8, 2, min_runtime_h=0.25),
        pending(8, min_runtime_h=4),
        running(8, [1], min_runtime_h=1.5, started_h_ago=1),
    ]
    board, book = kept([node(8)] * 2, work, [promise(0, 0.5, [0, 1]), promise(1, 0.75, [0])])
    assert board.starts == {}
    assert (hours_until(book, 0), hours_until(book, 1)) == (0.5, 0.75)


def test_only_work_that_ends_in_time_starts_on_nodes_that_are_held():
    work = [
        pending(8, 2, leaf_budget="b", **ASK),
        running(8, [1], leaf_budget="b", min_runtime_h=3, started_h_ago=1),
        pending(8, leaf_budget="a", min_runtime_h=2.1),
        pending(4, leaf_budget="a", min_runtime_h=2),
        pending(4, leaf_budget="a", allocated=False),
    ]
    world = state([node(8)] * 2, work, promises=[promise(0, 2, [0, 1])], ratios={"a": 0.1, "b": 2.0})
    outcome = decide(world, SolveParams(backend="greedy"))
    actions = [Action(a).name for a in outcome.decisions.action]
    assert actions == ["WAIT", "KEEP", "WAIT", "START", "START"]
    assert outcome.broken == []
    assert outcome.expected_start_s[0] == NOW_S + 2 * HOUR_S


# --- moved ------------------------------------------------------------------------------------------------


def moved(spec, nodes, promised, *others, **more):
    board, book = kept(nodes, [spec, *others], [promised], **more)
    assert 0 not in board.starts
    return book


def test_a_promise_on_a_lost_node_moves_to_the_next_certain_place():
    nodes = [node(8, state="down"), node(8), node(8, state="draining")]
    held = running(8, [1], min_runtime_h=4, started_h_ago=1)
    for lost in (0, 2):
        book = moved(pending(8, **ASK), nodes, promise(0, 1, [lost]), held)
        assert book.moved == {0: Moved.NODE_LOST}
        assert (hours_until(book, 0), book.parts[0]) == (3, [(1, 1)])


def test_a_promise_where_protected_work_stands_moves_and_says_so():
    held = [running(8, [i], min_runtime_h=h + 1, started_h_ago=1) for i, h in enumerate((4, 2))]
    book = moved(pending(8, **ASK), [node(8)] * 2, promise(0, 1, [0]), *held)
    assert book.moved == {0: Moved.TAKEN}
    assert (hours_until(book, 0), book.parts[0]) == (2, [(1, 1)])


def test_a_promise_is_not_taken_by_protection_that_ends_in_time():
    held = running(8, [0], min_runtime_h=2, started_h_ago=1)
    _, book = kept([node(8)], [pending(8, **ASK), held], [promise(0, 1, [0])])
    assert (book.moved, hours_until(book, 0)) == ({}, 1)


def test_a_due_promise_that_its_limit_or_the_brake_forbids_moves_and_says_so():
    held = running(8, [1], leaf_budget="a", min_runtime_h=4)
    book = moved(pending(8, **ASK), [node(8)] * 2, promise(0, 0, [0]), held, limits={"a": 8})
    assert book.moved == {0: Moved.OVER_LIMIT}
    free = running(8, [0], allocated=False)
    book = moved(pending(8, **ASK), [node(8)], promise(0, 0, [0]), free, max_preempted_gpus=7)
    assert book.moved == {0: Moved.BEYOND_BRAKE}


@pytest.mark.parametrize(
    ("spec", "at"),
    [
        (pending(8, 2, **ASK), [0]),
        (pending(8, gpu_types=("b200",), **ASK), [0]),
        (pending(8, 2, **ASK), [0, 3]),
        (pending(8, 2, required="leaf", **ASK), [0, 2]),
        (pending(4, 2, required="node", **ASK), [0, 1]),
        (pending(4, 4, required="leaf", segment=2, **ASK), [0, 0, 0, 2]),
    ],
)
def test_a_promise_that_is_not_for_the_gang_as_it_is_now_moves(spec, at):
    nodes = [node(leaf="l1"), node(leaf="l1"), node(leaf="l2"), node(leaf="l2", gpu_type="b200")]
    board, book = kept(nodes, [spec], [promise(0, 0, at)])
    assert book.moved == {0: Moved.MISFIT}
    assert (0 in board.starts) != (0 in book.start_s)  # at once where it fits now, else promised anew


@pytest.mark.parametrize("spec", [pending(8, allocated=False), pending(8, required="unknown", **ASK)])
def test_what_became_unallocated_or_can_never_run_keeps_no_promise_and_evicts_nobody(spec):
    run = running(8, [0], leaf_budget="b", **PAST)
    outcome = decide(state([node(8)], [spec, run], promises=[promise(0, 0, [0])]), SolveParams("greedy"))
    assert outcome.broken == []
    assert outcome.book.moved == {0: Moved.MISFIT}
    assert len(outcome.decisions.promised) == 0
    assert outcome.decisions.action[1] == Action.KEEP


def test_a_promise_that_moves_moves_no_other():
    work = [
        pending(8, min_runtime_h=4),
        pending(8, min_runtime_h=4),
        running(8, [1], min_runtime_h=2, started_h_ago=1),
    ]
    nodes = [node(8, state="down"), node(8)]
    _, book = kept(nodes, work, [promise(0, 0.5, [0]), promise(1, 1, [1])])
    assert book.moved == {0: Moved.NODE_LOST}
    assert hours_until(book, 1) == 1
    assert hours_until(book, 0) == 5


def test_of_two_promises_for_one_place_the_earlier_is_kept():
    work = [
        pending(8, min_runtime_h=2),
        pending(8, min_runtime_h=2),
        running(8, [0], min_runtime_h=1.5, started_h_ago=1),
    ]
    _, book = kept([node(8)], work, [promise(0, 2, [0]), promise(1, 1, [0])])
    assert (book.moved, hours_until(book, 1), hours_until(book, 0)) == ({0: Moved.TAKEN}, 1, 3)


def test_a_promise_to_what_runs_already_means_nothing():
    _, book = kept([node(8)], [running(8, [0], min_runtime_h=4)], [promise(0, 1, [0])])
    assert (book.start_s, book.moved) == ({}, {})


def test_a_due_promise_waits_for_work_that_is_still_stopping():
    work = [pending(8, **ASK), stopping(8, [0])]
    board, book = kept([node(8)], work, [promise(0, 0, [0])], due_s=60)
    assert board.starts == {}
    assert book.start_s[0] == NOW_S + 60


# --- gangs that lost a node -------------------------------------------------------------------------------


def test_a_gang_that_lost_a_node_is_preempted_whole_and_promised_its_earliest_certain_start():
    nodes = [node(8, state="down"), *([node(8)] * 3)]
    work = [
        running(8, [0, 1], min_runtime_h=8, started_h_ago=1),
        running(8, [2], min_runtime_h=4, started_h_ago=1),
        running(8, [3], min_runtime_h=3, started_h_ago=1),
    ]
    outcome = decide(state(nodes, work), SolveParams("greedy"))
    assert [Action(a).name for a in outcome.decisions.action] == ["PREEMPT", "KEEP", "KEEP"]
    assert outcome.decisions.promised.tolist() == [0]
    assert outcome.decisions.promised_start_s.tolist() == [NOW_S + 2 * HOUR_S]
    assert seat(outcome.decisions.promised_placement, 0) == [1, 3]
    assert outcome.broken == []


def test_unallocated_work_and_work_on_a_draining_node_get_no_promise():
    nodes = [node(8, state="down"), node(8, state="draining"), node(8)]
    _, book = kept(nodes, [running(8, [0], allocated=False), running(8, [1], **PAST)], [])
    assert book.start_s == {}


@st.composite
def broken_gangs(draw) -> Board:
    """Draw a gang that has lost a node, among others that are protected for a while."""
    leaf = st.sampled_from(["l1", "l2"])
    nodes = [node(8, leaf=draw(leaf), state="up" if i else "down") for i in range(draw(st.integers(2, 5)))]
    up = range(1, len(nodes))
    others = [
        running(
            draw(st.sampled_from([2, 8])), [i], min_runtime_h=1 + draw(st.integers(-1, 4)), allocated=True
        )
        for i in draw(st.lists(st.sampled_from(up), unique=True))
    ]
    size = draw(st.sampled_from([4, 6]))
    required, count = draw(st.sampled_from([None, "leaf", "node"])), draw(st.integers(0, 3))
    gang = running(size, [0] * (1 + count), min_runtime_h=draw(st.sampled_from([1, 8])), required=required)
    return board_of(nodes, [gang, *others])


@settings(max_examples=100)
@given(broken_gangs())
def test_whoever_lost_a_node_is_promised_the_first_end_at_which_it_fits(board):
    claims = claims_of(board, np.zeros(board.state.workloads.count, dtype=bool))
    times = sorted({NOW_S, *claims.ends_s[claims.ends_s > NOW_S].tolist()})
    first = [t for t in times if fits_somewhere(board.state, 0, room_at(board, 0, claims, t))]
    assert Kept(board).start_s == ({0: first[0]} if first else {})


@settings(max_examples=80)
@given(worlds())
def test_the_promises_of_a_round_can_all_be_kept(world):
    outcome = decide(world, SolveParams("greedy"))
    assert check(world, outcome.decisions, set(outcome.book.moved)) == []


def test_a_lost_gang_is_promised_free_nodes_before_those_that_others_hold():
    nodes = [node(8), node(8), node(8), node(8, state="down")]
    past = running(8, [0], leaf_budget="b", **PAST)
    free_rider = running(8, [1], leaf_budget="b", allocated=False, min_runtime_h=0)
    lost = running(8, [3], **ASK)
    book = kept(nodes, [past, free_rider, lost], [])[1]
    assert book.parts[2] == [(2, 1)]


def test_a_lost_gang_is_promised_nodes_of_unallocated_work_before_those_of_allocated():
    nodes = [node(8), node(8), node(8, state="down")]
    past = running(8, [0], leaf_budget="b", **PAST)
    free_rider = running(8, [1], leaf_budget="b", allocated=False, min_runtime_h=0)
    lost = running(8, [2], **ASK)
    book = kept(nodes, [past, free_rider, lost], [])[1]
    assert book.parts[2] == [(1, 1)]


# --- what no hold could bring about -----------------------------------------------------------------------


def test_a_promise_is_dropped_with_its_hold_while_its_limit_forbids_the_start():
    sibling = running(1, [2], leaf_budget="a", min_runtime_h=8, started_h_ago=1)
    for due_h in (-3, 0, 2):
        book = moved(
            pending(8, 2, **ASK), [node(8)] * 3, promise(0, due_h, [0, 1]), sibling, limits={"a": 16}
        )
        assert book.moved == {0: Moved.OVER_LIMIT}
        assert book.start_s == {}


def test_of_two_promises_under_one_limit_the_earlier_is_kept():
    gangs = [pending(8, 2, **ASK), pending(8, 2, **ASK)]
    promised = [promise(0, 2, [0, 1]), promise(1, 1, [2, 3])]
    busy = running(8, [0, 1, 2, 3], leaf_budget="b", min_runtime_h=2, started_h_ago=1)
    _, book = kept([node(8)] * 4, [*gangs, busy], promised, limits={"a": 16})
    assert (book.moved, book.start_s.keys()) == ({0: Moved.OVER_LIMIT}, {1})


def test_a_promise_is_dropped_where_no_round_may_preempt_enough_and_waits_where_another_may():
    busy = running(8, [0], allocated=False, leaf_budget="b")
    book = moved(pending(8, **ASK), [node(8)], promise(0, 0, [0]), busy, max_preempted_gpus=7)
    assert (book.moved, book.start_s) == ({0: Moved.BEYOND_BRAKE}, {})
    gangs, others = [pending(8, **ASK) for _ in range(2)], [busy, running(8, [1], allocated=False)]
    promised = [promise(0, 0, [0]), promise(1, 0, [1])]
    _, book = kept([node(8)] * 2, [*gangs, *others], promised, max_preempted_gpus=8)
    assert (book.met, book.moved, book.start_s) == ([0], {1: Moved.BRAKED}, {1: NOW_S})


def test_a_gang_that_lost_a_node_is_promised_nothing_above_its_limit():
    lost = running(8, [0, 1], leaf_budget="a", min_runtime_h=4)
    sibling = running(8, [2], leaf_budget="a", min_runtime_h=8)
    nodes = [node(8, state="down"), *[node(8)] * 4]
    for limit, promised in ((16, set()), (24, {0})):
        _, book = kept(nodes, [lost, sibling], [], limits={"a": limit})
        assert book.start_s.keys() == promised


def test_a_promise_that_is_nearly_due_starts_ahead_of_its_time_only_in_nobodys_way():
    """The first waits for seconds more; the second, which comes after it, would find its nodes free now."""
    minute_h = 1 / 60
    busy = running(8, [1], leaf_budget="b", min_runtime_h=1, started_h_ago=1 - minute_h / 6)
    gangs = [pending(8, 2, min_runtime_h=minute_h / 3), pending(8, min_runtime_h=minute_h)]
    promised = [promise(0, minute_h / 6, [0, 1]), promise(1, minute_h / 2, [0])]
    world = state([node(8)] * 2, [*gangs, busy], promises=promised)
    outcome = decide(world, SolveParams("greedy"))
    assert outcome.broken == []
    assert outcome.board.starts == {}
    assert {j: start_s - NOW_S for j, (start_s, _) in outcome.board.promised.items()} == {0: 10, 1: 30}
