"""The folder of a simulation, read table by table as they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from planner.reports.frames.tables import checked, checked_summary
from planner.words import count

DAY_S = 86_400


def open_simulation(folder: Path) -> Simulated:
    """Return what a simulation left in a folder; InputError where it has not finished there."""
    checked_summary(folder)
    return Simulated(folder)


@dataclass(frozen=True)
class Simulated:
    """What a simulation left in `folder`; each table is an InputError where it cannot be used."""

    folder: Path

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Its figures."""
        return checked_summary(self.folder)

    @property
    def end_s(self) -> int:
        """Seconds from the trace's start to the end."""
        return int(self.summary["end_s"])

    @property
    def length(self) -> str:
        """From start to end in days, `1 day` or `29.5 days`."""
        return count(float(f"{self.end_s / DAY_S:.3g}"), "day")

    @property
    def title(self) -> str:
        """What was simulated, in a few words."""
        return f"{self.summary['policy']}, {self.length}, {int(self.nodes['gpus'].sum()):,} GPUs"

    @cached_property
    def allocations(self) -> pd.DataFrame:
        """By hour and allocation: owed, delivered, demand."""
        return checked(self.folder, "allocations")

    @cached_property
    def hours(self) -> pd.DataFrame:
        """By hour: where the GPU time went."""
        return checked(self.folder, "hours")

    @cached_property
    def events(self) -> pd.DataFrame:
        """Everything that happened, in order."""
        return checked(self.folder, "events")

    @cached_property
    def workloads(self) -> pd.DataFrame:
        """How each workload fared."""
        return checked(self.folder, "workloads")

    @cached_property
    def cluster(self) -> pd.DataFrame:
        """The cluster at regular times."""
        return checked(self.folder, "cluster")

    @cached_property
    def promises(self) -> pd.DataFrame:
        """Every start that was promised."""
        return checked(self.folder, "promises")

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """The machines."""
        return checked(self.folder, "nodes")

    @cached_property
    def outages(self) -> pd.DataFrame:
        """How the health of nodes changed."""
        return checked(self.folder, "outages")

    @cached_property
    def shares(self) -> dict[str, float]:
        """Share of each allocation."""
        frame = checked(self.folder, "shares")
        return dict(zip(frame["allocation"], frame["share"], strict=True))
