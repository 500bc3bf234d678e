"""Who may be evicted where: kept up to date, and covered cheaply, against counting anew and all subsets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.board import Board
from solver.evictable import Evictable, Tenant, Tenants
from solver.shares import BEYOND
from tests.solver.oracles import tier_worlds

AMOUNTS = st.tuples(st.integers(0, 8), st.integers(0, 4), st.integers(0, 4))


def evictable_of(board: Board) -> Evictable:
    w = board.state.workloads
    may = board.standing & board.interruptible
    return Evictable(board, may, 1.5 * w.gpus + np.arange(w.count))


@settings(max_examples=60)
@given(tier_worlds(resources=True), st.data())
def test_taking_note_of_evictions_is_as_good_as_counting_anew(board, data):
    noted = evictable_of(board)
    for r in data.draw(st.permutations(np.flatnonzero(board.standing & board.interruptible).tolist())):
        board.evict(r, BEYOND)
        noted.evict(r)
        anew = evictable_of(board)
        assert noted.count == anew.count
        for name in ("gpus", "cpus", "memory"):
            assert getattr(noted, name).tolist() == getattr(anew, name).tolist()
        for name in ("least", "unit", "dearest", "total"):
            assert getattr(noted.prices, name) == pytest.approx(getattr(anew.prices, name))
        for n in range(board.state.nodes.count):
            assert noted.on(n).cheapest == anew.on(n).cheapest
            assert noted.on(n).cheapest_by_gpu == anew.on(n).cheapest_by_gpu


@settings(max_examples=60)
@given(tier_worlds(resources=True))
def test_what_stands_on_a_node_adds_up(board):
    evictable = evictable_of(board)
    for n in range(board.state.nodes.count):
        here = evictable.on(n).of.values()
        held = (evictable.gpus[n], evictable.cpus[n], evictable.memory[n])
        assert tuple(sum(t[i] for t in here) for i in (2, 3, 4)) == held
        assert evictable.prices.least[n] == min((t.cost for t in here), default=np.inf)
        assert evictable.prices.unit[n] == min((t.cost / max(t.gpus, 1) for t in here), default=np.inf)


@settings(max_examples=80)
@given(tier_worlds(resources=True))
def test_no_node_frees_gpus_for_less_than_it_costs_at_least(board):
    evictable = evictable_of(board)
    for n in np.flatnonzero(evictable.gpus).tolist():
        here = evictable.on(n)
        for gpus in range(1, int(evictable.gpus[n]) + 1):
            cost, _ = here.cover((gpus, 0, 0), set())
            one = np.array([n])
            least = float(evictable.prices.at_least(one, np.array([gpus]), evictable.gpus[one])[0])
            assert least <= cost * (1 + 1e-9)
            assert least == pytest.approx(cost) or gpus < evictable.gpus[n]


def tenants(*held: tuple[int, int, int], cost: list[float]) -> Tenants:
    return Tenants(Tenant(c, r, *amounts) for r, (amounts, c) in enumerate(zip(held, cost, strict=True)))


def covers(chosen, missing) -> bool:
    return all(sum(amounts[i] for amounts in chosen) >= missing[i] for i in range(3))


@settings(max_examples=150)
@given(
    st.lists(st.tuples(AMOUNTS, st.integers(1, 9)), min_size=1, max_size=5),
    AMOUNTS,
    st.sets(st.integers(0, 4), max_size=2),
)
def test_a_cover_holds_what_is_missing_has_nobody_in_vain_and_costs_no_more_than_one_alone(
    there, missing, gone
):
    held, costs = [h for h, _ in there], [float(c) for _, c in there]
    left = [r for r in range(len(there)) if r not in gone]
    if not covers([held[r] for r in left], missing):
        return
    cost, chosen = tenants(*held, cost=costs).cover(missing, gone)
    assert cost == sum(costs[r] for r in chosen)
    assert gone.isdisjoint(chosen)
    assert covers([held[r] for r in chosen], missing)
    for fewer in combinations(chosen, max(len(chosen) - 1, 0)):
        assert not chosen or not covers([held[r] for r in fewer], missing)
    assert all(cost <= costs[r] for r in left if covers([held[r]], missing))


def test_a_cover_asked_for_again_after_an_eviction_is_another():
    here = tenants((4, 0, 0), (4, 0, 0), cost=[1.0, 2.0])
    assert here.cover((2, 0, 0), set()) == (1.0, [0])
    here.evict(0)
    assert here.cover((2, 0, 0), set()) == (2.0, [1])
