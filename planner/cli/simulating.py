"""What the commands that simulate have in common: their options, and how inputs become a case."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from planner.cli.options import PATH
from planner.simulation import cases, session
from planner.simulation.engine import Options
from planner.simulation.policies import POLICIES
from planner.simulation.world import World
from planner.units import parse_duration

DAY_S = 86_400

WARNINGS = 5
"""So many are said; a trace may have one for each workload."""

MOST_DAYS = 36_500
"""A hundred years, as much as a trace may hold."""


class Span(click.ParamType[int]):
    """A duration of an option, in seconds; at least a second."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds that a duration says."""
        if isinstance(value, int):
            return value
        try:
            seconds = parse_duration(value)
        except ValueError as e:
            self.fail(str(e), param, ctx)
        if seconds < 1:
            self.fail(f"{value} is too short, write 1s or more", param, ctx)
        return seconds


class Days(click.FloatRange):
    """A number of days above 0, at most a hundred years; NaN is none."""

    def __init__(self) -> None:
        super().__init__(0, MOST_DAYS, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the days."""
        days = float(super().convert(value, param, ctx))
        return self.fail(f"{value} is not a number of days", param, ctx) if math.isnan(days) else days


trace = click.option("--trace", "trace_path", type=PATH, required=True, help="Trace (CSV or Parquet).")
policy = click.option(
    "--policy", type=click.Choice(list(POLICIES)), default="budget", show_default=True, help="Who is served."
)
period = click.option(
    "--period", "period_s", type=Span(), default="60s", show_default=True, help="Time between rounds."
)
seed = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of all that is drawn."
)
node_events = click.option(
    "--node-events", "events_path", type=PATH, help="CSV of failures and repairs: time_s, node, state."
)
days = click.option("--days", type=Days(), help="Simulate so many days; default: all.")
mtbf = click.option("--mtbf", type=Span(), help="Draw failures: mean time between those of a node.")
mttr = click.option("--mttr", type=Span(), default="4h", show_default=True, help="Mean time to repair.")
sample = click.option("--sample", type=Span(), default="1h", show_default=True, help="Between samples.")


def case_of(
    site_path: Path,
    trace_path: Path,
    options: Options,
    events_path: Path | None = None,
    failures: tuple[int, int] | None = None,
) -> session.Case:
    """Read the inputs of a simulation.

    Parameters
    ----------
    failures : (int, int) or None
        Mean seconds between two failures of a node, and to its repair: outages are drawn by the seed.
    """
    nowhere = Path()  # what is read does not depend on where results go
    inputs = (site_path, trace_path, (), options, events_path, failures)
    return cases.read_case(cases.Case(*inputs, nowhere, cases.program()))


@contextmanager
def stopping(on_stop: Callable[[], object] | None = None) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C (or SIGTERM) of a block into a wish; yields what tells whether there was one.

    `on_stop` is called at the first Ctrl-C, where rounds are decided elsewhere.
    """
    stopped = False

    def stop(signum: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        if on_stop is not None:
            on_stop()
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, before[name])  # the second one ends it the hard way

    before = {name: signal.signal(name, stop) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: stopped
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextmanager
def progress(title: str, end_s: int, stopped: Callable[[], bool]) -> Iterator[Callable[[int], bool]]:
    """Show a bar on a terminal.

    Yields what is called after every round with the simulated time; it says whether to go on.
    """
    with click.progressbar(length=end_s, label=title, file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:

        def go_on(now_s: int) -> bool:
            bar.update(min(now_s, end_s) - bar.pos)
            return not stopped()

        yield go_on


def warn(world: World) -> None:
    """Say on stderr what of site and trace was changed or does nothing, of what is alike the first few."""
    for warning in world.warnings[:WARNINGS]:
        click.echo(f"warning: {warning}", err=True)
    more = len(world.warnings) - WARNINGS
    if more > 0:
        click.echo(f"warning: {more} more like these", err=True)
