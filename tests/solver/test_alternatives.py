"""Looser wishes: what may be asked for instead, and the certain start that it would bring."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.alternatives import Wish, looser_wishes, start_with
from solver.board import Board
from solver.state import Level
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state
from tests.solver.oracles import order_of

NONE = int(Level.NONE)


def board_with(gang) -> Board:
    """Return two leaves of two nodes, protected for 1, 5, 2 and 4 hours more, and a gang."""
    work = [
        running(8, [n], min_runtime_h=h + 1, started_h_ago=1, leaf_budget="b")
        for n, h in enumerate((1, 5, 2, 4))
    ]
    world = state([node(8, leaf=f"l{n // 2}") for n in range(4)], [*work, gang], reservations=8)
    return Board(world, order_of(world))


def ask(replicas: int = 2, **more):
    return pending(8, replicas, min_runtime_h=1, leaf_budget="a", **more)


def test_a_gang_of_one_leaf_may_ask_for_two_or_any():
    assert list(looser_wishes(board_with(ask(required="leaf")), 4)) == [Wish(0, 1), Wish(NONE, 0)]


def test_a_gang_of_an_odd_number_may_ask_for_any():
    assert list(looser_wishes(board_with(ask(3, required="leaf")), 4)) == [Wish(NONE, 0)]


def test_who_asks_for_no_domain_for_segments_or_for_one_replica_has_nothing_to_give_up():
    for gang in (ask(), ask(required="leaf", segment=1), ask(1, required="leaf"), ask(required="node")):
        assert list(looser_wishes(board_with(gang), 4)) == []


def test_the_start_is_that_of_the_wish_and_the_board_is_left_as_it_was():
    board = board_with(ask(required="leaf"))
    required = board.state.workloads.required.copy()
    starts = [start_with(board, 4, wish)[0] for wish in (Wish(0, 0), Wish(0, 1), Wish(NONE, 0))]
    assert [(s - NOW_S) / HOUR_S for s in starts] == [4, 2, 2]
    assert (board.state.workloads.required == required).all()


def test_what_never_fits_has_no_start():
    assert start_with(board_with(ask(6)), 4, Wish(NONE, 0)) is None


def test_its_own_promise_is_not_in_its_way():
    board = board_with(ask(required="leaf"))
    board.promise(4, NOW_S + 4 * HOUR_S, [(2, 1), (3, 1)])
    assert start_with(board, 4, Wish(NONE, 0)) == (NOW_S + 2 * HOUR_S, [(0, 1), (2, 1)])


def free_in_two_leaves(**policy) -> Board:
    """Return one free node in each of two leaves, the others held, and a gang of one leaf."""
    held = {"min_runtime_h": 9, "started_h_ago": 1, "leaf_budget": "b"}
    work = [running(8, [n], **held) for n in (1, 3)]
    limits = policy.pop("limits", {})
    world = state(
        [node(8, leaf=f"l{n // 2}") for n in range(4)], [*work, ask(required="leaf")], limits=limits, **policy
    )
    return Board(world, order_of(world))


def test_it_starts_now_where_the_round_would_start_it_and_no_limit_forbids():
    assert start_with(free_in_two_leaves(), 2, Wish(0, 1)) == (NOW_S, [(0, 1), (2, 1)])
    assert start_with(free_in_two_leaves(limits={"a": 15}), 2, Wish(0, 1)) is None


def interruptible_in_two_leaves(started_h_ago: float, **policy) -> Board:
    """Return two leaves of which each has a node held for hours, and one of `b`, past 3 h or to be so."""
    held = running(8, [1], min_runtime_h=9, started_h_ago=1, leaf_budget="b")
    work = [
        held,
        replace(held, at=(3,)),
        *(running(8, [n], min_runtime_h=3, started_h_ago=started_h_ago, leaf_budget="b") for n in (0, 2)),
    ]
    nodes = [node(8, leaf=f"l{n // 2}") for n in range(4)]
    world = state(nodes, [*work, ask(required="leaf")], ratios={"a": 0.1, "b": 3.0}, **policy)
    return Board(world, order_of(world))


@pytest.mark.parametrize(("started_h_ago", "at_s"), [(4, NOW_S), (1, NOW_S + 2 * HOUR_S)])
def test_nobody_starts_by_preempting_more_than_the_brake_allows(started_h_ago, at_s):
    for most, expected in ((-1, at_s), (16, at_s), (15, None)):
        board = interruptible_in_two_leaves(started_h_ago, max_preempted_gpus=most)
        found = start_with(board, 4, Wish(0, 1))
        assert (found and found[0]) == expected
