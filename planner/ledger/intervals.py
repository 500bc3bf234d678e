"""What was said of runs, and what that counts for.

A row is one statement: this run held these GPUs from `begin_s` to `end_s`. What was said is never taken back
in place: a later word is a new revision, and only the end of what still runs grows. What a statement counts
for, `from_s` to `until_s`, is derived for all runs of one workload together, so that no GPU-second is charged
twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any

from sqlalchemy import Connection, bindparam, insert, or_, select, text, update

from planner.ledger.hourly import Changes, Group, horizon_of
from planner.ledger.schema import intervals

BATCH = 1000

LOOK_AGAIN = (5, 50, 500)
"""Batches before which PostgreSQL looks at what was inserted; else it takes the table to be small, and reads
all of it in search of each workload."""

Key = tuple[str, str, int, str, str]
"""Source, workload, start of the run, cluster, GPU type: what one statement is about."""


@dataclass(frozen=True, slots=True)
class Interval:
    """GPUs of one pool, held by one run of a workload.

    Attributes
    ----------
    source : str
        Who says so; the same names in two sources are two workloads.
    started_s : int, epoch seconds
        Which run of the workload: a requeued one starts anew.
    gpu_type : str
        Empty where nodes have no type.
    occupancy : str
        `allocated` (charged) or `unallocated`.
    gpus : int, GPUs
    begin_s, end_s : int, epoch seconds
        The first second, and the one after the last.
    running : bool
        Seen running until `end_s`, and perhaps since; False: it ended then.
    """

    source: str
    workload: str
    started_s: int
    allocation: str
    occupancy: str
    cluster: str
    gpu_type: str
    gpus: int
    begin_s: int
    end_s: int
    running: bool

    @property
    def key(self) -> Key:
        """What this is about."""
        return (self.source, self.workload, self.started_s, self.cluster, self.gpu_type)

    @property
    def group(self) -> Group:
        """Where it is summed up."""
        return (self.allocation, self.gpu_type, self.occupancy)


FIELDS = tuple(f.name for f in fields(Interval))


def merged(old: Interval, new: Interval) -> Interval:
    """Return what is to be held true after `new` was said: the last word counts, a sighting only adds.

    A sighting (`running`) never moves a begin or shortens an end. One that reaches no further than what is
    known to have ended is stale; one that does reach further shows that the run had not ended.
    """
    if not new.running:
        return new
    if new.end_s < old.end_s or (new.end_s == old.end_s and not old.running):
        return old
    return replace(new, begin_s=old.begin_s)


@dataclass(slots=True)
class _Row:
    """A row of the table: `id` None until it is written."""

    id: int | None
    revision: int
    said: Interval
    from_s: int
    until_s: int
    current: bool = True
    changed: bool = False

    def values(self) -> dict[str, Any]:
        """Return the row as the table holds it."""
        derived = {"from_s": self.from_s, "until_s": self.until_s, "current": self.current}
        return {name: getattr(self.said, name) for name in FIELDS} | derived | {"revision": self.revision}


@dataclass
class Counts:
    """How many statements were new, corrected something, prolonged something, or said nothing new.

    `late` of the new ones end before the horizon and so count for nothing.
    """

    new: int = 0
    corrected: int = 0
    prolonged: int = 0
    known: int = 0
    late: int = 0


class Recorder:
    """Records statements in one transaction; `finish` writes the hours that they change."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.horizon_s = horizon_of(connection)
        self.changes = Changes()
        self.counts = Counts()

    def record(self, said: Iterable[Interval]) -> Iterator[Interval]:
        """Record statements in their order; yield those about runs that were not known before."""
        rest, batches = iter(said), 0
        while batch := list(islice(rest, BATCH)):
            batches += 1
            if batches in LOOK_AGAIN and self.connection.dialect.name == "postgresql":
                self.connection.execute(text("ANALYZE intervals"))
            by_source: dict[str, list[Interval]] = defaultdict(list)
            for interval in batch:
                by_source[interval.source].append(interval)
            for source, statements in by_source.items():
                yield from self._record(source, statements)

    def finish(self) -> None:
        """Write what the statements change in the hours."""
        self.changes.flush(self.connection)

    def _record(self, source: str, statements: list[Interval]) -> list[Interval]:
        rows = _known(self.connection, source, sorted({i.workload for i in statements}))
        new, touched = [], {}
        written: list[_Row] = []
        for said in statements:
            family = rows.setdefault(said.workload, {})
            row = family.get(said.key)
            if row is None:
                self.counts.new += 1
                self.counts.late += said.end_s <= self.horizon_s
                new.append(said)
                family[said.key] = _Row(None, 0, said, said.begin_s, said.begin_s)
            elif (truth := merged(row.said, said)) == row.said:
                self.counts.known += 1
                continue
            elif _only_longer(row.said, truth):
                self.counts.prolonged += 1
                row.said, row.changed = truth, True
            else:
                self.counts.corrected += 1
                self._charge(row, row.from_s, row.from_s)
                row.current, row.changed = False, True
                written.append(row)
                family[said.key] = _Row(None, row.revision + 1, truth, truth.begin_s, truth.begin_s)
            touched[said.workload] = family
        for family in touched.values():
            self._settle(list(family.values()))
            written += family.values()
        self._write(written)
        return new

    def _settle(self, family: list[_Row]) -> None:
        """Derive what the statements about one workload count for.

        A run ends at the latest where the next run of its workload begins; nothing counts before the horizon.
        """
        begins: dict[int, int] = {}
        for row in family:
            run = row.said.started_s
            begins[run] = min(begins.get(run, row.said.begin_s), row.said.begin_s)
        cut_s: dict[int, int | None] = {}
        earliest: int | None = None
        for run in sorted(begins, reverse=True):
            cut_s[run] = earliest
            earliest = begins[run] if earliest is None else min(earliest, begins[run])
        for row in family:
            cut = cut_s[row.said.started_s]
            from_s = max(row.said.begin_s, self.horizon_s)
            until_s = row.said.end_s if cut is None else min(row.said.end_s, cut)
            self._charge(row, from_s, max(from_s, until_s))

    def _charge(self, row: _Row, from_s: int, until_s: int) -> None:
        """Let a row count from `from_s` to `until_s`, and keep the hours in step."""
        if (row.from_s, row.until_s) == (from_s, until_s):
            return
        group, gpus = row.said.group, row.said.gpus
        if row.from_s == from_s:  # the usual case, a run that goes on: only what is added or taken counts
            longer = until_s > row.until_s
            begin_s, end_s = sorted((row.until_s, until_s))
            self.changes.add(group, begin_s, end_s, gpus if longer else -gpus)
        else:
            self.changes.add(group, row.from_s, row.until_s, -gpus)
            self.changes.add(group, from_s, until_s, gpus)
        row.from_s, row.until_s, row.changed = from_s, until_s, True

    def _write(self, rows: list[_Row]) -> None:
        """Write new rows and what has changed of old ones."""
        changed = [
            {
                "row": r.id,
                "current": r.current,
                "end_s": r.said.end_s,
                "running": r.said.running,
                "from_s": r.from_s,
                "until_s": r.until_s,
            }
            for r in rows
            if r.id is not None and r.changed
        ]
        if changed:
            self.connection.execute(update(intervals).where(intervals.c.id == bindparam("row")), changed)
        added = [r.values() for r in rows if r.id is None]
        if added:
            self.connection.execute(insert(intervals), added)


def _only_longer(old: Interval, new: Interval) -> bool:
    """Whether nothing that was said before is taken back: the same run, seen for longer."""
    return new.end_s >= old.end_s and replace(new, end_s=old.end_s, running=old.running) == old


def _known(connection: Connection, source: str, workloads: list[str]) -> dict[str, dict[Key, _Row]]:
    """Return the current rows of these workloads, by workload and key."""
    out: dict[str, dict[Key, _Row]] = {}
    c = intervals.c
    found = select(intervals).where(c.source == source, c.workload.in_(workloads), c.current)
    for r in connection.execute(found.order_by(c.id)):
        said = interval_of(r)
        out.setdefault(said.workload, {})[said.key] = _Row(r.id, r.revision, said, r.from_s, r.until_s)
    return out


def known(connection: Connection, source: str, workloads: list[str]) -> dict[Key, Interval]:
    """Return what is held true of some workloads of a source, by run."""
    rows = _known(connection, source, sorted(set(workloads)))
    return {key: row.said for family in rows.values() for key, row in family.items()}


def interval_of(row: Any) -> Interval:
    """Return the statement in a row of `intervals`."""
    return Interval(
        row.source, row.workload, row.started_s, row.allocation, row.occupancy, row.cluster, row.gpu_type,
        row.gpus, row.begin_s, row.end_s, bool(row.running),
    )  # fmt: skip


def statements(connection: Connection, begin_s: int, end_s: int) -> Iterator[Interval]:
    """Yield what is held true of the time from `begin_s` to `end_s`: whole statements, in a fixed order."""
    c = intervals.c
    inside = (c.current, c.begin_s < end_s, or_(c.end_s > begin_s, c.begin_s >= begin_s))
    order = (c.begin_s, c.source, c.workload, c.started_s, c.cluster, c.gpu_type)
    result = connection.execution_options(yield_per=BATCH).execute(
        select(intervals).where(*inside).order_by(*order)
    )
    return map(interval_of, result)
