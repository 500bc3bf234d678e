"""Rules of shape: a decision for everybody, in arrays that agree with each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from solver.plan import Decisions
from solver.rules import Broken
from solver.rules.world import World, ask, does, domain_of, size_of, slots, total
from solver.state import Action, Ints, Level, Spread, State, Status

LEGAL = np.zeros((len(Status), len(Action)), dtype=bool)
"""What may be decided for a workload: bool[`Status`, `Action`]."""
LEGAL[Status.PENDING, [Action.START, Action.WAIT, Action.REJECT]] = True
LEGAL[Status.RUNNING, [Action.KEEP, Action.PREEMPT]] = True
LEGAL[Status.STOPPING, [Action.KEEP, Action.PREEMPT]] = True


def malformed(state: State, plan: Decisions) -> Iterator[Broken]:
    """Arrays have the lengths that belong together, and point at workloads and nodes that exist."""
    count = state.workloads.count
    if plan.action.shape != (count,) or not _within(plan.action, len(Action)):
        yield Broken("malformed", -1, -1, f"{len(plan.action)} actions for {count} workloads")
    if plan.promised_start_s.shape != plan.promised.shape or not _within(plan.promised, count):
        yield Broken(
            "malformed", -1, -1, f"{len(plan.promised)} promises, {len(plan.promised_start_s)} times"
        )
    if len(np.unique(plan.promised)) < len(plan.promised):
        yield Broken("malformed", -1, -1, f"{len(plan.promised)} promises, some to the same workload")
    named = [j for victim, gainers in plan.victims_for.items() for j in (victim, *gainers)]
    if not _within(np.array(named, dtype=np.int64), count):
        yield Broken("malformed", -1, -1, f"victims and gainers beyond {count} workloads")
    for spread, gangs in ((plan.placement, count), (plan.promised_placement, len(plan.promised))):
        if not _well_formed(spread, gangs):
            yield Broken("malformed", -1, -1, f"placements that do not add up to {gangs} gangs")
        elif not _within(spread.node, state.nodes.count):
            yield Broken("malformed", -1, -1, f"places beyond {state.nodes.count} nodes")


def _within(index: Ints, count: int) -> bool:
    return bool(((index >= 0) & (index < count)).all())


def _well_formed(spread: Spread, gangs: int) -> bool:
    ptr, parts = spread.ptr, len(spread.node)
    if len(ptr) != gangs + 1 or ptr[0] != 0 or ptr[-1] != parts or (np.diff(ptr) < 0).any():
        return False
    return len(spread.gpus) == len(spread.replicas) == parts


def action(world: World) -> Iterator[Broken]:
    """Each workload has a legal action for its status, and a place exactly if it starts."""
    w, plan = world.state.workloads, world.plan
    legal = LEGAL[w.status, plan.action]
    starts = world.starting
    places = np.diff(plan.placement.ptr)
    for j in np.flatnonzero(~legal).tolist():
        yield Broken("action", j, -1, f"status {w.status[j]}, action {plan.action[j]}")
    for j in np.flatnonzero(legal & ((places > 0) != starts)).tolist():
        yield Broken("action", j, -1, f"action {plan.action[j]} with {places[j]} places")
    for j in np.flatnonzero(starts & (w.leaf < 0)).tolist():
        yield Broken("action", j, -1, "starts, and its allocation is unknown")


def reject(world: World) -> Iterator[Broken]:
    """Nothing is rejected that fits the inventory, empty and healthy, and every limit above it."""
    w, b = world.state.workloads, world.state.budgets
    key = (w.replicas, w.gpus_per_replica, w.cpus_milli, w.memory_bytes, w.required, w.segment)
    fits: dict[tuple[bytes, ...], bool] = {}
    rejected = does(world.plan, Action.REJECT) & w.pending
    for j in np.flatnonzero(rejected & (w.leaf >= 0)).tolist():
        if any(0 <= b.limit_gpus[v] < w.gpus[j] for v in b.path(int(w.leaf[j]))):
            continue
        like = (*(x[j].tobytes() for x in key), w.pool_ok[j].tobytes())
        if like not in fits:
            fits[like] = _fits_empty(world.state, j)
        if fits[like]:
            yield Broken("reject", j, -1, f"{w.replicas[j]} x {w.gpus_per_replica[j]} GPUs fit the inventory")


def _fits_empty(state: State, j: int) -> bool:
    n, w = state.nodes, state.workloads
    replicas, segment, pools = int(w.replicas[j]), int(w.segment[j]), len(n.pool_cluster)
    room = np.minimum(slots(size_of(state), ask(state, j)), replicas)
    room[~w.pool_ok[j, n.pool]] = 0
    if w.required[j] == Level.NONE:
        return bool((total(n.pool, room, pools) >= replicas).any())
    domain = domain_of(state, np.full(n.count, w.required[j]), np.arange(n.count))
    room[domain < 0] = 0
    cells, cell = np.unique(domain * pools + n.pool, return_inverse=True)
    inside = total(cell, room, len(cells))
    if segment == 0:
        return bool((inside >= replicas).any())
    whole = total(cells % pools, inside // segment * segment, pools)
    return replicas % segment == 0 and bool((whole >= replicas).any())
