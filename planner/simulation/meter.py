"""Use and capacity over time: exact running integrals of step functions, seen through a lookback window."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from solver.state import Floats, Ints
from solver.window import Window


class _Step(NamedTuple):
    """From `time_s` on each series has this rate; up to it, this total and this decayed total."""

    time_s: int
    total: Ints
    decayed: Floats
    rate: Ints


class Meter:
    """Integrals of K step functions from time 0, and what of them lies inside the lookback window.

    Rates are amounts per second, int64[K]. Totals are exact; with a half-life what lies in the window is
    rounded to whole amounts. Only as many steps are kept as the window needs.
    """

    def __init__(self, count: int, window: Window) -> None:
        self.window = window
        zero = np.zeros(count, dtype=np.int64)
        self.steps: deque[_Step] = deque([_Step(0, zero, np.zeros(count), zero)])

    @property
    def rate(self) -> Ints:
        """The present rates, int64[K]."""
        return self.steps[-1].rate

    def change(self, time_s: int, rate: Ints) -> None:
        """From `time_s`, no earlier than any change before, let the rates be `rate`."""
        last = self.steps[-1]
        if time_s == last.time_s:
            self.steps[-1] = last._replace(rate=rate)
        else:
            total, decayed = self._at(last, time_s)
            self.steps.append(_Step(time_s, total, decayed, rate))

    def total(self, time_s: int) -> Ints:
        """Return the integrals from 0 to `time_s`, no earlier than what is kept, int64[K]."""
        step = next(s for s in reversed(self.steps) if s.time_s <= time_s)
        return self._at(step, time_s)[0]

    def inside(self, now_s: int) -> Ints:
        """Return what of the integrals lies in the window at `now_s`, int64[K]; `now_s` never goes back."""
        begin_s = max(self.window.begins_s(now_s), 0)
        while len(self.steps) > 1 and self.steps[1].time_s <= begin_s:
            self.steps.popleft()
        total, decayed = self._at(self.steps[-1], now_s)
        old_total, old_decayed = self._at(self.steps[0], begin_s)
        if self.window.half_life_s is None:
            return total - old_total
        fading = 2.0 ** (-(now_s - begin_s) / self.window.half_life_s)
        left: Floats = decayed - old_decayed * fading
        return np.rint(left).astype(np.int64)

    def _at(self, step: _Step, time_s: int) -> tuple[Ints, Floats]:
        """Return both totals at `time_s`, in the course of a step."""
        elapsed_s = time_s - step.time_s
        total = step.total + step.rate * elapsed_s
        if self.window.half_life_s is None:
            return total, step.decayed
        kept = 2.0 ** (-elapsed_s / self.window.half_life_s)
        gained_s = (1 - kept) * self.window.half_life_s / np.log(2)
        return total, step.decayed * kept + step.rate * gained_s
