"""Use beyond entitlement that has left the lookback window, and is not paid yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from solver.window import Window

HOUR_S = 3600


class Balance(NamedTuple):
    """What an allocation used and was entitled to in one hour, in micro budget units."""

    hour_s: int
    used: int
    entitled: int


def carried(balances: Iterable[Balance], window: Window, now_s: int) -> int:
    """Return what counts as used besides the use inside the window, in micro budget units.

    Every unit of entitlement pays for one unit of use, once. That of an hour pays the debt first; what is
    left is credit for later use until it leaves the window. Use that no credit pays is debt. Then

        carried = max(0, (debt - credit) - (used - entitled inside the window)),

    so that with it an allocation is beyond its share as long as anything is left to pay.
    """
    debt = inside = 0
    credits: deque[tuple[int, int]] = deque()  # hour, what is left of its entitlement
    opened_s = _opens(window, now_s)
    for hour_s, used, entitled in balances:
        begin_s = _opens(window, min(hour_s + HOUR_S, now_s))
        while credits and credits[0][0] < begin_s:
            credits.popleft()
        paid = min(debt, entitled)
        debt -= paid
        credits.append((hour_s, entitled - paid))
        debt += _spend(credits, used)
        if hour_s >= opened_s:
            inside += used - entitled
    credit = sum(left for hour_s, left in credits if hour_s >= opened_s)
    return max(0, debt - credit - inside)


def _opens(window: Window, time_s: int) -> int:
    """Return the first hour of which some part is inside the window."""
    begin_s = window.begins_s(time_s)
    return begin_s - begin_s % HOUR_S


def _spend(credits: deque[tuple[int, int]], used: int) -> int:
    """Pay for use, the oldest credit first; return what is not paid."""
    while used and credits:
        hour_s, left = credits.popleft()
        if left > used:
            credits.appendleft((hour_s, left - used))
            return 0
        used -= left
    return used
