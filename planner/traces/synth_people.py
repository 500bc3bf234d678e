"""How much people want over time: nights, weeks, seasons, bursts, and teams that come and go.

All of it is assumed: nothing public tells it for a lab of this size. Time 0 is a Monday, 00:00.

- Awake: who looks at the queue, as a part of everybody: all at 14 o'clock, a quarter at 2 at night, half of
  that on weekends.
- The lab: what it wants moves by the day and the week (more at 14 o'clock and on weekdays), by a season of
  20 days (deadlines), and at random with a memory of 1.5 days, within given bounds.
- Teams: each wants its share of that, times a log-normal factor (spread 0.55, memory 3 days), 2.5 times as
  much in a burst. A burst comes to a team about every 12 days and lasts 1 to 3 days. The factors only
  divide what the lab wants, so that each team is over its share at some times and under it at others.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from planner.traces.synth_gangs import DAY, HOUR, Rng
from solver.state import Bools, Floats, Ints

SEASON_S = 20 * DAY
LAB_MEMORY_S, TEAM_MEMORY_S = int(1.5 * DAY), 3 * DAY
TEAM_SPREAD = 0.55
BURST, BURST_EVERY_S, BURST_LASTS_S = 2.5, 12 * DAY, (DAY, 3 * DAY)
PEAK_S = 14 * HOUR
NIGHT, WEEKEND = 0.25, 0.5
"""Part of the people who are at work at 2 at night, and of those on weekends."""


@dataclass(frozen=True)
class Want:
    """What a lab wants, in parts of its GPUs: the mean, how far it moves from it, and its bounds."""

    mean: float
    moves: float
    low: float
    high: float


def awake(time_s: Ints) -> Floats:
    """Return the part of the people who are at work, float64[K]."""
    day = NIGHT + (1 - NIGHT) * (1 + _by_day(time_s)) / 2
    out: Floats = day * np.where(_is_weekend(time_s), WEEKEND, 1.0)
    return out


def lab_wants(rng: Rng, time_s: Ints, step_s: int, want: Want) -> Floats:
    """Return what the lab wants at evenly spaced times, float64[K], in parts of its GPUs."""
    season = np.sin(2 * np.pi * (time_s / SEASON_S + rng.random()))
    week = np.where(_is_weekend(time_s), -1.0, 0.4)
    luck = _wander(rng, len(time_s), 1, step_s, LAB_MEMORY_S)[:, 0]
    move = 0.3 * _by_day(time_s) + 0.3 * week + 0.7 * season + 0.7 * luck
    return (want.mean + want.moves * move).clip(want.low, want.high)


def team_parts(rng: Rng, count: int, step_s: int, share: Floats) -> Floats:
    """Return how teams divide what the lab wants, float64[count, teams]; each row sums to 1."""
    calm, when, how_long = rng.spawn(3)
    appetite = np.exp(TEAM_SPREAD * _wander(calm, count, len(share), step_s, TEAM_MEMORY_S))
    appetite[_bursts(when, how_long, count, len(share), step_s)] *= BURST
    wants = share * appetite
    out: Floats = wants / wants.sum(axis=1, keepdims=True)
    return out


def _by_day(time_s: Ints) -> Floats:
    """Return the rhythm of the day, from -1 at 2 o'clock to 1 at 14 o'clock."""
    out: Floats = np.cos(2 * np.pi * (time_s - PEAK_S) / DAY)
    return out


def _is_weekend(time_s: Ints) -> Bools:
    out: Bools = time_s // DAY % 7 >= 5
    return out


def _wander(rng: Rng, steps: int, count: int, step_s: int, memory_s: int) -> Floats:
    """Return random walks that forget (Ornstein-Uhlenbeck), mean 0 and variance 1, float64[steps, count]."""
    keeps = np.exp(-step_s / memory_s)
    shocks = rng.standard_normal((steps, count))
    shocks[1:] *= np.sqrt(1 - keeps**2)
    for before, now in itertools.pairwise(shocks):
        now += keeps * before
    return shocks


def _bursts(when: Rng, how_long: Rng, steps: int, count: int, step_s: int) -> Bools:
    """Tell when teams are in a burst, bool[steps, count]."""
    begins = when.random((steps, count)) < step_s / BURST_EVERY_S
    lasts = (how_long.uniform(*BURST_LASTS_S, size=(steps, count)) / step_s).astype(np.int64)
    until = np.where(begins, np.arange(steps)[:, None] + lasts, 0)
    busy: Bools = np.maximum.accumulate(until) > np.arange(steps)[:, None]
    return busy
