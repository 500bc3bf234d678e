"""Ways to clear a node: all that differ in what they release, each at its least cost."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from solver import clearing
from solver.board import Board
from solver.clearing import crowded, ways_of
from solver.problem import Victims, problem_of
from solver.shares import WITHIN
from tests.solver.factories import node, pending, running, state
from tests.solver.oracles import order_of, waiting

SHARES = {"ratios": {"a": 0.1, "b": 0.6, "c": 3.0}, "entitled_gpu_h": dict.fromkeys("abc", 10**6)}


def victims_of(nodes, work) -> Victims:
    world = state(
        nodes,
        [*work, pending(1, leaf_budget="a", min_runtime_h=1)],
        shares={"a": 0.4, "b": 0.3, "c": 0.3},
        **SHARES,
    )
    board = Board(world, order_of(world))
    return problem_of(board, WITHIN, waiting(board, WITHIN)).victims


def past(gpus: int, at, leaf: str = "c", **more):
    return running(gpus, at, leaf_budget=leaf, min_runtime_h=1, started_h_ago=5, **more)


def told(victims: Victims, ways) -> list[tuple[int, ...]]:
    """Return the workloads that go in each way."""
    index = victims.index[victims.part[ways.part]]
    return [tuple(sorted(index[ways.way == o].tolist())) for o in range(ways.count)]


def alike(victims: Victims, at) -> tuple:
    """Return what the rows see of some victims: band, GPUs and tier of each, in no order."""
    columns = (victims.band[at], victims.gpus[at], victims.tier[at])
    return tuple(sorted(zip(*(column.tolist() for column in columns), strict=True)))


someone = st.tuples(st.sampled_from([1, 1, 2, 3, 4]), st.sampled_from("bc"), st.booleans(), st.integers(1, 3))


@settings(max_examples=60)
@given(st.lists(someone, min_size=1, max_size=5))
def test_every_release_has_a_way_and_no_set_of_victims_alike_costs_less(drawn):
    work = [
        running(g, [0], leaf_budget=leaf, allocated=False)
        if free
        else past(g, [0], leaf, submitted_h_ago=9 * h)
        for g, leaf, free, h in drawn
    ]
    victims = victims_of([node(32)], work)
    ways = ways_of(victims, WITHIN, 1)
    cost = np.where(victims.tier == WITHIN, victims.worth + victims.restart, victims.regret)
    least: dict[tuple, float] = {}
    for k in range(1, victims.count + 1):
        for chosen in itertools.combinations(range(victims.count), k):
            at = list(chosen)
            kind = alike(victims, at)
            least[kind] = min(least.get(kind, np.inf), float(cost[at].sum()))
    found = {}
    for members in told(victims, ways):
        at = np.searchsorted(victims.index, members)
        kind = alike(victims, at)
        assert kind not in found
        found[kind] = float(cost[at].sum())
    if victims.count > 1:
        assert found.keys() == least.keys()
        assert all(abs(found[k] - least[k]) < 1e-9 for k in least)
    else:
        assert ways.count == 0


def test_who_stands_elsewhere_too_is_like_nobody_else():
    victims = victims_of([node(8), node(8)], [past(2, [0, 1]), past(2, [0]), past(2, [0])])
    at_first = [m for m in told(victims, ways_of(victims, WITHIN, 2)) if m]
    assert sorted(at_first) == [(0,), (0, 1), (0, 1, 2), (1,), (1, 2)] or len(at_first) == 5


def test_a_node_with_too_many_ways_is_crowded(monkeypatch):
    work = [past(g, [0]) for g in (1, 2, 3)] + [past(g, [1]) for g in (1, 2)]
    victims = victims_of([node(8), node(8), node(8)], work)
    assert [len(set(m)) for m in told(victims, ways_of(victims, WITHIN, 3))].count(1) == 5
    monkeypatch.setattr(clearing, "MOST_WAYS", 6)
    ways = ways_of(victims, WITHIN, 3)
    assert set(ways.node.tolist()) == {1}
    assert crowded(victims, ways, 3).tolist() == [True, False, False]


def test_what_a_way_frees_for_a_band_is_what_later_bands_hold():
    victims = victims_of([node(8)], [past(2, [0], "b"), past(4, [0], "c")])
    ways = ways_of(victims, WITHIN, 1)
    bands = sorted(victims.band.tolist())
    freed = {
        m: [int(ways.gpus(victims, b)[o]) for b in (0, bands[0], bands[1])]
        for o, m in enumerate(told(victims, ways))
    }
    assert freed == {(0,): [2, 0, 0], (1,): [4, 4, 0], (0, 1): [6, 4, 0]}
