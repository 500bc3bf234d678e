"""Quotas sum to the cluster; fair shares are those of the schedulers' own examples, and of a slow reading."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.simulation.policies.division import fair_shares, owned_gpus
from tests.solver.factories import node, state

ANY = 1e9


@pytest.mark.parametrize(
    ("weight", "least", "most", "capacity", "shares"),
    [
        # the cases of Hadoop's TestComputeFairShares, by their comments and numbers
        ([1, 1, 1, 1], [0, 0, 0, 0], [100, 50, 30, 20], 40, [10, 10, 10, 10]),
        ([1, 1, 1, 1], [0, 0, 0, 0], [100, 50, 11, 3], 40, [13, 13, 11, 3]),
        ([1, 1, 1, 1], [20, 20, 0, 2], [100, 10, 100, 3], 40, [20, 10, 7, 3]),
        ([2, 1, 1, 0.5], [0, 0, 0, 0], [ANY] * 4, 45, [20, 10, 10, 5]),
        ([2, 1, 1, 0.5], [0, 0, 0, 0], [10, 11, 30, 20], 45, [10, 11, 16, 8]),
        ([2, 1, 1, 0.5], [20, 0, 5, 15], [ANY] * 4, 45, [20, 5, 5, 15]),
        ([1, 1, 1, 1], [20, 18, 0, 2], [ANY] * 4, 40, [20, 18, 0, 2]),
        ([1, 1, 1, 1], [0, 0, 0, 0], [ANY] * 4, 40_000_000, [10_000_000] * 4),
        ([], [], [], 40, []),
    ],
)
def test_fair_shares_are_those_of_the_documented_cases(weight, least, most, capacity, shares):
    assert fair_shares(weight, least, most, capacity) == pytest.approx(shares)


def test_minimum_shares_beyond_the_capacity_are_scaled_down_alike():
    assert fair_shares([1, 9], [30, 10], [ANY, ANY], 20) == [15, 5]


@given(
    st.lists(st.tuples(st.sampled_from([0, 0.5, 1, 3]), st.integers(0, 9), st.integers(0, 40)), max_size=6),
    st.integers(0, 60),
)
def test_fair_shares_are_the_highest_level_that_the_capacity_allows(pools, capacity):
    weight, least, most = ([p[i] for p in pools] for i in range(3))

    def used(level):
        return [min(b, max(level * w, a)) for w, a, b in pools]

    shares = fair_shares(weight, least, most, capacity)
    if sum(used(0)) > capacity:
        assert sum(shares) == pytest.approx(capacity)
        return
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(used(middle)) <= capacity else (low, middle)
    assert shares == pytest.approx(used(low), abs=1e-6)


def test_quotas_round_by_largest_remainder():
    shares = {"a": 0.45, "b": 0.35, "c": 0.2}  # 3.6, 2.8 and 1.6 of 8
    assert owned_gpus(state([node(8)], shares=shares)).tolist() == [0, 4, 3, 1]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7), st.integers(1, 40))
def test_quotas_sum_to_the_cluster_and_are_within_one_gpu_of_the_share(weights, gpus):
    total = sum(weights)
    shares = {f"p{i % 2}/t{i}": w / total if total else 0.0 for i, w in enumerate(weights)}
    world = state([node(gpus, state="down"), node(gpus)], shares=shares)
    quota = owned_gpus(world)
    exact = np.where(world.budgets.is_leaf, world.budgets.share_ppb, 0) / 1e9 * 2 * gpus
    assert quota.sum() == (2 * gpus if total else 0)
    assert (np.abs(quota - exact) < 1 + 1e-6).all()
