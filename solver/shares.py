"""The fair-share order: who ranks before whom, at which ratio, in which tier, at what price.

Progressive filling (docs/contract.md, "Fair share"): the allocation with the lowest ratio of use to
entitlement is served first, then its ratio moves by what was just granted. Pending work and running work that
may be interrupted are ordered together.

Ratios are quotients of exact integers: Python divides integers with correct rounding, so equal ratios compare
equal and the order never depends on the order of sums.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from solver.state import Bools, Floats, Ints, State, once

WITHIN, BEYOND, UNALLOCATED = 0, 1, 2
"""Tiers: work within its share, beyond it, unallocated. What an earlier one takes, a later one keeps off."""

BAND_EDGES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0)
"""Upper ends of the ratio bands; a victim always comes from a later band than the one it makes room for."""

UNALLOCATED_BAND = len(BAND_EDGES) + 1

LOWEST_RATIO = 0.001
"""Below it a price grows no more: an allocation that never ran is worth a thousand times one at its share."""

LEAST_PRICE = 0.01
UNALLOCATED_PRICE = 0.005
"""Unallocated work is worth a small constant, below every allocated price."""

ALLOCATED_VICTIM = 3
"""When work within its share needs room, a beyond-share victim weighs as much as three unallocated ones of
its size: unallocated work goes first, unless far more of it would be lost."""

SEPARATION = 0.01
"""Relative fall of the price from first to last of the order, so that equal ratios still have an order."""


@dataclass(frozen=True)
class Order:
    """The candidates of a round, ranked.

    Attributes
    ----------
    sequence : int64[K]
        Candidates, best first: pending allocated and interruptible allocated work.
    position : int64[W]
        Place in `sequence`; K for everything else.
    ratio : float64[W]
        Ratio of its leaf at its turn; infinite outside the order.
    price : float64[W]
        Worth of one GPU-hour: 1 / running maximum of the ratios, falling along the order.
    tier, band : int64[W]
    in_money : bool[W]
        All that ranks before it and itself fit the capacity that it could use.
    """

    sequence: Ints
    position: Ints
    ratio: Floats
    price: Floats
    tier: Ints
    band: Ints
    in_money: Bools


@once
def commitments(state: State) -> Ints:
    """Return the use that each workload's start commits in advance, int64[W], micro budget units.

    A protected run is committed for what is left of its start's commitment; interruptible and pending work
    for a whole one. What accepts several pools commits the cheapest charge.
    """
    w, policy = state.workloads, state.policy
    whole_s = np.minimum(policy.commitment_s, w.time_limit_s)
    left_s = np.maximum(w.started_s + whole_s - state.now_s, 0)
    seconds = np.where(state.protected, np.minimum(left_s, whole_s), whole_s)
    dearest = np.int64(policy.charge_micro.max(initial=0)) + 1
    cheapest = np.where(w.pool_ok, policy.charge_micro[None, :], dearest).min(axis=1, initial=dearest)
    charge = np.where(w.pool_ok.any(axis=1), cheapest, 0)
    running = np.flatnonzero(~w.pending & (np.diff(w.placement.ptr) > 0))
    charge[running] = policy.charge_micro[state.nodes.pool[w.placement.node[w.placement.ptr[running]]]]
    return seconds * w.gpus * charge


INFINITE = float("inf")


@once
def seniority(state: State) -> Ints:
    """Return the place of each workload in the order that an allocation gives its own work, int64[W].

    By priority, then by what evicting it loses beyond the restart that every eviction costs (at the end of
    its protection or now), then by age. What its work loses is the allocation's own loss: this moves
    nobody else's turn, and across allocations work that is not resumable has no such advantage.
    """
    w = state.workloads
    done_s = np.maximum(state.now_s, w.protected_until_s) - w.started_s
    sunk_s = np.where(w.running & ~w.resumable, np.maximum(done_s - state.policy.restart_cost_s, 0), 0)
    place = np.empty(w.count, dtype=np.int64)
    place[np.lexsort((np.arange(w.count), w.submitted_s, -sunk_s, -w.priority))] = np.arange(w.count)
    return place


def _ratio(use: int, entitled: int) -> float:
    return use / entitled if entitled else INFINITE


class _Filling:
    """Progressive filling over one state: the leaves' queues, and use and ratio so far of every tree node.

    Each turn depends on the one before, so all is kept in lists of plain integers.
    """

    def __init__(self, state: State, candidates: Ints, placeable: Bools, commit: Ints, place: Ints) -> None:
        w, b = state.workloads, state.budgets
        self.parent: list[int] = b.parent.tolist()
        self.path = {leaf: b.path(leaf) for leaf in set(w.leaf[candidates].tolist())}
        self.entitled: list[int] = b.entitled.tolist()
        protected = np.where(state.protected & w.allocated, commit, 0)
        self.use: list[int] = (b.usage + b.subtree_sums(w.leaf, protected)).tolist()
        self.ratio = [_ratio(use, entitled) for use, entitled in zip(self.use, self.entitled, strict=True)]
        self.commit: list[int] = commit.tolist()
        self.placeable: list[bool] = (placeable & w.pool_ok.any(axis=1)).tolist()
        accepts = list(map(tuple, w.pool_ok[candidates].tolist()))
        pools = {ok: [p for p, yes in enumerate(ok) if yes] for ok in set(accepts)}
        self.pools = {j: pools[ok] for j, ok in zip(candidates.tolist(), accepts, strict=True)}
        self.room: list[int] = _usable_gpus(state).tolist()
        self.gpus: list[int] = w.gpus.tolist()
        claimed = np.zeros(w.count, dtype=bool)
        claimed[state.promises.workload] = True
        unclaimed, submitted_s = ~claimed[candidates], w.submitted_s[candidates]
        by_age = candidates[np.lexsort((candidates, submitted_s, unclaimed))].tolist()
        self.age = {j: i for i, j in enumerate(by_age)}  # who of several leaves' heads goes first
        turn = np.lexsort((place[candidates], unclaimed))[::-1]
        self.queue: dict[int, list[int]] = {}
        for j, leaf in zip(candidates[turn].tolist(), w.leaf[candidates[turn]].tolist(), strict=True):
            self.queue.setdefault(leaf, []).append(j)
        self.turns: list[tuple[int, float]] = []

    def serve(self, leaf: int) -> bool:
        """Give the head of `leaf` its turn; tell whether that moved ratios.

        What cannot start now is ranked, and costs its leaf nothing.
        """
        queue = self.queue[leaf]
        j = queue.pop()
        self.turns.append((j, self.ratio[leaf]))
        if not queue:
            del self.queue[leaf]
        if not self.placeable[j]:
            return False
        pools, room = self.pools[j], self.room
        pool = pools[0] if len(pools) == 1 else max(pools, key=room.__getitem__)
        if room[pool] < self.gpus[j]:
            return False
        room[pool] -= self.gpus[j]
        commit, use, entitled, ratio = self.commit[j], self.use, self.entitled, self.ratio
        for v in self.path[leaf]:
            use[v] += commit
            ratio[v] = use[v] / entitled[v] if entitled[v] else INFINITE
        return True

    def by_leaf(self, up_to: float) -> None:
        """Serve the lowest leaf ratio first, while it is at most `up_to`."""
        heap = [(self.ratio[v], self.age[q[-1]], v) for v, q in self.queue.items()]
        heapq.heapify(heap)
        while heap and heap[0][0] <= up_to:
            leaf = heap[0][2]
            self.serve(leaf)
            if leaf in self.queue:
                heapq.heapreplace(heap, (self.ratio[leaf], self.age[self.queue[leaf][-1]], leaf))
            else:
                heapq.heappop(heap)

    def by_tree(self) -> None:
        """Serve level by level: at each tree node the child with the lowest ratio among those that want."""
        wanting: dict[int, set[int]] = {}
        for v in self.queue:
            while self.parent[v] >= 0 and v not in wanting.setdefault(self.parent[v], set()):
                wanting[self.parent[v]].add(v)
                v = self.parent[v]
        while self.queue:
            path, tied = self._descend(wanting)
            v = path.pop()
            moved = self.serve(v)
            while not (moved or tied) and v in self.queue:  # as nothing has changed, it is its turn again
                moved = self.serve(v)
            if v not in self.queue:
                for above in reversed(path):
                    wanting[above].discard(v)
                    if wanting[above]:
                        break
                    v = above

    def _descend(self, wanting: dict[int, set[int]]) -> tuple[list[int], bool]:
        """Return the way from the root to the leaf whose turn it is, and whether ratios tied on it."""
        v, tied = 0, False
        path = [v]
        while wanting.get(v):
            lowest = min(map(self.ratio.__getitem__, wanting[v]))
            first = [c for c in wanting[v] if self.ratio[c] == lowest]
            tied |= len(first) > 1
            v = first[0] if len(first) == 1 else min(first, key=lambda c: self._best(c, wanting))
            path.append(v)
        return path, tied

    def _best(self, v: int, wanting: dict[int, set[int]]) -> int:
        if v in self.queue:
            return self.age[self.queue[v][-1]]
        return min(self._best(c, wanting) for c in wanting[v])


def _usable_gpus(state: State) -> Ints:
    """Return the GPUs of each pool on healthy nodes that nothing protected or stopping holds, int64[P]."""
    n, w = state.nodes, state.workloads
    fixed = (state.protected | w.stopping)[w.owner]
    free = n.gpus - np.bincount(w.placement.node[fixed], w.placement.gpus[fixed], n.count).astype(np.int64)
    free[n.state != 0] = 0
    return np.bincount(n.pool, np.maximum(free, 0), len(n.pool_cluster)).astype(np.int64)


def standing_ratio(state: State) -> Floats:
    """Return for running allocated work its leaf's ratio by what runs before it, float64[W], 0 elsewhere.

    Pending work does not count here: what runs is judged by what its allocation has, not by what it asks for.
    """
    return _standing_ratio(state, commitments(state), seniority(state))


def _standing_ratio(state: State, commit: Ints, place: Ints) -> Floats:
    w, b = state.workloads, state.budgets
    out = np.zeros(w.count)
    js = np.flatnonzero(w.running & w.allocated & (w.leaf >= 0))
    js = js[np.lexsort((place[js], ~state.protected[js], w.leaf[js]))]
    leaf = w.leaf[js]
    before = np.cumsum(commit[js]) - commit[js]
    before -= before[np.searchsorted(leaf, leaf)]  # of its own leaf only
    use, entitled = (b.usage[leaf] + before).tolist(), b.entitled[leaf].tolist()
    out[js] = [_ratio(u, e) for u, e in zip(use, entitled, strict=True)]
    return out


def rank(state: State, candidates: Ints, placeable: Bools) -> Order:
    """Rank the candidates by the site's order and give each its tier, band and price.

    Parameters
    ----------
    candidates : int64[K]
        Pending allocated and interruptible allocated work whose allocation is known.
    placeable : bool[W]
        Could start in this round if all that is interruptible made room; the rest keeps its place in the
        order and commits nothing, so that it neither loses its claim nor blocks its siblings.
    """
    w, policy = state.workloads, state.policy
    commit, place = commitments(state), seniority(state)
    filling = _Filling(state, candidates, placeable, commit, place)
    if policy.order == "fair_tree":
        filling.by_tree()
    else:
        filling.by_leaf(float("inf") if policy.order == "leaf" else 1.0)
        filling.by_tree()
    sequence = np.array([j for j, _ in filling.turns], dtype=np.int64)
    ratio = np.full(w.count, np.inf)
    ratio[sequence] = [r for _, r in filling.turns]
    if policy.order == "fair_tree":  # rule 7 holds whatever the order: what is within its share goes first
        sequence = sequence[np.argsort(ratio[sequence] > 1, kind="stable")]
    return _priced(state, sequence, ratio, _tiers(state, ratio, commit, place))


def _priced(state: State, sequence: Ints, ratio: Floats, tier: Ints) -> Order:
    w = state.workloads
    k = len(sequence)
    position = np.full(w.count, k, dtype=np.int64)
    position[sequence] = np.arange(k)
    highest = np.full(w.count, np.inf)
    highest[sequence] = np.maximum.accumulate(ratio[sequence]) if k else 0.0
    price = prices(highest, tier)
    price[sequence] *= 1 - SEPARATION * np.arange(k) / max(k, 1)
    in_money = _in_money(state, sequence)
    return Order(sequence, position, ratio, price, tier, bands(highest, tier), in_money)


def bands(ratio: Floats, tier: Ints) -> Ints:
    """Return the bands of ratios, int64[K]; those of a tier lie all before those of the next."""
    first_beyond = int(np.searchsorted(BAND_EDGES, 1.0)) + 1
    band = np.searchsorted(BAND_EDGES, ratio)
    band = np.where(tier == WITHIN, np.minimum(band, first_beyond - 1), np.maximum(band, first_beyond))
    band[tier == UNALLOCATED] = UNALLOCATED_BAND
    return band


def prices(ratio: Floats, tier: Ints) -> Floats:
    """Return what a GPU-hour is worth at a ratio, float64[K], before separation."""
    price = np.maximum(1 / np.maximum(ratio, LOWEST_RATIO), LEAST_PRICE)
    price[tier == UNALLOCATED] = UNALLOCATED_PRICE
    return price


def _tiers(state: State, ratio: Floats, commit: Ints, place: Ints) -> Ints:
    """Return the tier of every workload: running work is judged by its standing ratio and the site's band."""
    w = state.workloads
    tier = np.where(w.allocated, np.where(ratio <= 1, WITHIN, BEYOND), UNALLOCATED).astype(np.int64)
    running = w.running & w.allocated
    within = (_standing_ratio(state, commit, place) <= 1 + state.policy.band) & (w.leaf >= 0)
    tier[running] = np.where(within[running], WITHIN, BEYOND)
    return tier


def _in_money(state: State, sequence: Ints) -> Bools:
    """Tell for whom all that ranks before and itself fit what it could use, protected work not subtracted."""
    n, w = state.nodes, state.workloads
    up = np.bincount(n.pool, np.where(n.state == 0, n.gpus, 0), len(n.pool_cluster))
    capacity = (w.pool_ok @ up)[sequence]
    out = np.zeros(w.count, dtype=bool)
    out[sequence] = np.cumsum(w.gpus[sequence]) <= capacity
    return out


def eviction_gpus(state: State, order: Order, tier: int) -> Ints:
    """Return the GPUs whose restart is charged when a workload makes room for `tier`, weighted, int64[W]."""
    later_allocated = (order.tier > tier) & (order.tier < UNALLOCATED)
    return state.workloads.gpus * np.where(later_allocated, ALLOCATED_VICTIM, 1)


@once
def losses_gpu_s(state: State) -> Ints:
    """Return the GPU-seconds that evicting each run throws away, int64[W]; no more than it has done."""
    w = state.workloads
    done_s = np.where(w.pending, 0, np.maximum(state.now_s - w.started_s, 0))
    lost_s = np.where(w.resumable, np.minimum(done_s, state.policy.restart_cost_s), done_s)
    return lost_s * w.gpus


@once
def lost_hours(state: State) -> Floats:
    """Return the work that evicting each run throws away, float64[W], GPU-hours, at most H for each GPU."""
    most = state.workloads.gpus * (state.policy.worth_s / 3600)
    out: Floats = np.minimum(losses_gpu_s(state) / 3600, most)
    return out


def regret(state: State, order: Order) -> Floats:
    """Return what losing each victim of a later tier means, float64[W], GPU-hours: it chooses, never decides.

    The worth of going on, and the work that would be lost.
    """
    hours = state.policy.worth_s / 3600
    out: Floats = order.price * state.workloads.gpus * hours + lost_hours(state)
    return out


def owed(share_use: Ints, demand_use: Ints) -> int:
    """Return what an allocation is owed: the sum over hours of min(share x capacity, demand), budget units.

    Parameters
    ----------
    share_use, demand_use : int64[hours], micro budget units
    """
    return int(np.minimum(share_use, demand_use).sum())
