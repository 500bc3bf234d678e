"""Retention: before the horizon the ledger keeps hours, and no single runs."""

from __future__ import annotations

from sqlalchemy import Connection, case, delete, exists, func, or_, select, update

from planner.ledger.hourly import horizon_of, hour_of
from planner.ledger.schema import clock, intervals, rounds


def prune(connection: Connection, before_s: int) -> int:
    """Close the time before the hour of `before_s`; return how many statements that removes.

    Hours keep what they hold, so that no sum over whole hours changes, and none at all from the horizon on.
    A workload goes as a whole: as long as one of its runs reaches beyond the horizon, or may still run, all
    of its statements stay, for one run says where another ends. The horizon never moves back.
    """
    horizon_s = max(hour_of(before_s), horizon_of(connection))
    c, other = intervals.c, intervals.alias()
    stays = exists().where(
        other.c.source == c.source,
        other.c.workload == c.workload,
        or_(other.c.end_s > horizon_s, other.c.running),
    )
    removed = connection.execute(delete(intervals).where(c.end_s <= horizon_s, ~stays)).rowcount
    until_s = case((c.until_s < horizon_s, horizon_s), else_=c.until_s)
    connection.execute(
        update(intervals).where(c.from_s < horizon_s).values(from_s=horizon_s, until_s=until_s)
    )
    newest = select(func.max(rounds.c.fence)).scalar_subquery()
    connection.execute(delete(rounds).where(rounds.c.time_s < horizon_s, rounds.c.fence != newest))
    connection.execute(update(clock).values(horizon_s=horizon_s))
    return removed
