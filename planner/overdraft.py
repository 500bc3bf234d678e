"""Use beyond entitlement that has left the lookback window, and is not paid yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from solver.window import Window

HOUR_S = 3600

IDLE = "fair_share.carry_overdraft does nothing beside a half-life, which forgets by design"


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

    def add(self, balance: Balance, now_s: int) -> None:
        """Enter the next hour, of which only what is before `now_s` has passed."""
        hour_s, used, entitled = balance
        begin_s = _opens(self.window, min(hour_s + HOUR_S, now_s))
        while self.credits and self.credits[0][0] < begin_s:
            self.credits.popleft()
        paid = min(self.debt, entitled)
        self.debt -= paid
        self.credits.append((hour_s, entitled - paid))
        self.debt += _spend(self.credits, used)

    def carried(self, now_s: int, over: int, unfinished: Balance | None = None) -> int:
        """Return what counts as used besides the use inside the window, in micro budget units.

            carried = max(0, (debt - credit) - over),

        so that with it an allocation is beyond its share as long as anything is left to pay.

        Parameters
        ----------
        over : int, micro budget units
            What is used inside the window less what is entitled there, to the second as both count.
        unfinished : Balance or None
            The hour that has not ended yet; it is not entered.
        """
        if unfinished is not None:
            trial = Overdraft(self.window)
            trial.debt, trial.credits = self.debt, self.credits.copy()
            trial.add(unfinished, now_s)
            return trial.carried(now_s, over)
        begin_s = self.window.begins_s(now_s)
        credit = sum(_still(left, hour_s, begin_s) for hour_s, left in self.credits)
        return max(0, self.debt - credit - over)


def carried(balances: Iterable[Balance], window: Window, now_s: int, over: int) -> int:
    """Return what counts as used besides the use inside the window, as `Overdraft.carried`."""
    past = Overdraft(window)
    for balance in balances:
        past.add(balance, now_s)
    return past.carried(now_s, over)


def _still(left: int, hour_s: int, begin_s: int) -> int:
    """Return what of the credit of an hour is inside the window: in proportion, where it begins amid it."""
    return left * min(max(hour_s + HOUR_S - begin_s, 0), HOUR_S) // HOUR_S


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
