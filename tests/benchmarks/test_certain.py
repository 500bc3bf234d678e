"""A funded gang of a quarter of a saturated cluster starts within the longest protection and one round."""

from __future__ import annotations

import pytest

from benchmarks.certain import Bed, gang_waits_s
from benchmarks.text import HOUR, MINUTE
from planner.simulation.metrics.waits import promise_fates

PERIOD_S = 10 * MINUTE


@pytest.mark.parametrize("hours", [8, 1])
def test_every_funded_gang_starts_within_the_longest_protection_and_one_round(hours):
    measured = Bed(nodes=16, protection_s=hours * HOUR, days=3).run("budget-greedy", PERIOD_S)
    waits = gang_waits_s(measured)
    assert len(waits) == 4
    assert waits.max() <= hours * HOUR + PERIOD_S
    kept, by_node, otherwise = promise_fates(measured.history, measured.runs, measured.fates)
    assert kept > 0
    assert (by_node, otherwise) == (0, 0)


def test_without_reservations_it_waits_beyond_that():
    measured = Bed(nodes=16, days=3, reservations=0).run("budget-greedy", PERIOD_S)
    assert gang_waits_s(measured).max() > 8 * HOUR + PERIOD_S
