"""What promises are worth and holds cost, against sums over nodes, workloads and seconds one by one."""

from __future__ import annotations

import numpy as np
import pytest

from solver.board import Board
from solver.decide import decide
from solver.holds import (
    CERTAINTY,
    claims_against,
    hold_price,
    in_the_way,
    promise_worth,
    promised_worth,
    standing_rate,
    start_worth,
    worth,
)
from solver.shares import BEYOND, WITHIN
from solver.state import FOREVER_S, SolveParams
from tests.solver.factories import HOUR_S, NOW_S, node, pending, promise, running, state
from tests.solver.oracles import order_of
from tests.solver.seeded import random_state


def board_of(nodes, work, **more) -> Board:
    world = state(nodes, work, reservations=8, **more)
    return Board(world, order_of(world))


def test_a_start_is_worth_less_the_later_it_is_and_a_promise_less_than_a_start():
    board = board_of([node(8)], [pending(8, min_runtime_h=1)])
    now, soon, later = (start_worth(board, 0, NOW_S + s) for s in (0, 1, 4 * HOUR_S))
    price = float(board.order.price[0])
    assert now == pytest.approx(price * 8 * 8)
    assert soon == pytest.approx(CERTAINTY * now, rel=1e-4)
    assert later == pytest.approx(CERTAINTY * price * 8 * 4)
    assert 0 < start_worth(board, 0, NOW_S + 9 * HOUR_S) < later


def test_a_hold_costs_the_lowest_price_in_the_money_as_the_site_weighs_it():
    work = [pending(8, min_runtime_h=1, leaf_budget="a"), pending(8, min_runtime_h=1, leaf_budget="b")]
    for weight in (0.0, 1.0, 2.5):
        board = board_of([node(8)] * 2, work, ratios={"a": 0.2, "b": 0.8}, hold_cost=weight)
        assert hold_price(board, 0) == pytest.approx(weight * board.order.price[:2].min())


@pytest.mark.parametrize(("waits_h", "free"), [(7.9, False), (8, True)])
def test_who_has_waited_as_long_as_protection_may_last_is_held_for_whatever_it_costs(waits_h, free):
    board = board_of([node(8)], [pending(8, min_runtime_h=1, submitted_h_ago=waits_h)])
    assert (hold_price(board, 0) == 0) == free


def test_a_promise_is_worth_its_start_less_what_idles_and_what_it_ends():
    work = [
        running(8, [0], min_runtime_h=3, started_h_ago=1, leaf_budget="b"),
        running(8, [1], min_runtime_h=1, started_h_ago=3, leaf_budget="b"),
        pending(8, 2, min_runtime_h=1, leaf_budget="a"),
    ]
    board = board_of([node(8)] * 3, work, ratios={"a": 0.2, "b": 0.9})
    price, at_s = board.order.price, NOW_S + 3 * HOUR_S
    own = CERTAINTY * price[2] * 16 * 5
    idle = hold_price(board, 2) * 8 * (1 + 3)  # node 0 comes free in two hours, node 1 at once
    ends = price[1] * 8 * 5
    restarts = (8 + 8) * board.state.policy.restart_cost_s / HOUR_S
    assert promise_worth(board, 2, at_s, [(0, 1), (1, 1)]) == pytest.approx(own - idle - ends - restarts)


def test_against_a_gang_stand_protections_promises_to_others_and_who_ranks_no_later():
    work = [
        running(8, [0], min_runtime_h=2, started_h_ago=1, leaf_budget="b"),
        running(8, [1], min_runtime_h=2, started_h_ago=1, leaf_budget="a", submitted_h_ago=9),
        running(8, [2], min_runtime_h=1, started_h_ago=3, leaf_budget="b"),
        running(8, [3], allocated=False, leaf_budget="b"),
        pending(8, 1, min_runtime_h=1, leaf_budget="b"),
        pending(8, 2, min_runtime_h=1, leaf_budget="a"),
    ]
    board = board_of([node(8)] * 5, work, ratios={"a": 0.9, "b": 0.1})
    board.promise(4, NOW_S + HOUR_S, [(4, 1)])
    board.promise(5, NOW_S + HOUR_S, [(0, 1), (4, 1)])
    claims = claims_against(board, 5)
    ends = dict(zip(claims.workload.tolist(), claims.ends_s.tolist(), strict=True))
    assert ends == {0: NOW_S + HOUR_S, 1: FOREVER_S, 2: FOREVER_S, 4: NOW_S + 2 * HOUR_S}


@pytest.mark.parametrize("tier", [WITHIN, BEYOND])
def test_the_rate_of_a_node_is_the_price_of_whom_a_promise_would_end_there(tier):
    seen = 0.0
    for seed in range(30):
        board = decide(random_state(seed), SolveParams("greedy")).board
        w, order, at_s = board.state.workloads, board.order, board.state.now_s + 2 * HOUR_S
        rate = np.zeros(board.state.nodes.count)
        for r in np.flatnonzero(board.standing & (order.tier <= tier)).tolist():
            over = board.interruptible[r]
            if r in board.starts:
                over = board.state.now_s + w.min_runtime_s[r] <= at_s
            for n, k in board.parts(r):
                rate[n] += over * order.price[r] * k * w.gpus_per_replica[r]
        expected = rate / np.maximum(board.state.nodes.gpus, 1)
        assert standing_rate(board, tier, at_s) == pytest.approx(expected)
        seen += expected.sum()
    assert seen > 0


def test_where_nothing_is_promised_the_worth_is_that_of_what_stands():
    for seed in range(20):
        board = decide(random_state(seed), SolveParams("greedy")).board
        if not board.settled():
            assert worth(board) == board.objective()
        else:
            gained = np.array(worth(board)) - np.array(board.objective())
            assert gained.sum() == pytest.approx(sum(promised_worth(board).values()))


def test_a_carried_promise_is_worth_the_same_in_every_rung():
    work = [running(8, [0], min_runtime_h=2, started_h_ago=1), pending(8, 2, min_runtime_h=1)]
    world = state([node(8)] * 2, work, promises=[promise(1, 1, [0, 1])], reservations=8)
    found = [promised_worth(decide(world, SolveParams(name)).board) for name in ("greedy", "highs")]
    assert found[0].keys() == {1}
    assert found[0][1] == pytest.approx(found[1][1])


@pytest.mark.parametrize("backend", ["greedy", "highs"])
def test_a_report_says_what_the_promises_are_worth(backend):
    work = [
        running(8, [0], leaf_budget="b", min_runtime_h=2, started_h_ago=1),
        pending(8, 2, min_runtime_h=1),
    ]
    world = state([node(8)] * 2, work, shares={"a": 0.5, "b": 0.5}, reservations=8)
    outcome = decide(world, SolveParams(backend))
    assert outcome.report.promised == pytest.approx(promised_worth(outcome.board)[1]) != 0


def test_in_the_way_is_who_must_go_and_no_more():
    work = [
        running(4, [0, 0, 1], min_runtime_h=1, started_h_ago=3, leaf_budget="b"),
        running(2, [1], min_runtime_h=3, started_h_ago=1, leaf_budget="b"),
        running(2, [1], min_runtime_h=9, started_h_ago=1, leaf_budget="b"),
        running(8, [2], allocated=False, leaf_budget="b"),
        pending(4, 2, min_runtime_h=1, leaf_budget="a"),
    ]
    board = board_of([node(8)] * 4, work, ratios={"a": 0.1, "b": 0.9})
    at_s = NOW_S + 3 * HOUR_S
    claims = claims_against(board, 4)

    def they(*parts) -> list[int]:
        return in_the_way(board, 4, at_s, list(parts), claims).tolist()

    assert they((3, 2)) == []
    assert they((1, 1)) == [0, 1]  # the smaller first, and two GPUs are not enough
    assert they((0, 1), (2, 1)) == [0, 3]


def test_a_gang_that_makes_way_restarts_as_a_whole():
    work = [
        running(1, range(8), allocated=False, leaf_budget="b"),
        running(7, [0], min_runtime_h=9, started_h_ago=1, leaf_budget="b"),
        pending(1, 2, min_runtime_h=1, leaf_budget="a"),
    ]
    board = board_of([node(8)] + [node(1)] * 7, work, ratios={"a": 0.9, "b": 0.9})
    at_s, cost_s = NOW_S + HOUR_S, board.state.policy.restart_cost_s
    parts = [(1, 1), (2, 1)]
    start = start_worth(board, 2, at_s)
    idle = hold_price(board, 2) * 2  # both are free at once, as far as it is concerned
    assert promise_worth(board, 2, at_s, parts) == pytest.approx(start - idle - 8 * cost_s / HOUR_S)


def test_a_carried_promise_has_a_worth_even_where_the_brake_would_forbid_it_now():
    work = [
        running(8, [0], min_runtime_h=2, started_h_ago=1, leaf_budget="b"),
        pending(8, 2, min_runtime_h=1),
    ]
    world = state([node(8)] * 2, work, promises=[promise(1, 1.5, [0, 1])], max_preempted_gpus=4)
    outcome = decide(world, SolveParams("greedy"))
    assert outcome.board.settled() == [1]
    assert 0 < outcome.report.promised < 1e9
