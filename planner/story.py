"""The whole story of one workload, from a plan alone."""

from __future__ import annotations

from planner.errors import InputError
from planner.hostlist import fold
from planner.model.plan import Advice, Decision, Plan, ShareRow
from planner.units import format_time
from planner.words import count, some


def story(plan: Plan, workload: str) -> list[tuple[str, str]]:
    """Return labelled lines about one workload: what happens to it, why, and how its allocation stands.

    Raises
    ------
    InputError
        The plan does not decide on this workload, nor say why.
    """
    decision = next((d for d in plan.decisions if d.workload == workload), None)
    said = [("warning", w) for w in plan.warnings if w.startswith((f"{workload}:", f"{workload} "))]
    if decision is None and said:
        return [("workload", workload), ("decision", f"none at {format_time(plan.time_s)}"), *said]
    if decision is None:
        close = [d.workload for d in plan.decisions if workload in d.workload][:3]
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        raise InputError(
            [
                f"the plan of {format_time(plan.time_s)} does not know workload {workload!r}: it came or "
                f"ended since, or may not begin yet (a time, a dependency, the limit of its array){hint}"
            ]
        )
    size = count(decision.gpus, "GPU")
    lines = [
        ("workload", f"{workload}, {size} for {decision.allocation}" if decision.allocation else workload),
        ("decision", f"{decision.action} ({decision.reason.code}) at {format_time(plan.time_s)}"),
        ("because", decision.reason.text),
    ]
    lines += _times(plan, decision)
    lines += _others(plan, decision)
    lines += _advice(plan, decision)
    row = next((s for s in plan.shares if s.allocation == decision.allocation), None)
    if row is not None:
        lines += [("allocation", _standing(plan, row))]
    return lines + said


def _times(plan: Plan, d: Decision) -> list[tuple[str, str]]:
    lines = []
    if d.placement:
        lines.append(("nodes", fold([p.node for p in d.placement])))
    if d.protected_until_s is not None:
        lines.append(("protected", f"until {format_time(d.protected_until_s)}"))
    promise = next((r for r in plan.reservations if r.workload == d.workload), None)
    if promise is not None:
        where = fold([p.node for p in promise.placement])
        lines.append(("promised", f"a start at {format_time(promise.start_s)} on {where}"))
    elif d.expected_start_s is not None:
        lines.append(
            ("expected", f"a start at {format_time(d.expected_start_s)}, if nobody better funded comes")
        )
    elif d.action == "wait":
        lines.append(("expected", "no start can be forecast now"))
    return lines


def _others(plan: Plan, d: Decision) -> list[tuple[str, str]]:
    """Return who made room for whom."""
    lines = []
    if d.victims_for:
        lines.append(("made room for", ", ".join(d.victims_for)))
    victims = [v.workload for v in plan.decisions if d.workload in v.victims_for]
    if victims:
        lines.append(("room made by", ", ".join(victims)))
    if d.lost_gpu_hours is not None:
        lines.append(("lost work", f"{d.lost_gpu_hours:.2f} GPU-hours"))
    return lines


def _advice(plan: Plan, d: Decision) -> list[tuple[str, str]]:
    """Return which moves would let it start, and for whom it could be moved itself, the best gang first."""
    mine = [a for a in plan.defragmentation if a.workload == d.workload]
    others = [a for a in plan.defragmentation if any(m.workload == d.workload for m in a.moves)]
    lines = [("could start", advice_text(a)) for a in mine[:1]]
    return lines + [("could move", f"{a.workload} could start {advice_text(a)}") for a in others[:1]]


def advice_text(advice: Advice) -> str:
    """Say what would have to move, whereto, and what that would throw away.

    Who moves has to be held as well: it may rank first, and would be started in its old place again.
    """
    elsewhere = [m.workload for m in advice.moves if m.to]
    waits = [m.workload for m in advice.moves if not m.to]
    parts = [f"{some(elsewhere)} could then go on elsewhere"] if elsewhere else []
    parts += [f"{some(waits)} would wait"] if waits else []
    who = some([m.workload for m in advice.moves])
    where = fold([p.node for p in advice.placement])
    held = (
        f"now on {where}, if {who} {'were' if len(advice.moves) > 1 else 'was'} requeued and held until then"
    )
    lost = f"{advice.lost_gpu_hours:.1f} GPU-hours of work would be lost"
    return f"{held}; {', '.join(parts)}; {lost}"


def _standing(plan: Plan, row: ShareRow) -> str:
    ratio = "no share" if row.ratio is None else f"{row.ratio:.2f} of its share"
    return (
        f"{row.allocation} has had {ratio} ({row.usage:.0f} of {row.entitled:.0f} budget units), "
        f"number {row.rank} of {len(plan.shares)} by ratio; {count(row.running_gpus, 'GPU')} allocated, "
        f"{row.unallocated_gpus} unallocated, {row.pending_gpus} pending"
    )
