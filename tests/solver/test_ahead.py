"""The certain start against a look at every end, and claims that say who holds what until when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.ahead import claims_of, earliest_start, place_slots, protected_claims
from solver.board import Board
from solver.shares import WITHIN
from solver.state import FOREVER_S, Status
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state, stopping
from tests.solver.oracles import fits_somewhere, lawful, order_of, room_at, tier_worlds


def board_of(nodes, workloads, **more) -> Board:
    world = state(nodes, workloads, **more)
    return Board(world, order_of(world))


def nobody(board: Board) -> np.ndarray:
    return np.zeros(board.state.workloads.count, dtype=bool)


def start_of(board: Board, j: int, claims=None) -> float | None:
    """Return the certain start in hours from now."""
    found = earliest_start(board, j, claims or claims_of(board, nobody(board)))
    return None if found is None else (found[0] - NOW_S) / HOUR_S


def held(hours: float, at, gpus: int = 8, **more):
    """Protected for so many hours more."""
    return running(gpus, at, min_runtime_h=hours + 1, started_h_ago=1, **more)


# --- examples ---------------------------------------------------------------------------------------------


def test_a_gang_starts_when_the_last_protection_that_it_needs_ends():
    work = [held(h, [i]) for i, h in enumerate((3, 1, 2, 7))]
    work += [pending(8, k, min_runtime_h=1) for k in (1, 2, 3, 4)]
    board = board_of([node(8)] * 4, work)
    assert [start_of(board, j) for j in (4, 5, 6, 7)] == [1, 2, 3, 7]


def test_a_required_domain_waits_for_its_own_ends():
    work = [held(h, [i]) for i, h in enumerate((1, 5, 3, 4))]
    board = board_of(
        [node(8, leaf=leaf) for leaf in ("l1", "l1", "l2", "l2")],
        [*work, pending(8, 2, min_runtime_h=1, required="leaf")],
    )
    assert start_of(board, 4) == 4


def test_what_is_interruptible_makes_way_at_once_unless_it_is_unmoved():
    runs = [
        running(8, [0], min_runtime_h=1, started_h_ago=5),
        running(8, [1], allocated=False),
        pending(8, 2, min_runtime_h=1),
    ]
    board = board_of([node(8)] * 2, runs)
    assert start_of(board, 2) == 0
    assert start_of(board, 2, claims_of(board, np.array([True, False, False]))) is None


def test_stopping_work_is_gone_by_the_next_round_and_starts_of_this_round_hold_their_protection():
    board = board_of(
        [node(8)] * 2, [stopping(8, [0]), pending(8, min_runtime_h=2), pending(8, 2, min_runtime_h=1)]
    )
    assert start_of(board, 2) == pytest.approx(60 / HOUR_S)
    board.start(1, [(1, 1)])
    assert start_of(board, 2) == 2


def test_a_node_that_is_not_up_never_comes_free():
    board = board_of(
        [node(8), node(8, state="draining")], [pending(8, 2, min_runtime_h=1), pending(8, min_runtime_h=1)]
    )
    assert (start_of(board, 0), start_of(board, 1)) == (None, 0)


def test_cpus_and_memory_come_free_with_their_holder():
    counted = [node(8, cpus=8, memory_gib=8)]
    work = [held(2, [0], 1, cpus=6), held(3, [0], 1, memory_gib=6)]
    work += [pending(1, cpus=4, min_runtime_h=1), pending(1, memory_gib=4, min_runtime_h=1)]
    board = board_of(counted, [*work, pending(1, min_runtime_h=1)])
    assert [start_of(board, j) for j in (2, 3, 4)] == [2, 3, 0]


def test_a_victim_claims_nothing_and_a_promise_claims_its_nodes_from_now_to_its_end():
    work = [running(8, [0], min_runtime_h=1, started_h_ago=5), pending(8, min_runtime_h=1)]
    board = board_of([node(8)], work)
    board.evict(0, WITHIN)
    claims = claims_of(board, np.array([True, False]))
    assert start_of(board, 1, claims) == 0
    assert start_of(board, 1, claims.plus(0, [(0, 1)], NOW_S + 5 * HOUR_S)) == 5


def test_claims_can_be_merged_and_parted():
    board = board_of([node(8)] * 2, [held(1, [0]), held(2, [1])])
    claims = claims_of(board, nobody(board))
    one, two = (claims.only(np.array(which)) for which in ([True, False], [False, True]))
    assert (one.workload.tolist(), two.workload.tolist()) == ([0], [1])
    assert sorted(one.merged(two).ends_s - NOW_S) == [HOUR_S, 2 * HOUR_S]


def test_what_was_protected_before_the_round_leaves_out_its_starts():
    board = board_of([node(8)] * 2, [held(3, [0]), pending(8, min_runtime_h=4)])
    board.start(1, [(1, 1)])
    assert protected_claims(board).workload.tolist() == [0]
    assert sorted(claims_of(board, nobody(board)).workload.tolist()) == [0, 1]


# --- every end --------------------------------------------------------------------------------------------


@st.composite
def claimed(draw):
    """Draw a board, and some claims more than stand on it."""
    board = draw(tier_worlds(resources=draw(st.booleans())))
    w, n = board.state.workloads, board.state.nodes
    unmoved = np.array(draw(st.lists(st.booleans(), min_size=w.count, max_size=w.count)))
    claims = claims_of(board, unmoved & board.standing)
    for j in np.flatnonzero(w.status == Status.PENDING).tolist()[:2]:
        at = draw(st.integers(0, n.count - 1))
        end_s = NOW_S + draw(st.integers(0, 9)) * HOUR_S
        claims = claims.plus(j, [(at, draw(st.integers(1, 2)))], end_s)
    return board, claims


@settings(max_examples=80)
@given(claimed())
def test_the_certain_start_is_the_first_end_at_which_the_gang_fits_of_all_that_there_are(drawn):
    board, claims = drawn
    w = board.state.workloads
    times = sorted({NOW_S, *(t for t in claims.ends_s.tolist() if NOW_S < t < FOREVER_S)})
    for j in np.flatnonzero(w.status == Status.PENDING).tolist():
        fits = [t for t in times if fits_somewhere(board.state, j, room_at(board, j, claims, t))]
        found = earliest_start(board, j, claims)
        if not fits:
            assert found is None
            continue
        assert found is not None
        assert found[0] == fits[0]
        counts = [sum(k for n, k in found[1] if n == i) for i in range(board.state.nodes.count)]
        assert sum(counts) == w.replicas[j]
        assert lawful(board.state, j, counts)
        room = room_at(board, j, claims, found[0])
        assert all(have >= k for have, k in zip(room, counts, strict=True))


@settings(max_examples=80)
@given(claimed(), st.integers(-1, 10))
def test_slots_at_a_time_are_what_a_count_claim_by_claim_finds(drawn, hours):
    board, claims = drawn
    n, w = board.state.nodes, board.state.workloads
    for j in np.flatnonzero(w.status == Status.PENDING).tolist():
        time_s = NOW_S + hours * HOUR_S
        wanted = room_at(board, j, claims, time_s)
        for i in range(n.count):
            here = w.pool_ok[j, n.pool[i]] and (w.required[j] < 0 or n.domain[w.required[j], i] >= 0)
            wanted[i] *= bool(here)
        assert place_slots(board, j, claims, time_s).tolist() == wanted
