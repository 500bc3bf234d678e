"""What plan-ahead decides on: domains of nodes alike at every time, the times, the candidates."""

from __future__ import annotations

import numpy as np

from solver.board import Board
from solver.decide import decide
from solver.outlook import MOST_TIMES, Outlook, outlook_of
from solver.shares import BEYOND, WITHIN
from solver.state import SolveParams
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state
from tests.solver.oracles import order_of, waiting
from tests.solver.seeded import instance_state, random_state


def outlooks() -> list[Outlook]:
    """Return the outlooks of random worlds and of one larger cluster, as greedy leaves them."""
    out = []
    for world in [*map(random_state, range(60)), instance_state(32, 80, 0)]:
        board = decide(world, SolveParams("greedy")).board.copy()
        board.promised = {}
        board.release_nodes()
        found = [outlook_of(board, tier, waiting(board, tier)) for tier in (WITHIN, BEYOND)]
        out += [o for o in found if o is not None]
    return out


def test_nodes_of_a_domain_are_alike_at_every_time_to_every_gang():
    seen = outlooks()
    assert len(seen) > 5
    for o in seen:
        n, w = o.board.state.nodes, o.board.state.workloads
        for d in range(len(o.first)):
            nodes = o.nodes(d)
            assert len(nodes) == o.size[d]
            for rows in (*o.free_gpus.values(), o.free_at_s, n.pool[None], n.gpus[None], *o.slots):
                assert (rows[:, nodes] == rows[:, nodes[:1]]).all()
            for j in o.gangs:
                if w.required[j] >= 0:
                    assert len(set(n.domain[w.required[j], nodes].tolist())) == 1
            held = [
                sorted(i for i in o.yielding if any(m == at for m, _ in o.board.starts[i])) for at in nodes
            ]
            assert all(sorted(o.yielding[i] for i, _ in o.tenants[d]) == here for here in held)


def test_room_only_grows_and_times_lie_between_now_and_the_horizon():
    for o in outlooks():
        state_ = o.board.state
        assert o.times_s[0] == state_.now_s
        assert (np.diff(o.times_s) > 0).all()
        assert o.times_s[-1] <= state_.now_s + state_.policy.horizon_s
        for free in o.free_gpus.values():
            assert (np.diff(free[1:], axis=0) >= 0).all()
        assert (o.free_at_s <= o.times_s[:, None]).all()


def test_candidates_wait_or_start_in_the_money_and_as_many_as_may_be_promised():
    for o in outlooks():
        board = o.board
        assert all(board.order.in_money[j] and board.state.workloads.replicas[j] > 1 for j in o.gangs)
        assert [j in board.starts for j in o.gangs] == list(o.starting)
        assert sum(not s for s in o.starting) <= o.most


def many_ends(count: int) -> Board:
    work = [
        running(8, [n], min_runtime_h=1 + (n + 1) / 10, started_h_ago=1, leaf_budget="b")
        for n in range(count)
    ]
    world = state([node(8)] * count, [*work, pending(8, 2, min_runtime_h=1, leaf_budget="a")], reservations=8)
    return Board(world, order_of(world))


def test_all_ends_are_looked_at_where_they_are_few():
    board = many_ends(6)
    o = outlook_of(board, WITHIN, waiting(board, WITHIN))
    assert ((o.times_s - NOW_S) / HOUR_S).round(3).tolist() == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def test_of_many_ends_those_hinted_at_and_the_certain_start_are_among_them():
    board = many_ends(40)
    hint_s = NOW_S + round(1.7 * HOUR_S)
    o = outlook_of(board, WITHIN, waiting(board, WITHIN), [hint_s])
    assert len(o.times_s) <= MOST_TIMES + 1
    assert {hint_s, NOW_S + round(0.2 * HOUR_S)} <= set(o.times_s.tolist())


def test_where_nobody_waits_there_is_no_question():
    world = state([node(8)], [running(8, [0], min_runtime_h=1)], reservations=8)
    board = Board(world, order_of(world))
    assert outlook_of(board, WITHIN, waiting(board, WITHIN)) is None
