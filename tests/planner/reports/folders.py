"""Folders of simulations for tests: toys, whose truth is known by GPU and second, and small real ones."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from planner.reports.frames.simulated import Simulated
from planner.simulation.output import write
from tests.planner.simulation.toy import Toy, toy

KEPT: list[tempfile.TemporaryDirectory[str]] = []
"""Folders in use: they go when the tests have ended."""


@cache
def played(n: int) -> tuple[Toy, Simulated]:
    """Return a toy, and the folder that a simulation of it would have left."""
    found = toy(100 + n, (9000, 7200, 10801, 3599)[n % 4], (25, 60)[n % 2])
    KEPT.append(tempfile.TemporaryDirectory(prefix="gangplan-toy-"))
    folder = Path(KEPT[-1].name)
    write(found.history, folder)
    return found, Simulated(folder)


PLAYED = st.integers(0, 11).map(played)
"""Toys with their folders; the tests share them."""
