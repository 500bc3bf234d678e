"""`gangplan check`: validate a site file (and a snapshot)."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli import options
from planner.cli.table import table
from planner.model.budget import leaf_shares
from planner.site import load_site
from planner.snapshot import load_snapshot
from planner.words import count


@click.command(name="check")
@options.site
@click.option("--snapshot", "snapshot_path", type=options.PATH, help="Check this snapshot too.")
def command(site_path: Path, snapshot_path: Path | None) -> None:
    """Validate a site file, and a snapshot against it; show the shares that the budgets come to."""
    site = load_site(site_path)
    shares = leaf_shares(site.budgets)
    click.echo(table(("ALLOCATION", "SHARE"), [(path, f"{float(s):.2%}") for path, s in shares.items()]))
    if snapshot_path is not None:
        snapshot = load_snapshot(snapshot_path, site)
        for w in snapshot.warnings:
            click.echo(f"warning: {w}", err=True)
        nodes = sum(len(c.nodes) for c in snapshot.clusters)
        workloads = count(len(snapshot.workloads), "workload")
        click.echo(f"{snapshot_path}: {count(nodes, 'node')}, {workloads}")
    click.echo(f"{site_path}: {count(len(shares), 'allocation')}, no error")
