"""Worlds from short literals: nodes, workloads, budgets and decisions for the tests of `solver`.

    world = state(
        nodes=[node(leaf="l1", block="b1"), *2 * [node(leaf="l2", block="b1")]],
        workloads=[pending(replicas=2, min_runtime_h=4, required="leaf"), running(gpus=4, at=[0, 0, 1])],
        shares={"language/pretraining": 0.6, "vision": 0.4},
        usage_gpu_h={"vision": 12.5},
        limits={"language": 16},
        lane_gpus=16,
    )
    plan = decisions(world, start={0: [1, 2]}, preempt={1: [0]})

Places are written `at=[0, 0, 1]`: the node of each replica. Hours are relative to `NOW_S`. Nodes and
workloads are named by position, budget tree nodes by path or index (0 is the root).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from solver.plan import Decisions
from solver.state import (
    FOREVER_S,
    MICRO,
    Action,
    Budgets,
    Level,
    Nodes,
    NodeState,
    Policy,
    Promises,
    Spread,
    State,
    Status,
    Workloads,
)

NOW_S = 1_800_000_000
HOUR_S = 3600
GIB = 2**30
LEVELS = ("block", "leaf")


@dataclass(frozen=True)
class NodeSpec:
    """One node, as written; `domains` names its domain at each level."""

    gpus: int
    cluster: str
    gpu_type: str
    state: str
    cpus: float
    memory_gib: float
    domains: dict[str, str]


def node(
    gpus: int = 8,
    *,
    cluster: str = "c",
    gpu_type: str = "h100",
    state: str = "up",
    cpus: float = 0,
    memory_gib: float = 0,
    **domains: str,
) -> NodeSpec:
    """Write a node; further keywords name its domains: `node(8, block="b1", leaf="l1")`."""
    return NodeSpec(gpus, cluster, gpu_type, state, cpus, memory_gib, domains)


@dataclass(frozen=True)
class WorkloadSpec:
    """One gang, as written; see `pending` and `running`."""

    status: Status
    gpus: int
    replicas: int
    at: tuple[int, ...] = ()
    leaf_budget: str | int = 1
    min_runtime_h: float = 0
    allocated: bool | None = None
    started_h_ago: float = 1
    submitted_h_ago: float = 2
    time_limit_h: float | None = None
    cpus: float = 0
    memory_gib: float = 0
    resumable: bool = True
    priority: int = 0
    required: str | None = None
    preferred: str | None = None
    segment: int = 0
    clusters: tuple[str, ...] | None = None
    gpu_types: tuple[str, ...] | None = None
    debug: bool = False

    @property
    def is_allocated(self) -> bool:
        return self.min_runtime_h > 0 if self.allocated is None else self.allocated

    @property
    def time_limit_s(self) -> int:
        return FOREVER_S if self.time_limit_h is None else round(self.time_limit_h * HOUR_S)

    @property
    def min_runtime_s(self) -> int:
        return min(round(self.min_runtime_h * HOUR_S), self.time_limit_s)

    @property
    def started_s(self) -> int:
        return 0 if self.status == Status.PENDING else NOW_S - round(self.started_h_ago * HOUR_S)

    @property
    def protected_until_s(self) -> int:
        protects = self.status == Status.RUNNING and self.is_allocated and self.min_runtime_s > 0
        return self.started_s + self.min_runtime_s if protects else 0

    def accepts(self, cluster: str, gpu_type: str) -> bool:
        return (self.clusters is None or cluster in self.clusters) and (
            self.gpu_types is None or gpu_type in self.gpu_types
        )


def pending(gpus: int = 8, replicas: int = 1, **more: Any) -> WorkloadSpec:
    """Write a gang that waits: `replicas` of `gpus` each; further keywords are the fields of `WorkloadSpec`.

    `min_runtime_h` > 0 makes it allocated; `required` and `preferred` take a level's name, `node`, `unknown`.
    """
    return WorkloadSpec(Status.PENDING, gpus, replicas, **more)


def running(gpus: int = 8, at: Sequence[int] = (0,), **more: Any) -> WorkloadSpec:
    """Write a gang that has run for `started_h_ago` on the nodes `at`, one entry for each replica.

    It is protected while `min_runtime_h` exceeds `started_h_ago`.
    """
    return WorkloadSpec(Status.RUNNING, gpus, len(at), tuple(at), **more)


def stopping(gpus: int = 8, at: Sequence[int] = (0,), **more: Any) -> WorkloadSpec:
    """Write a gang that was preempted and still stands on the nodes `at`."""
    return WorkloadSpec(Status.STOPPING, gpus, len(at), tuple(at), **more)


@dataclass(frozen=True)
class PromiseSpec:
    """A reservation of the previous plan, as written: `workload` starts `in_h` hours from now on `at`."""

    workload: int
    in_h: float
    at: tuple[int, ...]


def promise(workload: int, in_h: float, at: Sequence[int]) -> PromiseSpec:
    """Write a promise of the previous plan."""
    return PromiseSpec(workload, in_h, tuple(at))


def state(
    nodes: Sequence[NodeSpec],
    workloads: Sequence[WorkloadSpec] = (),
    *,
    shares: Mapping[str, float] | None = None,
    usage_gpu_h: Mapping[str, float] | None = None,
    ratios: Mapping[str, float] | None = None,
    entitled_gpu_h: Mapping[str, float] | None = None,
    limits: Mapping[str, int] | None = None,
    promises: Sequence[PromiseSpec] = (),
    charges: Mapping[str, float] | None = None,
    levels: Sequence[str] | None = None,
    history_h: float = 168,
    **policy: Any,
) -> State:
    """Build the world of one round.

    Parameters
    ----------
    shares : dict of path to share of the whole
        The leaves of the budget tree; the paths make the inner nodes. Default: `a` and `b`, half each.
    usage_gpu_h, ratios : dict of path of a leaf to budget units, to usage over entitlement
        Either says what was delivered; 0 otherwise.
    entitled_gpu_h : dict of path of a leaf to budget units
        Default: its share of all GPUs that are up, over `history_h`.
    limits : dict of any path (`""` is the root) to GPUs
    charges : dict of GPU type to budget units for each GPU-hour; 1 where not given
    levels : names, outermost first; default: `block` and `leaf`, those that occur
    **policy
        Fields of `Policy`.
    """
    names = (
        tuple(levels)
        if levels is not None
        else tuple(x for x in LEVELS if any(x in n.domains for n in nodes))
    )
    arrays, pools = _nodes(nodes, names)
    paths, budgets = _budgets(
        arrays, shares or {"a": 0.5, "b": 0.5}, history_h, entitled_gpu_h or {}, limits or {}
    )
    delivered = {p: round(v * HOUR_S * MICRO) for p, v in (usage_gpu_h or {}).items()}
    delivered |= {p: round(v * int(budgets.entitled[paths[p]])) for p, v in (ratios or {}).items()}
    for path, amount in delivered.items():
        for v in budgets.path(paths[path]):
            budgets.usage[v] += amount
    charge = [round((charges or {}).get(kind, 1) * MICRO) for _, kind in pools]
    return State(
        now_s=NOW_S,
        nodes=arrays,
        workloads=_workloads(workloads, names, pools, paths),
        budgets=budgets,
        promises=_promises(promises, workloads),
        policy=Policy(charge_micro=_ints(charge), **policy),
    )


def decisions(
    world: State,
    *,
    start: Mapping[int, Sequence[int]] | None = None,
    preempt: Mapping[int, Sequence[int]] | None = None,
    reject: Iterable[int] = (),
    promised: Mapping[int, tuple[float, Sequence[int]]] | None = None,
) -> Decisions:
    """Build a plan: who starts at which nodes, who is preempted for whom, who is promised `(in_h, at)`.

    What is not named waits, keeps running or, if stopping, goes on stopping.
    """
    w = world.workloads
    usual = {Status.PENDING: Action.WAIT, Status.RUNNING: Action.KEEP, Status.STOPPING: Action.PREEMPT}
    action = _ints([usual[Status(s)] for s in w.status])
    start, preempt, promised = start or {}, preempt or {}, promised or {}
    action[list(start)] = Action.START
    action[list(preempt)] = Action.PREEMPT
    action[list(reject)] = Action.REJECT
    each = w.gpus_per_replica
    return Decisions(
        action=action,
        placement=Spread.of([_parts(start.get(j, ()), each[j]) for j in range(w.count)]),
        victims_for={v: list(gainers) for v, gainers in preempt.items() if gainers},
        promised=_ints(promised),
        promised_start_s=_ints([NOW_S + round(in_h * HOUR_S) for in_h, _ in promised.values()]),
        promised_placement=Spread.of([_parts(at, each[j]) for j, (_, at) in promised.items()]),
    )


def renumbered(world: State, order: Sequence[int]) -> State:
    """Return the same world with its nodes in another order: new node i is old node `order[i]`."""
    n, w, p = world.nodes, world.workloads, world.promises
    order = _ints(order)
    nodes = replace(
        n,
        gpus=n.gpus[order],
        pool=n.pool[order],
        state=n.state[order],
        cpus_milli=n.cpus_milli[order],
        memory_bytes=n.memory_bytes[order],
        domain=n.domain[:, order],
    )
    workloads = replace(w, placement=_moved(w.placement, order))
    return replace(
        world, nodes=nodes, workloads=workloads, promises=replace(p, placement=_moved(p.placement, order))
    )


def renumbered_plan(plan: Decisions, order: Sequence[int]) -> Decisions:
    """Return the same plan for the world that `renumbered` makes."""
    places = {x: _moved(getattr(plan, x), _ints(order)) for x in ("placement", "promised_placement")}
    return replace(plan, **places)


def _moved(spread: Spread, order: np.ndarray) -> Spread:
    return replace(spread, node=np.argsort(order)[spread.node])


@dataclass
class _Numbering:
    """Numbers for keys, in order of appearance."""

    known: dict[Any, int] = field(default_factory=dict)

    def __call__(self, key: Any) -> int:
        return self.known.setdefault(key, len(self.known))


def _ints(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), dtype=np.int64)


def _bools(values: Iterable[bool]) -> np.ndarray:
    return np.array(list(values), dtype=bool)


def _parts(at: Sequence[int], gpus_per_replica: int) -> list[tuple[int, int, int]]:
    return [(n, int(k * gpus_per_replica), k) for n, k in Counter(at).items()]


def _nodes(specs: Sequence[NodeSpec], levels: Sequence[str]) -> tuple[Nodes, list[tuple[str, str]]]:
    pool, cluster, kind, domain = _Numbering(), _Numbering(), _Numbering(), _Numbering()
    number = {"up": NodeState.UP, "draining": NodeState.DRAINING, "down": NodeState.DOWN}
    domains = np.full((len(levels), len(specs)), -1, dtype=np.int64)
    for depth, level in enumerate(levels):
        for i, n in enumerate(specs):
            if level in n.domains:  # a domain is its whole path: two clusters may both have a leaf l1
                domains[depth, i] = domain((n.cluster, *(n.domains.get(x) for x in levels[: depth + 1])))
    pools = [pool((n.cluster, n.gpu_type)) for n in specs]
    arrays = Nodes(
        gpus=_ints(n.gpus for n in specs),
        pool=_ints(pools),
        state=_ints(number[n.state] for n in specs),
        cpus_milli=_ints(round(n.cpus * 1000) for n in specs),
        memory_bytes=_ints(round(n.memory_gib * GIB) for n in specs),
        domain=domains,
        pool_cluster=_ints(cluster(c) for c, _ in pool.known),
        pool_type=_ints(kind(k) for _, k in pool.known),
    )
    return arrays, list(pool.known)


def _budgets(
    nodes: Nodes,
    shares: Mapping[str, float],
    history_h: float,
    entitled_gpu_h: Mapping[str, float],
    limits: Mapping[str, int],
) -> tuple[dict[str, int], Budgets]:
    index = _Numbering()
    index("")
    parent = [-1]
    for path in shares:
        names = path.split("/")
        for depth in range(len(names)):
            v = index("/".join(names[: depth + 1]))
            if v == len(parent):
                parent.append(index("/".join(names[:depth])))
    up_gpus = int(nodes.gpus[nodes.state == NodeState.UP].sum())
    entitled, share_ppb = [0] * len(parent), [0] * len(parent)
    for path, share in shares.items():
        amount = round(entitled_gpu_h.get(path, share * up_gpus * history_h) * HOUR_S * MICRO)
        v = index(path)
        while v >= 0:
            entitled[v] += amount
            share_ppb[v] += int(share * 1e9)
            v = parent[v]
    limit = [-1] * len(parent)
    for path, gpus in limits.items():
        limit[index.known[path]] = gpus
    leaves = (path in shares for path in index.known)
    usage = np.zeros(len(parent), dtype=np.int64)
    tree = Budgets(_ints(parent), _bools(leaves), usage, _ints(entitled), _ints(share_ppb), _ints(limit))
    return index.known, tree


def _workloads(
    specs: Sequence[WorkloadSpec],
    levels: Sequence[str],
    pools: list[tuple[str, str]],
    paths: Mapping[str, int],
) -> Workloads:
    wish = {None: Level.NONE, "node": Level.NODE, "unknown": Level.UNKNOWN}
    wish |= {name: depth for depth, name in enumerate(levels)}
    return Workloads(
        leaf=_ints(paths[w.leaf_budget] if isinstance(w.leaf_budget, str) else w.leaf_budget for w in specs),
        replicas=_ints(w.replicas for w in specs),
        gpus_per_replica=_ints(w.gpus for w in specs),
        cpus_milli=_ints(round(w.cpus * 1000) for w in specs),
        memory_bytes=_ints(round(w.memory_gib * GIB) for w in specs),
        allocated=_bools(w.is_allocated for w in specs),
        min_runtime_s=_ints(w.min_runtime_s for w in specs),
        time_limit_s=_ints(w.time_limit_s for w in specs),
        resumable=_bools(w.resumable for w in specs),
        submitted_s=_ints(NOW_S - round(w.submitted_h_ago * HOUR_S) for w in specs),
        started_s=_ints(w.started_s for w in specs),
        protected_until_s=_ints(w.protected_until_s for w in specs),
        priority=_ints(w.priority for w in specs),
        status=_ints(w.status for w in specs),
        required=_ints(wish[w.required] for w in specs),
        preferred=_ints(wish[w.preferred] for w in specs),
        segment=_ints(w.segment for w in specs),
        pool_ok=_bools(w.accepts(*pool) for w in specs for pool in pools).reshape(len(specs), len(pools)),
        debug=_bools(w.debug for w in specs),
        placement=Spread.of([_parts(w.at, w.gpus) for w in specs]),
    )


def _promises(specs: Sequence[PromiseSpec], workloads: Sequence[WorkloadSpec]) -> Promises:
    return Promises(
        workload=_ints(p.workload for p in specs),
        start_s=_ints(NOW_S + round(p.in_h * HOUR_S) for p in specs),
        placement=Spread.of([_parts(p.at, workloads[p.workload].gpus) for p in specs]),
    )
