"""What can never run here, and what can not start in this round whoever makes room."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from solver.board import UNCOUNTED, Amounts, Board, leaving
from solver.buddy import shapes
from solver.state import Bools, Ints, Level, State

UNKNOWN = int(Level.UNKNOWN)


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


CELLS_AT_ONCE = 20_000
"""Kinds x nodes that are looked at in one go: few enough for the cache of a processor."""


def rejections(state: State, js: Ints | None = None, fits: Bools | None = None) -> Ints:
    """Return for pending workloads (all, or `js`) whether they can never run here, int64[W], `Reject`.

    NO for all others. What is known to be `placeable` (`fits`, bool[W]) is not looked at again.
    Judged on the empty inventory with every node healthy: an outage rejects nobody. A gang that only fits a
    cluster by mixing its GPU types is not rejected either: it waits until one type is enough.
    """
    w, n = state.workloads, state.nodes
    out = np.zeros(w.count, dtype=np.int64)
    js = np.flatnonzero(w.pending) if js is None else js
    doubtful = js if fits is None else js[~fits[js]]
    if len(doubtful):
        most, replica = _room(state, doubtful, n.pool_cluster[n.pool], (n.gpus, *_counted(state)))
        out[doubtful[most < w.replicas[doubtful]]] = Reject.TOO_LARGE
        out[doubtful[~replica]] = Reject.REPLICA_TOO_LARGE
    out[js[w.gpus[js] > _narrowest_limit(state)[w.leaf[js]]]] = Reject.OVER_LIMIT
    segment = np.where(w.required[js] == Level.NONE, 1, np.maximum(w.segment[js], 1))
    out[js[w.replicas[js] % segment != 0]] = Reject.BROKEN_SEGMENTS
    out[js[~w.pool_ok[js].any(axis=1)]] = Reject.NO_SUCH_POOL
    out[js[w.required[js] == Level.UNKNOWN]] = Reject.UNKNOWN_LEVEL
    out[js[w.leaf[js] < 0]] = Reject.UNKNOWN_ALLOCATION
    return out


def candidates(state: State, rejected: Ints | None = None) -> Ints:
    """Return whom the order ranks: pending allocated work that can run here, and what may be interrupted.

    Parameters
    ----------
    rejected : int64[W], `Reject`, or None
        What can never run here; None = nothing.
    """
    w = state.workloads
    pending = w.pending if rejected is None else w.pending & (rejected == int(Reject.NO))
    running = w.running & ~state.protected
    running[leaving(state)] = False
    return np.flatnonzero(w.allocated & (w.leaf >= 0) & (pending | running))


def _counted(state: State) -> tuple[Ints, Ints]:
    """Return the CPUs and the memory of each node, more than enough where they are not counted."""
    n = state.nodes
    cpus, memory = (np.where(x > 0, x, UNCOUNTED) for x in (n.cpus_milli, n.memory_bytes))
    return cpus, memory


def _narrowest_limit(state: State) -> Ints:
    """Return the lowest limit at or above every tree node, int64[V], GPUs."""
    b = state.budgets
    out = np.where(b.limit_gpus >= 0, b.limit_gpus, UNCOUNTED)
    for v in range(1, b.count):  # parents come before their children
        out[v] = min(out[v], out[b.parent[v]])
    return out


def placeable(state: State) -> Bools:
    """Tell what could stand now if all that is interruptible made room, bool[W].

    Work that stands could; pending unallocated work, which is not ranked, is not looked at: False.
    """
    w, n = state.workloads, state.nodes
    out: Bools = ~w.pending
    js = np.flatnonzero(~out & w.allocated)
    if not len(js):
        return out
    fixed = (state.protected | w.stopping)[w.owner]
    node, owner, reps = w.placement.node[fixed], w.owner[fixed], w.placement.replicas[fixed]
    gpus = n.gpus.copy()
    cpus, memory = _counted(state)
    np.subtract.at(gpus, node, w.placement.gpus[fixed])
    np.subtract.at(cpus, node, reps * w.cpus_milli[owner])
    np.subtract.at(memory, node, reps * w.memory_bytes[owner])
    gpus[~n.up] = -1
    out[js] = _room(state, js, n.pool, (gpus, cpus, memory))[0] >= w.replicas[js]
    return out


A_HANDFUL = 6
"""Up to so many workloads are looked for one by one sooner than all at once."""


def hopeful(board: Board, js: Ints, amounts: Amounts) -> Ints:
    """Return those of `js` that may fit if the nodes have these amounts to give; the others surely do not.

    A quick look at many workloads, each as if it were alone, limits apart.
    """
    state, w = board.state, board.state.workloads
    gpus = np.where(board.usable, amounts[0], -1)
    js = js[w.gpus_per_replica[js] <= gpus.max(initial=0)]
    js = js[w.gpus[js] <= np.maximum(gpus, 0).sum()]
    if len(js) > A_HANDFUL:
        most, _ = _room(state, js, state.nodes.pool, (gpus, *amounts[1:]), board.hold_s)
        js = js[(most >= w.replicas[js]) | np.isin(js, list(board.promised))]  # whose own hold does not count
    return js


def _room(
    state: State, js: Ints, pool: Ints, amounts: Amounts, hold_s: Ints | None = None
) -> tuple[Ints, Bools]:
    """Return how many replicas the best group takes of each gang, and whether any node takes one of them.

    Parameters
    ----------
    pool : int64[N]
        What a gang may not leave: its pool, or its cluster.
    amounts : Amounts
        Negative GPUs: nothing may start there.
    hold_s : int64[N], epoch seconds
        See `Board.hold_s`; None = nothing is held.
    """
    w = state.workloads
    _, first, inverse = np.unique(w.kind[js], return_index=True, return_inverse=True)
    kinds = js[first]
    size, pieces, cpus, memory, segment, required = shapes(state, kinds)
    nodes = np.flatnonzero(amounts[0] >= size.min(initial=0))
    accepted = w.pool_ok[kinds]
    ends_s = state.now_s + np.where(w.allocated[kinds], w.min_runtime_s[kinds], state.policy.due_s)
    most, any_node = np.zeros(len(kinds), dtype=np.int64), np.zeros(len(kinds), dtype=bool)
    at_once = max(CELLS_AT_ONCE // max(len(nodes), 1), 1)
    for some in (slice(i, i + at_once) for i in range(0, len(kinds), at_once)):
        slots = np.where(accepted[some][:, state.nodes.pool[nodes]], pieces[some, None], 0)
        if hold_s is not None:
            slots[ends_s[some, None] > hold_s[nodes]] = 0
        for free, each in zip(amounts, (size[some], cpus[some], memory[some]), strict=True):
            _cap(slots, free[nodes], each)
        any_node[some] = slots.any(axis=1)
        for level in set(required[some].tolist()) - {UNKNOWN}:
            row = np.flatnonzero(required[some] == level)
            best = _best_group(state, slots[row], nodes, pool, level, segment[some][row], pieces[some][row])
            most[some][row] = best
    fused = w.replicas[kinds] // np.maximum(pieces, 1)
    return (most * fused)[inverse], any_node[inverse]


def _cap(slots: Ints, free: Ints, each: Ints) -> None:
    """Lower `slots` (int64[gangs, nodes]) to what is free on each node over what each gang asks.

    Floats divide several times faster, and below 2**53 no quotient of integers rounds up to a whole number.
    """
    asks = np.flatnonzero(each)
    if len(asks):
        fit = np.maximum(free, 0) / each[asks, None]
        slots[asks] = np.minimum(slots[asks], fit.astype(np.int64))


def _best_group(
    state: State, slots: Ints, nodes: Ints, pool: Ints, level: int, segment: Ints, pieces: Ints
) -> Ints:
    """Return the pieces that the best group of one level takes of each gang, int64[gangs]."""
    pools = int(pool.max(initial=0)) + 1
    if level < 0 and pools == 1:  # all nodes are one group
        together: Ints = slots.sum(axis=1)
        return together
    key = pool[nodes]
    if level >= 0:
        domain = state.nodes.domain[level][nodes]
        key = np.where(domain >= 0, domain * pools + key, -1)
    turn = np.argsort(key, kind="stable")[np.count_nonzero(key < 0) :]
    if not len(turn):
        return np.zeros(len(slots), dtype=np.int64)
    groups, starts = _runs(key[turn])
    room = np.add.reduceat(slots[:, turn], starts, axis=1)
    best: Ints = room.max(axis=1)
    cut = np.flatnonzero(segment != pieces)
    if len(cut):  # whole segments, all in one pool
        whole = room[cut] // segment[cut, None] * segment[cut, None]
        best[cut] = [np.bincount(groups % pools, row).max() for row in whole]
    return best


def _runs(values: Ints) -> tuple[Ints, Ints]:
    """Return the distinct ones of sorted values, and where each begins."""
    starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    return values[starts], starts
