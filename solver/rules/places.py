"""Rules of place: capacity, whole gangs, pools, topology, health and limits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from solver.rules import Broken
from solver.rules.world import Parts, World, domain_of, held_by, total
from solver.state import Ints, Level, NodeState, State

UNITS = ("GPUs", "thousandths of a CPU", "bytes")


def capacity(world: World) -> Iterator[Broken]:
    """No node gives out more than it has to starts, kept and stopping work together."""
    for unit, load, size in zip(UNITS, world.load, world.size, strict=True):
        for i in np.flatnonzero(load > size).tolist():
            yield Broken("capacity", -1, i, f"{load[i]} of {size[i]} {unit}")


def placement(state: State, parts: Parts) -> Iterator[Broken]:
    """Apply the rules of place to what starts, or is promised a start."""
    if not len(parts.node):
        return
    yield from gang(state, parts)
    yield from pool(state, parts)
    yield from topology(state, parts)
    yield from health(state, parts)


def gang(state: State, parts: Parts) -> Iterator[Broken]:
    """All replicas are placed, and every part is a whole number of them."""
    w = state.workloads
    each = w.gpus_per_replica[parts.workload]
    for k in np.flatnonzero((parts.replicas < 1) | (parts.gpus != parts.replicas * each)).tolist():
        yield _at("gang", parts, k, f"{parts.gpus[k]} GPUs for {parts.replicas[k]} replicas of {each[k]}")
    placed = total(parts.workload, parts.replicas, w.count)
    for j in np.unique(parts.workload).tolist():
        if placed[j] != w.replicas[j]:
            yield Broken("gang", j, -1, f"{placed[j]} of {w.replicas[j]} replicas placed")


def pool(state: State, parts: Parts) -> Iterator[Broken]:
    """No gang mixes clusters or GPU types, nor stands on one that it does not accept."""
    pools = state.nodes.pool[parts.node]
    for k in np.flatnonzero(~state.workloads.pool_ok[parts.workload, pools]).tolist():
        yield _at("pool", parts, k, f"pool {{p{pools[k]}}} is not accepted")
    for j, many in _mixed(parts.workload, pools):
        yield Broken("pool", j, -1, f"spans pools {_named('p', many)}")


def topology(state: State, parts: Parts) -> Iterator[Broken]:
    """No gang, or segment of one, spans domains of the level that it requires."""
    w = state.workloads
    level, segment = w.required[parts.workload], w.segment[parts.workload]
    domain = domain_of(state, level, parts.node)
    asks = level != int(Level.NONE)
    for k in np.flatnonzero(asks & (domain < 0)).tolist():
        yield _at("topology", parts, k, f"no domain at level {{l{level[k]}}}")
    whole = asks & (domain >= 0) & (segment == 0)
    for j, many in _mixed(parts.workload[whole], domain[whole]):
        yield Broken("topology", j, -1, f"spans {len(many)} domains of level {{l{w.required[j]}}}")
    cut = asks & (domain >= 0) & (segment > 0)
    if not cut.any():
        return
    pairs, pair = np.unique(np.stack([parts.workload[cut], domain[cut]]), axis=1, return_inverse=True)
    replicas = total(pair.ravel(), parts.replicas[cut], pairs.shape[1])
    for k in np.flatnonzero(replicas % np.maximum(w.segment[pairs[0]], 1)).tolist():
        j = int(pairs[0, k])
        yield Broken("topology", j, -1, f"{replicas[k]} replicas in a domain, segments of {w.segment[j]}")


def health(state: State, parts: Parts) -> Iterator[Broken]:
    """Nothing starts on a node that is not up."""
    for k in np.flatnonzero(~state.nodes.up[parts.node]).tolist():
        yield _at("health", parts, k, f"starts on a node in state {state.nodes.state[parts.node[k]]}")


def sick(world: World) -> Iterator[Broken]:
    """Nothing is kept on a node that is down, nor on a draining one unless it is protected."""
    up, down = int(NodeState.UP), int(NodeState.DOWN)
    leaves = np.where(world.state.protected, world.health == down, world.health != up)
    for j in np.flatnonzero(world.kept & leaves).tolist():
        yield Broken("health", j, -1, f"kept on a node in state {world.health[j]}")


def limit(world: World) -> Iterator[Broken]:
    """Nothing starts that exceeds a limit; a lowered limit evicts nobody and starts nothing."""
    state = world.state
    limits, starting = state.budgets.limit_gpus, held_by(state, world.starts)
    most = np.maximum(world.before, world.held)
    for v in np.flatnonzero((limits >= 0) & (starting > 0) & (most > limits)).tolist():
        held = f"{world.before[v]} GPUs held before, {world.held[v]} after, limit {limits[v]}"
        yield Broken("limit", -1, -1, f"{{b{v}}} starts {starting[v]} GPUs: {held}")


def _named(kind: str, indices: list[int]) -> str:
    return ", ".join(f"{{{kind}{i}}}" for i in indices)


def _mixed(workload: Ints, value: Ints) -> Iterator[tuple[int, list[int]]]:
    """Yield the workloads whose parts differ in `value`, each with the values it has."""
    first = np.zeros(workload.max(initial=-1) + 1, dtype=np.int64)
    first[workload[::-1]] = value[::-1]
    for j in np.unique(workload[value != first[workload]]).tolist():
        yield j, np.unique(value[workload == j]).tolist()


def _at(rule: str, parts: Parts, k: int, detail: str) -> Broken:
    return Broken(rule, int(parts.workload[k]), int(parts.node[k]), detail)
