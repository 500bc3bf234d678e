"""The plan file: a plan to JSON-able data and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner.model.plan import Advice, Decision, Move, NodePlan, Plan, Reason, ShareRow, SolverSummary
from planner.model.snapshot import Reservation
from planner.model.workload import Placement
from planner.schema.base import json_schema, validate
from planner.schema.plan import (
    AdviceEntry,
    DecisionEntry,
    NodePlanEntry,
    PlanEntry,
    ShareEntry,
    SolverSummaryEntry,
)
from planner.schema.snapshot import PlacementEntry, ReservationEntry
from planner.schema.types import plain
from planner.strict import parse, read_text
from planner.units import format_time

# -- writing -----------------------------------------------------------------------------------------


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """Return a plan as its file holds it, keys always in the same order."""
    return {
        "time": format_time(plan.time_s),
        "solver": {**vars(plan.solver), "notes": list(plan.solver.notes)},
        "decisions": [decision_to_dict(decision) for decision in plan.decisions],
        "reservations": [_reservation_dict(promise) for promise in plan.reservations],
        "nodes": [{"node": n.node, "state": n.state, "empty_at": _time(n.empty_at_s)} for n in plan.nodes],
        "shares": [dict(vars(row)) for row in plan.shares],
        "fragmentation": plan.fragmentation,
        "warnings": list(plan.warnings),
        "defragmentation": [_advice_dict(advice) for advice in plan.defragmentation],
    }


_ALWAYS = {
    "start": {"occupancy", "placement", "protected_until"},
    "keep": {"occupancy", "placement", "protected_until"},
    "preempt": {"for", "lost_gpu_hours"},
    "wait": {"expected_start"},
    "reject": set(),
}
"""By action: keys that stand even where they are empty; the others stand where they say something."""


def decision_to_dict(decision: Decision) -> dict[str, Any]:
    """Return one decision; what does not belong to its action and is empty is left out."""
    details = {
        "occupancy": decision.occupancy,
        "placement": _placement_list(decision.placement),
        "protected_until": _time(decision.protected_until_s),
        "expected_start": _time(decision.expected_start_s),
        "for": list(decision.victims_for),
        "lost_gpu_hours": decision.lost_gpu_hours,
    }
    always = _ALWAYS[decision.action]
    return {
        "workload": decision.workload,
        "action": decision.action,
        "allocation": decision.allocation,
        "gpus": decision.gpus,
        **{k: v for k, v in details.items() if k in always or v not in (None, [])},
        "reason": {"code": decision.reason.code, "text": decision.reason.text},
    }


def _reservation_dict(promise: Reservation) -> dict[str, Any]:
    """Return one promise, in the form that a snapshot takes back."""
    return {
        "workload": promise.workload,
        "start_at": format_time(promise.start_s),
        "placement": _placement_list(promise.placement),
    }


def _advice_dict(advice: Advice) -> dict[str, Any]:
    """Return one advice."""
    return {
        "workload": advice.workload,
        "placement": _placement_list(advice.placement),
        "moves": [
            {"workload": m.workload, "to": _placement_list(m.to), "lost_gpu_hours": m.lost_gpu_hours}
            for m in advice.moves
        ],
        "lost_gpu_hours": advice.lost_gpu_hours,
    }


def _placement_list(placement: tuple[Placement, ...]) -> list[dict[str, Any]]:
    """Return a placement as files hold it."""
    return [{"node": part.node, "gpus": part.gpus} for part in placement]


def _time(time_s: int | None) -> str | None:
    """Return a time as files hold it, or None."""
    return None if time_s is None else format_time(time_s)


# -- reading -----------------------------------------------------------------------------------------


def load_plan(path: Path) -> Plan:
    """Read a plan file; InputError with every fault of its form. Whether it is any good, `verify` says."""
    return parse_plan(read_text(path), str(path))


def parse_plan(text: str, name: str) -> Plan:
    """Read the text of a plan; `name` is what error messages call it."""
    document = parse(text, name)
    entry = validate(document, PlanEntry, fillers={})
    document.finish()
    assert entry is not None
    return Plan(
        time_s=entry.time,
        solver=_to_summary(entry.solver),
        decisions=tuple(map(_to_decision, entry.decisions)),
        reservations=tuple(map(_to_reservation, entry.reservations)),
        nodes=tuple(map(_to_node, entry.nodes)),
        shares=tuple(map(_to_share, entry.shares)),
        fragmentation=plain(entry.fragmentation),
        warnings=tuple(entry.warnings),
        defragmentation=tuple(map(_to_advice, entry.defragmentation)),
    )


def schema() -> dict[str, Any]:
    """Return the JSON Schema of plans, for editors."""
    return json_schema(PlanEntry, "gangplan plan")


def _to_summary(entry: SolverSummaryEntry) -> SolverSummary:
    return SolverSummary(**{**vars(entry), "notes": tuple(entry.notes)})


def _to_node(entry: NodePlanEntry) -> NodePlan:
    return NodePlan(entry.node, entry.state, entry.empty_at)


def _to_share(entry: ShareEntry) -> ShareRow:
    return ShareRow(**vars(entry))


def _to_reservation(entry: ReservationEntry) -> Reservation:
    return Reservation(entry.workload, entry.start_at, _to_placement(entry.placement))


def _to_placement(parts: list[PlacementEntry]) -> tuple[Placement, ...]:
    return tuple(Placement(part.node, part.gpus) for part in parts)


def _to_advice(entry: AdviceEntry) -> Advice:
    moves = tuple(Move(m.workload, _to_placement(m.to), m.lost_gpu_hours) for m in entry.moves)
    return Advice(entry.workload, _to_placement(entry.placement), moves, entry.lost_gpu_hours)


def _to_decision(entry: DecisionEntry) -> Decision:
    return Decision(
        workload=entry.workload,
        action=entry.action,
        reason=Reason(entry.reason.code, entry.reason.text),
        allocation=entry.allocation,
        gpus=entry.gpus,
        occupancy=entry.occupancy,
        placement=_to_placement(entry.placement),
        protected_until_s=entry.protected_until,
        expected_start_s=entry.expected_start,
        victims_for=tuple(entry.victims_for),
        lost_gpu_hours=entry.lost_gpu_hours,
    )
