"""What a snapshot says about workloads and nodes has to go together; here is what does not."""

from __future__ import annotations

from collections import defaultdict

from planner.inventory import check_clusters
from planner.scan import Loc
from planner.schema.cluster import NodeEntry
from planner.schema.snapshot import PlacementEntry, SnapshotEntry, WorkloadEntry
from planner.strict import Document, key_path
from planner.units import format_duration, format_time
from planner.words import shown

MAX_CPU_REPLICAS = 10_000
"""Replicas of a gang without GPUs."""


def check_snapshot(document: Document, entry: SnapshotEntry, window_s: int | None) -> None:
    """Report all contradictions of a snapshot; `window_s` is the site's window, None where it is unknown."""
    if not check_clusters(document, entry.clusters):
        return
    nodes = {name: node for c in entry.clusters for node in c.nodes for name in node.all_names}
    _check_ids(document, entry.workloads)
    for i, workload in enumerate(entry.workloads):
        check_workload(document, workload, entry.time, ("workloads", i))
    if _names_known(document):
        _check_nodes(document, entry.workloads, nodes)
    _check_load(document, entry.workloads, nodes)
    if window_s is not None and (entry.history or 0) > window_s:
        window = format_duration(window_s)
        fault = f"is longer than the window of {window}, write at most {window}"
        document.contradiction(("history",), fault)


def check_workload(document: Document, workload: WorkloadEntry, now_s: int, loc: Loc) -> None:
    """Report what does not go together in one workload, whatever surrounds it."""
    _check_state(document, workload, loc)
    _check_times(document, workload, now_s, loc)
    _check_topology(document, workload, loc)
    _check_size(document, workload, loc)
    _check_gang(document, workload, loc)


def replicas_of(workload: WorkloadEntry, part: PlacementEntry) -> int:
    """Return the replicas that stand on a node; an entry without GPUs is one replica of CPUs."""
    each = workload.gpus_per_replica
    return part.gpus // each if each else 1


def _check_ids(document: Document, workloads: list[WorkloadEntry]) -> None:
    """Report ids that two workloads share."""
    first: dict[str, int] = {}
    for i, workload in enumerate(workloads):
        twin = first.setdefault(workload.id, i)
        if twin != i:
            where = key_path(document.holes.original(("workloads", twin)))
            fault = f"{shown(workload.id)} is {where} already, give each workload its own"
            document.contradiction(("workloads", i, "id"), fault)


def _check_state(document: Document, workload: WorkloadEntry, loc: Loc) -> None:
    """Report what is missing from a run, and what a run alone can have."""
    of_a_run = {
        "started": workload.started is not None,
        "placement": bool(workload.placement),
        "occupancy": workload.occupancy is not None,
    }
    if workload.state == "pending":
        for key, given in of_a_run.items():
            if given:
                fault = "stands on a pending workload, leave it out or write `state: running`"
                document.contradiction((*loc, key), fault)
        return
    likely = {"started": "2026-10-09T14:00:00Z", "placement": "[{node: saturn-001, gpus: 8}]"}
    for key, value in likely.items():
        if not of_a_run[key]:
            fault = f"is missing on a {workload.state} workload, write for example `{key}: {value}`"
            document.contradiction((*loc, key), fault)


def _check_times(document: Document, workload: WorkloadEntry, now_s: int, loc: Loc) -> None:
    """Report what happened after the moment that the snapshot describes."""
    for key, time_s in (("submitted", workload.submitted), ("started", workload.started)):
        if time_s is not None and time_s > now_s:
            now = format_time(now_s)
            fault = f"{format_time(time_s)} is after the snapshot's time, write at most {now}"
            document.contradiction((*loc, key), fault, ("time",))


def _check_topology(document: Document, workload: WorkloadEntry, loc: Loc) -> None:
    """Report a segment of no domain."""
    wish = workload.topology
    if wish and wish.segment is not None and wish.required is None:
        fault = "is a part of no domain, write the level of the domain as `required` beside it"
        document.contradiction((*loc, "topology", "segment"), fault, (*loc, "topology"))


def _check_size(document: Document, workload: WorkloadEntry, loc: Loc) -> None:
    """Report a gang whose placement, an entry for each replica without GPUs, could not be written out."""
    if not workload.gpus_per_replica and workload.replicas > MAX_CPU_REPLICAS:
        fault = f"{workload.replicas} are too many without GPUs, write at most {MAX_CPU_REPLICAS}"
        document.contradiction((*loc, "replicas"), fault, (*loc, "gpus_per_replica"))


def _check_gang(document: Document, workload: WorkloadEntry, loc: Loc) -> None:
    """Report a run that stands on its nodes with anything but its whole gang."""
    if workload.state == "pending" or not workload.placement:
        return
    each, broken = workload.gpus_per_replica, False
    for k, part in enumerate(workload.placement):
        if (part.gpus % each or not part.gpus) if each else part.gpus:
            broken = True
            fix = f"a multiple of {each}" if each else "0"
            fault = f"{part.gpus} are not a whole number of replicas of {each} GPUs, write {fix}"
            document.contradiction((*loc, "placement", k, "gpus"), fault)
    held = sum(replicas_of(workload, part) for part in workload.placement)
    if held != workload.replicas and not broken:
        fault = f"holds {held} of {workload.replicas} replicas, list every node of the gang"
        document.contradiction((*loc, "placement"), fault)


def _names_known(document: Document) -> bool:
    """Say whether every node of the inventory could be read, so that others are unknown for sure."""
    return not any(
        hole[0] == "clusters" and (len(hole) < 5 or hole[4] in ("name", "names"))
        for hole in document.holes.places
    )


def _check_nodes(document: Document, workloads: list[WorkloadEntry], nodes: dict[str, NodeEntry]) -> None:
    """Report nodes that somebody stands on and nobody has."""
    for i, workload in enumerate(workloads):
        for k, part in enumerate(workload.placement):
            if part.node not in nodes:
                fault = f"{shown(part.node)} is not in the inventory, write the name of a node"
                document.contradiction(("workloads", i, "placement", k, "node"), fault)


_RESOURCES = (  # unit, of a node, of a replica, how many make one unit
    ("GPUs", "gpus", "gpus_per_replica", 1),
    ("CPUs", "cpus", "cpus_per_replica", 1000),
    ("GiB of memory", "memory", "memory_per_replica", 1 << 30),
)


def _check_load(document: Document, workloads: list[WorkloadEntry], nodes: dict[str, NodeEntry]) -> None:
    """Report, where it happens, that a node holds more than it has; 0 CPUs or memory are not counted."""
    for unit, of_node, of_replica, scale in _RESOURCES:
        sizes = {name: getattr(node, of_node) for name, node in nodes.items()}
        counted = {name: size for name, size in sizes.items() if size or unit == "GPUs"}
        load: dict[str, int] = defaultdict(int)
        for i, workload in enumerate(workloads):
            each = getattr(workload, of_replica)
            for k, part in enumerate(workload.placement) if each else ():
                before = load[part.node]
                load[part.node] = now = before + each * replicas_of(workload, part)
                if before <= counted.get(part.node, now) < now:
                    has = f"{part.node} has {counted[part.node] / scale:.12g} {unit}"
                    fault = f"{has} and holds {now / scale:.12g} with this, count each once"
                    document.contradiction(("workloads", i, "placement", k), fault)
