"""Facts about what waits: counted by hand, and true on random worlds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from solver.board import Board
from solver.evidence import ahead_of, awaited, evidence, lost_gpu_s, rivals
from solver.greedy import greedy
from solver.placing import find_free
from solver.state import Level, Status
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state
from tests.solver.oracles import order_of, tier_worlds

PAST = {"min_runtime_h": 1, "started_h_ago": 5}


def board_of(nodes, workloads, **more) -> Board:
    world = state(nodes, workloads, **more)
    return Board(world, order_of(world))


def test_holes_are_nodes_with_free_gpus_but_too_few_for_one_replica():
    held = [running(8 - free, [i], min_runtime_h=8) for i, free in enumerate((3, 0, 1, 2)) if free < 8]
    board = board_of([node(8)] * 4, [*held, pending(3, 2, min_runtime_h=1)])
    e = evidence(board, 4)
    assert (e.free_gpus, e.holes, e.largest_hole, e.fits_now) == (6, 2, 3, 1)


def test_what_would_fit_beside_protected_work_and_on_empty_nodes():
    work = [
        running(8, [0], min_runtime_h=8),
        running(8, [1], **PAST),
        running(8, [2], allocated=False),
        pending(8, 4, min_runtime_h=1),
    ]
    board = board_of([node(8)] * 3 + [node(8, state="draining")], work)
    e = evidence(board, 3)
    assert (e.fits_now, e.fits_unprotected, e.fits_empty, e.protected_gpus) == (0, 2, 3, 8)


def test_the_best_group_is_the_domain_that_would_hold_the_most():
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l1", "l2", "l2", "l2")]
    work = [
        running(8, [0], min_runtime_h=8),
        running(4, [2], min_runtime_h=8),
        running(8, [3], **PAST),
        pending(8, 3, min_runtime_h=1, required="leaf"),
    ]
    e = evidence(board_of(nodes, work), 3)
    assert e.group.tolist() == [2, 3, 4]
    assert (e.fits_now, e.fits_unprotected, e.fits_empty, e.protected_gpus) == (1, 2, 3, 4)


@pytest.mark.parametrize(("required", "anywhere"), [("leaf", True), (None, False)])
def test_a_gang_that_only_its_level_stops_would_fit_anywhere(required, anywhere):
    nodes = [node(8, leaf="l1"), node(8, leaf="l2")]
    board = board_of(nodes, [pending(8, 2, min_runtime_h=1, required=required)])
    assert evidence(board, 0).anywhere == anywhere


def test_who_is_ahead_is_what_stands_of_others_and_ranks_before_most_gpus_first():
    work = [
        running(2, [0], leaf_budget="a", **PAST),
        running(4, [0], leaf_budget="b", **PAST),
        running(1, [0], leaf_budget="c", **PAST),
        running(8, [1], leaf_budget="d", **PAST),
        pending(8, leaf_budget="c", min_runtime_h=1, submitted_h_ago=1),
        pending(8, leaf_budget="a", min_runtime_h=1),
    ]
    shares = {"a": 0.2, "b": 0.2, "c": 0.2, "d": 0.4}
    board = board_of(
        [node(8)] * 2,
        work,
        shares=shares,
        ratios={"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.9},
        entitled_gpu_h=dict.fromkeys(shares, 10**6),
    )
    assert ahead_of(board, 4) == [
        (2, 4),
        (1, 2),
    ]  # d ranks after it, and the pending work of a does not stand


@pytest.mark.parametrize(
    ("resumable", "started_h_ago", "lost_s"), [(True, 5, 600), (True, 0.1, 360), (False, 5, 5 * HOUR_S)]
)
def test_a_run_loses_a_restart_or_all_and_no_more_than_it_has_done(resumable, started_h_ago, lost_s):
    run = running(4, [0, 0], allocated=False, resumable=resumable, started_h_ago=started_h_ago)
    assert lost_gpu_s(board_of([node(8)], [run]), 0) == 8 * lost_s


@settings(max_examples=80)
@given(tier_worlds(resources=True))
def test_the_counts_agree_with_what_can_be_placed(board):
    w, sequence = board.state.workloads, board.order.sequence
    out = greedy(board, sequence[w.status[sequence] == Status.PENDING])
    for j in np.flatnonzero((w.status == Status.PENDING) & ~out.standing).tolist():
        e = evidence(out, j)
        if not (w.segment[j] and w.required[j] != Level.NONE):
            assert (e.fits_now >= w.replicas[j]) == (find_free(out, j) is not None)
        assert e.fits_unprotected <= e.fits_empty or not len(e.group)
        assert e.holes == 0 or e.largest_hole > 0
        assert e.free_gpus >= e.largest_hole


def test_who_must_go_is_whoever_ends_first_until_there_is_room():
    work = [
        *(running(g, [0], min_runtime_h=h + 1, started_h_ago=1) for g, h in ((2, 1), (2, 2), (2, 3), (1, 9))),
        running(8, [1], **PAST),
        pending(4, 2, min_runtime_h=1),
    ]
    board = board_of([node(8)] * 2, work)
    start_s = NOW_S + 9 * HOUR_S
    assert awaited(board, 5, start_s, [(0, 1), (1, 1)]) == {0: NOW_S + HOUR_S, 1: NOW_S + 2 * HOUR_S}
    assert awaited(board, 5, start_s, [(1, 2)]) == {}  # interruptible work makes way when the time has come


def test_starts_of_this_round_and_earlier_promises_must_go_and_later_ones_need_not():
    work = [pending(8, min_runtime_h=h) for h in (1, 2, 3, 1)]
    board = board_of([node(8)], work)
    board.start(0, [(0, 1)])
    for j, in_h in ((1, 1), (2, 9), (3, 3)):
        board.promise(j, NOW_S + in_h * HOUR_S, [(0, 1)])
    ends_s = {0: NOW_S + HOUR_S, 1: NOW_S + 3 * HOUR_S}
    assert awaited(board, 3, NOW_S + 3 * HOUR_S, [(0, 1)]) == ends_s


def test_rivals_are_promises_where_protected_work_leaves_room():
    work = [*(pending(8, min_runtime_h=2) for _ in range(3)), running(8, [1], min_runtime_h=5)]
    board = board_of([node(8)] * 2, work)
    board.promise(1, NOW_S + HOUR_S, [(0, 1)])
    assert rivals(board, 0, NOW_S + HOUR_S, [(0, 1)], []) == [1]
    assert rivals(board, 0, NOW_S + 3 * HOUR_S, [(0, 1)], []) == []  # over by then
    assert rivals(board, 0, NOW_S + HOUR_S, [(1, 1)], []) == []  # protected work
    board.start(2, [(0, 1)])
    assert rivals(board, 0, NOW_S, [(0, 1)], []) == []
    assert rivals(board, 0, NOW_S, [(0, 1)], [2]) == [1, 2]  # it started by its promise
