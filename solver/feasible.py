"""What can never run here, and what can not start in this round whoever makes room."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from solver.buddy import shapes
from solver.state import Bools, Ints, Level, NodeState, State, Status


class Reject(IntEnum):
    """Why a pending workload can never run here; NO means that it can."""

    NO = 0
    UNKNOWN_ALLOCATION = 1
    UNKNOWN_LEVEL = 2
    NO_SUCH_POOL = 3
    BROKEN_SEGMENTS = 4
    OVER_LIMIT = 5
    REPLICA_TOO_LARGE = 6
    TOO_LARGE = 7


def rejections(state: State, js: Ints | None = None) -> Ints:
    """Return for pending workloads (all, or `js`) whether they can never run here, int64[W], `Reject`.

    NO for all others.
    Judged on the empty inventory with every node healthy: an outage rejects nobody. A gang that only fits a
    cluster by mixing its GPU types is not rejected either: it waits until one type is enough.
    """
    w, n = state.workloads, state.nodes
    out = np.zeros(w.count, dtype=np.int64)
    js = np.flatnonzero(w.status == Status.PENDING) if js is None else js
    huge = np.int64(1) << 50
    cpus = np.where(n.cpus_milli > 0, n.cpus_milli, huge)
    memory = np.where(n.memory_bytes > 0, n.memory_bytes, huge)
    most, replica = _room(state, js, n.pool_cluster[n.pool], (n.gpus, cpus, memory))
    out[js[most < w.replicas[js]]] = Reject.TOO_LARGE
    out[js[~replica]] = Reject.REPLICA_TOO_LARGE
    for v in np.flatnonzero(state.budgets.limit_gpus >= 0).tolist():
        below = np.array([v in state.budgets.path(int(leaf)) for leaf in w.leaf[js]], dtype=bool)
        out[js[below & (w.gpus[js] > state.budgets.limit_gpus[v])]] = Reject.OVER_LIMIT
    segment = np.where(w.required[js] == Level.NONE, 1, np.maximum(w.segment[js], 1))
    out[js[w.replicas[js] % segment != 0]] = Reject.BROKEN_SEGMENTS
    out[js[~w.pool_ok[js].any(axis=1)]] = Reject.NO_SUCH_POOL
    out[js[w.required[js] == Level.UNKNOWN]] = Reject.UNKNOWN_LEVEL
    out[js[w.leaf[js] < 0]] = Reject.UNKNOWN_ALLOCATION
    return out


def placeable(state: State) -> Bools:
    """Tell which pending work could start now if all that is interruptible made room, bool[W]."""
    w, n = state.workloads, state.nodes
    owner = np.repeat(np.arange(w.count), np.diff(w.placement.ptr))
    fixed = (state.protected | (w.status == Status.STOPPING))[owner]
    node, owner, reps = w.placement.node[fixed], owner[fixed], w.placement.replicas[fixed]
    huge = np.int64(1) << 50
    gpus, cpus = n.gpus.copy(), np.where(n.cpus_milli > 0, n.cpus_milli, huge)
    memory = np.where(n.memory_bytes > 0, n.memory_bytes, huge)
    np.subtract.at(gpus, node, w.placement.gpus[fixed])
    np.subtract.at(cpus, node, reps * w.cpus_milli[owner])
    np.subtract.at(memory, node, reps * w.memory_bytes[owner])
    gpus[n.state != NodeState.UP] = -1
    js = np.flatnonzero(w.status == Status.PENDING)
    out: Bools = w.status != Status.PENDING
    out[js] = _room(state, js, n.pool, (gpus, cpus, memory))[0] >= w.replicas[js]
    return out


def _room(state: State, js: Ints, pool: Ints, amounts: tuple[Ints, Ints, Ints]) -> tuple[Ints, Bools]:
    """Return how many replicas the best group takes of each gang, and whether any node takes one of them.

    Parameters
    ----------
    pool : int64[N]
        What a gang may not leave: its pool, or its cluster.
    amounts : GPUs, CPUs and memory of each node
        Negative GPUs: nothing may start there.
    """
    gpus, cpus, memory = amounts
    w = state.workloads
    size, pieces, each_cpus, each_memory, segment, required = shapes(state, js)
    keys = np.column_stack((size, pieces, each_cpus, each_memory, segment, required, w.pool_ok[js]))
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    most, any_node = np.zeros(len(first), dtype=np.int64), np.zeros(len(first), dtype=bool)
    for i, k in enumerate(first.tolist()):
        slots = np.where(gpus < 0, 0, np.int64(pieces[k]))
        for free, each in ((gpus, size[k]), (cpus, each_cpus[k]), (memory, each_memory[k])):
            if each > 0:
                slots = np.minimum(slots, np.maximum(free, 0) // each)
        slots = np.where(w.pool_ok[js[k]][state.nodes.pool], slots, 0)
        most[i] = _best_group(state, slots, pool, int(required[k]), int(segment[k]), int(pieces[k]))
        any_node[i] = bool((slots > 0).any())
    fused = w.replicas[js] // np.maximum(pieces, 1)
    return most[inverse] * fused, any_node[inverse]


def _best_group(state: State, slots: Ints, pool: Ints, required: int, segment: int, pieces: int) -> int:
    n = state.nodes
    if required == Level.UNKNOWN or not len(slots):
        return 0
    if required < 0:
        return int(np.bincount(pool, slots).max())
    inside = n.domain[required] >= 0
    if not inside.any():
        return 0
    pools = int(pool.max()) + 1
    key = n.domain[required][inside] * pools + pool[inside]
    room = np.bincount(key, slots[inside]).astype(np.int64)
    if segment == pieces:
        return int(room.max())
    whole = room // segment * segment
    return int(np.bincount(np.arange(len(room)) % pools, whole).max())
