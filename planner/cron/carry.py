"""Carrying a plan out: nodes, then victims, then starts, and the lease is shown before each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from planner.cron import journal
from planner.cron.fresh import Fresh
from planner.cron.health import Health
from planner.cron.hooks import call_repair
from planner.model.plan import Decision, Plan
from planner.sources.base import Source


@dataclass(frozen=True)
class Outcome:
    """What became of a plan.

    Attributes
    ----------
    started_s, stopped_s : dict of str to int, epoch seconds
    failed : dict of str to str
        Starts that the source did not carry out, and why.
    repaired : tuple of str
        Nodes whose repair was called for.
    """

    started_s: Mapping[str, int] = field(default_factory=dict)
    stopped_s: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    repaired: tuple[str, ...] = ()


def carry_out(
    source: Source,
    fresh: Fresh,
    health: Health,
    on_empty: Sequence[str],
    show_lease: Callable[[], None],
) -> Outcome:
    """Carry out what of a plan is still true.

    `show_lease` raises LockedError where another host has taken over: nothing more is done then.
    """
    if health.drain or health.resume:
        show_lease()
        source.drain(health.drain)
        for node, reason in health.drain.items():
            journal.tell("drained", node=node, reason=reason)
        source.resume(health.resume)
        for node in health.resume:
            journal.tell("resumed", node=node, reason="well for run.health.settle")
    stopped_s: Mapping[str, int] = {}
    if fresh.preempt:
        show_lease()
        stopped_s = source.preempt(fresh.preempt)
    started_s: Mapping[str, int] = {}
    failed: Mapping[str, str] = {}
    if fresh.start:
        show_lease()
        started = source.start(fresh.start)
        started_s, failed = started.at_s, started.failed
    return Outcome(started_s, stopped_s, failed, _repaired(health, on_empty))


def _repaired(health: Health, on_empty: Sequence[str]) -> tuple[str, ...]:
    """Call for the repair of nodes that have become empty; return those where it was taken up."""
    done = []
    for node, reason in health.empty.items() if on_empty else ():
        fault = call_repair(on_empty, node, reason)
        if fault is None:
            done.append(node)
            journal.tell("repair called", node=node, reason=reason)
        else:
            journal.warn("repair call failed", node=node, fault=fault)
    return tuple(done)


def report(plan: Plan, fresh: Fresh, outcome: Outcome, number: int) -> None:
    """Write what became of every decision that changes something into the journal."""
    for d in plan.decisions:
        if d.action not in ("start", "preempt"):
            continue
        if d.workload in fresh.dropped:
            journal.tell("dropped", round=number, **_facts(d), why=fresh.dropped[d.workload])
        elif d.workload in outcome.failed:
            journal.warn("start failed", round=number, **_facts(d), why=outcome.failed[d.workload])
        elif d.workload in outcome.started_s or d.workload in outcome.stopped_s:
            done = "started" if d.action == "start" else "preempted"
            journal.tell(done, round=number, **_facts(d), nodes=[p.node for p in d.placement])


def _facts(d: Decision) -> dict[str, object]:
    return {
        "workload": d.workload,
        "allocation": d.allocation,
        "gpus": d.gpus,
        "code": d.reason.code,
        "reason": d.reason.text,
    }
