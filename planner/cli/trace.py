"""`gangplan trace`: traces from logs, from other traces and from a generator, and what is in them."""

from __future__ import annotations

from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from planner.cli import options
from planner.cli.table import table
from planner.cli.trace_import import Parsed, seed_option
from planner.cli.trace_import import command as import_command
from planner.schema.types import read_budget_name, read_name
from planner.simulation.tracefile import read_trace, write_trace
from planner.traces.overlay import overlay
from planner.traces.sitefile import site_beside
from planner.traces.summary import offered_gpus, summary, window_days
from planner.units import format_duration
from planner.words import count, shown

SMALLEST, LARGEST = Fraction(1, 1_000_000), Fraction(1_000)


@click.group(name="trace")
def command() -> None:
    """Import, combine, make and show traces, the input of simulations."""


command.add_command(import_command)


def _factor(text: str) -> Fraction:
    """Read a factor: `0.106` or `256/2416`."""
    try:
        factor = Fraction(text) if len(text) <= 32 else Fraction(0)
    except (ValueError, ZeroDivisionError):
        factor = Fraction(0)
    if not SMALLEST <= factor <= LARGEST:
        raise ValueError(f"{shown(text)} is no factor, write a number such as 0.1 or 256/2416")
    return factor


def _path(text: str) -> str:
    """Read the path of an allocation, as the names in a site file make it."""
    for part in text.split("/"):
        read_budget_name(part)
    return read_name(text)


@command.command(name="overlay")
@click.argument("background", type=options.PATH)
@click.argument("gangs", type=options.PATH)
@click.option("--out", type=options.PATH, required=True, help="Trace to write (.csv or .parquet).")
@click.option("--scale-gpus", type=Parsed("factor", _factor), default="1", help="GPUs of gangs times this.")
@click.option("--min-gpus", type=click.IntRange(0), default=0, help="Gangs of so many GPUs, before scaling.")
@click.option("--of", multiple=True, help="Gangs of this allocation of their own trace; may be repeated.")
@click.option(
    "--allocation",
    "to",
    type=Parsed("path", _path),
    multiple=True,
    required=True,
    help="Who gets them; several take turns.",
)
def overlay_(
    background: Path,
    gangs: Path,
    out: Path,
    scale_gpus: Fraction,
    min_gpus: int,
    of: tuple[str, ...],
    to: tuple[str, ...],
) -> None:
    """Put the gangs of one trace on the background of another; each keeps its times."""
    ground = read_trace(background)
    both = overlay(ground, read_trace(gangs), scale_gpus, to, min_gpus, of)
    write_trace(both.trace, out)
    days = window_days(ground)
    before, after = (sum(offered_gpus(trace, days).values()) for trace in (ground, both.trace))
    click.echo(f"{out}: {count(both.trace.count, 'workload')}, {count(both.taken, 'gang')} of them put on")
    click.echo(f"  offered GPUs: {before:.1f} before, {after:.1f} with the gangs")
    click.echo(f"  gangs left out: {both.not_wanted} not asked for, {both.too_late} after the last submit")


@command.command()
@click.option("--preset", default="ai2", show_default=True, help="Which synthetic world.")
@click.option("--saturated", is_flag=True, help="Allocated work alone asks for more than there is.")
@click.option("--days", type=click.IntRange(1, 3_660), default=30, show_default=True, help="How long.")
@seed_option
@click.option("--out", type=options.PATH, required=True, help="Trace to write (.csv or .parquet).")
@click.option("--site-out", type=options.PATH, help="Also write the site that the trace is for.")
def synth(preset: str, saturated: bool, days: int, seed: int, out: Path, site_out: Path | None) -> None:
    """Make a synthetic trace, and the site that it is for."""
    from planner.traces.synth import PRESETS
    from planner.traces.synth import synth as made

    if preset not in PRESETS:
        raise click.BadParameter(
            f"{shown(preset)} is unknown, write {' or '.join(PRESETS)}", param_hint="--preset"
        )
    options.refuse_one_file(out, site_out)
    trace, site = made(preset, days, seed, saturated)
    kind = "saturated" if saturated else "plain"
    comment = f"The site of the synthetic trace {preset}, {kind}, seed {seed}."
    with nullcontext() if site_out is None else site_beside(site_out, site, [comment]):
        write_trace(trace, out)
    click.echo(f"{out}: {count(trace.count, 'workload')}, {count(days, 'day')}")
    if site_out is not None:
        click.echo(f"{site_out}: {count(len(site['budgets']), 'budget')}")


# -- show --------------------------------------------------------------------------------------------


@command.command()
@click.argument("file", type=options.PATH)
@click.option(
    "--days", type=click.IntRange(1, 10_000), help="Average over so many days; default: to the last submit."
)
@options.output
def show(file: Path, days: int | None, output: str) -> None:
    """Say what a trace asks of a cluster: how much, in what sizes, for how long, for whom."""
    trace = read_trace(file)
    data = summary(trace, days or window_days(trace))
    options.show(data, output, lambda: _tables(data))


def _tables(data: dict[str, Any]) -> str:
    """Return the figures of a trace as people read them."""
    times = ", ".join(f"{q} {format_duration(round(s))}" for q, s in data["runtime_s"].items())
    head = (
        f"{count(data['workloads'], 'workload')}, {count(data['days'], 'day')}, "
        f"{data['offered_gpus']:.1f} GPUs offered on average\n"
        f"run time: {times}\n"
        f"unallocated: {data['unallocated_workloads']}, resumable: {data['resumable_workloads']}"
    )
    sizes = [(row["gpus"], row["workloads"], _share(row["gpu_time_share"])) for row in data["sizes"]]
    allocations = [
        (
            row["allocation"],
            row["workloads"],
            f"{row['offered_gpus']:.1f}",
            _share(row["share"]),
            row["largest_gpus"],
            format_duration(round(row["runtime_p50_s"])),
        )
        for row in data["allocations"]
    ]
    headers = ("ALLOCATION", "WORKLOADS", "GPUS", "SHARE", "LARGEST", "P50")
    both = table(("SIZE", "WORKLOADS", "GPU-TIME"), sizes), table(headers, allocations)
    return "\n\n".join((head, *both))


def _share(part: float | None) -> str | None:
    return None if part is None else f"{part:.1%}"
