"""What people want has nights, weeks, and teams that come and go, and keeps its bounds."""

from __future__ import annotations

import numpy as np
import pytest

from planner.traces.synth_gangs import DAY, HOUR
from planner.traces.synth_people import Want, awake, lab_wants, team_parts

STEP_S = 600
MONTHS = np.arange(0, 300 * DAY, STEP_S)
SHARE = np.array([0.5, 0.3, 0.15, 0.05])
WANT = Want(1.0, 0.2, 0.7, 1.5)


def wants(seed: int) -> np.ndarray:
    return lab_wants(np.random.default_rng(seed), MONTHS, STEP_S, WANT)


def parts(seed: int, count: int = len(MONTHS)) -> np.ndarray:
    return team_parts(np.random.default_rng(seed), count, STEP_S, SHARE)


def test_people_sleep_at_night_and_rest_on_weekends():
    by_hour = awake(np.arange(7) * DAY + 14 * HOUR)
    assert by_hour.tolist() == [1, 1, 1, 1, 1, 0.5, 0.5]
    assert awake(np.array([2 * HOUR])) == pytest.approx([0.25])
    assert (awake(MONTHS) > 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_what_the_lab_wants_keeps_its_bounds_and_its_mean(seed: int):
    lab = wants(seed)
    assert lab.min() >= WANT.low
    assert lab.max() <= WANT.high
    assert lab.mean() == pytest.approx(WANT.mean, abs=0.05)
    assert lab.std() > 0.1


def test_the_lab_wants_more_by_day_and_on_weekdays():
    lab = np.mean([wants(seed) for seed in range(3)], axis=0)
    day, night = MONTHS % DAY == 14 * HOUR, MONTHS % DAY == 2 * HOUR
    weekend = MONTHS // DAY % 7 >= 5
    assert lab[day].mean() > lab[night].mean() + 0.05
    assert lab[~weekend].mean() > lab[weekend].mean() + 0.03


def test_teams_divide_what_the_lab_wants():
    assert parts(1).sum(axis=1) == pytest.approx(np.ones(len(MONTHS)))
    assert parts(1).mean(axis=0) == pytest.approx(SHARE, abs=0.04)


def test_every_team_is_at_times_far_over_and_at_times_far_under_its_share():
    relative = parts(2) / SHARE
    assert (np.percentile(relative, 90, axis=0) > 1.3).all()
    assert (np.percentile(relative, 10, axis=0) < 0.7).all()


def test_wishes_last_for_hours():
    relative = np.log(parts(3) / SHARE)
    assert np.abs(np.diff(relative, axis=0)).mean() < 0.1 * relative.std(axis=0).mean()


def test_more_time_adds_to_the_story_and_does_not_change_it():
    assert np.array_equal(parts(5, 300), parts(5, 900)[:300])
    longer = lab_wants(np.random.default_rng(5), MONTHS[:900], STEP_S, WANT)
    shorter = lab_wants(np.random.default_rng(5), MONTHS[:300], STEP_S, WANT)
    assert np.array_equal(shorter, longer[:300])
