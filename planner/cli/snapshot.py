"""`gangplan snapshot`: a snapshot out of a simulated moment."""

from __future__ import annotations

import json
from pathlib import Path

import click

from planner.atomic import write_atomic
from planner.cli import options, simulating
from planner.simulation.cut import cut
from planner.simulation.engine import Engine, Options
from planner.units import format_duration


@click.command(name="snapshot")
@options.site
@simulating.trace
@click.option(
    "--at",
    "at_s",
    type=click.IntRange(0, simulating.MOST_DAYS * simulating.DAY_S),
    required=True,
    help="Seconds from the trace's start.",
)
@simulating.policy
@simulating.period
@simulating.seed
@simulating.node_events
@click.option("--out", type=options.PATH, required=True, help="File for the snapshot (JSON).")
def command(
    site_path: Path,
    trace_path: Path,
    at_s: int,
    policy: str,
    period_s: int,
    seed: int,
    events_path: Path | None,
    out: Path,
) -> None:
    """Run a trace up to a moment, and write the world as the round of that second finds it."""
    how = Options(policy, period_s, None, seed)
    case = simulating.case_of(site_path, trace_path, how, events_path)
    engine = Engine(case.site, case.trace, case.options, case.outages)
    title = f"{policy}, {format_duration(at_s)}"
    with simulating.stopping() as stopped, simulating.progress(title, at_s, stopped) as go_on:
        if not engine.settle(at_s, go_on):
            raise click.Abort
    simulating.warn(engine.world)
    write_atomic(out, json.dumps(cut(engine.world, at_s), indent=1, ensure_ascii=False) + "\n")
