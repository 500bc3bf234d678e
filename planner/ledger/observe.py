"""One look at the cluster, put into the ledger: what runs goes on, what is gone has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select, update

from planner.ledger.demand import Pool, observe_stretch
from planner.ledger.intervals import Counts, Interval, Recorder, interval_of
from planner.ledger.schema import clock, intervals

MAX_GAP_S = 3600
"""Two looks further apart than this leave a hole between them: what was there meanwhile is not known."""


@dataclass(frozen=True)
class Sighting:
    """What one look at the cluster saw.

    Attributes
    ----------
    time_s : int, epoch seconds
    held : tuple of Interval
        What held GPUs, from the start of its run until now.
    gpus : dict of (cluster, GPU type) to GPUs
        What could be used: nodes that are not down.
    asked_gpus : dict of allocation to GPUs
        Allocated work, running and pending.
    share_ppb : dict of allocation to parts per billion
    """

    time_s: int
    source: str
    held: tuple[Interval, ...]
    gpus: Mapping[Pool, int]
    asked_gpus: Mapping[str, int]
    share_ppb: Mapping[str, int]


def observe(connection: Connection, sighting: Sighting) -> Counts:
    """Put a sighting into the ledger; twice the same changes nothing.

    What is gone ended when it was last seen: nobody pays for time that nobody saw. The time since the last
    look counts with what is seen now, unless more than `MAX_GAP_S` lies between. A look that is not newer
    than the last one (a clock stepped back, another planner was first) adds the runs that it saw and takes
    nothing away; where it is older by more than `MAX_GAP_S`, the clock was ahead, and time goes on from here.
    """
    recorder = Recorder(connection)
    for _ in recorder.record(sighting.held):
        pass
    recorder.finish()
    last_s = connection.execute(select(clock.c.observed_s)).scalar_one()
    now_s = sighting.time_s
    if last_s is not None and last_s - MAX_GAP_S <= now_s <= last_s:
        return recorder.counts
    _end_what_is_gone(connection, sighting)
    if last_s is not None and 0 < now_s - last_s <= MAX_GAP_S:
        observe_stretch(connection, last_s, now_s, sighting.gpus, sighting.asked_gpus, sighting.share_ppb)
    connection.execute(update(clock).values(observed_s=now_s))
    return recorder.counts


def _end_what_is_gone(connection: Connection, sighting: Sighting) -> None:
    """Mark as ended what ran at the last look and does not run now."""
    c = intervals.c
    here = {i.key for i in sighting.held}
    running = connection.execute(
        select(intervals).where(c.running, c.current, c.source == sighting.source)
    ).all()
    gone = [{"row": r.id} for r in running if interval_of(r).key not in here]
    if gone:
        connection.execute(update(intervals).where(c.id == bindparam("row")).values(running=False), gone)
