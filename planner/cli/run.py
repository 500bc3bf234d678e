"""`gangplan run`: the cron entry, which reads a cluster, plans, and carries the plan out."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from planner.cli import options
from planner.cli.plan import summary
from planner.cli.sitefile import faults_of, need_ledger
from planner.cron import journal
from planner.cron.loop import rehearse, run_always, run_once
from planner.errors import GangplanError, InputError, LockedError
from planner.site import load_site
from planner.sources.catalog import source_of
from planner.units import parse_duration


@click.command(name="run")
@options.site
@click.option("--dry-run", is_flag=True, help="Plan and show; nothing is held, started, stopped or recorded.")
@click.option("--period", help="Do round after round, one each period (as 30s), and serve new work between.")
@click.option("--rounds", type=click.IntRange(1), help="With --period: stop after so many rounds.")
@click.option("--verbose", "-v", is_flag=True, help="Log every step, and not only what went wrong.")
def command(site_path: Path, dry_run: bool, period: str | None, rounds: int | None, verbose: bool) -> None:
    """Do one round: lock, read the source, update the ledger, plan, verify, apply, record.

    Logs are JSON lines on stderr; a round that goes well says nothing.
    """
    period_s = _period_s(period)
    if period_s is None and rounds is not None:
        raise click.UsageError("--rounds needs --period")
    if period_s is not None and dry_run:
        raise click.UsageError("--dry-run is one round, leave --period out")
    site = load_site(site_path)
    with faults_of(site_path):
        source = source_of(site)
        need_ledger(site)
    if dry_run:
        click.echo(summary(rehearse(site, source)))
        return
    journal.to_stderr(logging.INFO if verbose or period_s is not None else logging.WARNING)
    try:
        if period_s is None:
            run_once(site, source)
        else:
            run_always(site, source, period_s, rounds)
    except LockedError as error:  # every minute on a host that stands by: no news
        journal.tell("another round is at work", fault=str(error))
        sys.exit(error.exit_code)
    except GangplanError as error:
        journal.fail("round failed", exit_code=error.exit_code, fault=str(error))
        sys.exit(error.exit_code)


def _period_s(period: str | None) -> int | None:
    if period is None:
        return None
    try:
        seconds = parse_duration(period)
    except ValueError as e:
        raise InputError([f"--period: {e}"]) from None
    if seconds < 1:
        raise InputError([f"--period: {period} is too short, write at least 1s"])
    return seconds
