"""One moment as a plan leaves it: who stands where, until when, and what is free.

A plan names placements, so nothing here is decided anew. Where none is given, the greedy round makes one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.encode import Encoded, encode
from planner.errors import InputError
from planner.model.plan import Decision, Plan
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.round import plan_round
from planner.units import format_time
from solver.fragmentation import Claims, Demand, levels_of, queued
from solver.state import FOREVER_S, Bools, Ints, Level, State, Status


@dataclass(frozen=True)
class Scene:
    """A snapshot with the plan made from it.

    Attributes
    ----------
    part_workload, part_node, part_gpus : int64[K]
        What stands once the plan is carried out, part by part.
    until_s : int64[W], epoch seconds
        End of the protection of what stands; `now_s` where nothing protects it.
    """

    site: Site
    encoded: Encoded
    plan: Plan
    part_workload: Ints
    part_node: Ints
    part_gpus: Ints
    until_s: Ints

    @property
    def state(self) -> State:
        """The arrays."""
        return self.encoded.state

    @property
    def now_s(self) -> int:
        """When, epoch seconds."""
        return self.state.now_s

    @cached_property
    def up(self) -> Bools:
        """Healthy nodes, bool[N]."""
        healthy: Bools = self.state.nodes.up
        return healthy

    @cached_property
    def held_gpus(self) -> Ints:
        """GPUs held on each node, int64[N]."""
        out = np.zeros(self.state.nodes.count, dtype=np.int64)
        np.add.at(out, self.part_node, self.part_gpus)
        return out

    @cached_property
    def free_gpus(self) -> Ints:
        """GPUs free on healthy nodes, int64[N]."""
        return np.where(self.up, np.maximum(self.state.nodes.gpus - self.held_gpus, 0), 0)

    @cached_property
    def open_gpus(self) -> Ints:
        """GPUs that are free or held by work that may be interrupted, on healthy nodes, int64[N]."""
        out = self.state.nodes.gpus.copy()
        np.subtract.at(out, self.protections.node, self.protections.gpus)
        return np.where(self.up, np.maximum(out, 0), 0)

    def allocated_only(self) -> Scene:
        """Return the scene as if no unallocated work stood: it makes room for anybody."""
        kept = self.state.workloads.allocated[self.part_workload]
        parts = (self.part_workload[kept], self.part_node[kept], self.part_gpus[kept])
        return replace(self, part_workload=parts[0], part_node=parts[1], part_gpus=parts[2])

    @cached_property
    def decisions(self) -> dict[str, Decision]:
        """Decisions by workload."""
        return {d.workload: d for d in self.plan.decisions}

    @cached_property
    def waiting(self) -> list[int]:
        """Workloads that want GPUs and wait after the plan, the largest first."""
        names, gpus = self.encoded.names, self.state.workloads.gpus
        waits = [names.index[d.workload] for d in self.plan.decisions if d.action == "wait"]
        return sorted((j for j in waits if gpus[j] > 0), key=lambda j: (-int(gpus[j]), names.workloads[j].id))

    @cached_property
    def demand(self) -> Demand:
        """The gangs that wait after the plan."""
        status = np.full(self.state.workloads.count, int(Status.RUNNING))
        status[self.waiting] = Status.PENDING
        return queued(replace(self.state, workloads=replace(self.state.workloads, status=status)))

    @cached_property
    def protections(self) -> Claims:
        """What is certainly held, and until when."""
        ends_s = self.until_s[self.part_workload]
        kept = ends_s > self.now_s
        return Claims(self.part_node[kept], self.part_gpus[kept], ends_s[kept])

    @cached_property
    def node_until_s(self) -> Ints:
        """When the last protection on each node ends, int64[N]; forever on nodes that are not up."""
        out = np.full(self.state.nodes.count, self.now_s)
        np.maximum.at(out, self.protections.node, self.protections.end_s)
        return np.where(self.up, out, FOREVER_S)

    @cached_property
    def levels(self) -> dict[int, str]:
        """Names of the levels: the node, the topology from the innermost out, the cluster."""
        named = {Level.NODE: "node", Level.NONE: "cluster", **dict(enumerate(self.encoded.names.levels))}
        return {level: named[level] for level in levels_of(self.state)}

    def place_name(self, n: int) -> str:
        """Return the innermost domain of a node, as `b1/l03`; its cluster where it has none."""
        names = self.encoded.names
        return "/".join(names.nodes[n].location) or names.node_cluster[n].name


def scene_of(site: Site, snapshot: Snapshot, plan: Plan | None = None) -> Scene:
    """Return the scene; InputError where the plan is not of this snapshot."""
    encoded = encode(site, snapshot)
    plan = plan_round(site, snapshot, "greedy") if plan is None else plan
    _refuse_stranger(encoded, plan)
    names, state = encoded.names, encoded.state
    parts: list[tuple[int, int, int]] = []
    until_s = np.full(state.workloads.count, state.now_s)
    for d in plan.decisions:
        j = names.index[d.workload]
        stopping = names.workloads[j].state == "stopping"  # preempted before, and still on its nodes
        if d.action in ("start", "keep") or stopping:
            placement = names.workloads[j].placement if stopping else d.placement
            parts += [(j, names.node_index[p.node], p.gpus) for p in placement]
            until_s[j] = max(state.now_s, d.protected_until_s or 0)
    index, node, gpus = np.array(parts, dtype=np.int64).reshape(-1, 3).T
    return Scene(site, encoded, plan, index, node, gpus, until_s)


def _refuse_stranger(encoded: Encoded, plan: Plan) -> None:
    names = encoded.names
    faults = []
    if plan.time_s != encoded.state.now_s:
        made, seen = format_time(plan.time_s), format_time(encoded.state.now_s)
        faults.append(f"the plan is of {made}, the snapshot of {seen}")
    faults += [
        f"the plan decides on {d.workload}, which is not in the snapshot"
        for d in plan.decisions
        if d.workload not in names.index
    ][:3]
    faults += [
        f"{d.workload}: the plan names node {p.node}, which is not in the snapshot"
        for d in plan.decisions
        for p in d.placement
        if p.node not in names.node_index
    ][:3]
    missing = names.index.keys() - {d.workload for d in plan.decisions}
    if missing:
        faults.append(f"the plan says nothing of {min(missing)}, which is in the snapshot")
    if faults:
        raise InputError([f"{fault}, write the plan that was made from it" for fault in faults])
