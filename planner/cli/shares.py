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
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.shares import share_rows
from planner.site import load_site
from planner.snapshot import load_snapshot


@click.command(name="shares")
@options.site
@click.option("--snapshot", "snapshot_path", type=options.PATH, help="Show use and demand as well.")
@options.ledger
@options.output
def command(site_path: Path, snapshot_path: Path | None, ledger_url: str | None, output: str) -> None:
    """Show the allocations: share, and with a snapshot usage, ratio, owed and delivered."""
    site = load_site(site_path)
    if snapshot_path is None and ledger_url is not None:
        fix = "name one, or use `gangplan ledger show`"
        raise click.UsageError(f"--ledger needs the demand of a --snapshot, {fix}")
    if snapshot_path is None:
        shares = [{"allocation": a, "share": float(s)} for a, s in leaf_shares(site.budgets).items()]
        options.show(shares, output, lambda: _weights(shares))
        return
    rows = _rows(site, load_snapshot(snapshot_path, site), ledger_url)
    options.show([asdict(row) for row in rows], output, lambda: _table(rows))


def _rows(site: Site, snapshot: Snapshot, ledger_url: str | None) -> tuple[ShareRow, ...]:
    """Return the rows by the usage of the snapshot, or by that of a ledger."""
    if ledger_url is None:
        return _standing(site, snapshot)
    from planner.account import into_rows, with_ledger  # SQLAlchemy is loaded where it is needed
    from planner.ledger.store import open_ledger

    site, snapshot, account = with_ledger(site, snapshot, open_ledger(ledger_url))
    return into_rows(_standing(site, snapshot), account)


def _standing(site: Site, snapshot: Snapshot) -> tuple[ShareRow, ...]:
    encoded = encode(site, snapshot)
    return share_rows(encoded, ~encoded.state.workloads.pending)


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
