"""What a round reads from and writes to the ledger, each time in one transaction behind the lease.

1. `look`: what was seen is put on record, and what the ledger remembers comes back.
2. `decide`: the plan, its promises and what its starts are charged as, before anything is carried out.
3. `settle`: what became of it.

A round may end anywhere between: what was seen and promised is on record, and what happened after that the
next round sees.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from planner.cron.carry import Outcome
from planner.cron.health import Health, judge
from planner.cron.reconcile import Reconciled, reconcile, statements
from planner.errors import InputError
from planner.ledger.intervals import Interval, Recorder, known
from planner.ledger.lease import Lease
from planner.ledger.memory import (
    Known,
    NodeMemory,
    account_until,
    accounted_until,
    known_nodes,
    known_workloads,
    remember,
    remember_nodes,
)
from planner.ledger.observe import observe
from planner.ledger.rounds import record_round, standing_promises
from planner.ledger.store import Ledger, connect, open_ledger
from planner.model.plan import Plan
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.sighting import sighting_of
from planner.sources.base import Run, World

OVERLAP_S = 900
"""How far back accounts are read again: records may be written late."""

MAX_WAIT_S = 3600
"""The longest that a workload which cannot be started is left alone."""


@dataclass(frozen=True)
class Seen:
    """What a look came to."""

    reconciled: Reconciled
    health: Health

    @property
    def snapshot(self) -> Snapshot:
        """The world as the planner is to see it; usage is not in it yet."""
        return self.reconciled.snapshot


def ledger_of(site: Site) -> Ledger:
    """Return the ledger that a site keeps; InputError where it names none."""
    if site.ledger is None:
        raise InputError(["ledger: is missing, and rounds need one, write `ledger: sqlite:///gangplan.db`"])
    if connect(site.ledger).is_sqlite:
        return open_ledger(site.ledger, create=True)
    return open_ledger(site.ledger)


@dataclass(frozen=True)
class Books:
    """The ledger of a site, for the rounds of one source."""

    site: Site
    ledger: Ledger
    source: str

    def accounts_since(self) -> int:
        """Return from when on the source's accounts are to be read."""
        with self.ledger.read() as connection:
            until_s = accounted_until(connection, self.source)
        return (int(time.time()) if until_s is None else until_s) - OVERLAP_S

    def look(
        self, lease: Lease | None, world: World, accounts: Sequence[Run] | None, sick: Mapping[str, str]
    ) -> Seen:
        """Reconcile a world with the ledger, and record what it shows; without a lease nothing is recorded.

        `accounts` are runs that the source's accounts say have ended; None where they could not be read. What
        is being stopped is not charged on: its run has ended, and the source may not know its start any more.
        """
        if lease is None:
            with self.ledger.read() as connection:
                return self._seen(connection, world, sick)
        with self.ledger.write() as connection:
            lease.renew_in(connection)
            seen = self._seen(connection, world, sick)
            runs = [*world.ended, *(accounts or ())]
            there = known(connection, self.source, [r.workload.id for r in runs])
            ended = statements(self.site, self.source, runs, there, seen.reconciled.known)
            _record(connection, ended)
            sighting = sighting_of(self.site, seen.snapshot, self.source)
            over = {i.key for i in ended}
            running = {w.id for w in seen.snapshot.workloads if w.state == "running"}
            held = tuple(i for i in sighting.held if i.workload in running and i.key not in over)
            observe(connection, replace(sighting, held=held))
            remember(connection, self.source, seen.reconciled.known, world.time_s)
            remember_nodes(connection, self.source, seen.health.unwell, seen.health.settled)
            if accounts is not None:
                account_until(connection, self.source, world.time_s)
        return seen

    def decide(
        self, lease: Lease, plan: Plan, snapshot: Snapshot, digest: str, known: Mapping[str, Known]
    ) -> int:
        """Record a plan before it is carried out; return its number."""
        with self.ledger.write() as connection:
            lease.renew_in(connection)
            remember(connection, self.source, _decided(plan, snapshot, known), snapshot.time_s)
            return record_round(connection, plan, digest, snapshot.reservations)

    def settle(
        self, lease: Lease, snapshot: Snapshot, outcome: Outcome, known: Mapping[str, Known], health: Health
    ) -> None:
        """Record what became of a plan: what stopped, what failed to start, whose repair was called."""
        stopped_s, now_s = outcome.stopped_s, snapshot.time_s
        held = sighting_of(self.site, snapshot, self.source).held
        ended = [_ended(i, stopped_s[i.workload]) for i in held if i.workload in stopped_s]
        retry = {w: _tried(known[w], now_s) for w in outcome.failed if w in known}
        nodes = {n: replace(health.unwell.get(n, NodeMemory(0)), repairing=True) for n in outcome.repaired}
        if not (ended or retry or nodes):
            return
        with self.ledger.write() as connection:
            lease.renew_in(connection)
            _record(connection, ended)
            remember(connection, self.source, retry, now_s)
            remember_nodes(connection, self.source, nodes, ())

    def _seen(self, connection: Connection, world: World, sick: Mapping[str, str]) -> Seen:
        health = judge(world, sick, known_nodes(connection, self.source), self.site.run.settle_s)
        remembered = known_workloads(connection, self.source)
        promises = standing_promises(connection)
        return Seen(reconcile(self.site, world, health.clusters, remembered, promises), health)


def _record(connection: Connection, said: Sequence[Interval]) -> None:
    """Put statements on record."""
    recorder = Recorder(connection)
    for _ in recorder.record(said):
        pass
    recorder.finish()


def _decided(plan: Plan, snapshot: Snapshot, known: Mapping[str, Known]) -> dict[str, Known]:
    """Return what is to be remembered otherwise because of a plan.

    A start is charged as it was decided. Who is to be preempted, or has its claim on record as a promise now,
    is no longer one that loses its nodes by accident.
    """
    running = {w.id for w in snapshot.workloads if w.state != "pending"}
    lost = _lost(snapshot)
    out = {}
    for d in plan.decisions:
        k = known.get(d.workload)
        if k is None:
            continue
        if d.action == "start":
            out[d.workload] = replace(k, occupancy=d.occupancy, placement=())
        elif k.placement and (
            d.workload not in running or (d.action == "preempt" and d.workload not in lost)
        ):
            out[d.workload] = replace(k, placement=())
    return out


def _lost(snapshot: Snapshot) -> set[str]:
    """Return what stands on nodes that are down: it comes back with a claim."""
    down = {n.name for c in snapshot.clusters for n in c.nodes if n.state == "down"}
    return {w.id for w in snapshot.workloads if any(p.node in down for p in w.placement)}


def _ended(interval: Interval, ended_s: int) -> Interval:
    """Return the end of a run that was stopped."""
    return replace(interval, end_s=max(ended_s, interval.begin_s), running=False)


def _tried(known: Known, now_s: int) -> Known:
    """Return what is known after one more failed start: from the second on, twice the wait each time."""
    failures = known.failures + 1
    wait_s = min(60 * 2 ** (failures - 2), MAX_WAIT_S) if failures > 1 else 0
    return replace(known, failures=failures, retry_s=now_s + wait_s if wait_s else 0)
