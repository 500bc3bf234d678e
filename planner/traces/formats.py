"""The formats that `gangplan trace import` knows, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from planner.traces import helios, itp, kalos, openb, philly, sacct, swf
from planner.traces.log import Log, join

FORMATS: dict[str, Callable[[Path], Log]] = {
    "philly": philly.read,
    "itp": itp.read,
    "kalos": kalos.read,
    "openb": openb.read,
    "helios": helios.read,
    "swf": swf.read,
    "sacct": sacct.read,
}


def read_log(name: str, paths: Sequence[Path]) -> Log:
    """Read the files of a log as one."""
    return join([FORMATS[name](path) for path in paths])
