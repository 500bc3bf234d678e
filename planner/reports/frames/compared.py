"""Policies side by side: the cases of a comparison, with seeds put together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from planner.errors import InputError
from planner.reports.frames.runs import preemptions_of, runs_of
from planner.reports.frames.simulated import Simulated
from planner.reports.frames.tables import read_columns
from planner.simulation.compare import TABLE
from planner.simulation.tables import Column

CLASSES = ("all", "debug", "largest")
"""Of allocated workloads; the last two as the site defines them."""

STEPS = np.linspace(0.0, 1.0, 101)
"""Shares of the workloads at which waits are read off."""

FIGURES = (
    "occupancy", "delivered_over_owed", "worst_delivered_over_owed", "wait_p50_s", "wait_p90_s",
    "debug_wait_p90_s", "largest_wait_p90_s", "preemptions", "preempted_gpu_hours_lost", "goodput",
)  # fmt: skip
"""Figures of a case that the page shows."""

COLUMNS = {
    **dict.fromkeys(("case", "policy"), Column("string")),
    **dict.fromkeys(("seed", *FIGURES), Column("float64")),
}
"""Columns that the table of a comparison must have."""

FIX = "name a folder that `gangplan compare` has finished"

BANDS = ("allocated", "unallocated", "idle", "unavailable")


@dataclass(frozen=True)
class Compared:
    """The folder of a comparison; `names` are its variants, a policy with its settings, in order."""

    folder: Path

    @cached_property
    def rows(self) -> pd.DataFrame:
        """One row for each case: variant, seed and figures; InputError without such a table."""
        frame = read_columns(self.folder, TABLE, COLUMNS, FIX)
        if frame.empty:
            raise InputError([f"{self.folder / TABLE}.parquet: holds no case, {FIX}"])
        variant = frame["case"].str.replace(r",?seed=\d+$", "", regex=True)
        frame.insert(0, "variant", variant)
        return frame

    @property
    def names(self) -> list[str]:
        """Variants in the order of the table."""
        return list(dict.fromkeys(self.rows["variant"]))

    def cases(self, variant: str) -> list[Simulated]:
        """Return the simulations of a variant, one for each seed."""
        found = self.rows[self.rows["variant"] == variant]
        return [Simulated(self.folder / case) for case in found["case"]]

    @cached_property
    def allocations(self) -> list[str]:
        """All allocations, by name."""
        return sorted(self.cases(self.names[0])[0].shares)


def figures(found: Compared) -> pd.DataFrame:
    """Return the mean of every figure over the seeds, a row for each variant."""
    rows = found.rows.drop(columns=["case", "policy", "seed"])
    numbers = [name for name in rows if pd.api.types.is_numeric_dtype(rows[name])]
    return rows.groupby("variant", sort=False)[numbers].mean().reset_index()


def waits(found: Compared) -> pd.DataFrame:
    """Return the waits of each class under each variant at `STEPS`: variant, class, share, wait_s.

    Waits of allocated workloads from submit to first start, those cut short by the end as long as they were.
    """
    out = []
    for variant in found.names:
        jobs = pd.concat([case.workloads for case in found.cases(variant)], ignore_index=True)
        jobs = jobs[(jobs["occupancy"] == "allocated") & (jobs["state"] != "refused")]
        for kind in CLASSES:
            mine = (jobs if kind == "all" else jobs[jobs[kind]])["wait_s"].to_numpy(dtype=np.float64)
            if len(mine):
                wait_s = np.quantile(mine, STEPS)
                out.append(
                    pd.DataFrame({"variant": variant, "class": kind, "share": STEPS, "wait_s": wait_s})
                )
    return (
        pd.concat(out, ignore_index=True)
        if out
        else pd.DataFrame(columns=["variant", "class", "share", "wait_s"])
    )


def kept(found: Compared) -> pd.DataFrame:
    """Return owed, delivered and their quotient by variant and allocation, summed over hours and seeds."""
    out = []
    for variant in found.names:
        hours = pd.concat([case.allocations for case in found.cases(variant)], ignore_index=True)
        sums = hours.groupby("allocation")[["owed", "delivered_allocated"]].sum().reset_index()
        sums = sums.rename(columns={"delivered_allocated": "delivered"})
        sums["delivered_over_owed"] = sums["delivered"] / sums["owed"].where(sums["owed"] > 1e-9)
        sums.insert(0, "variant", variant)
        out.append(sums)
    return pd.concat(out, ignore_index=True)


def bands(found: Compared) -> pd.DataFrame:
    """Return what became of the capacity under each variant: parts of it that add up to one."""
    rows = []
    for variant in found.names:
        sums = pd.concat([case.hours for case in found.cases(variant)]).sum()
        rows.append({"variant": variant, **{band: float(sums[band] / sums["capacity"]) for band in BANDS}})
    return pd.DataFrame(rows)


def matrix(found: Compared) -> pd.DataFrame:
    """Return who displaced whom under each variant: gainer, victim, preemptions, GPUs, GPU-hours lost."""
    out = []
    for variant in found.names:
        parts = [preemptions_of(case, runs_of(case)) for case in found.cases(variant)]
        sums = pd.concat(parts).groupby(["gainer", "victim"]).sum().reset_index()
        sums.insert(0, "variant", variant)
        out.append(sums)
    return pd.concat(out, ignore_index=True)
