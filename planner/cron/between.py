"""Between two rounds: new work that fits beside the standing plan starts at once, without a solver.

Only workloads that no round has seen are looked at; whoever a round told to wait waits for the next one.
Nothing that the plan protects or promises is touched (`planner.place`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from planner.encode import accounts_of
from planner.model.plan import ActionName, Decision, Plan, Reason, SolverSummary
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.model.workload import Workload, WorkloadState
from planner.place import Result, Standing, after

STANDS: dict[WorkloadState, tuple[ActionName, Reason]] = {
    "running": ("keep", Reason("Standing", "runs on until the next round")),
    "stopping": ("preempt", Reason("Standing", "is leaving its nodes")),
    "pending": ("wait", Reason("NextRound", "waits for the next round")),
}

OVERDUE = Reason("PromiseMoved", "is promised a start, which has fallen due: the next round sees to it")


def place_new(site: Site, snapshot: Snapshot, new: Collection[str]) -> Plan:
    """Return a plan that leaves all as it stands, and starts what is new and fits, the oldest first."""
    paths = accounts_of(site)
    charged = (replace(w, allocation=paths.get(w.allocation, w.allocation)) for w in snapshot.workloads)
    snapshot = replace(snapshot, workloads=tuple(charged))
    arrived = sorted((w for w in snapshot.workloads if w.id in new), key=lambda w: (w.submitted_s, w.id))
    rest = tuple(w for w in snapshot.workloads if w.id not in new)
    here = replace(snapshot, workloads=rest)
    decided: dict[str, Decision] = {}
    for workload in arrived:
        plan = _plan(here, {})
        result = Standing(site, here, plan).place(workload)
        told = (result.decision, *result.preempted)
        decided |= {d.workload: d for d in told}
        if result.decision.action == "start":
            here = _after(here, workload, result)
        else:
            here = replace(here, workloads=(*here.workloads, workload))
    return _plan(snapshot, decided)


def _after(snapshot: Snapshot, workload: Workload, result: Result) -> Snapshot:
    """Return the world with a new workload in its place, and without those that made room."""
    there = replace(snapshot, workloads=(*snapshot.workloads, workload))
    return after(there, _plan(there, {d.workload: d for d in (result.decision, *result.preempted)}))


def _plan(snapshot: Snapshot, decided: dict[str, Decision]) -> Plan:
    """Return a plan with these decisions, and all else as it stands; what is overdue is promised for now."""
    promised_s = {r.workload: r.start_s for r in snapshot.reservations}
    reservations = (replace(r, start_s=max(r.start_s, snapshot.time_s)) for r in snapshot.reservations)
    return Plan(
        time_s=snapshot.time_s,
        solver=SolverSummary("place", "feasible", 0.0, None, None, 0.0),
        decisions=tuple(
            decided.get(w.id) or _stands(w, promised_s.get(w.id), snapshot.time_s) for w in snapshot.workloads
        ),
        reservations=tuple(reservations),
        nodes=(),
        shares=(),
        fragmentation={},
        warnings=(),
    )


def _stands(w: Workload, promised_s: int | None, now_s: int) -> Decision:
    """Return the decision that leaves a workload as it is; a promise that is due waits for the round."""
    action, reason = STANDS[w.state]
    expected_s = promised_s if action == "wait" else None
    if expected_s is not None and expected_s < now_s:
        expected_s, reason = now_s, OVERDUE
    return Decision(w.id, action, reason, w.allocation, w.gpus, w.occupancy, expected_start_s=expected_s)


def newcomers(workloads: Sequence[Workload], seen: Collection[str]) -> set[str]:
    """Return what waits and has not been seen."""
    return {w.id for w in workloads if w.state == "pending" and w.id not in seen}
