"""First come, first served, first fit; priorities and budgets count nothing."""

from __future__ import annotations

from planner.simulation.policies.fifo import Fifo
from tests.planner.simulation.policies.rounds import decide, setting_of
from tests.solver.factories import node, pending, running, state


def verdict_of(nodes, workloads, **more):
    world = state(nodes, workloads, **more)
    return decide(Fifo(setting_of(world)), world).board


def test_the_oldest_starts_first_whatever_its_priority_and_its_teams_use():
    old = pending(8, leaf_budget="a", min_runtime_h=1, submitted_h_ago=3)
    new = pending(8, leaf_budget="b", min_runtime_h=1, submitted_h_ago=2, priority=9)
    board = verdict_of([node(8)], [new, old], ratios={"a": 5.0})
    assert list(board.starts) == [1]


def test_what_fits_goes_past_a_blocked_gang_without_a_reservation():
    busy = running(8, [0], min_runtime_h=4, time_limit_h=2)
    gang = pending(8, 2, min_runtime_h=1, submitted_h_ago=9)
    small = pending(8, min_runtime_h=4, submitted_h_ago=1)
    assert list(verdict_of([node(8), node(8)], [busy, gang, small]).starts) == [2]


def test_allocated_work_takes_the_place_of_unallocated_work_and_never_of_allocated():
    past = running(8, [0], min_runtime_h=0.1)
    free = running(8, [1])
    queue = [pending(8, min_runtime_h=1), pending(8, min_runtime_h=1), pending(8)]
    board = verdict_of([node(8), node(8)], [past, free, *queue])
    assert (list(board.starts), list(board.victims)) == ([2], [1])


def test_unallocated_work_comes_last_however_old():
    queue = [pending(8, submitted_h_ago=9), pending(8, min_runtime_h=1, submitted_h_ago=1)]
    assert list(verdict_of([node(8)], queue).starts) == [1]
    assert list(verdict_of([node(8)] * 2, queue).starts) == [1, 0]
