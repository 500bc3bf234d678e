"""The lookback window against sums second by second and against numerical integration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.state import MICRO
from solver.window import HOUR_MICRO_S, Window, entitled, used

NOW_S = 1_800_000_000
WEEK_S = 604_800


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def weight(window: Window, second: int, now_s: int) -> float:
    """Return how much the second from `second` to `second + 1` counts, by fine trapezoids."""
    if not window.begins_s(now_s) <= second < now_s:
        return 0.0
    if window.half_life_s is None:
        return 1.0
    ago = np.linspace(now_s - second - 1, now_s - second, 513)
    return float(np.trapezoid(0.5 ** (ago / window.half_life_s), ago))


windows = st.builds(
    Window,
    window_s=st.integers(1, 50),
    tumbling=st.booleans(),
    half_life_s=st.sampled_from([None, None, 3, 20]),
)
moments = st.integers(NOW_S, NOW_S + 60)


def test_a_sliding_week_is_exactly_its_seconds():
    window = Window(WEEK_S)
    assert window.begins_s(NOW_S) == NOW_S - WEEK_S
    assert window.seconds_between(0, NOW_S + 99, NOW_S) == WEEK_S


def test_a_tumbling_window_begins_anew_at_multiples_of_its_length():
    window = Window(100, tumbling=True)
    assert [window.begins_s(t) for t in (1000, 1001, 1099, 1100)] == [1000, 1000, 1000, 1100]
    assert window.seconds_between(0, 2000, 1099) == 99
    assert window.seconds_between(0, 2000, 1100) == 0


def test_a_half_life_ago_counts_half():
    window = Window(WEEK_S, half_life_s=86_400)
    fresh, old = (window.seconds_between(NOW_S - ago - 1, NOW_S - ago, NOW_S) for ago in (0, 86_400))
    assert old / fresh == pytest.approx(0.5)


def test_decay_sums_up_to_its_closed_form():
    window = Window(WEEK_S, half_life_s=3600)
    whole = 3600 / math.log(2) * (1 - 0.5 ** (WEEK_S / 3600))
    assert window.seconds_between(NOW_S - WEEK_S, NOW_S, NOW_S) == pytest.approx(whole)


@given(windows, moments, st.integers(-70, 10), st.integers(-70, 10))
def test_the_weight_of_a_stretch_is_the_integral_over_it(window, now_s, begin, end):
    seconds = range(now_s + begin, now_s + end)
    found = window.seconds_between(now_s + begin, now_s + end, now_s)
    assert found == pytest.approx(sum(weight(window, s, now_s) for s in seconds), abs=1e-6)


@given(windows, moments, st.integers(-70, 0), st.integers(-70, 0), st.integers(-70, 0))
def test_the_weights_of_parts_add_up_to_the_weight_of_the_whole(window, now_s, a, b, c):
    a, b, c = sorted((now_s + a, now_s + b, now_s + c))
    parts = window.seconds_between(a, b, now_s) + window.seconds_between(b, c, now_s)
    assert parts == pytest.approx(window.seconds_between(a, c, now_s), abs=1e-9)


@settings(max_examples=60)
@given(
    windows,
    moments,
    st.lists(st.tuples(st.integers(-70, 5), st.integers(0, 40), st.integers(1, 3)), max_size=5),
)
def test_use_is_what_a_count_second_by_second_finds(window, now_s, stays):
    begin = ints(*(now_s + a for a, _, _ in stays))
    end = begin + ints(*(length for _, length, _ in stays))
    gpus = ints(*(g for _, _, g in stays))
    slow = sum(
        g * weight(window, s, now_s)
        for a, b, g in zip(begin.tolist(), end.tolist(), gpus.tolist(), strict=True)
        for s in range(a, b)
    )
    assert used(window, now_s, begin, end, gpus * MICRO) == pytest.approx(slow * MICRO, abs=MICRO * 1e-3)


def test_use_without_decay_is_exact_however_large():
    gpus, begin = ints(*range(1, 20_001)), ints(*range(NOW_S - 20_000, NOW_S))
    exact = sum(g * MICRO * (NOW_S - b) for g, b in zip(gpus.tolist(), begin.tolist(), strict=True))
    assert used(Window(WEEK_S), NOW_S, begin, np.full(20_000, NOW_S), gpus * MICRO) == exact


def test_one_gpu_for_one_second_is_used():
    assert used(Window(WEEK_S), NOW_S, ints(NOW_S - 1), ints(NOW_S), ints(MICRO)) == MICRO
    assert (
        used(Window(WEEK_S, half_life_s=60), NOW_S, ints(NOW_S - 1), ints(NOW_S), ints(MICRO)) > 0.99 * MICRO
    )


def test_nothing_is_used_by_what_lies_outside_the_window_or_in_the_future():
    begin, end = ints(NOW_S - 9 * 86_400, NOW_S + 1), ints(NOW_S - 8 * 86_400, NOW_S + 99)
    for half_life_s in (None, 3600):
        assert used(Window(WEEK_S, half_life_s=half_life_s), NOW_S, begin, end, ints(MICRO, MICRO)) == 0


def test_entitlement_is_the_share_integrated_over_the_capacity_that_was_there():
    # An hour of 10 GPUs at 30%, an hour of outage, half an hour of 20 GPUs at 10%: 3 + 0 + 1 GPU-hours.
    shares, gpus, seconds = (
        ints(300_000_000, 300_000_000, 100_000_000),
        ints(10, 0, 20),
        ints(3600, 3600, 1800),
    )
    assert entitled(shares, gpus * MICRO, seconds) == 4 * HOUR_MICRO_S


def test_a_new_share_has_no_claim_on_the_past():
    hours, capacity = ints(167 * 3600, 3600), ints(100, 100) * MICRO
    assert entitled(ints(0, 500_000_000), capacity, hours) == 50 * HOUR_MICRO_S


def test_entitlement_does_not_overflow():
    share, capacity, seconds = 999_999_999, 1_000_000 * MICRO, WEEK_S
    assert entitled(ints(share), ints(capacity), ints(seconds)) == share * capacity * seconds // 10**9


def test_history_is_the_weight_of_what_is_known_of_the_window():
    window = Window(WEEK_S)
    assert [window.history_s(NOW_S, known_s) for known_s in (None, 3600, 2 * WEEK_S)] == [
        WEEK_S,
        3600,
        WEEK_S,
    ]
    decaying = Window(WEEK_S, half_life_s=3600)
    assert decaying.history_s(NOW_S, 3600) == pytest.approx(3600 / math.log(2) / 2)
