"""`gangplan report`: pages that open from disk, of a simulation, a ledger, or a snapshot and a plan."""

from __future__ import annotations

from pathlib import Path

import click

from planner.atomic import write_atomic
from planner.cli import options
from planner.reports.folder import replace_folder
from planner.reports.make import KINDS, Request, make, site_of

SITE = "site"
"""The kind that is a folder."""


@click.command(name="report")
@click.argument("kind", type=click.Choice([*KINDS, SITE]))
@click.option(
    "--from",
    "source",
    required=True,
    help="Folder of a simulation or comparison, snapshot file, or URL of a ledger.",
)
@click.option(
    "--plan", "plan_path", type=options.PATH, help="The plan of that snapshot; default: one is made."
)
@click.option("--site", "site_path", type=options.PATH, help="Site file; needed with a snapshot or a ledger.")
@click.option("--under", help="For `allocations` and `timeline`: only allocations at or below this path.")
@click.option("--ledger", "ledger_url", help="For `site`: last rounds and history from this ledger.")
@click.option("--now", help="For a ledger: end of the window (ISO 8601 with offset); default: the present.")
@click.option("--stale-after", default="15m", show_default=True, help="For `site`: age at which it says so.")
@click.option("--out", type=options.PATH, required=True, help="The page (FILE.html); for `site`: a folder.")
def command(
    kind: str,
    source: str,
    plan_path: Path | None,
    site_path: Path | None,
    under: str | None,
    ledger_url: str | None,
    now: str | None,
    stale_after: str,
    out: Path,
) -> None:
    """Draw a report into one file that needs no network: allocations, fragmentation, timeline or compare.

    `site` writes a folder of pages instead, for cron and any web server.
    """
    request = Request(kind, source, site_path, plan_path, under, ledger_url, now, stale_after)
    if kind == SITE:
        replace_folder(out, site_of(request))
    else:
        write_atomic(out, make(request))
