"""The board keeps its books: after any moves they are what a count from the beginning gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.board import UNCOUNTED, Board, leaving
from solver.shares import ALLOCATED_VICTIM, BEYOND, UNALLOCATED, WITHIN
from solver.state import FOREVER_S, NodeState, Status
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state, stopping
from tests.solver.oracles import order_of
from tests.solver.worlds import seat, worlds


def board_of(nodes, workloads, **more) -> Board:
    world = state(nodes, workloads, **more)
    return Board(world, order_of(world))


PAST = {"min_runtime_h": 1, "started_h_ago": 5}
"""Running work past its protection."""


# --- the books --------------------------------------------------------------------------------------------


def recount(board: Board) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return free GPUs, CPUs and memory of each node and GPUs held below each budget, gang by gang."""
    n, w = board.state.nodes, board.state.workloads
    free = [n.gpus.tolist()]
    free += [[x or int(UNCOUNTED) for x in counted.tolist()] for counted in (n.cpus_milli, n.memory_bytes)]
    held = [0] * board.state.budgets.count
    for j in np.flatnonzero(board.standing).tolist():
        places = Counter(dict(board.starts[j])) if j in board.starts else Counter(seat(w.placement, j))
        for i, k in places.items():
            for room, each in zip(free, (w.gpus_per_replica, w.cpus_milli, w.memory_bytes), strict=True):
                room[i] -= k * int(each[j])
        for v in board.state.budgets.path(int(w.leaf[j])):
            held[v] += int(w.gpus[j])
    sick = np.flatnonzero(n.state != NodeState.UP).tolist()
    for room in free:
        for i in sick:
            room[i] = 0
    return *free, held


def books(board: Board) -> tuple[list[int], list[int], list[int], list[int]]:
    amounts = (board.free_gpus, board.free_cpus, board.free_memory, board.held_gpus)
    return tuple(x.tolist() for x in amounts)


@settings(max_examples=120)
@given(worlds(), st.data())
def test_any_moves_leave_the_books_as_a_recount_finds_them(world, data):
    board = Board(world, order_of(world))
    assert books(board) == recount(board)
    w = world.workloads
    for _ in range(data.draw(st.integers(0, 8))):
        runs = np.flatnonzero(board.interruptible & board.standing).tolist()
        waits = np.flatnonzero((w.status == Status.PENDING) & ~board.standing).tolist()
        moves = {"evict": runs, "restore": [*board.victims], "cancel": [*board.starts], "start": waits}
        move = data.draw(st.sampled_from([name for name, who in moves.items() if who] or ["none"]))
        if move == "none":
            break
        j = data.draw(st.sampled_from(moves[move]))
        if move == "evict":
            board.evict(j, WITHIN)
        elif move == "restore":
            board.restore(j)
        elif move == "cancel":
            board.cancel(j)
        else:
            at = data.draw(st.integers(0, world.nodes.count - 1))
            board.start(j, [(at, int(w.replicas[j]))])
        assert books(board) == recount(board)
        assert board.preempted_gpus == sum(int(w.gpus[r]) for r in board.victims)


def test_moves_on_a_copy_do_not_touch_the_board_and_adopting_it_takes_them_over():
    board = board_of([node(8)], [running(8, [0], **PAST), pending(4)])
    before = books(board)
    trial = board.copy()
    trial.evict(0, WITHIN)
    trial.start(1, [(0, 1)])
    trial.ahead.add(1)
    trial.hold_s[0] = 7
    assert books(board) == before
    assert (board.starts, board.victims, board.ahead, board.preempted_gpus) == ({}, {}, set(), 0)
    assert board.hold_s[0] == FOREVER_S
    board.adopt(trial)
    assert books(board) == books(trial)
    assert (board.starts, board.victims) == ({1: [(0, 1)]}, {0: WITHIN})


def test_work_leaves_down_nodes_at_once_and_draining_ones_when_nothing_protects_it():
    nodes = [node(8, state=s) for s in ("up", "draining", "down")]
    work = [
        *(running(1, [i], min_runtime_h=8) for i in range(3)),
        *(running(1, [i], **PAST) for i in range(3)),
        *(running(1, [i], allocated=False) for i in range(3)),
        running(1, [0, 1], **PAST),
        running(1, [0, 2], min_runtime_h=8),
        stopping(1, [2]),
    ]
    board = board_of(nodes, work)
    assert leaving(board.state).tolist() == [2, 4, 5, 7, 8, 9, 10]
    assert board.free_gpus.tolist() == [5, 0, 0]
    assert board.victims == {}


# --- where a gang may start -------------------------------------------------------------------------------


def test_a_gang_may_start_on_healthy_nodes_of_its_pools_and_level_until_they_are_promised():
    nodes = [
        node(8, leaf="l1"),
        node(8, leaf="l1", state="draining"),
        node(8, leaf="l1", state="down"),
        node(8, leaf="l1", gpu_type="b200"),
        node(8),
        node(8, leaf="l1"),
    ]
    asks = [
        pending(1, min_runtime_h=2, required="leaf", gpu_types=("h100",)),
        pending(1, allocated=False),
        pending(1, min_runtime_h=1, required="unknown"),
    ]
    board = board_of(nodes, asks)
    board.hold_s[5] = NOW_S + 2 * HOUR_S - 1
    assert np.flatnonzero(board.eligible(0)).tolist() == [0]
    assert np.flatnonzero(board.eligible(1)).tolist() == [0, 3, 4, 5]  # it makes way for the promise
    assert not board.eligible(2).any()
    board.hold_s[5] = NOW_S + 2 * HOUR_S
    assert np.flatnonzero(board.eligible(0)).tolist() == [0, 5]


def test_a_node_takes_as_many_replicas_as_its_scarcest_resource():
    nodes = [node(8, cpus=10, memory_gib=12), node(8), node(2)]
    board = board_of(nodes, [pending(1, 6, cpus=2, memory_gib=4), pending(0, 3), pending(2, 9)])
    assert board.free_slots(0).tolist() == [3, 6, 2]
    assert board.free_slots(1).tolist() == [3, 3, 3]
    assert board.free_slots(2).tolist() == [4, 4, 1]


# --- limits and the brake ---------------------------------------------------------------------------------

LIMITED = {"shares": {"t/a": 0.4, "t/b": 0.4, "c": 0.2}, "limits": {"t": 12, "t/a": 6}}


def test_room_under_limits_is_that_of_the_narrowest_above():
    work = [
        running(4, [0], leaf_budget="t/b", **PAST),
        pending(1, leaf_budget="t/a"),
        pending(1, leaf_budget="t/b"),
        pending(1, leaf_budget="c"),
    ]
    board = board_of([node(64)], work, **LIMITED)
    assert [board.limit_room(j) for j in (1, 2)] == [6, 8]
    assert board.limit_room(3) > 10**9
    board.start(1, [(0, 1)])
    assert [board.limit_room(j) for j in (1, 2)] == [5, 7]
    board.evict(0, WITHIN)
    assert [board.limit_room(j) for j in (1, 2)] == [5, 11]


def test_a_subtree_found_over_its_limit_starts_nothing_whoever_leaves():
    work = [running(8, [0], leaf_budget="t/a", **PAST), pending(1, leaf_budget="t/a")]
    board = board_of([node(64)], work, **LIMITED)
    board.evict(0, WITHIN)
    assert board.limit_room(1) == 0


def test_a_victim_returns_only_under_its_limits_unless_it_was_over_them_before():
    work = [running(6, [0], leaf_budget="t/a", **PAST), pending(5, leaf_budget="t/a")]
    board = board_of([node(64)], work, **LIMITED)
    board.evict(0, WITHIN)
    assert board.place_is_free(0)
    board.start(1, [(0, 1)])
    assert not board.place_is_free(0)
    over = board_of([node(64)], [running(8, [0], leaf_budget="t/a", **PAST)], **LIMITED)
    over.evict(0, WITHIN)
    assert over.place_is_free(0)


def test_a_victim_returns_only_where_all_it_held_is_free():
    run = running(2, [0, 1], cpus=4, memory_gib=4, **PAST)
    asks = [pending(7), pending(1, cpus=5), pending(1, memory_gib=5), pending(6, cpus=4, memory_gib=4)]
    board = board_of([node(8, cpus=8, memory_gib=8)] * 2, [run, *asks])
    board.evict(0, WITHIN)
    for j in (1, 2, 3):
        board.start(j, [(1, 1)])
        assert not board.place_is_free(0)
        board.cancel(j)
    board.start(4, [(1, 1)])
    assert board.place_is_free(0)


def test_the_brake_counts_down_with_every_eviction():
    runs = [running(4, [0], **PAST), running(2, [0], **PAST)]
    board = board_of([node(8)], runs, max_preempted_gpus=5)
    assert board.brake_room() == 5
    board.evict(0, WITHIN)
    assert board.brake_room() == 1
    board.restore(0)
    assert board.brake_room() == 5
    assert board_of([node(8)], runs).brake_room() > 10**9


# --- for whom ---------------------------------------------------------------------------------------------

BANDS = {
    "shares": {"a": 0.3, "b": 0.3, "v": 0.4},
    "ratios": {"a": 0.1, "b": 0.3, "v": 0.6},
    "entitled_gpu_h": {"a": 10**6, "b": 10**6, "v": 10**6},
}
"""Work of `a` ranks before that of `b`, which ranks before that of `v`."""


def test_a_victim_makes_room_for_the_better_ranked_that_stand_on_its_nodes():
    work = [
        running(4, [0, 1], leaf_budget="v", **PAST),
        pending(2, leaf_budget="b", min_runtime_h=1),
        pending(2, leaf_budget="a", min_runtime_h=1),
        pending(2, leaf_budget="a", min_runtime_h=1),
        pending(1, leaf_budget="v", min_runtime_h=1),
        pending(1, leaf_budget="a", allocated=False),
    ]
    board = board_of([node(8)] * 3, work, **BANDS)
    board.evict(0, WITHIN)
    for j, at in ((1, 0), (2, 1), (3, 2), (4, 0), (5, 1)):
        board.start(j, [(at, 1)])
    assert board.gainers(0) == [2, 1]
    board.ahead.add(4)
    assert board.gainers(0) == [2, 1, 4]


def test_a_victim_for_whom_nobody_stands_on_its_nodes_makes_room_under_a_limit():
    work = [
        running(4, [0], leaf_budget="v", **PAST),
        pending(4, leaf_budget="a", min_runtime_h=1),
        pending(4, leaf_budget="b", min_runtime_h=1),
    ]
    board = board_of([node(8)] * 3, work, **BANDS)
    free = board_of([node(8)] * 3, work, **BANDS | {"limits": {"": 8}})
    for each in (board, free):
        each.evict(0, WITHIN)
        each.start(1, [(1, 1)])
        each.start(2, [(2, 1)])
    assert board.gainers(0) == []
    assert free.gainers(0) == [1, 2]


def test_under_limits_only_those_count_for_whom_a_full_one_needed_the_room():
    shares = {"t/v": 0.3, "t/a": 0.3, "b": 0.4}
    work = [
        running(4, [0], leaf_budget="t/v", **PAST),
        pending(4, leaf_budget="t/a", min_runtime_h=1),
        pending(4, leaf_budget="b", min_runtime_h=1),
    ]
    many = dict.fromkeys(shares, 10**6)
    ratios = {"t/a": 0.1, "b": 0.3, "t/v": 0.6}
    caps = {"": 64, "t": 4}
    board = board_of([node(8)] * 3, work, shares=shares, ratios=ratios, entitled_gpu_h=many, limits=caps)
    board.evict(0, WITHIN)
    board.start(1, [(1, 1)])
    board.start(2, [(2, 1)])
    assert board.gainers(0) == [1]


# --- worth ------------------------------------------------------------------------------------------------


def test_the_objective_is_what_stands_tier_by_tier_less_the_restarts_paid():
    work = [
        running(8, [0], leaf_budget="a", min_runtime_h=8),
        running(2, [1], leaf_budget="a", **PAST),
        running(4, [1], leaf_budget="b", **PAST),
        running(1, [1], leaf_budget="b", allocated=False),
        pending(4, leaf_budget="a", min_runtime_h=1),
        pending(8, leaf_budget="a", min_runtime_h=1),
    ]
    board = board_of([node(8)] * 2, work, ratios={"a": 0.5, "b": 2.0}, restart_cost_s=1800)
    price = board.order.price
    assert board.order.tier.tolist()[1:5] == [WITHIN, BEYOND, UNALLOCATED, WITHIN]
    idle = (8 * 2 * price[1], 8 * 4 * price[2], 8 * price[3])
    assert board.objective() == pytest.approx(idle)
    board.evict(2, WITHIN)
    board.evict(3, WITHIN)
    board.start(4, [(1, 1)])
    restarts = 0.5 * (4 * ALLOCATED_VICTIM + 1)
    assert board.objective() == pytest.approx((idle[0] + 8 * 4 * price[4] - restarts, 0, 0))


def test_the_spread_holds_every_start_in_node_order():
    board = board_of([node(8)] * 3, [pending(2, 3), pending(1)])
    board.start(0, [(2, 1), (0, 2)])
    spread = board.spread()
    assert seat(spread, 0) == [0, 0, 2]
    assert spread.gpus.tolist() == [4, 2]
    assert seat(spread, 1) == []


def test_nodes_are_held_for_whom_they_are_promised_to_until_it_starts_elsewhere():
    board = board_of([node(8)] * 3, [pending(8, min_runtime_h=1), pending(8, min_runtime_h=1)])
    board.promise(0, NOW_S + 900, [(0, 1)])
    board.promise(1, NOW_S + 600, [(1, 1)])
    held = [NOW_S + 900, NOW_S + 600, FOREVER_S]
    assert board.hold_s.tolist() == held
    board.start(0, [(2, 1)])
    board.release_nodes()
    assert board.hold_s.tolist() == [FOREVER_S, NOW_S + 600, FOREVER_S]
    board.cancel(0)
    assert board.hold_s.tolist() == held


# --- promises ---------------------------------------------------------------------------------------------


def promising(*starts_h: float) -> Board:
    """Gang i is promised nodes i and i + 1 in so many hours."""
    work = [pending(8, 2, min_runtime_h=4) for _ in starts_h] + [pending(8, min_runtime_h=4)]
    board = board_of([node(8)] * 4, work, limits={"a": 48})
    for j, hours in enumerate(starts_h):
        board.promise(j, NOW_S + round(hours * HOUR_S), [(j, 1), (j + 1, 1)])
    return board


def test_a_promise_keeps_nobody_from_its_own_nodes_but_those_of_others():
    board = promising(2, 3)
    assert board.eligible(0).tolist() == [True, False, False, True]
    assert board.eligible(1).tolist() == [False, False, True, True]
    assert board.eligible(2).tolist() == [False, False, False, True]


def test_who_has_started_elsewhere_may_still_go_where_it_was_promised_until_that_is_released():
    board = promising(2)
    board.start(0, [(2, 1), (3, 1)])
    assert board.eligible(0).all()
    assert board.eligible(1).tolist() == [False, False, True, True]
    assert board.release_nodes()
    assert board.eligible(1).all()
    assert not promising(2).release_nodes()


def test_limits_count_what_is_promised_to_others():
    board = promising(2, 3)
    assert [board.limit_room(j) for j in range(3)] == [32, 32, 16]
    board.start(0, [(0, 1), (1, 1)])
    assert [board.limit_room(j) for j in (1, 2)] == [32, 16]


def test_what_has_a_promise_is_like_nothing_else():
    board = promising(2, 3)
    assert len({board.like(j) for j in range(3)}) == 3
