"""Names to arrays and back: the only file that knows both."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from planner.contract import Effective, effective
from planner.errors import InputError
from planner.model.budget import leaf_shares
from planner.model.cluster import Cluster, Node
from planner.model.site import Contract, Site
from planner.model.snapshot import Reservation, Snapshot
from planner.model.workload import Placement, Workload
from solver.state import (
    FOREVER_S,
    MICRO,
    Budgets,
    Ints,
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
from solver.window import HOUR_MICRO_S, Window

NODE_STATES = {"up": NodeState.UP, "draining": NodeState.DRAINING, "down": NodeState.DOWN}
MOST_MICRO = int(np.iinfo(np.int64).max)
"""Micro budget units that the arrays can hold."""

STATUSES = {"pending": Status.PENDING, "running": Status.RUNNING, "stopping": Status.STOPPING}


@dataclass(frozen=True)
class Names:
    """What the indices of a state are called.

    Attributes
    ----------
    nodes, clusters, levels : tuple
        `levels` outermost first, over all clusters.
    node_cluster : tuple of Cluster
        The cluster of each node.
    workloads : tuple of Workload
    effective : tuple of Effective
        The contract of each workload as the site lets it stand.
    budgets : tuple of str
        Path of each tree node; "" for the root.
    pools : tuple of (cluster name, GPU type or None)
    index, node_index : dict of str to int
        Of workloads by id, of nodes by name.
    """

    nodes: tuple[Node, ...]
    node_cluster: tuple[Cluster, ...]
    levels: tuple[str, ...]
    workloads: tuple[Workload, ...]
    effective: tuple[Effective, ...]
    budgets: tuple[str, ...]
    pools: tuple[tuple[str, str | None], ...]
    index: dict[str, int]
    node_index: dict[str, int]


@dataclass(frozen=True)
class Encoded:
    """A state, the names of its indices, the contract behind it, and what had to be warned about."""

    state: State
    names: Names
    contract: Contract
    warnings: tuple[str, ...]


def encode(site: Site, snapshot: Snapshot) -> Encoded:
    """Turn a site and a snapshot into arrays, in an order that does not depend on how they are written."""
    placed = sorted(
        ((c, n) for c in snapshot.clusters for n in c.nodes),
        key=lambda x: (x[0].name, x[1].location, x[1].name),
    )
    nodes, owners = tuple(n for _, n in placed), tuple(c for c, _ in placed)
    levels = tuple(
        dict.fromkeys(level for c in sorted(snapshot.clusters, key=_by_name) for level in c.levels)
    )
    shares = leaf_shares(site.budgets)
    aliases = accounts_of(site)
    workloads = tuple(
        replace(w, allocation=aliases.get(w.allocation, w.allocation)) if w.allocation not in shares else w
        for w in sorted(snapshot.workloads, key=lambda w: w.id)
    )
    known = tuple(effective(w, site.contract, shares.get(w.allocation, Fraction(1))) for w in workloads)
    pools = tuple(sorted({(c.name, n.gpu_type) for c, n in placed}, key=lambda p: (p[0], p[1] or "")))
    paths = ("", *(b.path for top in site.budgets for b in top.walk()))
    index = {w.id: i for i, w in enumerate(workloads)}
    node_index = {n.name: i for i, n in enumerate(nodes)}
    _refuse_strangers(snapshot, index, node_index)
    names = Names(nodes, owners, levels, workloads, known, paths, pools, index, node_index)
    encoded_nodes = _nodes(names)
    charges = _charges(site, names)
    state = State(
        now_s=snapshot.time_s,
        nodes=encoded_nodes,
        workloads=_workloads(names, shares),
        budgets=_budgets(site, snapshot, names, encoded_nodes, charges, shares),
        promises=_promises(snapshot, names),
        policy=_policy(site, encoded_nodes, charges),
    )
    return Encoded(state, names, site.contract, _warnings(site, snapshot, names, shares))


def accounts_of(site: Site) -> dict[str, str]:
    """Return the allocation that each account of the source system charges.

    The accounts that an allocation names; where it names none, the last part of its path, if no other has it.
    """
    leaves = [b for top in site.budgets for b in top.walk() if not b.children]
    named = {account: b.path for b in leaves for account in b.accounts}
    last = Counter(b.name for b in leaves if not b.accounts)
    default = {b.name: b.path for b in leaves if not b.accounts and last[b.name] == 1}
    return {**default, **named}


def _refuse_strangers(snapshot: Snapshot, index: dict[str, int], node_index: dict[str, int]) -> None:
    """Raise InputError where work stands on unknown nodes, or unknown work is promised a start."""
    faults = [
        f"{w.id}: unknown node {p.node}, write one of the inventory"
        for w in snapshot.workloads
        for p in w.placement
        if p.node not in node_index
    ]
    faults += [
        f"{r.workload}: promised a start, and not in the snapshot, leave the promise out"
        for r in snapshot.reservations
        if r.workload not in index
    ]
    if faults:
        raise InputError(faults)


def _by_name(cluster: Cluster) -> str:
    return cluster.name


def _nodes(names: Names) -> Nodes:
    pool_of = {p: i for i, p in enumerate(names.pools)}
    clusters = sorted({c.name for c in names.node_cluster})
    types = sorted({p[1] or "" for p in names.pools})
    domains: dict[tuple[str, ...], int] = {}
    domain = np.full((len(names.levels), len(names.nodes)), -1, dtype=np.int64)
    for i, (c, n) in enumerate(zip(names.node_cluster, names.nodes, strict=True)):
        for depth, level in enumerate(c.levels[: len(n.location)]):
            key = (level, c.name, *n.location[: depth + 1])
            domain[names.levels.index(level), i] = domains.setdefault(key, len(domains))
    where = zip(names.node_cluster, names.nodes, strict=True)
    return Nodes(
        gpus=_ints(n.gpus for n in names.nodes),
        pool=_ints(pool_of[c.name, n.gpu_type] for c, n in where),
        state=_ints(NODE_STATES[n.state] for n in names.nodes),
        cpus_milli=_ints(n.cpus_milli for n in names.nodes),
        memory_bytes=_ints(n.memory_bytes for n in names.nodes),
        domain=domain,
        pool_cluster=_ints(clusters.index(p[0]) for p in names.pools),
        pool_type=_ints(types.index(p[1] or "") for p in names.pools),
    )


def _ints(values: object) -> Ints:
    return np.array(list(values), dtype=np.int64)  # type: ignore[call-overload]


def _charges(site: Site, names: Names) -> Ints:
    return _ints(int(site.charges.get(t or "", Fraction(1)) * MICRO) for _, t in names.pools)


def _budgets(
    site: Site, snapshot: Snapshot, names: Names, nodes: Nodes, charges: Ints, shares: dict[str, Fraction]
) -> Budgets:
    """Encode the tree; entitlement is never taken as less than an hour's."""
    index = {path: v for v, path in enumerate(names.budgets)}
    count = len(names.budgets)
    tree = [None, *(b for top in site.budgets for b in top.walk())]
    up = ~nodes.down
    capacity = int((nodes.gpus * charges[nodes.pool])[up].sum())  # micro budget units per second
    lookback = site.fair_share.lookback
    window = Window(lookback.window_s, lookback.type == "tumbling", lookback.half_life_s)
    past_s = Fraction(window.history_s(snapshot.time_s, snapshot.history_s))
    parent = np.full(count, -1, dtype=np.int64)
    usage, entitled = [0] * count, [0] * count
    for v in range(count - 1, 0, -1):
        path = names.budgets[v]
        parent[v] = index[path.rpartition("/")[0]]
        if path in shares:
            usage[v] = round(snapshot.usage.get(path, Fraction(0)) * HOUR_MICRO_S)
            hour = int(shares[path] * capacity * 3600)
            stated = None if snapshot.entitled is None else snapshot.entitled.get(path)
            whole = shares[path] * capacity * past_s if stated is None else stated * HOUR_MICRO_S
            entitled[v] = max(round(whole), hour) if shares[path] else 0
        usage[int(parent[v])] += usage[v]
        entitled[int(parent[v])] += entitled[v]
    most = max(usage[0], entitled[0])
    if most > MOST_MICRO:
        fault = f"usage and entitlement come to {most // HOUR_MICRO_S} budget units in the window"
        raise InputError([f"{fault}, write at most {MOST_MICRO // HOUR_MICRO_S} or shorten the window"])
    limits = [-1 if b is None or b.limit_gpus is None else b.limit_gpus for b in tree]
    ppb = [int(shares.get(path, Fraction(0)) * 10**9) for path in names.budgets]
    is_leaf = np.array([path in shares for path in names.budgets])
    return Budgets(parent, is_leaf, _ints(usage), _ints(entitled), _ints(ppb), _ints(limits))


def _workloads(names: Names, shares: dict[str, Fraction]) -> Workloads:
    ws, es = names.workloads, names.effective
    leaf = {path: v for v, path in enumerate(names.budgets) if path in shares}
    until = [
        w.started_s + e.min_runtime_s
        if w.state == "running" and e.allocated and w.started_s is not None
        else 0
        for w, e in zip(ws, es, strict=True)
    ]
    pool_ok = np.ones((len(ws), len(names.pools)), dtype=bool)
    for i, w in enumerate(ws):
        if w.gpu_types or w.clusters:
            pool_ok[i] = [
                (not w.gpu_types or t in w.gpu_types) and (not w.clusters or c in w.clusters)
                for c, t in names.pools
            ]
    return Workloads(
        leaf=_ints(leaf.get(w.allocation, -1) for w in ws),
        replicas=_ints(w.replicas for w in ws),
        gpus_per_replica=_ints(w.gpus_per_replica for w in ws),
        cpus_milli=_ints(w.cpus_milli_per_replica for w in ws),
        memory_bytes=_ints(w.memory_bytes_per_replica for w in ws),
        allocated=np.array([e.allocated for e in es], dtype=bool),
        min_runtime_s=_ints(e.min_runtime_s for e in es),
        time_limit_s=_ints(FOREVER_S if w.time_limit_s is None else w.time_limit_s for w in ws),
        resumable=np.array([w.resumable for w in ws], dtype=bool),
        submitted_s=_ints(w.submitted_s for w in ws),
        started_s=_ints(w.started_s or 0 for w in ws),
        protected_until_s=_ints(until),
        priority=_ints(w.priority for w in ws),
        status=_ints(STATUSES[w.state] for w in ws),
        required=_ints(_level(names, w.topology.required) for w in ws),
        preferred=_ints(_wish(names, w.topology.preferred) for w in ws),
        segment=_ints(w.topology.segment or 0 for w in ws),
        pool_ok=pool_ok,
        debug=np.array([e.debug for e in es], dtype=bool),
        placement=Spread.of([_parts(w, w.placement, names.node_index) for w in ws]),
    )


def encode_one(
    names: Names, workload: Workload, contract: Effective, shares: dict[str, Fraction]
) -> Workloads:
    """Return the arrays of a single workload, in the terms of `names`."""
    return _workloads(replace(names, workloads=(workload,), effective=(contract,)), shares)


def _level(names: Names, level: str | None) -> int:
    if level is None:
        return Level.NONE
    if level == "node":
        return Level.NODE
    return names.levels.index(level) if level in names.levels else Level.UNKNOWN


def _wish(names: Names, level: str | None) -> int:
    """Return a preferred level; a wish for one that does not exist is no wish."""
    found = _level(names, level)
    return Level.NONE if found == Level.UNKNOWN else found


def _parts(w: Workload, placement: tuple[Placement, ...], node: dict[str, int]) -> list[tuple[int, int, int]]:
    """Return (node, GPUs, replicas) for each part, by node; without GPUs each entry is one replica."""
    each = w.gpus_per_replica
    return sorted((node[p.node], p.gpus, p.gpus // each if each else 1) for p in placement)


def _promises(snapshot: Snapshot, names: Names) -> Promises:
    kept = sorted(snapshot.reservations, key=lambda r: (r.start_s, r.workload))
    parts = [
        _parts(names.workloads[names.index[r.workload]], _still_there(names, r), names.node_index)
        for r in kept
    ]
    return Promises(
        _ints(names.index[r.workload] for r in kept), _ints(r.start_s for r in kept), Spread.of(parts)
    )


def _still_there(names: Names, promise: Reservation) -> tuple[Placement, ...]:
    """Return the promised places that still exist; what is left is not whole, and so the promise moves."""
    return tuple(p for p in promise.placement if p.node in names.node_index)


def _policy(site: Site, nodes: Nodes, charges: Ints) -> Policy:
    brake = site.preemption.max_gpus_per_round
    return Policy(
        order=site.fair_share.order,
        band=site.fair_share.band,
        commitment_s=site.fair_share.commitment_s,
        worth_s=site.fair_share.worth_s,
        restart_cost_s=site.preemption.restart_cost_s,
        lane_gpus=lane_gpus(site, int(nodes.gpus[~nodes.down].sum())),
        max_preempted_gpus=-1 if brake is None else brake,
        charge_micro=charges,
        reservations=site.plan_ahead.reservations,
        horizon_s=site.plan_ahead.horizon_s,
        hold_cost=site.plan_ahead.hold_cost,
        patience_s=site.contract.max_min_runtime_s,
    )


def lane_gpus(site: Site, cluster_gpus: int) -> int:
    """Return the size of the debug lane: its share, at least `max_gpus`, at most a quarter of the cluster."""
    debug = site.contract.debug
    if not debug.lane:
        return 0
    return min(max(int(debug.lane * cluster_gpus), debug.max_gpus), cluster_gpus // 4)


def _warnings(site: Site, snapshot: Snapshot, names: Names, shares: dict[str, Fraction]) -> tuple[str, ...]:
    out = list(snapshot.warnings)
    for cluster in sorted(snapshot.clusters, key=_by_name):
        short = sum(len(n.location) < len(cluster.levels) for n in cluster.nodes)
        if short:
            missing = f"{short} of {len(cluster.nodes)} nodes have a location shorter than its levels"
            out.append(f"cluster {cluster.name}: {missing}: no gang that requires the rest can stand there")
    for e in names.effective:
        out += e.warnings
    for w in names.workloads:
        if w.allocation not in shares and w.state != "pending":
            out.append(
                f"{w.id}: runs for {w.allocation}, which is not an allocation of this site: beyond any share"
            )
    if site.fair_share.carry_overdraft:
        out.append("fair_share.carry_overdraft needs a ledger: the usage of a snapshot is taken as it is")
    return tuple(out)
