"""The snapshot: read, searched for contradictions, and turned into what the planner works with."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from planner.coherence import check_snapshot, check_workload
from planner.inventory import to_cluster
from planner.model.budget import leaf_shares
from planner.model.site import Site
from planner.model.snapshot import Reservation, Snapshot
from planner.model.workload import Placement, Topology, Workload
from planner.schema.base import json_schema, validate
from planner.schema.snapshot import (
    PlacementEntry,
    ReservationEntry,
    SnapshotEntry,
    TopologyEntry,
    WorkloadEntry,
)
from planner.strict import parse, read_text
from planner.units import format_time


def load_snapshot(path: Path, site: Site | None = None) -> Snapshot:
    """Read a snapshot file; InputError with every fault of it."""
    return parse_snapshot(read_text(path), str(path), site)


def parse_snapshot(text: str, name: str, site: Site | None = None) -> Snapshot:
    """Read the text of a snapshot; `name` is what error messages call it.

    With a site, what it does not know is dropped from `usage` and `entitled`, with a warning. Promises to
    workloads or on nodes that are no more are dropped with a warning too: they are not the user's fault.
    """
    document = parse(text, name)
    entry = validate(document, SnapshotEntry, {"time": "1970-01-01T00:00:00Z", "clusters": []})
    if entry:
        check_snapshot(document, entry, site.fair_share.lookback.window_s if site else None)
    document.finish()
    assert entry is not None
    return _to_snapshot(entry, site)


def load_workload(path: Path, now_s: int) -> Workload:
    """Read a file that holds one workload, not submitted yet; InputError with every fault of it."""
    return parse_workload(read_text(path), str(path), now_s)


def parse_workload(text: str, name: str, now_s: int) -> Workload:
    """Read one workload as in a snapshot; without `state` and `submitted` it is pending from now on."""
    document = parse(text, name)
    document.data = {"state": "pending", "submitted": format_time(now_s), **document.data}
    entry = validate(document, WorkloadEntry, {})
    if entry:
        if entry.state != "pending":
            document.contradiction(("state",), f"is {entry.state}, write `state: pending` or leave it out")
        check_workload(document, entry, now_s, ())
    document.finish()
    assert entry is not None
    return _to_workload(entry)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of snapshots, for editors."""
    return json_schema(SnapshotEntry, "gangplan snapshot")


def _to_snapshot(entry: SnapshotEntry, site: Site | None) -> Snapshot:
    """Turn a checked entry into the snapshot that the planner knows."""
    warnings: list[str] = []
    known = set(leaf_shares(site.budgets)) if site else None
    entitled = entry.entitled
    return Snapshot(
        time_s=entry.time,
        clusters=tuple(map(to_cluster, entry.clusters)),
        workloads=tuple(map(_to_workload, entry.workloads)),
        usage=_of_known(entry.usage, "usage", known, warnings),
        entitled=None if entitled is None else _of_known(entitled, "entitled", known, warnings),
        history_s=entry.history,
        reservations=tuple(_standing(entry, warnings)),
        warnings=tuple(warnings),
    )


def _of_known(
    units: dict[str, Fraction], key: str, known: set[str] | None, warnings: list[str]
) -> dict[str, Fraction]:
    """Keep what is of the site's allocations."""
    strangers = sorted(units.keys() - known) if known is not None else []
    warnings += [f"{key} of {name} is dropped: the site has no such allocation" for name in strangers]
    return {name: value for name, value in units.items() if name not in strangers}


def _standing(entry: SnapshotEntry, warnings: list[str]) -> Iterator[Reservation]:
    """Yield the promises to who still waits; one that its workload has taken up is simply done.

    A place that no longer exists or suits is kept as it is: the round says why such a promise moves.
    """
    workloads = {workload.id: workload for workload in entry.workloads}
    promised: set[str] = set()
    for reservation in entry.reservations:
        key, workload = reservation.workload, workloads.get(reservation.workload)
        if workload is None or key in promised:
            why = "the workload has left" if workload is None else "it was promised a start before this"
            warnings.append(f"a promise to {key} is dropped: {why}")
        elif workload.state != "running":
            yield _to_reservation(reservation, workload)
        promised.add(key)


def _to_reservation(entry: ReservationEntry, workload: WorkloadEntry) -> Reservation:
    """Turn an entry into the promise that the planner knows."""
    return Reservation(entry.workload, entry.start_at, _to_placement(entry.placement, workload))


def _to_placement(parts: list[PlacementEntry], workload: WorkloadEntry) -> tuple[Placement, ...]:
    """Keep one part for each node; replicas of CPUs only stay apart, for each entry is one."""
    if workload.gpus_per_replica == 0:
        return tuple(Placement(part.node, 0) for part in parts)
    gpus: dict[str, int] = {}
    for part in parts:
        gpus[part.node] = gpus.get(part.node, 0) + part.gpus
    return tuple(Placement(node, held) for node, held in gpus.items())


def _to_workload(entry: WorkloadEntry) -> Workload:
    """Turn an entry into the workload that the planner knows."""
    wish = entry.topology or TopologyEntry()
    return Workload(
        id=entry.id,
        allocation=entry.allocation,
        replicas=entry.replicas,
        gpus_per_replica=entry.gpus_per_replica,
        submitted_s=entry.submitted,
        state=entry.state,
        min_runtime_s=entry.min_runtime,
        time_limit_s=entry.time_limit,
        resumable=entry.resumable,
        priority=entry.priority,
        cpus_milli_per_replica=entry.cpus_per_replica,
        memory_bytes_per_replica=entry.memory_per_replica,
        gpu_types=tuple(entry.gpu_types),
        clusters=tuple(entry.clusters),
        topology=Topology(wish.required, wish.preferred, wish.segment),
        started_s=entry.started,
        placement=_to_placement(entry.placement, entry),
        occupancy=entry.occupancy,
    )
