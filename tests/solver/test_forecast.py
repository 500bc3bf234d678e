"""Forecasts: each takes its earliest place, and those after it what is left."""

from __future__ import annotations

from solver.board import Board
from solver.forecast import forecasts
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state
from tests.solver.oracles import order_of
from tests.solver.seeded import random_state


def expected(work, nodes: int, **more) -> dict[int, float]:
    """Return hours from now by workload, of those that have a forecast."""
    world = state([node(8)] * nodes, work, ratios={"a": 0.1, "b": 0.9}, reservations=0, **more)
    found = forecasts(Board(world, order_of(world)))
    return {j: (s - NOW_S) / HOUR_S for j, s in enumerate(found.tolist()) if s >= 0}


def held(hours: float, n: int):
    return running(8, [n], min_runtime_h=hours + 1, started_h_ago=1, leaf_budget="b")


def wants(replicas: int, hours_ago: float, **more):
    return pending(8, replicas, min_runtime_h=2, submitted_h_ago=hours_ago, leaf_budget="a", **more)


def test_each_takes_its_earliest_place_and_stands_in_the_way_of_those_after_it():
    work = [held(1, 0), held(3, 1), wants(1, 9), wants(1, 8)]
    assert expected(work, 2) == {2: 1, 3: 3}


def test_who_goes_before_it_in_its_own_allocation_goes_on_when_its_protection_ends():
    work = [held(1, 0), held(6, 1), held(7, 2), wants(1, 9), wants(1, 8), wants(1, 7)]
    assert expected(work, 3) == {3: 1, 4: 6, 5: 7}
    own = running(8, [0], min_runtime_h=2, started_h_ago=1, leaf_budget="a", submitted_h_ago=9)
    assert expected([own, wants(1, 8)], 1) == {}
    assert expected([own, wants(1, 9.5)], 1) == {}  # it would go first, but not at the cost of what runs


def test_what_is_beyond_its_share_is_not_told_that_work_within_its_share_makes_way():
    def waits(leaf: str) -> dict[int, float]:
        run = running(8, [0], min_runtime_h=2, started_h_ago=1, leaf_budget="a")
        world = state(
            [node(8)], [run, pending(8, min_runtime_h=1, leaf_budget=leaf)], ratios={"a": 0.5, "b": 2.0}
        )
        found = forecasts(Board(world, order_of(world)))
        return {j: (s - NOW_S) / HOUR_S for j, s in enumerate(found.tolist()) if s >= 0}

    assert waits("b") == {}
    assert waits("a") == {}  # nor its own elder


def test_another_of_the_same_tier_may_make_way():
    run = running(8, [0], min_runtime_h=2, started_h_ago=1, leaf_budget="b")
    world = state([node(8)], [run, pending(8, min_runtime_h=1, leaf_budget="a")], ratios={"a": 0.1, "b": 0.9})
    found = forecasts(Board(world, order_of(world)))
    assert found.tolist() == [-1, NOW_S + HOUR_S]


def test_what_is_not_in_the_money_waits_for_a_place_that_nobody_before_it_needs():
    work = [held(1, 0), held(3, 1), wants(1, 9), wants(1, 8), wants(1, 7)]
    assert expected(work, 2) == {2: 1, 3: 3}
    work[3] = wants(2, 8)  # 2 and 3 are more than the two nodes
    assert expected(work, 2) == {2: 1, 4: 3}


def test_beyond_the_horizon_only_what_is_in_the_money_has_a_forecast():
    work = [held(1, 0), held(3, 1), wants(1, 9), wants(2, 8), wants(1, 7)]
    assert expected(work, 2, horizon_s=2 * HOUR_S) == {2: 1}
    assert expected([held(3, 0), wants(1, 9)], 1, horizon_s=2 * HOUR_S) == {1: 3}


def test_nothing_that_stands_or_runs_has_a_forecast_and_none_lies_in_the_past():
    seen = 0
    for seed in range(150):
        world = random_state(seed)
        board = Board(world, order_of(world))
        found = forecasts(board)
        assert (found[~world.workloads.pending & (found >= 0)] == -1).all()
        assert ((found == -1) | (found > world.now_s)).all()
        seen += int((found >= 0).sum())
    assert seen > 20
