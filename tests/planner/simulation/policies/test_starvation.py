"""Time-outs run only while a pool starves, and nobody above its share gives more than the rule allows."""

from __future__ import annotations

import numpy as np
import pytest

from planner.simulation.policies.base import Round
from planner.simulation.policies.serving import Serving, Shapes
from planner.simulation.policies.starvation import Hunger, over_share
from tests.planner.simulation.policies.rounds import everybody
from tests.solver.factories import node, running, state


def test_hunger_counts_from_the_first_round_and_anew_after_a_meal():
    hunger = Hunger()
    seen = [hunger.lasts_s(np.array(row), t).tolist() for t, row in HUNGRY]
    assert seen == [[0, -1], [60, 0], [-1, 540], [0, 600]]


HUNGRY = [(0, [True, False]), (60, [True, True]), (600, [False, True]), (660, [True, True])]


@pytest.mark.parametrize(("keep_share", "given_gpus"), [(True, [2, 2]), (False, [2, 2, 4])])
def test_the_youngest_give_first_and_the_last_gang_decides_whether_a_pool_may_fall_below(
    keep_share, given_gpus
):
    runs = [
        running(gpus, [0], leaf_budget="a", min_runtime_h=0.1, started_h_ago=h)
        for gpus, h in [(4, 3), (4, 2.5), (2, 2), (2, 1)]
    ]
    world = state([node(12)], runs)
    serving = Serving(Round(world, everybody(world)), Shapes(4))
    may = over_share(serving, [0, 6.5, 0], keep_share=keep_share)  # 12 in use, 5.5 above the share
    assert sorted(serving.gpus[may].tolist()) == sorted(given_gpus)


def test_protected_and_unallocated_work_gives_nothing():
    runs = [
        running(4, [0], leaf_budget="a", min_runtime_h=4),
        running(4, [0], leaf_budget="a"),
    ]
    world = state([node(8)], runs)
    serving = Serving(Round(world, everybody(world)), Shapes(2))
    assert not over_share(serving, [0, 0, 0], keep_share=False).any()
