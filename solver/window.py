"""The lookback window: how much of the past counts, and use and entitlement integrated over it, exactly.

Sliding (the last `window_s`) or tumbling (since the last multiple of `window_s` of the epoch) and, on top of
either, an exponential decay by half-life. The window is a number of seconds in UTC: no calendar, no daylight
saving.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from solver.state import MICRO, Ints


@dataclass(frozen=True)
class Window:
    """A lookback window; `half_life_s` None counts every second of it alike."""

    window_s: int
    tumbling: bool = False
    half_life_s: int | None = None

    def begins_s(self, now_s: int) -> int:
        """Return the first second that counts at `now_s`."""
        return now_s - now_s % self.window_s if self.tumbling else now_s - self.window_s

    def seconds_between(self, begin_s: int, end_s: int, now_s: int) -> float:
        """Return the weight of the time from `begin_s` to `end_s`, in seconds of now."""
        begin_s = max(begin_s, self.begins_s(now_s))
        end_s = min(end_s, now_s)
        if begin_s >= end_s:
            return 0.0
        if self.half_life_s is None:
            return float(end_s - begin_s)
        rate = math.log(2) / self.half_life_s
        return (math.exp(-rate * (now_s - end_s)) - math.exp(-rate * (now_s - begin_s))) / rate

    def history_s(self, now_s: int, known_s: int | None) -> float:
        """Return the weight of the known past: of `known_s` seconds, or of the whole window."""
        known_s = self.window_s if known_s is None else known_s
        return self.seconds_between(now_s - known_s, now_s, now_s)


def used(window: Window, now_s: int, begin_s: Ints, end_s: Ints, charge_micro: Ints) -> int:
    """Return what occupancy intervals have used of the window, micro budget units.

    Exact where nothing decays; with a half-life each interval is rounded to the nearest micro unit.

    Parameters
    ----------
    begin_s, end_s : int64[K], epoch seconds
    charge_micro : int64[K], micro budget units per second
        GPUs x charge of each interval.
    """
    begin = np.maximum(begin_s, window.begins_s(now_s))
    end = np.minimum(end_s, now_s)
    if window.half_life_s is None:
        return int((np.maximum(end - begin, 0) * charge_micro).sum())
    pairs = zip(begin.tolist(), end.tolist(), charge_micro.tolist(), strict=True)
    return sum(round(window.seconds_between(b, e, now_s) * c) for b, e, c in pairs)


def entitled(share_ppb: Ints, capacity_micro: Ints, seconds: Ints) -> int:
    """Return the share integrated over time: sum of share x available capacity x seconds, micro budget units.

    A new or re-weighted allocation has no claim on the past: each stretch counts with the share of its time.

    Parameters
    ----------
    share_ppb : int64[K], parts per billion
    capacity_micro : int64[K], micro budget units per second
    seconds : int64[K], seconds
    """
    stretches = zip(share_ppb.tolist(), capacity_micro.tolist(), seconds.tolist(), strict=True)
    return sum(s * c * t // 10**9 for s, c, t in stretches)


HOUR_MICRO_S = 3600 * MICRO
"""Micro budget units in one budget unit: a GPU-hour of charge 1."""
