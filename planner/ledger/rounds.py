"""Rounds and their promises. Each has a fence, a number that only grows: the newest round alone applies."""

from __future__ import annotations

import json
from collections import Counter

from sqlalchemy import Connection, func, insert, select

from planner.ledger.schema import promises, rounds
from planner.model.plan import Plan
from planner.model.snapshot import Reservation
from planner.model.workload import Placement


def record_round(
    connection: Connection, plan: Plan, snapshot: str, standing: tuple[Reservation, ...] = ()
) -> int:
    """Record a plan, and return its fence; `snapshot` is a digest of what it was made from.

    Of the `standing` promises those that the plan fulfils now stay on record too: they are kept when their
    workloads are seen to run, and not when somebody means to start them.
    """
    actions = Counter(d.action for d in plan.decisions)
    row = {
        "time_s": plan.time_s,
        "snapshot": snapshot,
        "backend": plan.solver.backend,
        "status": plan.solver.status,
        "objective": plan.solver.objective,
        "starts": actions["start"],
        "preemptions": actions["preempt"],
    }
    fence = int(connection.execute(insert(rounds).values(row).returning(rounds.c.fence)).scalar_one())
    starts = {d.workload for d in plan.decisions if d.action == "start"}
    due = [r for r in standing if r.workload in starts]
    kept = [
        {
            "fence": fence,
            "workload": r.workload,
            "start_s": r.start_s,
            "placement": json.dumps([[p.node, p.gpus] for p in r.placement]),
        }
        for r in (*plan.reservations, *due)
    ]
    if kept:
        connection.execute(insert(promises), kept)
    return fence


def newest_fence(connection: Connection) -> int | None:
    """Return the fence of the newest round; None before the first."""
    found: int | None = connection.execute(select(func.max(rounds.c.fence))).scalar()
    return found


def standing_promises(connection: Connection) -> tuple[Reservation, ...]:
    """Return what the newest round promised, by start and name."""
    newest = select(func.max(rounds.c.fence)).scalar_subquery()
    rows = connection.execute(
        select(promises).where(promises.c.fence == newest).order_by(promises.c.start_s, promises.c.workload)
    )
    return tuple(
        Reservation(r.workload, r.start_s, tuple(Placement(n, g) for n, g in json.loads(r.placement)))
        for r in rows
    )
