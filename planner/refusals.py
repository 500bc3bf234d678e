"""Why a workload can never run here: one sentence with the value at fault and what there is instead."""

from __future__ import annotations

import numpy as np

from planner.encode import Names
from planner.model.workload import Workload
from planner.words import count
from solver.board import UNCOUNTED, Board
from solver.feasible import Reject
from solver.state import Level, State

GIB = 1 << 30


def refusal(board: Board, names: Names, j: int, code: Reject) -> str:
    """Return what is wrong with the request of workload `j`."""
    state, w = board.state, names.workloads[j]
    if code == Reject.UNKNOWN_ALLOCATION:
        return f"{w.allocation!r} is not an allocation of this site; ask whoever keeps the budgets"
    if code == Reject.UNKNOWN_LEVEL:
        known = ", ".join((*names.levels, "node"))
        return f"no cluster has the level {w.topology.required!r}; levels here: {known}"
    if code == Reject.NO_SUCH_POOL:
        return _no_such_pool(names, w)
    if code == Reject.BROKEN_SEGMENTS:
        return f"{count(w.replicas, 'replica')} cannot be cut into segments of {w.topology.segment}"
    if code == Reject.OVER_LIMIT:
        return _over_limit(state, names, j)
    if code == Reject.REPLICA_TOO_LARGE:
        return _replica_too_large(state, w, j)
    return _too_large(board, w, j)


def shape(w: Workload) -> str:
    """Write the size of a gang: `16 x 8 GPUs`; CPUs and memory only where it asks for no GPU."""
    each = count(w.gpus_per_replica, "GPU")
    if not w.gpus_per_replica:
        each = _amounts(0, w.cpus_milli_per_replica, w.memory_bytes_per_replica)
    return f"{w.replicas} x {each}" if w.replicas > 1 else each


def _amounts(gpus: int, cpus_milli: int, memory_bytes: int) -> str:
    """Write the resources that are not 0."""
    cpus, gib = cpus_milli / 1000, memory_bytes / GIB
    found = ((gpus, count(gpus, "GPU")), (cpus, count(cpus, "CPU")), (gib, f"{gib:.6g} GiB of memory"))
    return ", ".join(text for amount, text in found if amount) or "nothing"


def _no_such_pool(names: Names, w: Workload) -> str:
    types = sorted({t for _, t in names.pools if t})
    clusters = sorted({c for c, _ in names.pools})
    wanted = f"GPU type {' or '.join(w.gpu_types)}" if w.gpu_types else "any GPU type"
    where = f" of cluster {' or '.join(w.clusters)}" if w.clusters else ""
    here = f"types here: {', '.join(types) or 'none named'}"
    return f"no node{where} has {wanted}; {here}; clusters here: {', '.join(clusters) or 'none'}"


def _over_limit(state: State, names: Names, j: int) -> str:
    b, gpus = state.budgets, names.workloads[j].gpus
    v = next(v for v in b.path(int(state.workloads.leaf[j])) if 0 <= b.limit_gpus[v] < gpus)
    return f"it needs {count(gpus, 'GPU')}, and the limit of {names.budgets[v]} is {b.limit_gpus[v]}"


def _replica_too_large(state: State, w: Workload, j: int) -> str:
    n = state.nodes
    mine = state.workloads.pool_ok[j][n.pool]
    most = (int(x[mine].max(initial=0)) for x in (n.gpus, n.cpus_milli, n.memory_bytes))
    together = (w.topology.segment or w.replicas) if w.topology.required == "node" else 1
    many = f"{together} replicas" if together > 1 else "a replica"
    asks = _amounts(w.gpus_per_replica, w.cpus_milli_per_replica, w.memory_bytes_per_replica)
    return f"no node that it accepts holds {many} of {asks}; the most on one node: {_amounts(*most)}"


def _too_large(board: Board, w: Workload, j: int) -> str:
    state = board.state
    level = int(state.workloads.required[j])
    if w.topology.segment and level != Level.NONE:
        segments = f"segments of {w.topology.segment} to a {w.topology.required}"
        return f"no cluster can hold {shape(w)} in {segments}, even empty and healthy"
    n = state.nodes
    key = n.domain[level] if level >= 0 else n.pool_cluster[n.pool]
    inside = (key >= 0) & state.workloads.pool_ok[j][n.pool]
    cpus = np.where(n.cpus_milli > 0, n.cpus_milli, UNCOUNTED)
    memory = np.where(n.memory_bytes > 0, n.memory_bytes, UNCOUNTED)
    slots = board.slots(j, n.gpus, cpus, memory)
    most = int(np.bincount(key[inside], slots[inside]).max(initial=0))
    return (
        f"no {w.topology.required or 'cluster'} can hold {shape(w)}, even empty and healthy; "
        f"the best one takes {most} of {count(w.replicas, 'replica')}"
    )
