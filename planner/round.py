"""One planning round: encode, decide, explain, and the plan in names."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.encode import Encoded, Names, encode
from planner.errors import PlanRejectedError
from planner.explain import explain
from planner.model.plan import ActionName, Advice, Decision, Move, NodePlan, Plan, SolverSummary
from planner.model.site import Site
from planner.model.snapshot import Reservation, Snapshot
from planner.model.workload import Occupancy, Placement
from planner.shares import share_rows
from planner.verify import broken_text
from solver.board import Parts
from solver.decide import Outcome, decide
from solver.defragment import advise
from solver.evidence import lost_gpu_s
from solver.fragmentation import measure, queued
from solver.plan import Decisions
from solver.seating import protection_ends
from solver.state import Action, Ints, Level, NodeState, SolveParams, Spread

ACTIONS: dict[Action, ActionName] = {
    Action.START: "start",
    Action.KEEP: "keep",
    Action.PREEMPT: "preempt",
    Action.WAIT: "wait",
    Action.REJECT: "reject",
}


def plan_round(site: Site, snapshot: Snapshot, backend: str | None = None) -> Plan:
    """Plan one round; nothing is applied.

    Raises
    ------
    PlanRejectedError
        No rung of the ladder found a plan that passes verification.
    """
    encoded = encode(site, snapshot)
    params = SolveParams(backend or site.solver.backend, site.solver.time_limit_s, site.solver.gap)
    outcome = decide(encoded.state, params)
    if outcome.broken:
        raise PlanRejectedError([broken_text(encoded.names, b) for b in outcome.broken])
    return _plan(encoded, outcome)


def _plan(encoded: Encoded, outcome: Outcome) -> Plan:
    r = outcome.report
    return Plan(
        time_s=encoded.state.now_s,
        solver=SolverSummary(
            r.backend,
            r.status,
            r.objective,
            r.bound,
            r.gap,
            round(r.seconds, 3),
            r.promised,
            tuple(r.notes),
        ),
        decisions=_decisions(encoded, outcome),
        reservations=_reservations(encoded.names, outcome.decisions),
        nodes=_nodes(encoded, outcome),
        shares=share_rows(encoded, outcome.board.standing),
        fragmentation=fragmentation_table(encoded, outcome.board.free_gpus),
        warnings=encoded.warnings,
        defragmentation=_defragmentation(encoded.names, outcome),
    )


def _decisions(encoded: Encoded, outcome: Outcome) -> tuple[Decision, ...]:
    state, names, d = encoded.state, encoded.names, outcome.decisions
    stands = state.workloads.placement
    out = []
    for j, (w, e, reason) in enumerate(
        zip(names.workloads, names.effective, explain(encoded, outcome), strict=True)
    ):
        action = Action(int(d.action[j]))
        start, keep = action == Action.START, action == Action.KEEP
        occupancy: Occupancy | None = None
        until_s = int(state.workloads.protected_until_s[j]) if state.protected[j] and keep else None
        if start or keep:
            occupancy = "allocated" if e.allocated else "unallocated"
        if start and e.allocated:
            until_s = state.now_s + e.min_runtime_s
        expected_s = int(outcome.expected_start_s[j])
        preempted = action == Action.PREEMPT and w.state == "running"
        out.append(
            Decision(
                workload=w.id,
                action=ACTIONS[action],
                reason=reason,
                allocation=w.allocation,
                gpus=w.gpus,
                occupancy=occupancy,
                placement=_placement(names, d.placement if start else stands, j) if start or keep else (),
                protected_until_s=until_s,
                expected_start_s=expected_s if expected_s >= 0 else None,
                victims_for=tuple(names.workloads[g].id for g in d.victims_for.get(j, [])),
                lost_gpu_hours=lost_gpu_s(outcome.board, j) / 3600 if preempted else None,
            )
        )
    return tuple(out)


def _placement(names: Names, spread: Spread, i: int) -> tuple[Placement, ...]:
    part = spread.part(i)
    nodes, gpus, reps = (x[part].tolist() for x in (spread.node, spread.gpus, spread.replicas))
    parts = []
    for n, g, k in zip(nodes, gpus, reps, strict=True):
        parts += [Placement(names.nodes[n].name, g)] * (1 if g else k)  # without GPUs one entry a replica
    return tuple(parts)


def _defragmentation(names: Names, outcome: Outcome) -> tuple[Advice, ...]:
    """Return which moves would let waiting gangs start now."""
    size = outcome.board.state.workloads.gpus_per_replica

    def place(j: int, parts: Parts) -> tuple[Placement, ...]:
        return _placement(names, Spread.of([[(n, k * int(size[j]), k) for n, k in sorted(parts)]]), 0)

    return tuple(
        Advice(
            names.workloads[a.gang].id,
            place(a.gang, a.parts),
            tuple(
                Move(names.workloads[m.workload].id, place(m.workload, m.to), m.lost_gpu_s / 3600)
                for m in a.moves
            ),
            a.lost_gpu_s / 3600,
        )
        for a in advise(outcome.board)
    )


def _reservations(names: Names, d: Decisions) -> tuple[Reservation, ...]:
    pairs = zip(d.promised.tolist(), d.promised_start_s.tolist(), strict=True)
    return tuple(
        Reservation(names.workloads[j].id, s, _placement(names, d.promised_placement, i))
        for i, (j, s) in enumerate(pairs)
    )


def _nodes(encoded: Encoded, outcome: Outcome) -> tuple[NodePlan, ...]:
    """Return the nodes that leave service, each with the end of its last protected work."""
    state, names = encoded.state, encoded.names
    ends = protection_ends(outcome.board)
    out = []
    for n in np.flatnonzero(~state.nodes.up).tolist():
        draining = state.nodes.state[n] == NodeState.DRAINING
        out.append(
            NodePlan(
                names.nodes[n].name,
                names.nodes[n].state,
                max(int(ends[n]), state.now_s) if draining else None,
            )
        )
    return tuple(out)


def fragmentation_table(encoded: Encoded, free_gpus: Ints) -> dict[str, Any]:
    """Return how broken up free GPUs (int64[N]) are: by level the largest gang, and what is stranded.

    Definitions: `solver.fragmentation`. Stranded by what waits in this snapshot.
    """
    state = encoded.state
    found = measure(state, free_gpus, queued(state))
    names = {Level.NODE: "node", Level.NONE: "cluster", **dict(enumerate(encoded.names.levels))}
    return {
        "free_gpus": found.free_gpus,
        "sliver_nodes": found.sliver_nodes,
        "sliver_gpus": found.sliver_gpus,
        "levels": {
            names[m.level]: {
                "largest_gang": m.largest_gang_gpus,
                "stranded": m.stranded_gpus,
                "unusable": m.unusable_gpus,
                "whole": m.whole_cells,
            }
            for m in found.levels
        },
    }
