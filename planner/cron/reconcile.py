"""The world that the source shows and what the ledger remembers of it, made into one snapshot.

The source is right about what is; the ledger adds what it forgets: the first submit, what a run is charged
as, what was promised, and which run was lost to a failed node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from planner.contract import effective
from planner.encode import accounts_of
from planner.ledger.intervals import Interval, Key
from planner.ledger.memory import Known
from planner.model.budget import leaf_shares
from planner.model.cluster import Cluster
from planner.model.site import Site
from planner.model.snapshot import Reservation, Snapshot
from planner.model.workload import Occupancy, Workload
from planner.sources.base import Run, World
from planner.units import format_time


@dataclass(frozen=True)
class Reconciled:
    """A snapshot, and what is to be remembered of it."""

    snapshot: Snapshot
    known: Mapping[str, Known]


def reconcile(
    site: Site,
    world: World,
    clusters: tuple[Cluster, ...],
    known: Mapping[str, Known],
    promises: Sequence[Reservation],
) -> Reconciled:
    """Return the snapshot of a round; usage is not in it yet.

    A workload that was seen to run and waits now, though no round decided so, lost its nodes: it gets back
    its place in the order by a promise that is due at once. One that failed to start again and again is left
    out for a while, so that it keeps no nodes from others.
    """
    terms = _Terms(site)
    workloads, remembered, claims, warnings = [], dict[str, Known](), list[Reservation](), list[str]()
    for w in world.workloads:
        k = known.get(w.id, Known(w.submitted_s))
        w = replace(w, submitted_s=min(k.submitted_s, w.submitted_s))
        if w.state == "pending":
            if k.placement:
                claims.append(Reservation(w.id, world.time_s, k.placement))
            k = replace(k, submitted_s=w.submitted_s)
        else:
            kind = terms.occupancy(w, k.occupancy)
            w = replace(w, occupancy=kind)
            lost = () if w.state == "stopping" else w.placement
            k = Known(w.submitted_s, kind, lost or k.placement)
        remembered[w.id] = k
        if w.state == "pending" and world.time_s < k.retry_s:
            when = format_time(k.retry_s)
            warnings.append(f"{w.id} is not planned before {when}: it failed to start {k.failures} times")
            continue
        workloads.append(w)
    waiting = {w.id for w in workloads if w.state != "running"}
    standing = {r.workload: r for r in (*claims, *promises) if r.workload in waiting}
    unplanned = [f"{name} is not planned: {why}" for name, why in sorted(world.unplanned.items())]
    snapshot = Snapshot(
        time_s=world.time_s,
        clusters=clusters,
        workloads=tuple(workloads),
        reservations=tuple(standing.values()),
        warnings=(*world.warnings, *unplanned, *warnings),
    )
    return Reconciled(snapshot, remembered)


def statements(
    site: Site, source: str, runs: Sequence[Run], there: Mapping[Key, Interval], known: Mapping[str, Known]
) -> list[Interval]:
    """Return what ended runs are to be charged for.

    Who pays, and whether at all, was settled while a run was seen; of one that nobody saw the source says it.
    """
    terms, out = _Terms(site), []
    for run in runs:
        w = run.workload
        for cluster, gpu_type, gpus in run.gpus:
            seen = there.get((source, w.id, run.started_s, cluster, gpu_type))
            last = known.get(w.id)
            out.append(
                Interval(
                    source=source,
                    workload=w.id,
                    started_s=run.started_s,
                    allocation=seen.allocation if seen else terms.allocation(w),
                    occupancy=seen.occupancy
                    if seen
                    else terms.occupancy(w, last.occupancy if last else None),
                    cluster=cluster,
                    gpu_type=gpu_type,
                    gpus=gpus,
                    begin_s=run.started_s,
                    end_s=run.ended_s,
                    running=False,
                )
            )
    return out


class _Terms:
    """What the site makes of a workload."""

    def __init__(self, site: Site) -> None:
        self.contract = site.contract
        self.shares, self.names = leaf_shares(site.budgets), accounts_of(site)

    def allocation(self, w: Workload) -> str:
        """Return the path of who pays."""
        return w.allocation if w.allocation in self.shares else self.names.get(w.allocation, w.allocation)

    def occupancy(self, w: Workload, decided: Occupancy | None) -> Occupancy:
        """Return what a run is: as its start was decided, else by its contract."""
        if decided is not None:
            return decided
        share = self.shares.get(self.allocation(w), Fraction(1))
        asked = effective(replace(w, occupancy=None), self.contract, share)
        return "allocated" if asked.allocated else "unallocated"
