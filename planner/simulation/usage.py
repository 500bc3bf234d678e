"""What each allocation has used and was entitled to in the lookback window, as a simulation goes on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.model.budget import leaf_shares
from planner.model.site import Site
from planner.overdraft import Balance, Overdraft
from planner.simulation.meter import Meter
from solver.state import Budgets
from solver.window import Window

HOUR_S = 3600


class Usage:
    """The budget tree's account: exact, by the same rules as that of a snapshot or a ledger.

    Parameters
    ----------
    paths : tuple of str
        Path of each node of `tree`, "" for the root.
    tree : Budgets
        Its usage and entitlement are ignored.
    """

    def __init__(self, site: Site, paths: tuple[str, ...], tree: Budgets) -> None:
        lookback = site.fair_share.lookback
        window = Window(lookback.window_s, lookback.type == "tumbling", lookback.half_life_s)
        shares = leaf_shares(site.budgets)
        self.tree = tree
        self.shares = {v: shares[path].as_integer_ratio() for v, path in enumerate(paths) if path in shares}
        self.leaves = np.array(list(self.shares), dtype=np.int64)
        self.use, self.capacity = Meter(tree.count, window), Meter(1, window)
        self.overdrafts: dict[int, Overdraft] = {}
        if site.fair_share.carry_overdraft and lookback.half_life_s is None:
            self.overdrafts = {v: Overdraft(window) for v in self.shares}
        self.entered_s = 0
        self.entered = self._totals(0)

    def available(self, now_s: int, rate: int) -> None:
        """From now on, `rate` micro budget units per second are there to be used."""
        self.capacity.change(now_s, np.array([rate]))

    def charge(self, now_s: int, leaf: int, rate: int) -> None:
        """From now on, charge an allocation `rate` micro budget units per second more, or less."""
        rates = self.use.rate.copy()
        rates[leaf] += rate
        self.use.change(now_s, rates)

    def budgets(self, now_s: int) -> Budgets:
        """Return the tree with use and entitlement in the window at `now_s`, at least an hour's."""
        self._enter_hours(now_s)  # before the meters forget what is older than the window
        usage = self.use.inside(now_s)
        hour, past = int(self.capacity.rate[0]) * HOUR_S, int(self.capacity.inside(now_s)[0])
        balances = self._balances(now_s) if self.overdrafts else {}
        for v, overdraft in self.overdrafts.items():
            a, b = self.shares[v]
            usage[v] += overdraft.carried(now_s, int(usage[v]) - a * past // b, balances[v])
        shares = [a * max(past, hour) // b for a, b in self.shares.values()]
        return replace(
            self.tree,
            usage=self.tree.subtree_sums(self.leaves, usage[self.leaves]),
            entitled=self.tree.subtree_sums(self.leaves, np.array(shares, dtype=np.int64)),
        )

    def _enter_hours(self, now_s: int) -> None:
        """Enter the hours that have ended into the overdrafts."""
        while self.overdrafts and self.entered_s + HOUR_S <= now_s:
            end_s = self.entered_s + HOUR_S
            for v, balance in self._balances(end_s).items():
                self.overdrafts[v].add(balance, end_s)
            self.entered_s, self.entered = end_s, self._totals(end_s)

    def _balances(self, end_s: int) -> dict[int, Balance]:
        """Return use and entitlement of each allocation since the last hour that was entered."""
        (use, capacity), (used, available) = self.entered, self._totals(end_s)
        return {
            v: Balance(self.entered_s, used[v] - use[v], a * (available - capacity) // b)
            for v, (a, b) in self.shares.items()
        }

    def _totals(self, time_s: int) -> tuple[list[int], int]:
        return self.use.total(time_s).tolist(), int(self.capacity.total(time_s)[0])
