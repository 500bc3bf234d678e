"""The fair-share order against examples worked out by hand, and relations that any order must obey."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from solver.shares import (
    BEYOND,
    LEAST_PRICE,
    UNALLOCATED,
    UNALLOCATED_PRICE,
    WITHIN,
    Order,
    commitments,
    eviction_gpus,
    owed,
    rank,
    standing_ratio,
)
from solver.state import MICRO, State, Status
from tests.solver.factories import HOUR_S, node, pending, promise, running, state, stopping
from tests.solver.oracles import permuted

GPU_H = HOUR_S * MICRO
"""Micro budget units of one GPU-hour of charge 1."""


def ranked(world: State, *, unplaceable: tuple[int, ...] = ()) -> Order:
    """Rank all pending allocated and interruptible allocated work."""
    w = world.workloads
    wants = w.allocated & ((w.status == Status.PENDING) | (w.status == Status.RUNNING)) & ~world.protected
    placeable = np.ones(w.count, dtype=bool)
    placeable[list(unplaceable)] = False
    return rank(world, np.flatnonzero(wants), placeable)


def ask(leaf: str, gpus: int = 1, **more):
    """A pending allocated workload, protected for 4 hours: its start commits an hour of use."""
    return pending(gpus, leaf_budget=leaf, min_runtime_h=4, **more)


def gpu_hours(**leaves: float) -> dict:
    """Entitlements of 100 GPU-hours each, and this use."""
    return {"entitled_gpu_h": dict.fromkeys(leaves, 100), "usage_gpu_h": leaves}


# --- the three orders -------------------------------------------------------------------------------------

FAMILY = {
    "shares": {"t/a": 0.3, "t/idle": 0.3, "c": 0.4},
    "entitled_gpu_h": {"t/a": 100, "t/idle": 100, "c": 100},
    "usage_gpu_h": {"t/a": 98, "c": 98},
}
"""An overdue team whose sister is idle, and a stranger as far: 98 of 100 GPU-hours used, 2 more are owed."""


def family(order: str) -> list[str]:
    """Names in order: five 1-GPU workloads of `t/a` (a0 to a4), then five of `c`, submitted in turns."""
    asks = [
        ask(leaf, submitted_h_ago=10 - i - late) for leaf, late in (("t/a", 0), ("c", 0.5)) for i in range(5)
    ]
    names = [f"{leaf}{i}" for leaf in "ac" for i in range(5)]
    return [names[j] for j in ranked(state([node(64)], asks, order=order, **FAMILY)).sequence]


def test_what_is_owed_goes_by_leaf_and_the_surplus_to_the_sister_of_who_is_idle():
    # Turns: a and c at .98, .99 and 1.00 by submit; then t stands at 101 of 200, c at 101 of 100.
    assert family("budget") == ["a0", "c0", "a1", "c1", "a2", "c2", "a3", "a4", "c3", "c4"]


def test_the_leaf_order_knows_no_sisters():
    assert family("leaf") == ["a0", "c0", "a1", "c1", "a2", "c2", "a3", "c3", "a4", "c4"]


def test_the_tree_order_serves_the_emptier_branch_first_but_nobody_beyond_before_one_within():
    # Level by level t, at 98 of 200, goes first with all five; those above 1.00 then yield to all below.
    assert family("fair_tree") == ["a0", "a1", "a2", "c0", "c1", "c2", "a3", "a4", "c3", "c4"]


def test_the_surplus_of_a_deep_tree_stays_as_deep_as_it_can():
    shares = {"x/y/a": 0.2, "x/y/idle": 0.2, "x/b": 0.3, "c": 0.3}
    world = state(
        [node(64)],
        [ask("c"), ask("x/b"), ask("x/y/a")],
        shares=shares,
        entitled_gpu_h=dict.fromkeys(shares, 100),
        usage_gpu_h={"x/y/a": 150, "x/b": 140, "c": 110},
    )
    # Beyond all: at the root x (290/300) before c (110/100); in x, y (150/200) before b (140/100).
    assert ranked(world).sequence.tolist() == [2, 1, 0]


# --- ratios at their turn ---------------------------------------------------------------------------------


def test_the_ratio_at_its_turn_moves_by_what_was_just_granted():
    world = state([node(64)], [ask("a", 25) for _ in range(5)], **gpu_hours(a=0, b=0))
    order = ranked(state([node(64)] * 4, [ask("a", 25) for _ in range(5)], **gpu_hours(a=0, b=0)))
    assert order.ratio[order.sequence].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert ranked(world).ratio.tolist() == [0.0, 0.25, 0.5, 0.5, 0.5]  # 64 GPUs hold two and 14 are left


def test_one_round_cannot_admit_a_burst():
    world = state(
        [node(64)] * 4,
        [*(ask("a", 30, submitted_h_ago=9) for _ in range(6)), ask("b", 30, submitted_h_ago=1)],
        **gpu_hours(a=50, b=90),
    )
    order = ranked(world)
    assert order.sequence.tolist() == [0, 1, 6, 2, 3, 4, 5]  # a at .5 and .8, then b at .9, then a at 1.1
    assert order.tier.tolist() == [WITHIN, WITHIN, BEYOND, BEYOND, BEYOND, BEYOND, WITHIN]


def test_what_cannot_be_placed_keeps_its_claim_and_costs_its_leaf_nothing():
    world = state([node(8)] * 4, [ask("a", 8), ask("a", 8), ask("b", 8)], **gpu_hours(a=10, b=15))
    order = ranked(world, unplaceable=(0,))
    assert order.sequence.tolist() == [0, 1, 2]
    assert order.ratio.tolist() == [0.1, 0.1, 0.15]
    assert ranked(world).ratio.tolist() == [0.1, 0.18, 0.15]


def test_a_gang_beyond_all_capacity_does_not_block_its_sisters():
    huge = ask("a", 8, replicas=9, submitted_h_ago=50)
    order = ranked(state([node(8)] * 4, [huge, ask("a", 8), ask("b", 8)], **gpu_hours(a=10, b=15)))
    assert order.ratio.tolist() == [0.1, 0.1, 0.15]


def test_one_gpu_for_one_second_counts():
    world = state([node(8)], [ask("a"), ask("a")], commitment_s=1, entitled_gpu_h={"a": 10**6, "b": 10**6})
    assert commitments(world).tolist() == [MICRO, MICRO]
    assert ranked(world).ratio.tolist() == [0.0, 1 / (10**6 * HOUR_S)]


@pytest.mark.parametrize(("micro_units", "tier"), [(-1, WITHIN), (0, WITHIN), (1, BEYOND)])
def test_exactly_at_its_share_is_within_and_one_micro_unit_more_is_beyond(micro_units, tier):
    world = state([node(8)], [ask("a")], entitled_gpu_h={"a": 8 * 168, "b": 8 * 168})
    leaf = int(world.workloads.leaf[0])
    world.budgets.usage[leaf] = world.budgets.entitled[leaf] + micro_units
    assert ranked(world).tier.tolist() == [tier]


# --- what a start commits ---------------------------------------------------------------------------------


def test_a_start_commits_an_hour_but_no_more_than_its_time_limit():
    world = state([node(64)], [ask("a", 8), ask("a", 8, time_limit_h=0.25), ask("a", 4, replicas=2)])
    assert commitments(world).tolist() == [8 * GPU_H, 2 * GPU_H, 8 * GPU_H]


@pytest.mark.parametrize(("started_h_ago", "left_h"), [(0, 1), (0.25, 0.75), (1, 0), (3, 0)])
def test_a_protected_run_is_committed_for_what_is_left_of_its_start(started_h_ago, left_h):
    run = running(8, [0], min_runtime_h=4, started_h_ago=started_h_ago)
    assert commitments(state([node(8)], [run])).tolist() == [8 * left_h * GPU_H]


def test_keeping_an_interruptible_run_commits_what_its_start_would():
    run = running(8, [0], min_runtime_h=4, started_h_ago=5)
    assert commitments(state([node(8)], [run])).tolist() == [8 * GPU_H]


def test_a_protected_run_counts_before_anybody_has_a_turn():
    runs = running(50, [0], leaf_budget="a", min_runtime_h=4, started_h_ago=0.5)
    world = state([node(64)] * 2, [runs, ask("a"), ask("b")], **gpu_hours(a=0, b=20))
    assert ranked(world).ratio[1:].tolist() == [0.25, 0.2]


def test_a_gpu_type_commits_its_charge_and_what_takes_any_the_cheapest():
    nodes = [node(8, gpu_type="h100"), node(8, gpu_type="b200")]
    asks = [ask("a", gpu_types=kinds) for kinds in (("h100",), ("b200",), None, ("abacus",))]
    runs = running(1, [1], min_runtime_h=1, started_h_ago=2)
    world = state(nodes, [*asks, runs], charges={"b200": 2.5})
    assert commitments(world).tolist() == [GPU_H, 2.5 * GPU_H, GPU_H, 0, 2.5 * GPU_H]


# --- who is first inside an allocation --------------------------------------------------------------------


def test_priority_sorts_inside_an_allocation_only():
    asks = [ask("a", priority=1), ask("a", priority=5), ask("b", priority=0), ask("b", priority=9)]
    order = ranked(state([node(8)] * 4, asks, **gpu_hours(a=10, b=50)))
    assert order.sequence.tolist() == [1, 0, 3, 2]


def test_inside_an_allocation_a_run_goes_before_what_waits_by_what_its_eviction_would_lose():
    past = {"min_runtime_h": 1, "leaf_budget": "a", "submitted_h_ago": 5}
    work = [
        ask("a", submitted_h_ago=9),
        running(1, [0], started_h_ago=2, resumable=False, **past),
        running(1, [0], started_h_ago=4, resumable=False, **past),
        running(1, [0], started_h_ago=4, resumable=True, **past),
        ask("a", submitted_h_ago=1, priority=1),
    ]
    assert ranked(state([node(8)], work, shares={"a": 1.0}, **gpu_hours(a=0))).sequence.tolist() == [
        4,
        2,
        1,
        0,
        3,
    ]


def test_what_a_run_would_lose_moves_nobody_of_another_allocation():
    def order(resumable: bool) -> list[int]:
        run = running(1, [0], min_runtime_h=1, started_h_ago=4, leaf_budget="a", resumable=resumable)
        work = [run, *(ask(leaf, submitted_h_ago=9) for leaf in "bcb")]
        thirds = dict.fromkeys("abc", 1 / 3)
        return ranked(state([node(8)], work, shares=thirds, **gpu_hours(a=5, b=5, c=5))).sequence.tolist()

    assert order(resumable=True) == order(resumable=False)


def test_whoever_was_promised_a_start_goes_first_then_the_oldest_then_by_id():
    asks = [ask("a", submitted_h_ago=h) for h in (1, 5, 5, 3)]
    world = state([node(8)], asks, promises=[promise(0, 2, [0])])
    assert ranked(world).sequence.tolist() == [0, 1, 2, 3]
    assert ranked(replace(world, promises=state([node()]).promises)).sequence.tolist() == [1, 2, 3, 0]


def test_equal_ratios_of_two_allocations_go_by_claim_then_submit_then_id():
    asks = [ask("a", submitted_h_ago=2), ask("b", submitted_h_ago=7), ask("c", submitted_h_ago=2)]
    world = state([node(8)], asks, shares={"a": 0.4, "b": 0.3, "c": 0.3})
    assert ranked(world).sequence.tolist() == [1, 0, 2]
    claimed = state([node(8)], asks, shares={"a": 0.4, "b": 0.3, "c": 0.3}, promises=[promise(2, 2, [0])])
    assert ranked(claimed).sequence.tolist() == [2, 1, 0]


def test_an_allocation_without_a_share_ranks_after_everybody():
    world = state([node(8)], [ask("none"), ask("a")], shares={"none": 0.0, "a": 1.0}, ratios={"a": 3.0})
    order = ranked(world)
    assert order.sequence.tolist() == [1, 0]
    assert order.ratio[0] == np.inf
    assert order.tier.tolist() == [BEYOND, BEYOND]


# --- what runs --------------------------------------------------------------------------------------------


def test_running_work_stands_at_what_its_allocation_uses_before_it_not_at_what_it_asks_for():
    runs = [
        running(10, [0], leaf_budget="a", min_runtime_h=1, started_h_ago=2, submitted_h_ago=5),
        running(10, [0], leaf_budget="a", min_runtime_h=1, started_h_ago=2, submitted_h_ago=9),
        running(20, [0], leaf_budget="a", min_runtime_h=4, started_h_ago=0.5, submitted_h_ago=1),
    ]
    world = state([node(64)], [*runs, ask("a", 20, priority=9)], **gpu_hours(a=50, b=0))
    assert standing_ratio(world).tolist() == [0.7, 0.6, 0.5, 0]  # 10 protected GPU-hours, then the oldest


@pytest.mark.parametrize(("used", "tier"), [(100, WITHIN), (105, WITHIN), (105.1, BEYOND)])
def test_running_work_is_within_its_share_up_to_the_band(used, tier):
    runs = running(8, [0], leaf_budget="a", min_runtime_h=1, started_h_ago=2)
    assert ranked(state([node(8)], [runs], band=0.05, **gpu_hours(a=used, b=0))).tier.tolist() == [tier]


def test_unallocated_work_is_a_tier_of_its_own_below_every_allocated_price():
    work = [
        running(1, [0], allocated=False),
        pending(1, allocated=False),
        *(ask("a") for _ in range(4)),
        stopping(1, [0]),
    ]
    order = ranked(state([node(8)], work, entitled_gpu_h={"a": 0.001, "b": 1}, usage_gpu_h={"a": 9}))
    assert order.tier[:2].tolist() == [UNALLOCATED, UNALLOCATED]
    assert order.price[:2].tolist() == [UNALLOCATED_PRICE] * 2
    assert (order.price[2:6] > UNALLOCATED_PRICE).all()
    assert (order.band[:2] > order.band[2:6].max()).all()


def test_an_unallocated_victim_is_charged_once_and_a_later_allocated_one_three_times():
    work = [
        running(8, [0], allocated=False),
        running(8, [0], leaf_budget="a", min_runtime_h=1, started_h_ago=2),
        running(8, [0], leaf_budget="b", min_runtime_h=1, started_h_ago=2),
    ]
    world = state([node(64)], work, **gpu_hours(a=500, b=0))
    order = ranked(world)
    assert eviction_gpus(world, order, WITHIN).tolist() == [8, 24, 8]
    assert eviction_gpus(world, order, BEYOND).tolist() == [8, 8, 8]


# --- in the money -----------------------------------------------------------------------------------------


def test_in_the_money_is_whatever_fits_behind_all_that_ranks_before_it():
    asks = [ask("a", 8, submitted_h_ago=9 - i) for i in range(6)]
    runs = running(8, [1], leaf_budget="b", min_runtime_h=4, started_h_ago=1)
    order = ranked(state([node(8)] * 4, [*asks, runs], **gpu_hours(a=0, b=0)))
    assert order.in_money.tolist() == [True] * 4 + [False] * 3  # protected work is not subtracted


def test_capacity_for_the_money_is_what_the_workload_could_use_and_is_healthy():
    nodes = [node(8), node(8, gpu_type="b200"), node(8, gpu_type="b200", state="draining")]
    asks = [ask("a", 8), ask("b", 8, gpu_types=("b200",)), ask("b", 8)]
    order = ranked(state(nodes, asks, **gpu_hours(a=0, b=10)))
    assert order.sequence.tolist() == [0, 1, 2]
    assert order.in_money.tolist() == [True, False, False]


# --- relations --------------------------------------------------------------------------------------------

LEAVES = {"t/a": 0.2, "t/b": 0.3, "c": 0.4, "d": 0.1}

work = st.builds(
    ask,
    st.sampled_from([*LEAVES]),
    st.integers(1, 8),
    priority=st.integers(0, 2),
    time_limit_h=st.sampled_from([None, 0.5, 9]),
    gpu_types=st.sampled_from([None, ("b200",)]),
)
interruptible = st.builds(
    running,
    st.integers(1, 8),
    st.sampled_from([(0,), (1,)]),
    leaf_budget=st.sampled_from([*LEAVES]),
    min_runtime_h=st.just(1),
    started_h_ago=st.sampled_from([0.5, 2]),
)


@st.composite
def worlds(draw) -> State:
    """Draw a queue in which no two were submitted together."""
    specs = draw(st.lists(st.one_of(work, work, interruptible), min_size=1, max_size=12))
    specs = [replace(spec, submitted_h_ago=50 + i) for i, spec in enumerate(specs)]
    return state(
        [node(64), node(64, gpu_type="b200")],
        draw(st.permutations(specs)),
        shares=LEAVES,
        entitled_gpu_h=dict.fromkeys(LEAVES, 30),
        usage_gpu_h={leaf: draw(st.sampled_from([0, 10, 29, 30, 35, 100])) for leaf in LEAVES},
        order=draw(st.sampled_from(["budget", "fair_tree", "leaf"])),
        charges={"b200": 2},
    )


@settings(max_examples=40)
@given(worlds(), st.data())
def test_the_order_does_not_depend_on_how_workloads_are_numbered(world, data):
    turn = data.draw(st.permutations(range(world.workloads.count)))
    one, other = ranked(world), ranked(permuted(world, turn))
    assert [turn[i] for i in other.sequence] == one.sequence.tolist()
    for name in ("ratio", "price", "tier", "band", "in_money"):
        assert getattr(other, name).tolist() == getattr(one, name)[turn].tolist()


@settings(max_examples=40)
@given(worlds(), st.sampled_from([2, 3, 7, 1000]))
def test_scaling_use_entitlement_and_charges_together_changes_nothing(world, factor):
    b, policy = world.budgets, world.policy
    scaled = replace(
        world,
        budgets=replace(b, usage=b.usage * factor, entitled=b.entitled * factor),
        policy=replace(policy, charge_micro=policy.charge_micro * factor),
    )
    one, other = ranked(world), ranked(scaled)
    assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in vars(one))


@settings(max_examples=40)
@given(worlds())
def test_prices_fall_strictly_along_the_order_and_never_below_the_least(world):
    order = ranked(world)
    prices = order.price[order.sequence]
    assert (np.diff(prices) < 0).all()
    assert (prices > 0.98 * LEAST_PRICE).all()
    assert (prices > UNALLOCATED_PRICE).all()


@settings(max_examples=40)
@given(worlds())
def test_the_order_ranks_every_candidate_once_and_nobody_beyond_before_one_within(world):
    order, w = ranked(world), world.workloads
    assert sorted(order.sequence) == np.flatnonzero(~world.protected).tolist()
    assert order.position[order.sequence].tolist() == list(range(len(order.sequence)))
    waits = order.sequence[w.status[order.sequence] == Status.PENDING]
    beyond = order.ratio[order.sequence] > 1
    assert world.policy.order == "leaf" or (np.diff(beyond.astype(int)) >= 0).all()
    assert (order.tier[waits] == np.where(order.ratio[waits] <= 1, WITHIN, BEYOND)).all()


@settings(max_examples=40)
@given(worlds())
def test_bands_never_fall_along_the_order_among_what_waits_and_tell_the_tiers_apart(world):
    order, w = ranked(world), world.workloads
    waits = order.sequence[w.status[order.sequence] == Status.PENDING]
    assert (np.diff(order.band[waits]) >= 0).all()
    for tier, other in ((WITHIN, BEYOND), (BEYOND, UNALLOCATED)):
        assert order.band[order.tier == tier].max(initial=-1) < order.band[order.tier == other].min(
            initial=99
        )


@settings(max_examples=40)
@given(worlds())
def test_within_an_allocation_the_order_is_priority_then_submit(world):
    order, w = ranked(world), world.workloads
    for leaf in np.unique(w.leaf):
        mine = [j for j in order.sequence.tolist() if w.leaf[j] == leaf]
        assert mine == sorted(mine, key=lambda j: (-w.priority[j], w.submitted_s[j]))


@settings(max_examples=40)
@given(worlds())
def test_progressive_filling_serves_the_least_served_leaf_first(world):
    """A slow retelling: before each turn, look who stands lowest, with all grants so far."""
    w = world.workloads
    assume(w.gpus.sum() <= 64)  # so that each pool holds them all
    order, commit = ranked(replace(world, policy=replace(world.policy, order="leaf"))), commitments(world)
    use = world.budgets.usage.copy()
    np.add.at(use, w.leaf[world.protected], commit[world.protected])
    for turn, j in enumerate(order.sequence.tolist()):
        waiting = np.unique(w.leaf[order.sequence[turn:]])
        ratios = dict(
            zip(waiting.tolist(), (use / np.maximum(world.budgets.entitled, 1))[waiting], strict=True)
        )
        assert ratios[int(w.leaf[j])] == min(ratios.values()) == order.ratio[j]
        use[w.leaf[j]] += commit[j]


# --- owed -------------------------------------------------------------------------------------------------


def test_owed_is_the_lesser_of_share_and_demand_hour_by_hour():
    assert owed(np.array([10, 10, 10]), np.array([3, 25, 10])) == 23
