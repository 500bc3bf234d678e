"""The made-up research program is a budget tree with standings that spread as they should."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.program import ALLOCATIONS, IS_LIMITED, SHARE, budgets, draw_ratios, limit_gpus
from tests.benchmarks.format_rules import leaves, limits


def test_shares_are_those_of_the_tree_and_sum_to_one():
    assert list(leaves(budgets(1024))) == list(ALLOCATIONS)
    assert SHARE.sum() == pytest.approx(1.0)
    assert SHARE[ALLOCATIONS.index("language/pretraining/base")] == pytest.approx(0.5 * 0.6 * 0.75)


def test_one_family_has_a_limit():
    assert list(limits(budgets(1024))) == [("platform", limit_gpus(1024))]
    assert IS_LIMITED.sum() == 2


@pytest.mark.parametrize("mean", [0.5, 0.8, 1.2])
def test_ratios_spread_over_the_range_with_the_mean_that_is_asked_for(mean: float):
    ratio = draw_ratios(np.random.default_rng(3), mean)
    assert ratio @ SHARE == pytest.approx(mean)
    assert (ratio.min(), ratio.max()) == (0.3, 1.6)
