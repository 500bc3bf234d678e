"""`gangplan compare`: the same work under several policies, seeds and settings, side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from planner.cli import options, simulating
from planner.cli.table import table
from planner.errors import InputError
from planner.simulation.cases import CASE, STOP, Case, is_done
from planner.simulation.compare import (
    TABLE,
    Comparison,
    Row,
    cases_of,
    make_way,
    means_of,
    rows_of,
    write_rows,
)
from planner.simulation.engine import Options
from planner.simulation.engines import Outcome, confirmed, run_dask, run_local
from planner.simulation.knobs import read_knobs
from planner.simulation.output import SUMMARY
from planner.simulation.policies import POLICIES
from planner.simulation.session import CHECKPOINT
from planner.units import format_duration
from planner.words import count

Run = Callable[[Sequence[Case]], Iterator[Outcome]]

COLUMNS = {
    "OCCUPANCY": "occupancy",
    "DELIVERED": "delivered_over_owed",
    "WORST": "worst_delivered_over_owed",
    "WAIT P50": "wait_p50_s",
    "WAIT P90": "wait_p90_s",
    "DEBUG P90": "debug_wait_p90_s",
    "LARGEST P90": "largest_wait_p90_s",
    "PREEMPTIONS": "preemptions",
    "LOST GPU-H": "preempted_gpu_hours_lost",
    "GOODPUT": "goodput",
}
"""The main figures as the table heads them; the files have all of them."""


@click.command(name="compare")
@options.site
@click.option("--trace", required=True, help="Trace (CSV or Parquet); {seed} in its name: one for each seed.")
@click.option(
    "--policy",
    "policies",
    type=click.Choice(list(POLICIES)),
    multiple=True,
    required=True,
    help="Who is served; may be repeated.",
)
@click.option(
    "--seed",
    "seeds",
    type=click.IntRange(0),
    multiple=True,
    default=(0,),
    show_default=True,
    help="Of all that is drawn; may be repeated.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE[,VALUE...]",
    help="Set a key of the site file, to one value after the other; may be repeated.",
)
@simulating.period
@simulating.days
@simulating.node_events
@simulating.mtbf
@simulating.mttr
@simulating.sample
@click.option(
    "--engine",
    type=click.Choice(["local", "dask"]),
    default="local",
    show_default=True,
    help="Where to run: processes here, or the workers of a Dask scheduler.",
)
@click.option("--scheduler", help="Address of the Dask scheduler: tcp://HOST:8786.")
@click.option("--jobs", type=click.IntRange(1), help="Cases at a time on this machine; default: its cores.")
@click.option("--out", type=options.PATH, required=True, help="Folder for the results; goes on with it.")
@options.output
def command(
    site_path: Path,
    trace: str,
    policies: tuple[str, ...],
    seeds: tuple[int, ...],
    settings: tuple[str, ...],
    period_s: int,
    days: float | None,
    events_path: Path | None,
    mtbf: int | None,
    mttr: int,
    sample: int,
    engine: str,
    scheduler: str | None,
    jobs: int | None,
    out: Path,
    output: str,
) -> None:
    """Run the same work under all combinations of policies, settings and seeds, side by side.

    A case that is done in the folder is not done again: the same command goes on with what was stopped.
    """
    if events_path is not None and mtbf is not None:
        raise click.UsageError("--mtbf draws failures and --node-events lists them, give one of the two")
    run = _engine(engine, scheduler, jobs)
    knobs = tuple(read_knobs(settings))
    how = Options("", period_s, None if days is None else max(1, round(days * simulating.DAY_S)), 0, sample)
    failures = None if mtbf is None else (mtbf, mttr)
    cases = cases_of(Comparison(site_path, trace, policies, seeds, knobs, how, events_path, failures, out))
    if any((out / name).exists() for name in (SUMMARY, CHECKPOINT, CASE)):
        raise InputError([f"{out}: holds a simulation, name another folder for a comparison"])
    make_way(out)
    done = {case.name for case in cases if is_done(case)}
    outcomes = _run([case for case in cases if case.name not in done], run, out / STOP)
    done |= {outcome.case.name for outcome in outcomes if outcome.folder is not None}
    rows = rows_of(case for case in cases if case.name in done)
    if rows:
        write_rows(rows, out)
    keys = ["policy", *(knob.key for knob in knobs[0])]
    means = means_of(rows, keys)
    options.show({"means": means, "cases": rows}, output, lambda: _table(means, keys))
    _tell_refused(rows, out)
    _end(outcomes, len(cases) - len(done), out)


def _engine(name: str, scheduler: str | None, jobs: int | None) -> Run:
    """Return what runs the cases; UsageError where the options do not go together."""
    if name == "dask" and scheduler is None:
        raise click.UsageError(
            "--engine dask needs the address of a scheduler, write --scheduler tcp://HOST:8786"
        )
    if name == "dask" and jobs is not None:
        raise click.UsageError("--jobs is for this machine, the workers of the scheduler decide on theirs")
    if name == "local" and scheduler is not None:
        raise click.UsageError("--scheduler is of --engine dask, write that as well or leave it out")
    return partial(run_local, jobs=jobs) if scheduler is None else partial(run_dask, scheduler=scheduler)


def _run(cases: Sequence[Case], run: Run, stop: Path) -> list[Outcome]:
    """Run cases, with a bar on a terminal; the first Ctrl-C has them stop between two rounds."""
    if not cases:
        return []
    outcomes, title = [], count(len(cases), "case")
    with (
        simulating.stopping(stop.touch) as stopped,
        simulating.progress(title, len(cases), stopped) as go_on,
    ):
        for outcome in run(cases):
            outcomes.append(confirmed(outcome))
            go_on(len(outcomes))
    stop.unlink(missing_ok=True)
    return outcomes


def _tell_refused(rows: Sequence[Row], out: Path) -> None:
    """Say in which cases work was refused: where many cases are alike, a line for each is not read."""
    refused = [row["refused"] for row in rows if row["refused"]]
    if refused:
        least = "" if min(refused) == max(refused) else f"{min(refused)} to "
        many = f"{least}{count(max(refused), 'workload')} can never run and count nowhere"
        where = f"in {len(refused)} of {count(len(rows), 'case')}"
        click.echo(f"{where} {many}: see refused in {out / TABLE}.csv", err=True)


def _end(outcomes: Sequence[Outcome], left: int, out: Path) -> None:
    """Say what failed and what is left to do, and exit by it."""
    failed = [outcome for outcome in outcomes if outcome.fault]
    for outcome in failed:
        click.echo(f"{outcome.case.name}: {outcome.fault}", err=True)
    if left:
        click.echo(f"{count(left, 'case')} left to do, the same command goes on in {out}", err=True)
        sys.exit(failed[0].exit_code if failed else 130)


def _table(means: Sequence[Row], keys: Sequence[str]) -> str:
    """Return the main figures for people: the means over the seeds."""
    header = ("POLICY", *keys[1:], "SEEDS", *COLUMNS)
    cells = [
        (*(row[key] for key in keys), row["seeds"], *(_shown(name, row[name]) for name in COLUMNS.values()))
        for row in means
    ]
    return table(header, cells)


def _shown(name: str, value: float | None) -> str | None:
    if value is None:
        return None
    if name.endswith("_s"):
        return format_duration(round(value))
    return f"{value:.1f}" if name.startswith("preempt") else f"{value:.3f}"
