"""A plan against its snapshot: its names become decisions in arrays, and the checker has the last word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from planner.encode import Encoded, Names, encode
from planner.model.budget import Budget
from planner.model.plan import ActionName, Decision, Plan
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.model.workload import Placement
from planner.strangers import strangers
from planner.units import format_time
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

MOVED_CODES = ("PromiseMoved", "PromiseLost")
"""Codes of the reasons that say why an old promise is not kept."""


def verify(snapshot: Snapshot, plan: Plan, site: Site | None = None) -> list[str]:
    """Return every broken rule in words; empty when the plan holds.

    A plan for a later moment than the snapshot's is judged at its own time. Without a site the shares that
    the plan itself names and the default contract are taken, and limits are not looked at.
    """
    if plan.time_s < snapshot.time_s:
        times = f"{format_time(plan.time_s)}, before the snapshot's {format_time(snapshot.time_s)}"
        return [f"stale: the plan is for {times}"]
    unread = strangers(snapshot, plan)
    if unread:
        return unread
    encoded = encode(site or _site_of(plan), replace(snapshot, time_s=plan.time_s))
    explained = {encoded.names.index[d.workload] for d in plan.decisions if _says_why_later(d)}
    over_limit = {d.workload for d in plan.decisions if site is None and d.reason.code == "OverLimit"}
    found = [
        broken_text(encoded.names, b)
        for b in check(encoded.state, _decisions(encoded, plan), explained)
        if b.rule != "reject" or encoded.names.workloads[b.workload].id not in over_limit
    ]
    promised = {r.workload: r.start_s for r in plan.reservations}
    for d in plan.decisions:
        found += [f"{d.workload}: {fault}" for fault in _misstated(encoded, d, promised.get(d.workload))]
    return found


def _says_why_later(d: Decision) -> bool:
    """Tell whether a decision states that an old promise moved or fell: what is stopping cannot start."""
    return d.reason.code in MOVED_CODES or (d.action == "preempt" and d.reason.code == "Stopping")


def broken_text(names: Names, broken: Broken) -> str:
    """Say a broken rule in names."""
    who = names.workloads[broken.workload].id if broken.workload >= 0 else ""
    where = names.nodes[broken.node].name if broken.node >= 0 else ""
    detail = re.sub(r"\{([wbplt])(-?\d+)\}", lambda m: _name(names, m[1], int(m[2])), broken.detail)
    return ": ".join(part for part in (who, where, broken.rule, detail) if part)


def _name(names: Names, kind: str, index: int) -> str:
    """Return what an index of a broken rule is called."""
    if kind == "w":
        return names.workloads[index].id
    if kind == "t":
        return format_time(index)
    if kind == "b":
        return names.budgets[index]
    if kind == "p":
        cluster, gpu_type = names.pools[index]
        return f"{gpu_type or 'untyped GPUs'} of {cluster}"
    return names.levels[index] if index >= 0 else "node"


def _site_of(plan: Plan) -> Site:
    """Return a site whose tree gives the plan's allocations the shares that the plan names."""
    shares = {s.allocation: Fraction(s.share) for s in plan.shares if all(s.allocation.split("/"))}
    return Site(_family("", shares))


def _family(above: str, shares: dict[str, Fraction]) -> tuple[Budget, ...]:
    """Return the budgets below a path; a budget weighs as much as the allocations in it together."""
    members: dict[str, dict[str, Fraction]] = {}
    for path, share in shares.items():
        members.setdefault(above + path.removeprefix(above).partition("/")[0], {})[path] = share
    family = []
    for path, inside in members.items():
        below = _family(f"{path}/", {p: share for p, share in inside.items() if p != path})
        family.append(Budget(path, sum(inside.values(), Fraction(0)), children=below))
    return tuple(family)


def _misstated(encoded: Encoded, d: Decision, promised_s: int | None) -> Iterator[str]:
    """Yield what a decision says that snapshot and contract do not bear out; what it leaves out is fine."""
    state, names = encoded.state, encoded.names
    j = names.index[d.workload]
    w, e = names.workloads[j], names.effective[j]
    if not d.reason.text.strip():
        yield f"{d.action} without a reason"
    if d.allocation not in ("", w.allocation) or d.gpus not in (0, w.gpus):
        yield f"{d.gpus} GPUs for {d.allocation}, and it is {w.gpus} GPUs for {w.allocation}"
    if d.action in ("start", "keep"):
        kind = "allocated" if e.allocated else "unallocated"
        if d.occupancy not in (None, kind):
            yield f"{d.action} as {d.occupancy}, and by its contract it is {kind}"
        ends_s = int(state.workloads.protected_until_s[j]) if state.protected[j] else None
        if d.action == "start" and e.allocated:
            ends_s = state.now_s + e.min_runtime_s
        if d.protected_until_s != ends_s and (d.action == "start" or d.protected_until_s is not None):
            yield f"protected until {_time(d.protected_until_s)}, and by its contract until {_time(ends_s)}"
    if d.action == "keep" and d.placement and Counter(d.placement) != Counter(w.placement):
        yield "kept elsewhere than it runs"
    if d.action == "wait" and promised_s not in (None, d.expected_start_s):
        yield f"expected at {_time(d.expected_start_s)}, and promised {_time(promised_s)}"


def _time(time_s: int | None) -> str:
    return "nothing" if time_s is None else format_time(time_s)


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
            victims[j] = [names.index[g] for g in d.victims_for]
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
