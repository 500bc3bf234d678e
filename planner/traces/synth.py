"""Synthetic traces by the name of a preset, each with the site that it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.simulation.trace import Trace
from planner.traces.synth_ai2 import ai2

PRESETS: dict[str, Callable[[int, int, bool], tuple[Trace, dict[str, Any]]]] = {"ai2": ai2}
"""What makes each preset from days, seed and whether it is the saturated variant."""


def synth(preset: str, days: int, seed: int, saturated: bool = False) -> tuple[Trace, dict[str, Any]]:
    """Return a synthetic trace and its site in the form of a site file.

    Parameters
    ----------
    preset : str
        One of `PRESETS`.
    days : int
        At least 1. The first days of a longer trace are the shorter trace.
    seed : int
        Not negative. The same arguments give the same answer.
    saturated : bool
        Whether allocated work alone asks for more than there is, at every moment.
    """
    return PRESETS[preset](days, seed, saturated)
