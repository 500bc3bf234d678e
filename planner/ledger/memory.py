"""What the ledger remembers of workloads and nodes because their source forgets it.

Slurm sets the submit time anew at every requeue, does not know which runs are free of charge, and says
nothing of a node that was down a minute ago.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from sqlalchemy import Connection, delete, select

from planner.ledger.schema import accounts, nodes, workloads
from planner.ledger.upsert import Row, replace, upsert
from planner.model.workload import Occupancy, Placement

KEEP_S = 7 * 86_400
"""How long what has left the source is remembered."""


@dataclass(frozen=True)
class Known:
    """What is remembered of one workload.

    Attributes
    ----------
    submitted_s : int, epoch seconds
        The first submit, whatever requeues came after.
    occupancy : str or None
        What its newest start was decided as.
    placement : tuple of Placement
        Where it was last seen to run, if nothing was decided against it since.
    failures : int
        Starts in a row that the source did not carry out.
    retry_s : int, epoch seconds
        It is not tried again before.
    """

    submitted_s: int
    occupancy: Occupancy | None = None
    placement: tuple[Placement, ...] = ()
    failures: int = 0
    retry_s: int = 0


@dataclass(frozen=True)
class NodeMemory:
    """When a node was last seen unwell (epoch seconds), and whether its repair was called for since."""

    unwell_s: int
    repairing: bool = False


def known_workloads(connection: Connection, source: str) -> dict[str, Known]:
    """Return what is remembered of a source's workloads, by id."""
    return {
        r.workload: Known(
            r.submitted_s, cast("Occupancy | None", r.occupancy), _parts(r.placement), r.failures, r.retry_s
        )
        for r in connection.execute(select(workloads).where(workloads.c.source == source))
    }


def remember(connection: Connection, source: str, known: Mapping[str, Known], now_s: int) -> None:
    """Keep what is known of workloads seen now, and forget those that have long left."""
    rows: list[Row] = [
        {
            "source": source,
            "workload": workload,
            "submitted_s": k.submitted_s,
            "seen_s": now_s,
            "occupancy": k.occupancy,
            "placement": json.dumps([[p.node, p.gpus] for p in k.placement]) if k.placement else None,
            "failures": k.failures,
            "retry_s": k.retry_s,
        }
        for workload, k in known.items()
    ]
    columns = ("submitted_s", "seen_s", "occupancy", "placement", "failures", "retry_s")
    upsert(connection, workloads, rows, dict.fromkeys(columns, replace))
    gone = (workloads.c.source == source, workloads.c.seen_s < now_s - KEEP_S)
    connection.execute(delete(workloads).where(*gone))


def known_nodes(connection: Connection, source: str) -> dict[str, NodeMemory]:
    """Return what is remembered of a source's nodes that were unwell, by name."""
    rows = connection.execute(select(nodes).where(nodes.c.source == source))
    return {r.node: NodeMemory(r.unwell_s, bool(r.repairing)) for r in rows}


def remember_nodes(
    connection: Connection, source: str, unwell: Mapping[str, NodeMemory], well: Iterable[str]
) -> None:
    """Keep what is known of nodes that are or were unwell, and forget those that have settled."""
    rows: list[Row] = [
        {"source": source, "node": node, "unwell_s": m.unwell_s, "repairing": m.repairing}
        for node, m in unwell.items()
    ]
    upsert(connection, nodes, rows, dict.fromkeys(("unwell_s", "repairing"), replace))
    forgotten = list(well)
    if forgotten:
        connection.execute(delete(nodes).where(nodes.c.source == source, nodes.c.node.in_(forgotten)))


def accounted_until(connection: Connection, source: str) -> int | None:
    """Return up to when a source's accounts have been read (epoch seconds); None: never."""
    found: int | None = connection.execute(
        select(accounts.c.until_s).where(accounts.c.source == source)
    ).scalar()
    return found


def account_until(connection: Connection, source: str, until_s: int) -> None:
    """Note up to when a source's accounts have been read."""
    upsert(connection, accounts, [{"source": source, "until_s": until_s}], {"until_s": replace})


def _parts(text: str | None) -> tuple[Placement, ...]:
    return tuple(Placement(node, gpus) for node, gpus in json.loads(text)) if text else ()
