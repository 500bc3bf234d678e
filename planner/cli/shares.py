"""`gangplan shares`: the allocations, and the ratio that sorts the queue."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from planner.cli import options
from planner.cli.table import table
from planner.encode import encode
from planner.model.budget import leaf_shares
from planner.model.plan import ShareRow
from planner.shares import share_rows
from planner.site import load_site
from planner.snapshot import load_snapshot
from solver.state import Status


@click.command(name="shares")
@options.site
@click.option(
    "--snapshot", "snapshot_path", type=click.Path(path_type=Path), help="Show use and demand as well."
)
@options.output
def command(site_path: Path, snapshot_path: Path | None, output: str) -> None:
    """Show the allocations: share, and with a snapshot usage, ratio, owed and delivered."""
    site = load_site(site_path)
    if snapshot_path is None:
        shares = [{"allocation": a, "share": float(s)} for a, s in leaf_shares(site.budgets).items()]
        options.show(shares, output, lambda: _weights(shares))
        return
    encoded = encode(site, load_snapshot(snapshot_path, site))
    rows = share_rows(encoded, encoded.state.workloads.status != Status.PENDING)
    options.show([asdict(row) for row in rows], output, lambda: _table(rows))


def _weights(shares: list[dict[str, object]]) -> str:
    return table(("ALLOCATION", "SHARE"), [(s["allocation"], f"{s['share']:.2%}") for s in shares])


def _table(rows: tuple[ShareRow, ...]) -> str:
    header = (
        "RANK", "ALLOCATION", "SHARE", "USAGE", "ENTITLED", "RATIO", "OWED", "DELIVERED",
        "RUNNING", "UNALLOCATED", "PENDING",
    )  # fmt: skip
    cells = [
        (
            s.rank, s.allocation, f"{s.share:.2%}", f"{s.usage:.1f}", f"{s.entitled:.1f}",
            None if s.ratio is None else f"{s.ratio:.3f}", f"{s.owed:.1f}", f"{s.delivered:.1f}",
            s.running_gpus, s.unallocated_gpus, s.pending_gpus,
        )
        for s in sorted(rows, key=lambda s: s.rank)
    ]  # fmt: skip
    return table(header, cells)
