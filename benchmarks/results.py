"""Policies on the same work, as tables for managers: `python -m benchmarks.results --out DIR --logs LOGS`.

Makes each scenario (`benchmarks.scenarios`), runs `gangplan compare` on it, and prints a table. The same
command goes on with what a stopped run left. With --set it compares settings of the site file:
`--policy budget-greedy --set fair_share.carry_overdraft=false,true`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pandas as pd

from benchmarks.scenarios import SCENARIOS, SITE, TRACE, gangplan, prepare
from benchmarks.text import DAY, HOUR, MINUTE, duration
from planner.model.budget import leaf_shares
from planner.simulation.policies import POLICIES
from planner.site import load_site
from planner.units import parse_duration

KEPT = 0.95
"""Delivered over owed from which a promise counts as kept."""

Cases = pd.DataFrame
Columns = dict[str, tuple[Callable[[Cases], float], Callable[[float], str]]]


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


FIGURES: Columns = {
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
"""What the first table shows: how it comes of a policy's cases, and how it is written."""

CLASSES = ("debug", "small", "largest")
"""Of allocated work, as `workloads` tells them apart; small is the rest."""
PERCENTILES = {"p50": 0.5, "p90": 0.9}
WAITS = {
    f"{c} {kind} {name}": (c, f"{kind}_wait_s", q)
    for c, kind, (name, q) in product(CLASSES, ("budget", "placement"), PERCENTILES.items())
}
PROMISES: Columns = {
    "promised": (_mean("promised"), _count),
    "kept": (_mean("promises_kept"), _percent),
    "promise error p90": (_mean("promise_error_p90_s"), _time),
}
"""Who had a promise, and the share of first promises that the next round kept, or an earlier one."""
PATIENCE: Columns = {**{name: (_mean(name), _time) for name in WAITS}, **PROMISES}
"""What the second table shows: who waited how long for what."""


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


def waits(case: Path) -> dict[str, float]:
    """Return percentiles of the waits of allocated work by class, for budget and for a place, seconds."""
    work = pd.read_parquet(case / "workloads.parquet")
    work = work[(work["occupancy"] == "allocated") & (work["state"] != "refused")]
    of = {"debug": work["debug"], "largest": work["largest"], "small": ~(work["debug"] | work["largest"])}
    return {name: float(work.loc[of[c], column].quantile(q)) for name, (c, column, q) in WAITS.items()}


def promises_kept(case: Path, *, end_s: int, period_s: int) -> float:
    """Return the share of first promises that were met by the round after them, or earlier.

    One that nobody started on counts as broken if it was overdue when its workload was over.
    """
    promises = pd.read_parquet(case / "promises.parquet").drop_duplicates("workload")
    over_s = pd.read_parquet(case / "workloads.parquet").set_index("id")["end_s"].fillna(end_s)
    met_s = promises["actual_start_s"].fillna(promises["workload"].map(over_s))
    known = promises["actual_start_s"].notna() | (met_s > promises["start_s"])
    kept = (met_s - promises["start_s"] < period_s)[known]
    return float(kept.mean()) if len(kept) else float("nan")


def cases_of(compared: Path, site_path: Path, period_s: int) -> Cases:
    """Return a row for each case that is done: what `compare` says of it, and how the askers fared."""
    shares = pd.Series({path: float(s) for path, s in leaf_shares(load_site(site_path).budgets).items()})
    cases = pd.read_parquet(compared / "compare.parquet")
    folders = [compared / name for name in cases["case"]]
    ratios = [askers(folder, shares) for folder in folders]
    return cases.join(pd.DataFrame([waits(folder) for folder in folders])).assign(
        promises_kept=[
            promises_kept(folder, end_s=end_s, period_s=period_s)
            for folder, end_s in zip(folders, cases["end_s"], strict=True)
        ],
        worst_asker=[r.min() for r in ratios],
        askers_below=[int((r < KEPT).sum()) for r in ratios],
        askers=[len(r) for r in ratios],
    )


def table(cases: Cases, keys: Sequence[str], columns: Columns) -> str:
    """Return a table in Markdown: a row for each policy and setting, over its seeds."""
    lines = [f"| {' | '.join((*keys, 'seeds', *columns))} |", "|" + "---|" * (len(keys) + 1 + len(columns))]
    for values, group in cases.groupby(list(keys), sort=False, dropna=False):
        cells = [_shown(get(group), show) for get, show in columns.values()]
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
    ap.add_argument("--jobs", type=int, help="processes at once; default: as `gangplan compare`")
    a = ap.parse_args()
    for name in a.scenario:
        seeds = a.seeds or SCENARIOS[name].seeds
        home = prepare(name, a.out, a.days, seeds, a.logs)
        more = [word for policy in a.policy for word in ("--policy", policy)]
        more += [word for seed in seeds for word in ("--seed", seed)]
        more += [word for setting in a.settings for word in ("--set", setting)]
        more += ["--jobs", a.jobs] if a.jobs else []
        inputs = ("--site", home / SITE, "--trace", home / TRACE, "--days", a.days, "--period", a.period)
        gangplan("compare", *inputs, *more, "--out", home / "compared")
        keys = ["policy", *(setting.partition("=")[0] for setting in a.settings)]
        print(f"\n{SCENARIOS[name].title}, {a.days} days\n")
        cases = cases_of(home / "compared", home / SITE, parse_duration(a.period))
        print(table(cases, keys, FIGURES), end="\n\n")
        print(table(cases, keys, PATIENCE), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
