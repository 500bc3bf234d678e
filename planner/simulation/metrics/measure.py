"""A history, taken apart once for all figures and tables."""

from __future__ import annotations

from dataclasses import dataclass

from planner.simulation.history import History
from planner.simulation.metrics.hours import Hours, hours_of
from planner.simulation.metrics.runs import Fates, Runs, fates_of, runs_of


@dataclass(frozen=True)
class Measured:
    """A history with its runs, the fates of its workloads, and its hours."""

    history: History
    runs: Runs
    fates: Fates
    hours: Hours


def measure(history: History) -> Measured:
    """Take a history apart."""
    runs = runs_of(history)
    fates = fates_of(history, runs)
    assert (history.placement_wait_s <= fates.wait_s).all(), "a placement wait is part of a wait"
    return Measured(history, runs, fates, hours_of(history, runs, fates))
