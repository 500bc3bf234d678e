"""What can never run, and what could not start now, against a search over every place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver import feasible
from solver.board import Board
from solver.feasible import Reject, hopeful, placeable, rejections
from solver.placing import find_free
from solver.state import State, Status
from tests.solver.factories import node, pending, running, state, stopping
from tests.solver.oracles import fits_somewhere, order_of, tier_worlds
from tests.solver.worlds import empty, seat, slots, take, worlds

LEAVES = [node(8, leaf="l1"), node(8, leaf="l1"), node(8, leaf="l2"), node(4, leaf="l2", gpu_type="b200")]


def reject(spec, nodes=LEAVES, **more) -> Reject:
    return Reject(int(rejections(state(nodes, [spec], **more))[0]))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (pending(8, 3), Reject.NO),
        (pending(8, 2, required="leaf"), Reject.NO),
        (pending(4, 2, required="node"), Reject.NO),
        (pending(4, 6, required="leaf", segment=2), Reject.NO),
        (pending(0, 900), Reject.NO),
        (pending(9), Reject.REPLICA_TOO_LARGE),
        (pending(8, gpu_types=("b200",)), Reject.REPLICA_TOO_LARGE),
        (pending(4, 3, required="node"), Reject.REPLICA_TOO_LARGE),
        (pending(8, 4), Reject.TOO_LARGE),
        (pending(8, 3, required="leaf"), Reject.TOO_LARGE),
        (pending(8, 4, required="leaf", segment=2), Reject.TOO_LARGE),
        (pending(4, 5, required="leaf", segment=2), Reject.BROKEN_SEGMENTS),
        (pending(1, gpu_types=("abacus",)), Reject.NO_SUCH_POOL),
        (pending(1, clusters=("mars",)), Reject.NO_SUCH_POOL),
        (pending(1, required="unknown"), Reject.UNKNOWN_LEVEL),
        (pending(1, leaf_budget=-1), Reject.UNKNOWN_ALLOCATION),
    ],
)
def test_each_reason_to_reject(spec, reason):
    assert reject(spec) == reason


def test_a_gang_larger_than_a_limit_above_it_is_rejected_and_one_as_large_is_not():
    tree = {"shares": {"t/a": 0.5, "b": 0.5}, "limits": {"t": 15}}
    assert reject(pending(8, 2, leaf_budget="t/a"), **tree) == Reject.OVER_LIMIT
    assert reject(pending(5, 3, leaf_budget="t/a"), **tree) == Reject.NO
    assert reject(pending(8, 2, leaf_budget="b"), **tree) == Reject.NO


def test_segments_that_no_domain_holds_do_not_add_up():
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l1", "l1", "l2", "l3")]
    assert reject(pending(8, 4, required="leaf", segment=2), nodes) == Reject.TOO_LARGE
    assert reject(pending(8, 5, required="leaf", segment=1), nodes) == Reject.NO


def test_an_outage_and_a_full_cluster_reject_nobody():
    sick = [replace(n, state=s) for n, s in zip(LEAVES, ("down", "draining", "down", "down"), strict=True)]
    assert reject(pending(8, 3), sick) == Reject.NO
    full = [running(8, [i], min_runtime_h=8) for i in range(3)]
    assert rejections(state(LEAVES, [pending(8, 3), *full])).tolist() == [Reject.NO] * 4


def test_what_runs_is_never_rejected():
    assert rejections(state([node(2)], [running(2, [0], leaf_budget=-1)])).tolist() == [Reject.NO]


def test_cpus_and_memory_count_where_they_are_counted():
    counted = [node(8, cpus=8, memory_gib=16)]
    assert reject(pending(1, 2, cpus=4, memory_gib=8), counted) == Reject.NO
    assert reject(pending(1, 3, cpus=4), counted) == Reject.TOO_LARGE
    assert reject(pending(1, cpus=8.001), counted) == Reject.REPLICA_TOO_LARGE
    assert reject(pending(1, 2, memory_gib=9), counted) == Reject.TOO_LARGE
    assert reject(pending(1, 8, cpus=999, memory_gib=999), [node(8)]) == Reject.NO


def room(world, standing: list[int]) -> list[list[int]]:
    """Return what each healthy node has left beside these."""
    free = empty(world)
    for j in standing:
        take(free, world, j, seat(world.workloads.placement, j))
    return [have if world.nodes.state[i] == 0 else [0, 0] for i, have in enumerate(free)]


def by_cluster(world: State) -> State:
    """Return the world as if each cluster had a single GPU type."""
    n, w = world.nodes, world.workloads
    clusters = int(n.pool_cluster.max()) + 1
    anywhere = np.ones((w.count, clusters), dtype=bool)
    nodes = replace(n, pool=n.pool_cluster[n.pool], pool_cluster=np.arange(clusters))
    return replace(world, nodes=nodes, workloads=replace(w, pool_ok=anywhere))


@settings(max_examples=80)
@given(worlds())
def test_rejected_is_exactly_what_fits_no_cluster_of_an_empty_healthy_inventory_or_its_limits(world):
    w, b, n = world.workloads, world.budgets, world.nodes
    found, free = rejections(world), empty(world)
    for j in np.flatnonzero(w.status == Status.PENDING).tolist():
        limited = any(0 <= b.limit_gpus[v] < w.gpus[j] for v in b.path(int(w.leaf[j])))
        room = [slots(world, have, j) * bool(w.pool_ok[j, n.pool[i]]) for i, have in enumerate(free)]
        fits = fits_somewhere(by_cluster(world), j, room)
        assert (found[j] == Reject.NO) == (fits and not limited)


@settings(max_examples=80)
@given(worlds())
def test_placeable_is_exactly_the_allocated_work_that_fits_beside_protected_and_stopping_work(world):
    w = world.workloads
    stays = world.protected | (w.status == Status.STOPPING)
    free = room(world, np.flatnonzero(stays).tolist())
    found = placeable(world)
    for j in np.flatnonzero(w.status == Status.PENDING).tolist():
        healthy = [slots(world, have, j) if world.nodes.state[i] == 0 else 0 for i, have in enumerate(free)]
        assert found[j] == (w.allocated[j] and fits_somewhere(world, j, healthy))


def test_placeable_counts_what_may_be_evicted_as_gone_and_the_rest_as_there():
    runs = [
        running(8, [0], allocated=False),
        running(8, [1], min_runtime_h=8),
        stopping(8, [2]),
    ]
    world = state(
        [node(8)] * 3 + [node(8, state="draining")],
        [*runs, pending(8, min_runtime_h=1), pending(8, 2, min_runtime_h=1)],
    )
    assert placeable(world).tolist() == [True, True, True, True, False]


@settings(max_examples=80)
@given(worlds())
def test_what_is_placeable_need_not_be_looked_at_again(world):
    assert rejections(world, fits=placeable(world)).tolist() == rejections(world).tolist()


BOARDS = st.one_of(tier_worlds(resources=True), worlds().map(lambda w: Board(w, order_of(w))))


@settings(max_examples=80)
@given(BOARDS, st.sampled_from([0, 6]))
def test_hope_is_lost_only_for_what_finds_no_place_and_in_a_crowd_for_all_of_it(board, handful):
    w = board.state.workloads
    js = np.flatnonzero((w.status == Status.PENDING) & (rejections(board.state) == Reject.NO))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feasible, "A_HANDFUL", handful)
        left = hopeful(board, js, board.free).tolist()
    fit = [j for j in js.tolist() if find_free(board, j) is not None]
    assert left == fit if handful == 0 else set(left) >= set(fit)


@settings(max_examples=40)
@given(BOARDS)
def test_a_look_at_a_few_nodes_at_a_time_sees_the_same(board):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feasible, "CELLS_AT_ONCE", 1)
        one_by_one = rejections(board.state), placeable(board.state)
    assert one_by_one[0].tolist() == rejections(board.state).tolist()
    assert one_by_one[1].tolist() == placeable(board.state).tolist()
