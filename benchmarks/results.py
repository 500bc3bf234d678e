"""Policies on the same work, as tables for managers: `python -m benchmarks.results --out DIR --logs LOGS`.

Makes each scenario (`benchmarks.scenarios`), runs `gangplan compare` on it, and prints a table. The same
command goes on with what a stopped run left. With --set it compares settings of the site file:
`--policy budget-greedy --set fair_share.carry_overdraft=false,true`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.scenarios import SCENARIOS, SITE, TRACE, gangplan, prepare
from benchmarks.text import DAY, HOUR, MINUTE, duration
from planner.model.budget import leaf_shares
from planner.simulation.policies import POLICIES
from planner.site import load_site

KEPT = 0.95
"""Delivered over owed from which a promise counts as kept."""

Cases = pd.DataFrame


def _mean(name: str) -> Callable[[Cases], float]:
    return lambda cases: float(cases[name].mean())


def _least(name: str) -> Callable[[Cases], float]:
    return lambda cases: float(cases[name].min())


def _lost(cases: Cases) -> float:
    return 1 - float(cases["goodput"].mean())


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _time(value: float) -> str:
    """Write seconds with two units at most, rounded: `7m30s`, `1h38m`, and from a day on hours: `26h`."""
    step = 1 if value < HOUR else MINUTE
    return f"{value / HOUR:.0f}h" if value >= DAY else duration(round(value / step) * step)


def _count(value: float) -> str:
    return f"{value:.0f}"


COLUMNS: dict[str, tuple[Callable[[Cases], float], Callable[[float], str]]] = {
    "occupancy": (_mean("occupancy"), _percent),
    "unallocated": (_mean("unallocated_share"), _percent),
    "delivered / owed": (_mean("delivered_over_owed"), _percent),
    "worst full asker": (_least("worst_asker"), _percent),
    "askers under 95%": (_mean("askers_below"), "{:.1f}".format),
    "of askers": (_mean("askers"), "{:.1f}".format),
    "debug p90": (_mean("debug_wait_p90_s"), _time),
    "largest p50": (_mean("largest_wait_p50_s"), _time),
    "largest p90": (_mean("largest_wait_p90_s"), _time),
    "largest never started": (_mean("largest_unstarted"), _count),
    "preemptions": (_mean("preemptions"), _count),
    "lost": (_lost, _percent),
    "solve p90 s": (_mean("solve_seconds_p90"), "{:.3f}".format),
    "exact rounds": (_mean("exact_rounds"), _count),
    "wall s": (_mean("wall_seconds"), _count),
}
"""What a table shows: how it comes of a policy's cases, and how it is written."""


def askers(case: Path, shares: pd.Series) -> pd.Series:
    """Return delivered over owed by allocation, of those whose demand reaches their share of all the time.

    Whoever asks for less is owed the demand, and demand counts while it waits: what is missing there is the
    wait, which has columns of its own.
    """
    hours = pd.read_parquet(case / "hours.parquet")
    available = float((hours["capacity"] - hours["unavailable"]).sum())
    columns = ["owed", "delivered_allocated", "demand"]
    sums = pd.read_parquet(case / "allocations.parquet").groupby("allocation")[columns].sum()
    entitled = shares.reindex(sums.index) * available
    sums = sums[(sums["demand"] >= entitled) & (entitled > 0)]
    return sums["delivered_allocated"] / sums["owed"]


def cases_of(compared: Path, site_path: Path) -> Cases:
    """Return a row for each case that is done: what `compare` says of it, and how the askers fared."""
    shares = pd.Series({path: float(s) for path, s in leaf_shares(load_site(site_path).budgets).items()})
    cases = pd.read_parquet(compared / "compare.parquet")
    ratios = [askers(compared / name, shares) for name in cases["case"]]
    return cases.assign(
        worst_asker=[r.min() for r in ratios],
        askers_below=[int((r < KEPT).sum()) for r in ratios],
        askers=[len(r) for r in ratios],
    )


def table(cases: Cases, keys: Sequence[str]) -> str:
    """Return a table in Markdown: a row for each policy and setting, over its seeds."""
    lines = [f"| {' | '.join((*keys, 'seeds', *COLUMNS))} |", "|" + "---|" * (len(keys) + 1 + len(COLUMNS))]
    for values, group in cases.groupby(list(keys), sort=False, dropna=False):
        cells = [_shown(get(group), show) for get, show in COLUMNS.values()]
        lines.append(f"| {' | '.join((*map(str, values), str(len(group)), *cells))} |")
    return "\n".join(lines)


def _shown(value: float, show: Callable[[float], str]) -> str:
    return "-" if pd.isna(value) else show(value)


def main() -> int:
    """Run what is asked for, and print the tables."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=Path, required=True, help="folder for inputs and results")
    ap.add_argument("--logs", type=Path, help="folder of the public logs, for itp and philly")
    ap.add_argument("--scenario", choices=SCENARIOS, nargs="+", default=list(SCENARIOS))
    ap.add_argument("--policy", choices=POLICIES, nargs="+", default=list(POLICIES))
    ap.add_argument("--seeds", type=int, nargs="+", help="default: those of the scenario")
    ap.add_argument("--days", type=int, default=30)
    ap.add_argument("--period", default="60s")
    ap.add_argument("--set", action="append", default=[], metavar="KEY=VALUE[,VALUE...]", dest="settings")
    a = ap.parse_args()
    for name in a.scenario:
        seeds = a.seeds or SCENARIOS[name].seeds
        home = prepare(name, a.out, a.days, seeds, a.logs)
        more = [word for policy in a.policy for word in ("--policy", policy)]
        more += [word for seed in seeds for word in ("--seed", seed)]
        more += [word for setting in a.settings for word in ("--set", setting)]
        inputs = ("--site", home / SITE, "--trace", home / TRACE, "--days", a.days, "--period", a.period)
        gangplan("compare", *inputs, *more, "--out", home / "compared")
        keys = ["policy", *(setting.partition("=")[0] for setting in a.settings)]
        print(f"\n{SCENARIOS[name].title}, {a.days} days\n")
        print(table(cases_of(home / "compared", home / SITE), keys), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
