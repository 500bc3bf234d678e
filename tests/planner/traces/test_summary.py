"""Figures of a trace, against the plain sums that they are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

from planner.traces.summary import offered_gpus, summary, window_days
from tests.planner.simulation.traces import trace, traces

DAY_S = 86_400


@settings(max_examples=60)
@given(traces())
def test_figures_are_the_sums_over_the_workloads(t):
    days = 7
    gpu_s = [
        int(r) * int(g) * int(d) for r, g, d in zip(t.replicas, t.gpus_per_replica, t.runtime_s, strict=True)
    ]
    found = summary(t, days)
    assert found["offered_gpus"] == pytest.approx(sum(gpu_s) / (days * DAY_S), rel=1e-9, abs=1e-3)
    assert sum(row["workloads"] for row in found["sizes"]) == t.count
    assert sum(row["workloads"] for row in found["allocations"]) == t.count
    for row in found["allocations"]:
        mine = [i for i in range(t.count) if t.allocation[i] == row["allocation"]]
        asked = sum(gpu_s[i] for i in mine) / (days * DAY_S)
        assert row["offered_gpus"] == pytest.approx(asked, rel=1e-9, abs=1e-3)
        assert row["largest_gpus"] == max(int(t.replicas[i] * t.gpus_per_replica[i]) for i in mine)
    offered = list(offered_gpus(t, days).values())
    assert offered == sorted(offered, reverse=True)
    shares = [row["share"] for row in found["allocations"] if row["share"] is not None]
    assert not shares or math.isclose(sum(shares), 1, abs_tol=1e-4)


@pytest.mark.parametrize(
    ("gpus", "size"),
    [(0, "0"), (1, "1"), (2, "2"), (3, "3-4"), (4, "3-4"), (5, "5-8"), (64, "33-64"), (65, "65-128")],
)
def test_a_gang_is_counted_under_its_size(gpus, size):
    (row,) = summary(trace([{"gpus_per_replica": gpus}]), 1)["sizes"]
    assert (row["gpus"], row["workloads"]) == (size, 1)


@pytest.mark.parametrize(("last_s", "days"), [(0, 1), (DAY_S - 1, 1), (DAY_S, 2), (30 * DAY_S - 1, 30)])
def test_begun_days_count_as_whole_ones(last_s, days):
    assert window_days(trace([{"submitted_s": last_s}])) == days
