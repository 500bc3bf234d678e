"""Metrics of the newest round, in the text format of Prometheus: for node_exporter's textfile collector."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from planner.atomic import write_atomic
from planner.model.plan import Plan, SolverSummary
from planner.model.snapshot import Snapshot


def write(path: Path, registry: CollectorRegistry) -> None:
    """Write metrics, whole or not at all."""
    write_atomic(path, generate_latest(registry))


LAST_SUCCESS = "last_success_time_seconds"


def last_success_s(path: Path) -> float | None:
    """Return when a round was last carried out, by the metrics that are there; None where they do not say."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        text = "".join(line for line in lines if line.startswith(f"gangplan_{LAST_SUCCESS} "))
        return next((s.value for f in text_string_to_metric_families(text) for s in f.samples), None)
    except (OSError, ValueError):
        return None


def of_failure(time_s: int, exit_code: int, success_s: float | None) -> CollectorRegistry:
    """Return the metrics of a round that came to nothing; `success_s`: of the last success, None = never."""
    registry = _of_end(time_s, exit_code)
    if success_s is not None:
        _last_success(registry, success_s)
    return registry


def _of_end(time_s: int, exit_code: int) -> CollectorRegistry:
    registry = CollectorRegistry()
    _gauge(registry, "round_exit_code", "Exit code of the newest round; 0 = it was carried out.", exit_code)
    _gauge(registry, "round_time_seconds", "When the newest round ended, epoch seconds.", time_s)
    return registry


def of_round(
    plan: Plan, snapshot: Snapshot, asked: str, time_s: int, seconds: float, failed: int
) -> CollectorRegistry:
    """Return the metrics of a round that was carried out.

    `asked`: the back end of the site file; `failed`: starts that the source did not do.
    """
    registry = _of_end(time_s, 0)
    _last_success(registry, time_s)
    _maker(registry, plan.solver, asked)
    _gauge(registry, "round_seconds", "How long the newest round took.", seconds)
    _gauge(registry, "solve_seconds", "How long its plan took to make.", plan.solver.seconds)
    _gauge(registry, "failed_starts", "Starts that the source did not carry out.", failed)
    _gauge(registry, "plan_warnings", "Warnings in the plan.", len(plan.warnings))
    _gauge(registry, "promises", "Workloads with a promised start.", len(plan.reservations))
    if plan.solver.gap is not None:
        _gauge(registry, "solve_gap", "Distance of the plan from its bound, relative.", plan.solver.gap)
    _decisions(registry, plan)
    _nodes(registry, snapshot)
    _allocations(registry, plan)
    _fragmentation(registry, plan)
    return registry


def _last_success(registry: CollectorRegistry, time_s: float) -> None:
    _gauge(registry, LAST_SUCCESS, "When a round was last carried out, epoch seconds.", time_s)


def _maker(registry: CollectorRegistry, solver: SolverSummary, asked: str) -> None:
    """Say which rung made the plan; a greedy plan that is proven, or decided nothing, is no fallback."""
    about = "1 for the rung that made the plan, and what is known of it."
    made = Gauge("gangplan_plan_by", about, ["backend", "status"], registry=registry)
    made.labels(solver.backend, solver.status).set(1)
    fell = asked != "greedy" and solver.backend == "greedy" and solver.status != "optimal"
    about = "1 where a solver was asked for and the greedy plan stood, unproven."
    _gauge(registry, "fallback", about, int(fell))


def _gauge(registry: CollectorRegistry, name: str, about: str, value: float) -> None:
    Gauge(f"gangplan_{name}", about, registry=registry).set(value)


def _decisions(registry: CollectorRegistry, plan: Plan) -> None:
    many = Gauge("gangplan_decisions", "Decisions of the newest plan.", ["action"], registry=registry)
    gpus = Gauge("gangplan_decided_gpus", "GPUs that they are about.", ["action"], registry=registry)
    for action in ("start", "keep", "preempt", "wait", "reject"):
        of_action = [d for d in plan.decisions if d.action == action]
        many.labels(action).set(len(of_action))
        gpus.labels(action).set(sum(d.gpus for d in of_action))


def _nodes(registry: CollectorRegistry, snapshot: Snapshot) -> None:
    nodes = Gauge("gangplan_nodes", "Nodes by state.", ["state"], registry=registry)
    there = Gauge("gangplan_gpus", "GPUs of nodes by state.", ["state"], registry=registry)
    many, gpus = Counter[str](), Counter[str]()
    for node in (n for c in snapshot.clusters for n in c.nodes):
        many[node.state] += 1
        gpus[node.state] += node.gpus
    for state in ("up", "draining", "down"):
        nodes.labels(state).set(many[state])
        there.labels(state).set(gpus[state])


ALLOCATION = {
    "share": "Part of the clusters that is its own.",
    "ratio": "Usage over entitlement in the window.",
    "usage": "Budget units charged in the window.",
    "entitled": "Budget units that its share came to in the window.",
    "owed": "Budget units owed in the window: the smaller of share and demand, hour by hour.",
    "delivered": "Budget units received in the window.",
    "running_gpus": "GPUs that it holds, allocated.",
    "unallocated_gpus": "GPUs that it holds, unallocated.",
    "pending_gpus": "GPUs that its waiting workloads ask for.",
}


def _allocations(registry: CollectorRegistry, plan: Plan) -> None:
    for name, about in ALLOCATION.items():
        gauge = Gauge(f"gangplan_allocation_{name}", about, ["allocation"], registry=registry)
        for row in plan.shares:
            value = getattr(row, name)
            if value is not None:
                gauge.labels(row.allocation).set(value)


def _fragmentation(registry: CollectorRegistry, plan: Plan) -> None:
    found = plan.fragmentation
    _gauge(registry, "free_gpus", "GPUs that the plan leaves free.", found["free_gpus"])
    largest = Gauge(
        "gangplan_largest_gang_gpus", "Largest gang that still fits.", ["level"], registry=registry
    )
    stranded = Gauge(
        "gangplan_stranded_gpus", "Free GPUs where nothing that waits fits.", ["level"], registry=registry
    )
    for level, amounts in found["levels"].items():
        largest.labels(level).set(amounts["largest_gang"])
        stranded.labels(level).set(amounts["stranded"])
