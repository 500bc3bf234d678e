"""A plan against its snapshot: its names become decisions in arrays, and the checker has the last word."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from planner.encode import Encoded, Names, encode
from planner.model.budget import Budget
from planner.model.plan import ActionName, Plan
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.model.workload import Placement
from solver.check import Broken, check
from solver.plan import Decisions
from solver.state import Action, Spread

ACTIONS: dict[ActionName, Action] = {
    "start": Action.START,
    "keep": Action.KEEP,
    "preempt": Action.PREEMPT,
    "wait": Action.WAIT,
    "reject": Action.REJECT,
}


def verify(snapshot: Snapshot, plan: Plan, site: Site | None = None) -> list[str]:
    """Return every broken rule in words; empty when the plan holds.

    Without a site the shares that the plan itself names and the default contract are taken.
    """
    encoded = encode(site or _site_of(plan), snapshot)
    unread = _unread(encoded.names, plan)
    if unread:
        return unread
    explained = {encoded.names.index[d.workload] for d in plan.decisions if "later" in d.reason.text}
    found = check(encoded.state, _decisions(encoded, plan), explained)
    silent = [
        f"{d.workload}: {d.action} without a reason" for d in plan.decisions if not d.reason.text.strip()
    ]
    return [broken_text(encoded.names, b) for b in found] + silent


def broken_text(names: Names, broken: Broken) -> str:
    """Say a broken rule in names."""
    who = names.workloads[broken.workload].id if broken.workload >= 0 else ""
    where = names.nodes[broken.node].name if broken.node >= 0 else ""
    return ": ".join(part for part in (who, where, broken.rule, broken.detail) if part)


def _site_of(plan: Plan) -> Site:
    """Return a site with the plan's allocations in one flat family, weighted by their shares."""
    return Site(tuple(Budget(s.allocation, Fraction(s.share)) for s in plan.shares))


def _unread(names: Names, plan: Plan) -> list[str]:
    """Return what the plan says of workloads and nodes that the snapshot does not have, or says twice."""
    out, seen = [], set()
    nodes = names.node_index
    for d in plan.decisions:
        if d.workload in seen:
            out.append(f"{d.workload}: decided twice")
        seen.add(d.workload)
        if d.workload not in names.index:
            out.append(f"{d.workload}: not in the snapshot")
        out += [f"{d.workload}: unknown node {p.node}" for p in d.placement if p.node not in nodes]
    out += [f"{w}: no decision" for w in names.index if w not in seen]
    for r in plan.reservations:
        if r.workload not in names.index:
            out.append(f"{r.workload}: promised a start, and not in the snapshot")
        out += [f"{r.workload}: unknown node {p.node}" for p in r.placement if p.node not in nodes]
    return out


def _decisions(encoded: Encoded, plan: Plan) -> Decisions:
    names, count = encoded.names, encoded.state.workloads.count
    action = np.full(count, int(Action.WAIT))
    starts: list[list[tuple[int, int, int]]] = [[] for _ in range(count)]
    victims: dict[int, list[int]] = {}
    for d in plan.decisions:
        j = names.index[d.workload]
        action[j] = ACTIONS[d.action]
        if d.action == "start":
            starts[j] = _parts(names, j, d.placement)
        if d.action == "preempt" and d.victims_for:
            victims[j] = [names.index[g] for g in d.victims_for if g in names.index]
    promised = sorted(plan.reservations, key=lambda r: names.index[r.workload])
    js = [names.index[r.workload] for r in promised]
    parts = [_parts(names, j, r.placement) for j, r in zip(js, promised, strict=True)]
    start_s = np.array([r.start_s for r in promised], dtype=np.int64)
    return Decisions(
        action, Spread.of(starts), victims, np.array(js, dtype=np.int64), start_s, Spread.of(parts)
    )


def _parts(names: Names, j: int, placement: tuple[Placement, ...]) -> list[tuple[int, int, int]]:
    """Return (node, GPUs, replicas); a remainder that is no whole replica stays visible in the GPUs."""
    each = names.workloads[j].gpus_per_replica
    return [(names.node_index[p.node], p.gpus, p.gpus // each if each else 1) for p in placement]
