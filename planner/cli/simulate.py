"""`gangplan simulate`: days of a cluster in seconds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from planner.cli import options, simulating
from planner.cli.table import table
from planner.errors import InputError
from planner.simulation.compare import is_compared
from planner.simulation.engine import Options
from planner.simulation.output import SUMMARY, read_summary, write
from planner.simulation.session import CHECKPOINT, forget, simulate
from planner.units import format_duration
from planner.words import count


@click.command(name="simulate")
@options.site
@simulating.trace
@simulating.policy
@simulating.period
@simulating.days
@simulating.seed
@simulating.node_events
@simulating.mtbf
@simulating.mttr
@simulating.sample
@click.option("--resume", is_flag=True, help="Go on where a stopped run of the same inputs left off.")
@click.option("--out", type=options.PATH, required=True, help="Folder for the results.")
@options.output
def command(
    site_path: Path,
    trace_path: Path,
    policy: str,
    period_s: int,
    days: float | None,
    seed: int,
    events_path: Path | None,
    mtbf: int | None,
    mttr: int,
    sample: int,
    resume: bool,
    out: Path,
    output: str,
) -> None:
    """Run days of work through a policy, and write what became of it."""
    if events_path is not None and mtbf is not None:
        raise InputError(["--mtbf draws failures and --node-events lists them, give one of the two"])
    end_s = None if days is None else max(1, round(days * simulating.DAY_S))
    how = Options(policy, period_s, end_s, seed, sample)
    failures = None if mtbf is None else (mtbf, mttr)
    case = simulating.case_of(site_path, trace_path, how, events_path, failures)
    folder_for(out)
    if resume and (out / SUMMARY).exists() and not (out / CHECKPOINT).exists():
        raise InputError([f"{out}: this simulation is over, leave out --resume to run one anew in its place"])
    last_s = end_s or int(case.trace.submitted_s.max(initial=0)) + 1
    with simulating.stopping() as stopped:
        with simulating.progress(f"{policy}, {format_duration(last_s)}", last_s, stopped) as go_on:
            engine, over = simulate(case, out, resume=resume, go_on=go_on)
        if not over:
            at = format_duration(engine.now_s)
            click.echo(f"stopped at {at}; --resume goes on from {out / CHECKPOINT}", err=True)
        simulating.warn(engine.world)
        figures = write(engine.history(), out, stopped=not over)
        if over:
            forget(out)
    options.show(figures, output, lambda: _table(figures))
    if figures["refused"]:
        many = count(figures["refused"], "workload")
        click.echo(f"{many} can never run here and count nowhere: see state in workloads.csv", err=True)
    if not over:
        sys.exit(130)


def folder_for(path: Path) -> None:
    """Make the folder for results, if it is not there, unless others' results are in it."""
    if is_compared(path):
        raise InputError([f"{path}: is of a comparison, name another folder for a simulation"])
    if (path / SUMMARY).exists():
        read_summary(path)  # what no simulation wrote is not written over
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            [f"{path}: cannot be made ({error.strerror}), name a folder for the results"]
        ) from None


def _table(figures: dict[str, Any]) -> str:
    """Return the figures for people."""
    return table(("FIGURE", "VALUE"), [(k, _shown(k, v)) for k, v in figures.items()])


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name.endswith("_s") and not name.startswith("solve"):
        return format_duration(round(value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
