"""Measures of fragmentation: worked examples, brute force on tiny worlds, and relations that must hold."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.fragmentation import (
    Claims,
    Demand,
    buddy_inventory,
    cells,
    certain_start_s,
    earliest_fit_s,
    free_at_s,
    hole_filling,
    largest_at,
    largest_gangs,
    levels_of,
    measure,
    protected_claims,
    queued,
)
from solver.state import FOREVER_S, Level, NodeState
from tests.solver.factories import HOUR_S, NOW_S, node, pending, renumbered, running, state, stopping


def ints(*values):
    return np.array(values, dtype=np.int64)


NO_DEMAND = Demand(ints(), ints(), ints())


def leaves(*free, **more):
    """Return a world of 8-GPU nodes, one leaf for each tuple of free GPUs, and these free GPUs."""
    nodes = [node(leaf=f"l{d}", block="b", **more) for d, leaf in enumerate(free) for _ in leaf]
    return state(nodes), ints(*(f for leaf in free for f in leaf))


# Worked examples


def test_the_largest_gang_is_a_piece_on_a_node_and_whole_nodes_above():
    world, free = leaves((8, 8, 4), (8, 7), (6, 6))
    assert levels_of(world) == (Level.NODE, 1, 0, Level.NONE)
    assert largest_gangs(world, free) == (8, 16, 24, 24)


def test_nodes_of_two_sizes_or_two_pools_do_not_add_up_to_one_gang():
    world = state([node(8), node(8), node(4), node(8, gpu_type="b200"), node(8, cluster="c2")])
    assert largest_gangs(world, world.nodes.gpus) == (8, 16)


def test_nodes_that_are_not_up_offer_nothing():
    world = state([node(), node(8, state="draining"), node(8, state="down"), node(4), node(2)])
    found = measure(world, ints(3, 4, 8, 4, 0), NO_DEMAND)
    assert (found.free_gpus, found.sliver_nodes, found.sliver_gpus) == (7, 1, 3)
    assert [m.largest_gang_gpus for m in found.levels] == [4, 4]


def test_holes_are_filled_leaf_by_leaf():
    world, free = leaves((8, 8, 8), (8, 4, 4))
    by_leaf, by_pool = cells(world, 1), cells(world, Level.NONE)
    assert hole_filling(free, by_leaf, 8, 2) == 1  # floor(3/2) + floor(1/2)
    assert hole_filling(free, by_pool, 8, 2) == 2  # floor(4/2)
    assert hole_filling(free, by_leaf, 4, 1) == 10
    assert hole_filling(free, by_leaf, 3, 1) == 10  # two on a whole node, one on a half
    assert hole_filling(free, by_leaf, 4, 4) == 2


def test_free_gpus_are_stranded_where_no_gang_of_the_queue_fits():
    world, free = leaves((8, 8), (8, 2), (1, 1))
    found = measure(world, free, Demand(ints(4, 8), ints(1, 2), ints(1, 1)))
    assert [(m.level, m.stranded_gpus) for m in found.levels] == [(-3, 4), (1, 2), (0, 0), (-1, 0)]


def test_the_demand_weighs_what_it_leaves_unused():
    world, free = leaves((8, 8), (8, 2))
    demand = Demand(ints(8, 8), ints(1, 2), ints(1, 3))
    by_level = {m.level: m.unusable_gpus for m in measure(world, free, demand).levels}
    assert by_level[1] == (1 * (26 - 8 * 3) + 3 * (26 - 16 * 1)) // 4
    assert by_level[Level.NODE] == 26 - 8 * 3


def test_without_demand_nothing_is_stranded_or_unusable():
    world, free = leaves((8, 3))
    assert {(m.stranded_gpus, m.unusable_gpus) for m in measure(world, free, NO_DEMAND).levels} == {(0, 0)}


def test_the_inventory_counts_a_free_cell_only_at_its_widest_level():
    nodes = [node(leaf=leaf, block=block) for block, leaf in ["Aa", "Aa", "Ab", "Ab", "Bc", "Bc", "Bd", "Bd"]]
    free = ints(8, 8, 8, 8, 8, 8, 8, 4)  # block A, leaf c of block B, one node of leaf d
    assert buddy_inventory(state(nodes), free) == (1, 1, 1, 0)
    assert buddy_inventory(state(nodes), free * 0 + 8) == (0, 0, 0, 1)


def test_a_sick_node_breaks_the_cells_around_it_and_one_without_gpus_does_not():
    beside = [node(leaf="l"), node(leaf="l")]
    assert buddy_inventory(state([*beside, node(leaf="l", state="down")]), ints(8, 8, 8)) == (2, 0, 0)
    assert buddy_inventory(state([*beside, node(0, leaf="l")]), ints(8, 8, 0)) == (0, 0, 1)
    assert buddy_inventory(state([node(leaf="l"), node(0, leaf="l")]), ints(4, 0)) == (0, 0, 0)


def test_queued_gangs_weigh_the_gpus_they_want_together():
    work = [pending(gpus=8, replicas=2), pending(gpus=8, replicas=2), pending(gpus=1), pending(gpus=0)]
    demand = queued(state([node()], [*work, running(gpus=4, at=[0])]))
    found = zip(demand.size_gpus.tolist(), demand.replicas.tolist(), demand.weight.tolist(), strict=True)
    assert list(found) == [(1, 1, 1), (8, 2, 32)]


def test_only_running_protected_work_claims_its_gpus():
    work = [
        running(gpus=2, at=[0, 1], min_runtime_h=3, started_h_ago=1),
        running(gpus=1, at=[0], min_runtime_h=1, started_h_ago=1),
        running(gpus=1, at=[0]),
        stopping(gpus=1, at=[1], min_runtime_h=3),
    ]
    claims = protected_claims(state(2 * [node()], work))
    assert (claims.node.tolist(), claims.gpus.tolist()) == ([0, 1], [2, 2])
    assert claims.end_s.tolist() == 2 * [NOW_S + 2 * HOUR_S]


def test_the_certain_start_of_k_nodes_is_the_kth_smallest_end_of_each_domain():
    ends, domain = ints(5, 1, 3, 2, 9), ints(0, 0, 0, 1, -1)
    assert certain_start_s(ends, domain, 1).tolist() == [1, 2]
    assert certain_start_s(ends, domain, 2).tolist() == [3, FOREVER_S]
    assert certain_start_s(ends, domain, 4).tolist() == [FOREVER_S, FOREVER_S]


def test_a_node_is_free_when_its_last_claim_ends():
    claims = Claims(ints(0, 0, 1), ints(1, 1, 8), ints(30, 20, 5))
    assert free_at_s(claims, 3, 10).tolist() == [30, 10, 10]


def test_the_largest_gang_grows_as_protections_end():
    work = [running(at=[i], min_runtime_h=h, started_h_ago=0) for i, h in enumerate([1, 8, 2])]
    world = state([node(leaf="l1"), node(leaf="l1"), node(leaf="l2"), node(leaf="l2")], work)
    times_s = [NOW_S + h * HOUR_S for h in (0, 1, 2, 8)]
    at = largest_at(world, protected_claims(world), times_s)
    assert at == [(8, 8, 8), (8, 8, 16), (8, 16, 24), (8, 16, 32)]


def test_pieces_smaller_than_a_node_fit_before_the_node_is_whole():
    claims = Claims(ints(0, 0, 1), ints(4, 4, 6), ints(100, 200, 300))
    where = ints(0, 0)
    assert earliest_fit_s(ints(8, 8), claims, 2, 1, where, 50) == (50, 0)
    assert earliest_fit_s(ints(8, 8), claims, 4, 1, where, 50) == (100, 0)
    assert earliest_fit_s(ints(8, 8), claims, 4, 2, where, 50) == (200, 0)
    assert earliest_fit_s(ints(8, 8), claims, 8, 2, where, 50) == (300, 0)
    assert earliest_fit_s(ints(8, 8), claims, 8, 2, where, 400) == (400, 0)
    assert earliest_fit_s(ints(8, 8), claims, 8, 3, where, 50) == (FOREVER_S, -1)
    assert earliest_fit_s(ints(8, 8), claims, 8, 1, ints(-1, -1), 50) == (FOREVER_S, -1)


# Brute force and relations


@st.composite
def broken_worlds(draw):
    """Draw a few nodes in nested domains and what is free on them."""
    nodes = [
        node(
            gpus=draw(st.sampled_from([4, 8])),
            gpu_type=draw(st.sampled_from(["h100", "h100", "b200"])),
            state=draw(st.sampled_from(["up", "up", "up", "down"])),
            **draw(st.sampled_from([{"block": b, "leaf": f"{b}{x}"} for b, x in product("AB", "12")] + [{}])),
        )
        for _ in range(draw(st.integers(1, 7)))
    ]
    free = [draw(st.sampled_from([0, 1, n.gpus // 2, n.gpus, n.gpus])) for n in nodes]
    return state(nodes, levels=["block", "leaf"]), ints(*free)


gangs = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 4), st.integers(1, 5)), max_size=3
)


def demand_of(kinds):
    return Demand(*(ints(*column) for column in zip(*kinds, strict=True))) if kinds else NO_DEMAND


def members(world, level):
    """Return the up nodes of each cell, as a gang would see them."""
    n, out = world.nodes, {}
    for i in range(n.count):
        domain = {Level.NODE: i, Level.NONE: 0}.get(level, int(n.domain[level, i]) if level >= 0 else 0)
        if n.state[i] == NodeState.UP and domain >= 0:
            out.setdefault((domain, int(n.pool[i])), []).append(i)
    return list(out.values())


def packs(free, size, replicas):
    """Return how many whole gangs fit, placing one piece after the other."""
    left, placed = list(free), 0
    while any(f >= size for f in left):
        i = next(i for i, f in enumerate(left) if f >= size)
        left[i] -= size
        placed += 1
    return placed // replicas


@given(broken_worlds(), gangs)
def test_the_measures_are_those_that_packing_by_hand_finds(drawn, kinds):
    world, free = drawn
    found = measure(world, free, demand_of(kinds))
    for m in found.levels:
        nodes = members(world, m.level)
        inside = [[int(free[i]) for i in cell] for cell in nodes]
        wanted = [(size, 1 if m.level == Level.NODE else count, weight) for size, count, weight in kinds]
        lost = sum(
            weight * (sum(map(sum, inside)) - size * count * sum(packs(f, size, count) for f in inside))
            for size, count, weight in wanted
        )
        weights = sum(weight for *_, weight in wanted)
        stranded = [f for f in inside if not any(packs(f, size, count) for size, count, _ in wanted)]
        assert m.unusable_gpus == (lost // weights if kinds else 0)
        assert m.stranded_gpus == (sum(map(sum, stranded)) if kinds else 0)


@given(broken_worlds())
def test_a_gang_of_the_largest_size_fits_and_no_larger_one_of_whole_nodes_does(drawn):
    world, free = drawn
    for level, largest in zip(levels_of(world), largest_gangs(world, free), strict=True):
        cell = cells(world, level)
        sizes = [1] if level == Level.NODE else [4, 8]
        whole = np.where(free == world.nodes.gpus, free, 0) if level != Level.NODE else free
        fitting = [
            size * k
            for size in sizes
            for k in range(1, 9)
            if hole_filling(np.where((world.nodes.gpus == size) | (size == 1), whole, 0), cell, size, k)
        ]
        assert largest == max(fitting, default=0)


@given(broken_worlds())
def test_every_wholly_free_node_lies_in_one_cell_of_the_inventory(drawn):
    world, free = drawn
    up = world.nodes.state == NodeState.UP
    loose = set(np.flatnonzero((free == world.nodes.gpus) & up).tolist())
    counts = zip(levels_of(world), buddy_inventory(world, free), strict=True)
    for level, count in reversed(list(counts)):
        sick = np.flatnonzero(~up).tolist()
        sound = [c for c in members(world, level) if not any(same_cell(world, level, i, c[0]) for i in sick)]
        maximal = [set(cell) for cell in sound if loose.issuperset(cell)]
        assert count == len(maximal)
        loose -= set().union(*maximal)
    assert loose == set()


def same_cell(world, level, i, j):
    n = world.nodes
    if n.pool[i] != n.pool[j] or level == Level.NODE:
        return i == j
    return level == Level.NONE or n.domain[level, i] == n.domain[level, j]


@given(broken_worlds(), gangs, st.data())
def test_the_order_of_the_nodes_changes_no_measure(drawn, kinds, data):
    world, free = drawn
    order = data.draw(st.permutations(range(len(free))))
    again = measure(renumbered(world, order), free[list(order)], demand_of(kinds))
    assert again == measure(world, free, demand_of(kinds))


@given(broken_worlds(), st.data())
def test_a_freed_node_never_lowers_what_fits(drawn, data):
    world, free = drawn
    i = data.draw(st.integers(0, len(free) - 1))
    more = np.where(np.arange(len(free)) == i, world.nodes.gpus, free)
    pairs = zip(largest_gangs(world, free), largest_gangs(world, more), strict=True)
    assert all(before <= after for before, after in pairs)
    for level, size, replicas in product(levels_of(world), (1, 3, 8), (1, 2)):
        cell = cells(world, level)
        assert hole_filling(free, cell, size, replicas) <= hole_filling(more, cell, size, replicas)


@st.composite
def claimed(draw):
    """Draw nodes in domains and claims on them."""
    count = draw(st.integers(1, 6))
    claims = draw(
        st.lists(
            st.tuples(st.integers(0, count - 1), st.sampled_from([1, 2, 4, 8]), st.integers(0, 9)), max_size=8
        )
    )
    domain = draw(st.lists(st.integers(-1, 2), min_size=count, max_size=count))
    columns = zip(*claims, strict=True) if claims else ((), (), ())
    return ints(*count * [8]), Claims(*(ints(*c) for c in columns)), ints(*domain)


def by_waiting(capacity, claims, size, replicas, domain, now_s):
    """Return the first second of all in which the pieces fit, and the first domain that takes them."""
    for time_s in range(now_s, 11):
        room = {}
        for i, d in enumerate(domain.tolist()):
            taken = sum(
                g
                for n, g, end in zip(claims.node, claims.gpus, claims.end_s, strict=True)
                if n == i and end > time_s
            )
            room[d] = room.get(d, 0) + max(int(capacity[i]) - int(taken), 0) // size
        fits = sorted(d for d, slots in room.items() if d >= 0 and slots >= replicas)
        if fits:
            return time_s, fits[0]
    return FOREVER_S, -1


@given(claimed(), st.sampled_from([1, 2, 3, 8]), st.integers(1, 6), st.integers(0, 3))
def test_the_earliest_fit_is_the_first_second_in_which_the_pieces_fit(drawn, size, replicas, now_s):
    capacity, claims, domain = drawn
    expected = by_waiting(capacity, claims, size, replicas, domain, now_s)
    assert earliest_fit_s(capacity, claims, size, replicas, domain, now_s) == expected


@given(claimed(), st.integers(1, 4))
def test_for_whole_nodes_the_earliest_fit_is_the_earliest_certain_start(drawn, replicas):
    capacity, claims, domain = drawn
    starts = certain_start_s(free_at_s(claims, len(capacity), 0), domain, replicas)
    best = int(starts.min(initial=FOREVER_S))
    assert earliest_fit_s(capacity, claims, 8, replicas, domain, 0)[0] == best


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_a_gang_is_startable_from_its_certain_start_on_and_not_before(replicas):
    work = [running(at=[i], min_runtime_h=h, started_h_ago=0) for i, h in enumerate([3, 1, 2])]
    world = state(3 * [node(leaf="l")], work)
    claims = protected_claims(world)
    start_s = int(certain_start_s(free_at_s(claims, 3, NOW_S), cells(world, 0), replicas)[0])
    before, then = largest_at(world, claims, [start_s - 1, start_s])
    assert before[1] < 8 * replicas <= then[1]
