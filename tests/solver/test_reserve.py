"""Reservations one by one: the start that is worth the most, against a look at all times and nodes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.board import Board
from solver.decide import decide, opening
from solver.greedy import greedy
from solver.holds import CERTAINTY
from solver.state import SolveParams, State
from tests.solver.factories import HOUR_S, NOW_S, node, pending, promise, running, state


def held(hours: float, at, gpus: int = 8, **more):
    """Protected for so many hours more."""
    return running(gpus, at, min_runtime_h=hours + 1, started_h_ago=1, leaf_budget="b", **more)


def world(ends_h, *waits, reservations: int = 8, **more) -> State:
    """One node for each end of protection, held by `b`; what waits is of `a`, which never had anything."""
    work = [held(h, [i]) for i, h in enumerate(ends_h) if h]
    return state([node(8)] * len(ends_h), [*work, *waits], **SHARED | {"reservations": reservations} | more)


SHARED = {"shares": {"a": 0.5, "b": 0.5}, "usage_gpu_h": {"b": 50.0}, "reservations": 8}


def wants(gpus: int = 8, replicas: int = 2, min_runtime_h: float = 1, **more):
    return pending(gpus, replicas, min_runtime_h=min_runtime_h, leaf_budget="a", **more)


def promises(of: State) -> dict[int, tuple[float, list[int]]]:
    """Return hours from now and nodes of each promise of the greedy rung."""
    board = greedy(*opening(of))
    return {
        j: ((start_s - NOW_S) / HOUR_S, sorted(n for n, _ in parts))
        for j, (start_s, parts) in board.promised.items()
    }


def test_a_funded_gang_that_does_not_fit_is_promised_the_last_end_that_it_waits_for():
    assert promises(world((3, 1, 2, 7), wants())) == {4: (2, [1, 2])}


def test_nodes_that_come_free_together_idle_less_than_the_first_to_come_free():
    assert promises(world((0.1, 1, 1, 7), wants())) == {4: (1, [1, 2])}


def test_nobody_is_promised_the_nodes_of_an_elder_of_its_own_allocation():
    """Its protection ends, but then it goes on: it has the earlier turn."""
    own = running(8, [0], min_runtime_h=1, started_h_ago=0, submitted_h_ago=9, leaf_budget="a")
    younger = running(8, [0], min_runtime_h=1, started_h_ago=0, submitted_h_ago=1, leaf_budget="a")
    gang = wants(submitted_h_ago=5)
    assert promises(state([node(8)] * 2, [own, held(2, [1]), gang], **SHARED)) == {}
    assert promises(state([node(8)] * 2, [younger, held(2, [1]), gang], **SHARED)) == {2: (2, [0, 1])}


def test_plan_ahead_is_off_without_reservations():
    assert promises(world((3, 1, 2, 7), wants(), reservations=0)) == {}


def test_a_single_replica_takes_what_comes_free_and_needs_no_promise():
    assert promises(world((3, 1), wants(replicas=1))) == {}


def test_no_start_beyond_the_horizon_is_promised():
    assert promises(world((3, 1, 2, 7), wants(), horizon_s=HOUR_S)) == {}


def test_no_more_gangs_are_promised_a_start_than_the_site_allows():
    waits = [wants(min_runtime_h=1, submitted_h_ago=9 - k) for k in range(3)]
    assert list(promises(world((1, 1, 1, 1, 1, 1), *waits, reservations=2))) == [6, 7]


def test_what_is_not_in_the_money_is_promised_nothing():
    assert promises(world((1, 1), wants(), wants(submitted_h_ago=1), wants(submitted_h_ago=0))).keys() == {2}


def test_held_nodes_take_only_what_ends_in_time():
    waits = [
        wants(replicas=3, submitted_h_ago=9),
        wants(replicas=1, min_runtime_h=4),
        wants(replicas=1, min_runtime_h=0.5, submitted_h_ago=1),
    ]
    out = decide(world((0, 0, 1), *waits), SolveParams("greedy"))
    assert sorted(out.board.starts) == [3]
    assert out.board.promised[1][0] == NOW_S + HOUR_S


def test_unallocated_work_fills_the_hold():
    filler = pending(8, 1, allocated=False, leaf_budget="b")
    out = decide(world((0, 0, 1), wants(replicas=3), filler, filler), SolveParams("greedy"))
    assert sorted(out.board.starts) == [2, 3]
    assert not out.broken


def test_a_promise_is_kept_by_the_next_round():
    first = promises(world((1, 1), wants()))
    again = world((1, 1), wants(), promises=[promise(2, 1, [0, 1])])
    assert promises(again) == first


ends = st.lists(st.sampled_from([0, 0.25, 0.5, 1, 1.5, 2, 4, 7, 12]), min_size=2, max_size=6)


@given(ends, st.integers(2, 4))
def test_no_other_time_and_nodes_cost_less(ends_h, replicas):
    of = world(ends_h, wants(replicas=replicas, min_runtime_h=1))
    j = sum(h > 0 for h in ends_h)
    if replicas > len(ends_h):
        return
    if sum(h == 0 for h in ends_h) >= replicas:
        assert promises(of) == {}
        return
    costs = [
        sum(start - ends_h[n] for n in nodes) + CERTAINTY * replicas * start
        for start in {h for h in ends_h if 0 < h <= 8}
        for nodes in combinations(range(len(ends_h)), replicas)
        if all(ends_h[n] <= start for n in nodes)
        and sum(start - ends_h[n] for n in nodes) <= CERTAINTY * replicas * max(8 - start, 1 / 60)
    ]
    found = promises(of)
    assert bool(found) == bool(costs)
    if found:
        start, nodes = found[j]
        assert all(ends_h[n] <= start for n in nodes)
        cost = sum(start - ends_h[n] for n in nodes) + CERTAINTY * replicas * start
        assert cost == pytest.approx(min(costs))


gangs = st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 3), st.sampled_from([0, 0.5, 1, 4]))


@given(st.lists(gangs, max_size=8), ends)
def test_plans_with_reservations_break_no_rule(asks, ends_h):
    waits = [
        pending(g, k, min_runtime_h=h, leaf_budget="ab"[i % 2], submitted_h_ago=i)
        for i, (g, k, h) in enumerate(asks)
    ]
    out = decide(world(ends_h, *waits), SolveParams("greedy"))
    assert out.broken == []
    assert len(out.board.settled()) <= 8


def test_the_board_of_a_copy_promises_alone():
    board, pending_js = opening(world((3, 1, 2, 7), wants()))
    assert isinstance(board, Board)
    assert greedy(board, pending_js).promised.keys() == {4}
    assert board.promised == {}
    assert (board.hold_s > np.int64(NOW_S) * 100).all()


def test_what_is_promised_counts_under_a_limit():
    busy = [held(1, [i]) for i in range(4)]
    gangs = [wants(submitted_h_ago=3), wants(submitted_h_ago=2)]
    assert promises(state([node(8)] * 4, [*busy, *gangs], limits={"a": 31}, **SHARED)).keys() == {4}
    assert promises(state([node(8)] * 4, [*busy, *gangs], limits={"a": 32}, **SHARED)).keys() == {4, 5}


@pytest.mark.parametrize(("most", "promised"), [(15, {}), (16, {2: (1, [0, 1])}), (-1, {2: (1, [0, 1])})])
def test_nothing_is_promised_for_which_no_round_may_preempt_enough(most, promised):
    work = [held(1, [0, 1]), held(7, [2]), wants()]
    assert promises(state([node(8)] * 3, work, max_preempted_gpus=most, **SHARED)) == promised


def test_nobody_is_promised_the_nodes_of_an_elder_that_starts_in_this_round():
    elder = wants(replicas=1, submitted_h_ago=9)
    gang = wants(submitted_h_ago=5)
    assert promises(state([node(8)] * 3, [held(2, [2]), elder, gang], **SHARED)) == {2: (2, [1, 2])}


def test_one_gang_without_a_promise_keeps_none_of_the_same_shape_from_one():
    """What idles is too dear for the one, and free for the other, which has waited for nine hours."""
    work = [running(4, [0, 2], min_runtime_h=8, started_h_ago=0.25, leaf_budget="b")]
    gangs = [
        pending(4, 2, min_runtime_h=1, submitted_h_ago=0, leaf_budget="a", required="leaf"),
        pending(4, 2, min_runtime_h=1, submitted_h_ago=9, leaf_budget="b", required="leaf"),
    ]
    nodes = [node(4, leaf=f"l{i // 2}") for i in range(4)]
    world = state(nodes, [*work, *gangs], ratios={"a": 0.62, "b": 0.63}, reservations=8)
    assert promises(world).keys() == {2}


def test_a_gang_without_gpus_is_promised_nothing():
    nodes = [node(8, cpus=64)] * 2
    busy = running(0, [0, 1], cpus=32, min_runtime_h=8, started_h_ago=1, leaf_budget="b")
    gang = pending(0, 2, cpus=40, min_runtime_h=1, leaf_budget="a")
    assert promises(state(nodes, [busy, gang], **SHARED)) == {}
