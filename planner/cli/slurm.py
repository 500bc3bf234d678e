"""`gangplan slurm`: what a Slurm cluster needs before `gangplan run` drives it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from planner.atomic import write_atomic
from planner.cli import options
from planner.cli.sitefile import faults_of, need_ledger
from planner.cron.reconcile import statements
from planner.errors import InputError
from planner.ledger.csvfile import import_statements
from planner.ledger.store import open_ledger
from planner.model.snapshot import Snapshot
from planner.site import load_site
from planner.snapshotfile import snapshot_to_dict
from planner.sources.slurm.gate import conf_lines, gate_lua, missing
from planner.sources.slurm.source import commands_of, config_of, settings_of, source_of
from planner.units import parse_time
from planner.words import count


@click.group(name="slurm")
def command() -> None:
    """Check a Slurm cluster's set-up, look at it, import its history."""


@command.command()
@options.site
@click.option("--lua", "alone", is_flag=True, help="Print job_submit.lua alone, to be put beside slurm.conf.")
@click.option("--check", is_flag=True, help="Compare with what Slurm runs with, and say what is missing.")
@click.option(
    "--uid", type=click.IntRange(min=0), help="User id that gangplan runs as; default: that of the caller."
)
def gate(site_path: Path, alone: bool, check: bool, uid: int | None) -> None:
    """Print the job_submit.lua and the lines of slurm.conf that keep every job in hold until it is placed."""
    if alone and check:
        raise click.UsageError("--lua prints and --check compares, give one of them")
    site = load_site(site_path)
    with faults_of(site_path):
        settings = settings_of(site)
    lua = gate_lua([os.getuid() if uid is None else uid], settings.partitions)
    if alone:
        click.echo(lua, nl=False)
        return
    if not check:
        click.echo(f"# slurm.conf:\n{conf_lines()}\n\n# job_submit.lua, beside slurm.conf:\n{lua}", nl=False)
        return
    faults, hints = missing(config_of(commands_of(settings)), lua)
    for hint in hints:
        click.echo(f"hint: {hint}", err=True)
    if faults:
        raise InputError(faults)
    click.echo("the gate is closed: no job starts before gangplan places it")


@command.command()
@options.site
@click.option("--out", type=options.PATH, required=True, help="File for the snapshot (JSON).")
def observe(site_path: Path, out: Path) -> None:
    """Write what Slurm shows now as a snapshot, for `gangplan plan`; nothing is changed."""
    site = load_site(site_path)
    with faults_of(site_path):
        world = source_of(site).observe()
    snapshot = Snapshot(world.time_s, world.clusters, world.workloads)
    write_atomic(out, json.dumps(snapshot_to_dict(snapshot), indent=1, ensure_ascii=False) + "\n")
    for line in (*world.warnings, *(f"{job}: {why}" for job, why in world.unplanned.items())):
        click.echo(f"warning: {line}", err=True)
    nodes = sum(len(c.nodes) for c in world.clusters)
    click.echo(f"{out}: {count(nodes, 'node')}, {count(len(world.workloads), 'workload')}")


@command.command()
@options.site
@click.option("--from", "begin", required=True, help="First second (ISO 8601 with offset).")
@click.option("--to", "end", help="The second after the last; default: the present.")
def history(site_path: Path, begin: str, end: str | None) -> None:
    """Import what sacct knows of the past into the site's ledger: its hours are known from then on."""
    site = load_site(site_path)
    with faults_of(site_path):
        source = source_of(site)
        ledger_url = need_ledger(site)
    begin_s = _time("--from", begin)
    end_s = None if end is None else _time("--to", end)
    if not source.keeps_accounts:
        raise InputError(["Slurm keeps no accounts (AccountingStorageType), there is no history to import"])
    runs = source.history(begin_s, end_s)
    said = statements(site, source.name, runs, {}, {})
    counts = import_statements(open_ledger(ledger_url, create=True), said)
    said_so = f"{counts.new} new, {counts.corrected} corrected, {counts.known} known"
    late = f"; {counts.late} ended before what the ledger keeps" if counts.late else ""
    click.echo(f"{count(len(runs), 'run')}: {said_so}{late}")


def _time(option: str, text: str) -> int:
    try:
        return parse_time(text)
    except ValueError as e:
        raise InputError([f"{option}: {e}"]) from None
