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


class Overdraft:
    """One allocation's account of the past, hour by hour.

    Every unit of entitlement pays for one unit of use, once. That of an hour pays the debt first; what is
    left is credit for later use until it leaves the window. Use that no credit pays is debt.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        self.debt = 0
        self.credits: deque[tuple[int, int]] = deque()  # hour, what is left of its entitlement
        self.recent: deque[tuple[int, int]] = deque()  # hour, used less entitled

    def add(self, balance: Balance, now_s: int) -> None:
        """Enter the next hour, of which only what is before `now_s` has passed."""
        hour_s, used, entitled = balance
        begin_s = _opens(self.window, min(hour_s + HOUR_S, now_s))
        for past in (self.credits, self.recent):
            while past and past[0][0] < begin_s:
                past.popleft()
        paid = min(self.debt, entitled)
        self.debt -= paid
        self.credits.append((hour_s, entitled - paid))
        self.debt += _spend(self.credits, used)
        self.recent.append((hour_s, used - entitled))

    def carried(self, now_s: int, unfinished: Balance | None = None) -> int:
        """Return what counts as used besides the use inside the window, in micro budget units.

            carried = max(0, (debt - credit) - (used - entitled inside the window)),

        so that with it an allocation is beyond its share as long as anything is left to pay. The hour that
        has not ended yet may be given apart; it is not entered.
        """
        if unfinished is not None:
            trial = Overdraft(self.window)
            trial.debt, trial.credits, trial.recent = self.debt, self.credits.copy(), self.recent.copy()
            trial.add(unfinished, now_s)
            return trial.carried(now_s)
        opened_s = _opens(self.window, now_s)
        credit = sum(left for hour_s, left in self.credits if hour_s >= opened_s)
        inside = sum(amount for hour_s, amount in self.recent if hour_s >= opened_s)
        return max(0, self.debt - credit - inside)


def carried(balances: Iterable[Balance], window: Window, now_s: int) -> int:
    """Return what counts as used besides the use inside the window, in micro budget units."""
    past = Overdraft(window)
    for balance in balances:
        past.add(balance, now_s)
    return past.carried(now_s)


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
