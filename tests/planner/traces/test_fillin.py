"""The rule that fills in the contract: as stated, as often as stated, the same for a job anywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.traces.fillin import Rule, draws, fill_in, parse_weights

HOUR = 3600
IDS = [f"job-{i}" for i in range(20_000)]


def test_a_short_run_is_a_debug_workload_whose_min_runtime_is_its_run_time():
    runtime_s = np.array([0, 1, 60, 900], dtype=np.int64)
    min_runtime_s, resumable = fill_in(IDS[:4], runtime_s, Rule(), 0)
    assert min_runtime_s.tolist() == [1, 1, 60, 900]
    assert not resumable.any()


def test_longer_runs_draw_their_min_runtime_as_often_as_the_weights_say():
    runtime_s = np.full(len(IDS), 901, dtype=np.int64)
    rule = Rule()
    min_runtime_s, _ = fill_in(IDS, runtime_s, rule, 3)
    found, times = np.unique(min_runtime_s, return_counts=True)
    assert found.tolist() == list(rule.min_runtimes_s)
    expected = len(IDS) * np.array(rule.weights) / sum(rule.weights)
    assert np.abs(times - expected).max() < 5 * np.sqrt(expected.max())


@pytest.mark.parametrize(("runtime_s", "chance"), [(8 * HOUR, 0.3), (8 * HOUR + 1, 0.8)])
def test_work_is_resumable_as_often_as_the_rule_says(runtime_s, chance):
    _, resumable = fill_in(IDS, np.full(len(IDS), runtime_s), Rule(resumable=0.3), 0)
    assert resumable.mean() == pytest.approx(chance, abs=5 * np.sqrt(0.25 / len(IDS)))


@given(st.integers(0, 5), st.permutations(range(30)))
def test_a_job_draws_the_same_in_any_company(seed, order):
    runtime_s = np.arange(30, dtype=np.int64) * 2000
    whole = fill_in(IDS[:30], runtime_s, Rule(), seed)
    some = fill_in([IDS[i] for i in order[:12]], runtime_s[order[:12]], Rule(), seed)
    for a, b in zip(whole, some, strict=True):
        assert a[order[:12]].tolist() == b.tolist()


def test_another_seed_or_purpose_draws_otherwise_and_without_connection():
    a, b, c = draws(0, "x", IDS), draws(1, "x", IDS), draws(0, "y", IDS)
    assert (a >= 0).all()
    assert (a < 1).all()
    assert np.abs(np.corrcoef([a, b, c]) - np.eye(3)).max() < 0.04


def test_draws_are_these_on_every_machine():
    """A change here changes every imported trace."""
    assert draws(0, "min_runtime", ["a", "b"]).tolist() == [0.5417493714595704, 0.6427516054966316]


def test_a_weight_of_0_is_never_drawn():
    rule = Rule(min_runtimes_s=(0, 60, 120), weights=(0, 1, 0))
    min_runtime_s, _ = fill_in(IDS, np.full(len(IDS), 5000), rule, 0)
    assert set(min_runtime_s.tolist()) == {60}


def test_weights_are_read_as_they_are_shown():
    assert parse_weights("0s:20, 1h:25.5,1h30m:0") == ((0, 3600, 5400), (20.0, 25.5, 0.0))
    assert str(Rule()).startswith(
        "min runtime = run time up to 15m, above one of 0s:20 1h:25 2h:25 4h:15 8h:15;"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write 0s:20"),
        ("1h", "write 0s:20"),
        ("1h:x", "write 0s:20"),
        ("1h:-1", "write 0s:20"),
        ("1h:1e9", "write 0s:20"),
        ("60:1", "has no unit"),
        ("1h:1,60m:2", "names a min runtime twice"),
        ("1h:0", "the weight 0"),
    ],
)
def test_weights_that_are_none_are_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse_weights(text)
