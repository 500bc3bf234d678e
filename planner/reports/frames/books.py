"""What allocations were owed and got, by hour and in sum: one form for simulation, ledger and snapshot."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from planner.account import account, by_hour
from planner.errors import InputError
from planner.ledger.store import Ledger
from planner.model.budget import leaf_shares
from planner.model.plan import ShareRow
from planner.model.site import Site
from planner.reports.frames.simulated import Simulated
from planner.reports.frames.subtree import within
from solver.window import HOUR_MICRO_S

WINDOW_S = 604_800
"""The lookback window of a simulation whose site file is not at hand."""

PER_DAY = 4
"""Points of a day in charts over time: six hours each, so that nights show and noise does not."""

AMOUNTS = ("entitled", "owed", "delivered", "unallocated", "demand")


@dataclass(frozen=True)
class Books:
    """Who was owed what, and got it.

    Attributes
    ----------
    hourly : DataFrame
        hour, allocation, and `AMOUNTS` in `unit`; empty where only the present is known.
    window : DataFrame
        One row for each allocation: share, `AMOUNTS` of the lookback window, ratio and rank.
    whole : DataFrame
        The same of all that is known.
    unit : str
        GPU-hours, or budget units.
    first_s : int or None
        Epoch second of hour 0; None = the start of a trace.
    caveat : str
        What a reader has to know of the amounts; "" = nothing.
    """

    hourly: pd.DataFrame
    window: pd.DataFrame
    whole: pd.DataFrame
    unit: str
    span: str
    first_s: int | None = None
    caveat: str = ""

    def under(self, path: str) -> Books:
        """Return the books of one subtree; InputError where no allocation lies in it."""
        kept = within(path, self.whole["allocation"])
        frames = (self.hourly, self.window, self.whole)
        hourly, window, whole = (f[f["allocation"].isin(kept)].reset_index(drop=True) for f in frames)
        return replace(self, hourly=hourly, window=window, whole=whole)


def of_simulation(found: Simulated, window_s: int = WINDOW_S) -> Books:
    """Return the books of a simulation; the window is the last one before its end."""
    frame, shares = found.allocations, pd.Series(found.shares)
    available = (found.hours["capacity"] - found.hours["unavailable"]).to_numpy()
    hourly = pd.DataFrame(
        {
            "hour": frame["hour"],
            "allocation": frame["allocation"],
            "entitled": frame["allocation"].map(shares).to_numpy() * available[frame["hour"]],
            "owed": frame["owed"],
            "delivered": frame["delivered_allocated"],
            "unallocated": frame["delivered_unallocated"],
            "demand": frame["demand"],
        }
    )
    first = max(0, -(-found.end_s // 3600) - window_s // 3600)
    recent = hourly[hourly["hour"] >= first]
    span = f"the {found.length.removeprefix('1 ')} of the simulation"
    return Books(hourly, _sums(recent, shares), _sums(hourly, shares), "GPU-hours", span)


def of_ledger(site: Site, ledger: Ledger, now_s: int) -> Books:
    """Return the books of the lookback window that ends at `now_s`; InputError where it is unknown."""
    begin_s = account(site, ledger, now_s).begin_s
    rows = by_hour(site, ledger, begin_s, now_s)
    if not rows:
        raise InputError(["the ledger knows nothing of the lookback window, fill it or give another --now"])
    first_s = rows[0].hour_s
    hourly = pd.DataFrame(
        {
            "hour": [(r.hour_s - first_s) // 3600 for r in rows],
            "allocation": [r.allocation for r in rows],
            **{name: [getattr(r, name) / HOUR_MICRO_S for r in rows] for name in AMOUNTS},
        }
    )
    shares = pd.Series({a: float(s) for a, s in leaf_shares(site.budgets).items()}, dtype=float)
    sums = _sums(hourly, shares)
    return Books(hourly, sums, sums, "budget units", "the lookback window", first_s)


def of_shares(rows: tuple[ShareRow, ...]) -> Books:
    """Return the books of one moment, from the `shares` of a plan: sums of the window, and no hours."""
    window = pd.DataFrame(
        {
            "allocation": [r.allocation for r in rows],
            "share": [r.share for r in rows],
            "entitled": [r.entitled for r in rows],
            "owed": [r.owed for r in rows],
            "delivered": [r.delivered for r in rows],
            "running_gpus": [r.running_gpus for r in rows],
            "unallocated_gpus": [r.unallocated_gpus for r in rows],
            "pending_gpus": [r.pending_gpus for r in rows],
            "ratio": [np.nan if r.ratio is None else r.ratio for r in rows],
            "rank": [r.rank for r in rows],
        }
    )
    hourly = pd.DataFrame(columns=["hour", "allocation", *AMOUNTS])
    caveat = "Where no ledger counts demand by the hour, what is owed is estimated from today's demand."
    return Books(hourly, window, window, "budget units", "the lookback window", caveat=caveat)


def by_day_part(books: Books) -> pd.DataFrame:
    """Return the hours in means over 24 ÷ `PER_DAY` hours: day, allocation, and GPUs of each amount."""
    hours = 24 // PER_DAY
    part = (books.hourly["hour"] // hours).rename("part")
    means = books.hourly.groupby([part, "allocation"], sort=True)[list(AMOUNTS)].mean().reset_index()
    means.insert(0, "day", means.pop("part") / PER_DAY)
    return means


def kept(owed: pd.Series, delivered: pd.Series) -> pd.Series:
    """Return delivered ÷ owed; missing where nothing was owed."""
    return (delivered / owed.where(owed > 1e-9)).astype(float)


def tree(books: Books) -> pd.DataFrame:
    """Return the budget tree, parents first: sums of each subtree, the ratio that sorts, and its rank.

    Allocations have ranks. Entitlement and ratio are of the lookback window, the rest of all that is known.
    """
    leaves = books.whole.set_index("allocation")
    window = books.window.set_index("allocation")
    paths = list(leaves.index)
    inner = {"/".join(p.split("/")[:depth]) for p in paths for depth in range(1, p.count("/") + 1)}
    rows = []
    for path in sorted({*paths, *inner}, key=lambda p: p.split("/")):
        mine = [p for p in paths if p == path or p.startswith(f"{path}/")]
        whole, recent = leaves.loc[mine], window.loc[mine]
        entitled = float(recent["entitled"].sum())
        owed, delivered = float(whole["owed"].sum()), float(whole["delivered"].sum())
        rows.append(
            {
                "budget": path,
                "is_allocation": path in leaves.index,
                "share": float(whole["share"].sum()),
                "owed": owed,
                "delivered": delivered,
                "delivered_over_owed": delivered / owed if owed > 1e-9 else np.nan,
                "used_in_window": float(recent["delivered"].sum()),
                "entitled_in_window": entitled,
                "ratio": float(recent["delivered"].sum()) / entitled if entitled else np.nan,
                "rank": int(window["rank"][path]) if path in leaves.index else None,
                **{name: float(whole[name].sum()) for name in _EXTRAS if name in whole},
            }
        )
    out = pd.DataFrame(rows)
    out["rank"] = out["rank"].astype("Int64")
    return out


_EXTRAS = ("unallocated", "demand", "running_gpus", "unallocated_gpus", "pending_gpus")


def _sums(hourly: pd.DataFrame, shares: pd.Series) -> pd.DataFrame:
    """Return a row for each allocation: its share, the sums of its hours, ratio and rank."""
    names = list(shares.index) or sorted(set(hourly["allocation"]))
    sums = hourly.groupby("allocation")[list(AMOUNTS)].sum().reindex(names, fill_value=0.0)
    ratio = sums["delivered"] / sums["entitled"].where(sums["entitled"] > 0)
    # as the order does: the lowest ratio first, who has no share last, equals by name
    turn = sorted(names, key=lambda a: (np.inf if np.isnan(ratio[a]) else ratio[a], a))
    sums.insert(0, "share", [float(shares.get(a, 0.0)) for a in names])
    sums["ratio"], sums["rank"] = ratio, [turn.index(a) + 1 for a in names]
    return sums.rename_axis("allocation").reset_index()
