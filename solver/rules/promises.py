"""Rules of promises: what is promised can be kept, and what was promised is kept."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import numpy as np

from solver.rules import Broken
from solver.rules.places import UNITS
from solver.rules.world import Parts, World, amounts, does, held_by, joined, standing, total
from solver.state import Action, Bools


def promise(world: World) -> Iterator[Broken]:
    """No start is promised to what runs, in the past, or where something protected or promised stands."""
    plan, now_s = world.plan, world.state.now_s
    if not len(plan.promised):
        return
    for j, start_s in zip(plan.promised.tolist(), plan.promised_start_s.tolist(), strict=True):
        if plan.action[j] not in (Action.WAIT, Action.PREEMPT):
            yield Broken("promise", j, -1, f"promised a start, and its action is {plan.action[j]}")
        if start_s < now_s:
            yield Broken("promise", j, -1, f"promised a start {now_s - start_s} s ago")
    yield from _room(world)
    yield from _limit(world)


def _room(world: World) -> Iterator[Broken]:
    """Protected work and promises together fit every node at every promised start."""
    state, plan = world.state, world.plan
    w = state.workloads
    stays = standing(state, state.protected & world.kept)
    claims = joined(stays, world.starts, world.promised)
    protection_s = np.where(w.allocated, w.min_runtime_s, 0)
    promised_s = np.repeat(plan.promised_start_s, np.diff(plan.promised_placement.ptr))
    from_s = np.concatenate([np.full(len(stays.node) + len(world.starts.node), state.now_s), promised_s])
    until_s = np.concatenate(
        [
            w.protected_until_s[stays.workload],
            state.now_s + protection_s[world.starts.workload],
            promised_s + np.maximum(w.min_runtime_s[world.promised.workload], 1),
        ]
    )
    touched = np.unique(world.promised.node)  # elsewhere less stands than does now
    column = np.full(state.nodes.count, -1)
    column[touched] = np.arange(len(touched))
    start_s = np.unique(plan.promised_start_s)
    then = start_s[:, None]
    when, claim = np.nonzero((from_s <= then) & (then < until_s) & (column[claims.node] >= 0))
    cell = when * len(touched) + column[claims.node[claim]]  # one for each start and node
    for unit, row, size in zip(UNITS, amounts(state, claims), world.size, strict=True):
        load = total(cell, row[claim], len(start_s) * len(touched)).reshape(len(start_s), -1)
        for t, k in np.argwhere(load > size[touched]).tolist():
            i = int(touched[k])
            detail = f"{load[t, k]} of {size[i]} {unit} protected or promised at {{t{start_s[t]}}}"
            yield Broken("promise", -1, i, detail)


def _limit(world: World) -> Iterator[Broken]:
    """Promises keep limits together with what is kept and started, as if all of them began at once.

    A limit that was lowered breaks no promise: what was promised or ran before may start once more.
    """
    state = world.state
    w, old = state.workloads, state.promises.workload
    due = joined(standing(state, world.kept), world.starts, world.promised)
    new = w.pending.copy()
    new[old] = False
    fresh = held_by(state, _of(joined(world.starts, world.promised), new))
    total_gpus, promised = held_by(state, due), held_by(state, world.promised)
    limits = state.budgets.limit_gpus
    for v in np.flatnonzero((limits >= 0) & (promised > 0) & (fresh > 0) & (total_gpus > limits)).tolist():
        detail = f"{total_gpus[v]} GPUs with the {promised[v]} that are promised, limit {limits[v]}"
        yield Broken("promise", -1, -1, f"{{b{v}}} would hold {detail}")


def _of(parts: Parts, wanted: Bools) -> Parts:
    """Return the parts of the wanted workloads, bool[W]."""
    mine = wanted[parts.workload]
    return Parts(parts.workload[mine], parts.node[mine], parts.gpus[mine], parts.replicas[mine])


def promise_moved(world: World, explained: AbstractSet[int]) -> Iterator[Broken]:
    """No old promise falls or moves later, unless the plan says why.

    A rejection says so by itself, and what runs has had its start.
    """
    plan, old = world.plan, world.state.promises
    if not len(old.workload):
        return
    now_promised = dict(zip(plan.promised.tolist(), plan.promised_start_s.tolist(), strict=True))
    settled = (world.starting | does(plan, Action.REJECT) | world.state.workloads.running)[old.workload]
    for j, start_s in zip(old.workload[~settled].tolist(), old.start_s[~settled].tolist(), strict=True):
        kept = j in now_promised and now_promised[j] <= start_s
        if not (kept or j in explained):
            yield Broken("promise_moved", j, -1, f"promised {{t{start_s}}}, now {_when(now_promised.get(j))}")


def _when(start_s: int | None) -> str:
    return "nothing" if start_s is None else f"{{t{start_s}}}"
