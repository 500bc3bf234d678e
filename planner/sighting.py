"""A snapshot as the ledger sees it: what holds GPUs, what could be used, who asks for how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from planner.account import PPB
from planner.contract import effective
from planner.encode import accounts_of
from planner.ledger.demand import Pool
from planner.ledger.intervals import Interval
from planner.ledger.observe import Sighting
from planner.model.budget import leaf_shares
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.model.workload import Workload


def sighting_of(site: Site, snapshot: Snapshot, source: str = "snapshot") -> Sighting:
    """Return what a snapshot shows of who holds and wants what; work without GPUs leaves no trace."""
    shares = leaf_shares(site.budgets)
    names = accounts_of(site)
    pools = {n.name: (c.name, n.gpu_type or "") for c in snapshot.clusters for n in c.nodes}
    gpus, asked = Counter[Pool](), Counter[str]()
    for cluster in snapshot.clusters:
        for node in cluster.nodes:
            gpus[pools[node.name]] += node.gpus if node.state != "down" else 0
    held: list[Interval] = []
    for w in snapshot.workloads:
        allocation = w.allocation if w.allocation in shares else names.get(w.allocation, w.allocation)
        allocated = effective(w, site.contract, shares.get(allocation, Fraction(1))).allocated
        if allocated:
            asked[allocation] += w.gpus
        held += _held(w, allocation, allocated, pools, snapshot.time_s, source)
    ppb = {a: int(share * PPB) for a, share in shares.items()}
    return Sighting(snapshot.time_s, source, tuple(held), gpus, asked, ppb)


def _held(
    w: Workload, allocation: str, allocated: bool, pools: dict[str, Pool], now_s: int, source: str
) -> Iterator[Interval]:
    """Yield what a workload holds of each pool; a run whose start is ahead of our clock has just begun."""
    parts = Counter[Pool]()
    for p in w.placement:
        parts[pools[p.node]] += p.gpus
    if w.started_s is None:
        return
    occupancy = "allocated" if allocated else "unallocated"
    for (cluster, gpu_type), gpus in sorted(parts.items()):
        if gpus:
            yield Interval(
                source,
                w.id,
                w.started_s,
                allocation,
                occupancy,
                cluster,
                gpu_type,
                gpus,
                w.started_s,
                max(w.started_s, now_s),
                running=True,
            )
