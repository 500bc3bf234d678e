"""Where the GPU time of every hour went, in exact GPU-seconds.

In each hour: capacity = unavailable + allocated + unallocated + idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from planner.model.budget import leaf_shares
from planner.simulation.history import History
from planner.simulation.metrics.runs import NEVER, Fates, Runs
from solver.state import Ints, NodeState

HOUR_S = 3600


@dataclass(frozen=True)
class Hours:
    """The GPU-seconds of H hours, the last of which may be cut short, and of A allocations.

    Attributes
    ----------
    allocations : tuple of str
        The leaves of the budget tree, in its order.
    shares : tuple of Fraction
    capacity_gpu_s, unavailable_gpu_s : int64[H]
        Of all nodes, and of those that are down; a draining node is available.
    allocated_gpu_s, unallocated_gpu_s : int64[A, H]
        Delivered.
    demand_gpu_s : int64[A, H]
        Of allocated workloads, pending or running.
    """

    allocations: tuple[str, ...]
    shares: tuple[Fraction, ...]
    capacity_gpu_s: Ints
    unavailable_gpu_s: Ints
    allocated_gpu_s: Ints
    unallocated_gpu_s: Ints
    demand_gpu_s: Ints

    @property
    def count(self) -> int:
        """Number of hours."""
        return len(self.capacity_gpu_s)

    @property
    def available_gpu_s(self) -> Ints:
        """GPU-seconds of nodes that are not down, int64[H]."""
        return self.capacity_gpu_s - self.unavailable_gpu_s

    @property
    def idle_gpu_s(self) -> Ints:
        """Available GPU-seconds that nothing held, int64[H]."""
        delivered: Ints = (self.allocated_gpu_s + self.unallocated_gpu_s).sum(axis=0)
        return self.available_gpu_s - delivered

    def owed(self, a: int) -> tuple[list[int], int]:
        """Return what allocation `a` is owed in each hour, the smaller of its share and its demand.

        The amounts are GPU-seconds times the second value, the denominator of its share: whole numbers.
        """
        top, bottom = self.shares[a].as_integer_ratio()
        hours = zip(self.available_gpu_s.tolist(), self.demand_gpu_s[a].tolist(), strict=True)
        return [min(top * available, bottom * demand) for available, demand in hours], bottom


def hours_of(history: History, runs: Runs, fates: Fates) -> Hours:
    """Return where the GPU time of every hour went."""
    inventory, terms, end_s = history.inventory, history.terms, history.end_s
    shares = leaf_shares(history.site.budgets)
    allocations = tuple(p for p, leaf in zip(inventory.paths, inventory.is_leaf, strict=True) if leaf)
    column = np.cumsum(inventory.is_leaf) - 1
    every, payer = len(allocations), column[terms.leaf[runs.workload]]
    assert (terms.leaf[runs.workload] >= 0).all(), "work of an unknown allocation is refused, not run"

    def held(kind: Ints) -> Ints:
        return _between(runs.start_s[kind], runs.end_s[kind], payer[kind], runs.gpus[kind], every, end_s)

    wants = np.flatnonzero(fates.counts & terms.allocated)
    until_s = np.where(fates.over_s == NEVER, end_s, fates.over_s)
    total = np.array([inventory.nodes.gpus.sum()])
    zero = np.zeros(1, dtype=np.int64)
    return Hours(
        allocations=allocations,
        shares=tuple(shares[path] for path in allocations),
        capacity_gpu_s=integrals(zero, zero, total, 1, end_s)[0],
        unavailable_gpu_s=integrals(*_outages(history), 1, end_s)[0],
        allocated_gpu_s=held(np.flatnonzero(runs.allocated)),
        unallocated_gpu_s=held(np.flatnonzero(~runs.allocated)),
        demand_gpu_s=_between(
            history.trace.submitted_s[wants],
            until_s[wants],
            column[terms.leaf[wants]],
            terms.gpus[wants],
            every,
            end_s,
        ),
    )


def integrals(time_s: Ints, series: Ints, change: Ints, count: int, end_s: int) -> Ints:
    """Return the integrals of step functions over each hour up to `end_s`, exactly.

    Parameters
    ----------
    time_s, series, change : int64[K]
        From `time_s` >= 0 on, the rate of `series` is higher by `change`; all rates are 0 before.

    Returns
    -------
    int64[count, H]
        At least one hour, which is empty where `end_s` is 0.
    """
    hours = max(1, -(-end_s // HOUR_S))
    inside = time_s < end_s
    time_s, series, change = time_s[inside], series[inside], change[inside]
    hour = time_s // HOUR_S
    out = np.zeros((count, hours), dtype=np.int64)
    np.add.at(out, (series, hour), change * ((hour + 1) * HOUR_S - time_s))
    rate = np.zeros((count, hours + 1), dtype=np.int64)
    np.add.at(rate, (series, hour + 1), change)
    np.cumsum(rate, axis=1, out=rate)
    out += rate[:, :-1] * HOUR_S
    out[:, -1] -= rate[:, -1] * (hours * HOUR_S - end_s)  # the last hour may be cut short
    return out


def _between(begin_s: Ints, end_s: Ints, series: Ints, rate: Ints, count: int, until_s: int) -> Ints:
    """Return the hourly integrals of spans that each add `rate` to their series."""
    return integrals(
        np.concatenate([begin_s, end_s]),
        np.concatenate([series, series]),
        np.concatenate([rate, -rate]),
        count,
        until_s,
    )


def _outages(history: History) -> tuple[Ints, Ints, Ints]:
    """Return times, series (all 0) and changes of the number of GPUs on nodes that are down."""
    nodes = history.inventory.nodes
    order = np.argsort(history.node, kind="stable")
    node, state = history.node[order], history.node_state[order]
    first = np.ones(len(node), dtype=bool)
    first[1:] = node[1:] != node[:-1]
    before = np.roll(state, 1)
    before[first] = nodes.state[node[first]]
    change = ((state == NodeState.DOWN).astype(np.int64) - (before == NodeState.DOWN)) * nodes.gpus[node]
    at_first = int(nodes.gpus[nodes.down].sum())
    time_s = np.append(0, history.node_time_s[order])
    return time_s, np.zeros_like(time_s), np.append(at_first, change)
