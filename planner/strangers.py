"""What a plan says that its snapshot cannot bear out: strangers, repetitions, broken gangs, full nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from planner.model.plan import Plan
from planner.model.snapshot import Snapshot
from planner.model.workload import Placement, Workload


def strangers(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Return what the plan says of workloads and nodes that the snapshot does not have, or says twice."""
    known = dict.fromkeys(sorted(w.id for w in snapshot.workloads))
    nodes = {n.name for c in snapshot.clusters for n in c.nodes}
    decided = Counter(d.workload for d in plan.decisions)
    promised = Counter(r.workload for r in plan.reservations)
    out = [f"{w}: decided twice" for w, times in decided.items() if times > 1]
    out += [f"{w}: not in the snapshot" for w in decided if w not in known]
    out += [f"{w}: no decision" for w in known if w not in decided]
    out += [f"{w}: promised a start twice" for w, times in promised.items() if times > 1]
    out += [f"{w}: promised a start, and not in the snapshot" for w in promised if w not in known]
    out += [f"{r.workload}: promised a start nowhere" for r in plan.reservations if not r.placement]
    for d in plan.decisions:
        gone = [g for g in d.victims_for if g not in known]
        out += [f"{d.workload}: makes room for {g}, which is not in the snapshot" for g in gone]
    for workload, placement in _places(plan):
        strange = [p.node for p in placement if p.node not in nodes]
        out += [f"{workload}: unknown node {node}" for node in strange]
    return out


def broken_gangs(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Return the starts and promises, of workloads that the snapshot has, of anything but a whole gang."""
    workloads = {w.id: w for w in snapshot.workloads}
    starts = [(d.workload, d.placement) for d in plan.decisions if d.action == "start"]
    promises = [(r.workload, r.placement) for r in plan.reservations]
    out = []
    for name, placement in [*starts, *promises]:
        if name in workloads:
            out += [f"{name}: {fault}" for fault in _broken(workloads[name], placement)]
    return out


def overfull(snapshot: Snapshot) -> list[str]:
    """Return the nodes on which more stands than they have; 0 CPUs or memory are not counted."""
    load: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for w in snapshot.workloads:
        for part in w.placement:
            replicas = part.gpus // w.gpus_per_replica if w.gpus_per_replica else 1
            taken = (part.gpus, replicas * w.cpus_milli_per_replica, replicas * w.memory_bytes_per_replica)
            load[part.node] = [a + b for a, b in zip(load[part.node], taken, strict=True)]
    out = []
    for n in (n for c in snapshot.clusters for n in c.nodes):
        gpus, cpus_milli, memory_bytes = load[n.name]
        if gpus > n.gpus:
            out.append(f"{n.name}: {gpus} of {n.gpus} GPUs given out")
        if 0 < n.cpus_milli < cpus_milli:
            out.append(f"{n.name}: {cpus_milli / 1000:.12g} of {n.cpus_milli / 1000:.12g} CPUs given out")
        if 0 < n.memory_bytes < memory_bytes:
            out.append(f"{n.name}: {_gib(memory_bytes)} of {_gib(n.memory_bytes)} GiB of memory given out")
    return out


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.12g}"


def _places(plan: Plan) -> Iterator[tuple[str, tuple[Placement, ...]]]:
    """Yield everything that the plan places, and where."""
    for d in plan.decisions:
        yield d.workload, d.placement
    for r in plan.reservations:
        yield r.workload, r.placement


def _broken(w: Workload, placement: tuple[Placement, ...]) -> Iterator[str]:
    """Yield why a placement does not hold a whole gang; without GPUs each entry is one replica."""
    each = w.gpus_per_replica
    odd = [p for p in placement if (p.gpus % each or p.gpus <= 0 if each else p.gpus)]
    fault = f"are no whole replicas of {each}" if each else "for replicas without GPUs"
    yield from (f"{p.gpus} GPUs on {p.node} {fault}" for p in odd)
    held = sum(p.gpus // each if each else 1 for p in placement)
    if held != w.replicas and not odd:
        yield f"{held} of {w.replicas} replicas placed"
