"""A meter agrees with the window's own sum over intervals, whatever the window."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.simulation.meter import Meter
from solver.window import Window, used

rates = st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 1000), st.integers(0, 1000)), min_size=1)
windows = st.builds(
    Window, st.integers(60, 20_000), st.booleans(), st.one_of(st.none(), st.integers(60, 20_000))
)


@given(rates, windows, st.integers(0, 5000))
def test_the_window_holds_what_its_intervals_sum_to(steps, window, rest_s):
    meter, time_s = Meter(2, window), 0
    begins, ends, amounts = [], [], []
    for seconds, a, b in steps:
        meter.change(time_s, np.array([a, b]))
        begins.append(time_s)
        amounts.append((a, b))
        time_s += seconds
        ends.append(time_s)
    ends[-1] += rest_s
    now_s = ends[-1]
    got = meter.inside(now_s)
    for k in range(2):
        charge = np.array([x[k] for x in amounts])
        want = used(window, now_s, np.array(begins), np.array(ends), charge)
        if window.half_life_s is None:
            assert got[k] == want
        else:
            assert got[k] == pytest.approx(want, abs=len(steps) + 1, rel=1e-9)


@given(rates, windows)
def test_asking_on_the_way_changes_nothing(steps, window):
    asked, silent, time_s = Meter(2, window), Meter(2, window), 0
    for seconds, a, b in steps:
        for meter in (asked, silent):
            meter.change(time_s, np.array([a, b]))
        asked.inside(time_s)
        time_s += seconds
    assert asked.inside(time_s).tolist() == silent.inside(time_s).tolist()
    assert asked.total(time_s).tolist() == silent.total(time_s).tolist()


def test_a_change_back_within_the_second_leaves_no_step():
    meter = Meter(1, Window(3600))
    for rate in (5, 7, 5):
        meter.change(10, np.array([rate]))
    assert len(meter.steps) == 2
    assert meter.total(11).tolist() == [5]


def test_only_the_window_is_kept():
    meter = Meter(1, Window(100))
    for time_s in range(10_000):
        meter.change(time_s, np.array([time_s % 3]))
        meter.inside(time_s)
    assert len(meter.steps) <= 102
