"""Dominant resource fairness: the example of the paper step by step, weights, and progressive filling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.simulation.policies.drf import Drf, fractions
from tests.planner.simulation.policies.rounds import decide, setting_of
from tests.solver.factories import node, pending, running, state


def board_of(nodes, workloads, shares):
    world = state(nodes, workloads, shares=shares)
    return decide(Drf(setting_of(world)), world).board


def test_nine_cpus_and_18_gb_give_user_a_three_tasks_and_user_b_two():
    """NSDI'11, section 4.1 and table 1: B, A, A, B, A; A asks for <1 CPU, 4 GB>, B for <3 CPUs, 1 GB>."""
    tasks_b = [pending(1, leaf_budget="B", cpus=3, memory_gib=1, min_runtime_h=1) for _ in range(6)]
    tasks_a = [pending(1, leaf_budget="A", cpus=1, memory_gib=4, min_runtime_h=1) for _ in range(6)]
    machine = node(100, cpus=9, memory_gib=18)  # GPUs are nobody's dominant resource
    board = board_of([machine], tasks_b + tasks_a, {"B": 0.5, "A": 0.5})
    assert ["BA"[j >= 6] for j in board.starts] == ["B", "A", "A", "B", "A"]
    assert board.free_cpus.tolist() == [0]
    assert board.free_memory.tolist() == [4 * 2**30]  # 14 of 18 GB


def test_a_tasks_dominant_resource_is_the_largest_part_of_all_healthy_nodes():
    world = state(
        [node(8, cpus=8, memory_gib=100), node(8, cpus=8, memory_gib=100), node(8, state="down")],
        [pending(2, 2, cpus=3, memory_gib=10)],
    )
    assert fractions(world)[:, 0].tolist() == pytest.approx([4 / 16, 6 / 16, 20 / 200])


def test_with_weights_two_to_one_shares_go_two_to_one():
    queue = [pending(1, leaf_budget=b, min_runtime_h=1) for b in "ab" for _ in range(30)]
    board = board_of([node(8)] * 3, queue, {"a": 2 / 3, "b": 1 / 3})
    assert sum(j < 30 for j in board.starts) == 16


def test_what_runs_counts_and_unallocated_work_does_not():
    runs = [
        running(4, [0], leaf_budget="a", min_runtime_h=4),
        running(8, [1], leaf_budget="b"),  # makes room, and is charged to nobody
    ]
    queue = [pending(4, leaf_budget=b, min_runtime_h=1, submitted_h_ago=h) for b, h in [("a", 9), ("b", 1)]]
    board = board_of([node(8), node(8)], [*runs, *queue], {"a": 0.5, "b": 0.5})
    assert list(board.starts) == [3, 2]


def test_a_gang_that_fits_nowhere_blocks_neither_its_allocation_nor_the_others():
    queue = [
        pending(8, 4, leaf_budget="a", min_runtime_h=1, submitted_h_ago=9),
        pending(2, leaf_budget="a", min_runtime_h=1),
        pending(2, leaf_budget="b", min_runtime_h=1),
    ]
    assert set(board_of([node(8)], queue, {"a": 0.5, "b": 0.5}).starts) == {1, 2}


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([1, 2]), st.integers(0, 3), st.integers(0, 8)),
        min_size=1,
        max_size=20,
    )
)
def test_every_start_is_of_the_lowest_weighted_dominant_share_that_has_work_that_fits(jobs):
    shares = {"a": 0.5, "b": 0.3, "c": 0.2}
    queue = [
        pending(g, leaf_budget=b, cpus=c, memory_gib=m, min_runtime_h=1, submitted_h_ago=i / 64)
        for i, (b, g, c, m) in enumerate(jobs)
    ]
    total = np.array([12, 10, 30])
    board = board_of([node(12, cpus=10, memory_gib=30)], queue, shares)
    used, left, waiting = dict.fromkeys("abc", np.zeros(3)), total.astype(float), set(range(len(jobs)))
    ask = [np.array([g, c, m]) for _, g, c, m in jobs]
    for j in board.starts:
        fits = {jobs[k][0] for k in waiting if (ask[k] <= left).all()}
        level = {b: (used[b] / total).max() / shares[b] for b in fits}
        assert level[jobs[j][0]] <= min(level.values()) + 1e-9
        used[jobs[j][0]] = used[jobs[j][0]] + ask[j]
        left = left - ask[j]
        waiting.remove(j)
    assert not any((ask[k] <= left).all() for k in waiting)
