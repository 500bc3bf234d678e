"""`gangplan verify`: the independent check of a plan."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli import options
from planner.errors import PlanRejectedError
from planner.planfile import load_plan
from planner.site import load_site
from planner.snapshot import load_snapshot
from planner.verify import verify


@click.command(name="verify")
@click.option("--site", "site_path", type=options.PATH, help="Site file, for limits and contract.")
@options.snapshot
@options.plan
def command(site_path: Path | None, snapshot_path: Path, plan_path: Path) -> None:
    """Check a plan against its snapshot; print each broken rule.

    Without --site the shares named in the plan, no limits and the default contract are taken.
    """
    site = load_site(site_path) if site_path is not None else None
    broken = verify(load_snapshot(snapshot_path, site), load_plan(plan_path), site)
    if broken:
        raise PlanRejectedError(broken)
    click.echo("the plan holds")
