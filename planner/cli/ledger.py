"""`gangplan ledger`: who used what, when."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click

from planner.account import Account, account
from planner.cli import options
from planner.cli.table import table
from planner.errors import InputError
from planner.ledger.csvfile import export_csv, import_csv
from planner.ledger.observe import observe
from planner.ledger.retain import prune
from planner.ledger.store import connect, open_ledger
from planner.model.site import Site
from planner.sighting import sighting_of
from planner.site import load_site
from planner.snapshot import load_snapshot
from planner.units import format_duration, format_time, parse_duration, parse_time
from planner.words import count
from solver.window import HOUR_MICRO_S

ledger = click.option("--ledger", "url", required=True, help="Database URL, as sqlite:///gangplan.db.")


@click.group(name="ledger")
def command() -> None:
    """Show, fill, copy and prune the record of who used what."""


@command.command()
@ledger
@click.option(
    "--site", "site_path", type=options.PATH, help="Site file: shares, charges and the lookback window."
)
@click.option("--now", help="End of the window (ISO 8601 with offset); default: the present.")
@options.output
def show(url: str, site_path: Path | None, now: str | None, output: str) -> None:
    """Show usage, entitlement, owed and delivered of each allocation in the window, in budget units.

    Without --site every GPU-hour costs one unit and the window is 7 days.
    """
    site = load_site(site_path) if site_path is not None else Site(())
    now_s = int(time.time()) if now is None else _read("--now", parse_time, now)
    found = account(site, open_ledger(url), now_s)
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    rows = _rows(found)
    data = {
        "from": format_time(found.begin_s),
        "to": format_time(now_s),
        "known": format_duration(found.known_s),
        "allocations": rows,
    }
    options.show(data, output, lambda: _table(found, rows))


@command.command(name="import")
@ledger
@click.option("--partial", is_flag=True, help="The file holds some runs only: its hours are not known by it.")
@click.argument("file", type=options.PATH)
def import_(url: str, partial: bool, file: Path) -> None:
    """Import occupancy from a CSV file: all of it, or nothing if a line is wrong."""
    counts = import_csv(open_ledger(url, create=True), file, whole=not partial)
    said = (
        f"{counts.new} new, {counts.corrected} corrected, {counts.prolonged} prolonged, {counts.known} known"
    )
    late = f"; {counts.late} ended before what the ledger keeps, and count for nothing" if counts.late else ""
    click.echo(f"{file}: {said}{late}")


@command.command()
@ledger
@click.option("--from", "begin", required=True, help="First second (ISO 8601 with offset).")
@click.option("--to", "end", required=True, help="The second after the last.")
def export(url: str, begin: str, end: str) -> None:
    """Print the occupancy of a time as CSV, whole runs, as `import` reads it."""
    begin_s, end_s = _read("--from", parse_time, begin), _read("--to", parse_time, end)
    if begin_s >= end_s:
        raise InputError([f"--to: {end} is not after --from, write a later time"])
    for line in export_csv(open_ledger(url), begin_s, end_s):
        click.echo(line, nl=False)


@command.command(name="prune")
@ledger
@click.option("--keep", required=True, help="How much of the past keeps its single runs, as 90d.")
@click.option("--now", help="Count from this time (ISO 8601 with offset) instead of the present.")
def prune_(url: str, keep: str, now: str | None) -> None:
    """Forget single runs that ended long ago; what each hour held stays."""
    keep_s = _read("--keep", parse_duration, keep)
    now_s = int(time.time()) if now is None else _read("--now", parse_time, now)
    before_s = max(now_s - keep_s, 0)
    with open_ledger(url).write() as connection:
        removed = prune(connection, before_s)
    click.echo(f"{count(removed, 'statement')} removed")


@command.command(name="observe")
@ledger
@options.site
@options.snapshot
def observe_(url: str, site_path: Path, snapshot_path: Path) -> None:
    """Put what a snapshot shows into the ledger."""
    site = load_site(site_path)
    snapshot = load_snapshot(snapshot_path, site)
    source = str(site.source["type"]) if site.source else "snapshot"
    with open_ledger(url, create=True).write() as connection:
        observe(connection, sighting_of(site, snapshot, source))


@command.command()
@ledger
def upgrade(url: str) -> None:
    """Bring a ledger to the schema of this gangplan; make it if there is none."""
    connect(url).upgrade()


def _read(option: str, parse: Callable[[object], int], value: str) -> int:
    try:
        return parse(value)
    except ValueError as e:
        raise InputError([f"{option}: {e}"]) from None


def _rows(found: Account) -> list[dict[str, object]]:
    """Return one row for each allocation, in budget units."""
    rows = []
    for a, share in found.shares.items():
        counted, entitled = found.usage[a] + found.carried[a], found.entitled[a]
        units = {
            name: getattr(found, name)[a] / HOUR_MICRO_S
            for name in ("usage", "carried", "entitled", "owed", "delivered")
        }
        ratio = counted / entitled if entitled else None
        rows.append({"allocation": a, "share": float(share), **units, "ratio": ratio})
    return rows


def _table(found: Account, rows: list[dict[str, object]]) -> str:
    names = ("share", "usage", "carried", "entitled", "ratio", "owed", "delivered")
    formats = {"share": "{:.2%}", "ratio": "{:.3f}"}
    cells = [
        (row["allocation"], *(_cell(formats.get(name, "{:.1f}"), row[name]) for name in names))
        for row in rows
    ]
    span = f"{format_time(found.begin_s)} to {format_time(found.now_s)}"
    known = f"{span}, {format_duration(found.known_s)} of it known"
    return table(("ALLOCATION", *(name.upper() for name in names)), cells) + f"\n{known}"


def _cell(form: str, value: object) -> str | None:
    return None if value is None else form.format(value)
