"""`hadoop-fair`: the Fair Scheduler of 2009, with minimum shares, deficits and preemption after time-outs.

Source: Apache Hadoop 0.20's fair scheduler with the preemption of HADOOP-4665 (its README, "Implementation",
the documentation of fair-scheduler.xml and the design document, "Fair Share Computation"; Zaharia et al.,
EECS-2009-55). A pool is an allocation. With weight w_i = its share, demand d_i = what its allocated work runs
and wants, minimum share m_i, G healthy GPUs, u_i GPUs that it runs:

    fair share   f_i = min(d_i, max(r w_i, m_i)), r such that sum f_i = min(G, sum d_i)
    deficit      D_i grows by (f_i - u_i) per second; 0 once the pool wants nothing
    turn         pools with u_i < min(m_i, d_i) first; among those, and then among all, the highest D_i
    preemption   u_i < min(m_i, d_i) for `MIN_SHARE_TIMEOUT_S`: up to min(m_i, d_i);
                 u_i < min(f_i / 2, d_i) for `FAIR_SHARE_TIMEOUT_S`: up to f_i;
                 if both hold, the larger; victims are the most recently started work of pools above f

Deficits stand still within a round, so the pool that is owed most takes all that fits, as in the original.

Differences: a task is a whole gang: a victim may hold more than the gang that it makes room for, and the last
one may take its pool below f; for a gang larger than what its pool lacks, no more than that is evicted of
allocated work. Deficits belong to pools and not to jobs; inside a pool: priority, then submit. A site file
has no minimum shares: half of the share is taken, so that either time-out can bind. Only work past its
protection is taken (the contract). Unallocated work has no part in any of this and makes room at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from planner.simulation.policies.base import Round, Setting, Verdict
from planner.simulation.policies.division import fair_shares
from planner.simulation.policies.serving import Serving, Shapes
from planner.simulation.policies.starvation import Hunger, serve
from solver.state import Floats

MIN_SHARE_TIMEOUT_S = 300
FAIR_SHARE_TIMEOUT_S = 600
"""Those of the documentation's example; both are off by default there."""

MIN_SHARE = 0.5
"""Minimum share of a pool, as a part of its share."""


class HadoopFair:
    """Deficits, minimum shares and time-outs.

    Attributes
    ----------
    minimum_gpus : dict of path to GPUs, or None
        Minimum share of each pool, 0 where not given; None = `MIN_SHARE` of its share.
    deficit : float64[V], GPU-seconds
    """

    def __init__(
        self,
        setting: Setting,
        minimum_gpus: Mapping[str, float] | None = None,
        min_share_timeout_s: int = MIN_SHARE_TIMEOUT_S,
        fair_share_timeout_s: int = FAIR_SHARE_TIMEOUT_S,
    ) -> None:
        self.shapes = Shapes(setting.trace.count)
        self.paths, self.minimum_gpus = setting.paths, minimum_gpus
        self.min_share_timeout_s, self.fair_share_timeout_s = min_share_timeout_s, fair_share_timeout_s
        self.below_minimum, self.below_half = Hunger(), Hunger()
        self.deficit = np.zeros(len(setting.paths))
        self.gap = np.zeros(len(setting.paths))  # fair share less use since `then_s`
        self.then_s = 0

    def decide(self, round_: Round) -> Verdict:
        """Serve needy pools, then the highest deficits; then whoever has starved too long takes its share."""
        serving, w = Serving(round_, self.shapes), round_.state.workloads
        pools = _Pools(serving, self._minimum(serving))
        self._accrue(round_.state.now_s, pools)
        waits = serving.in_turn(serving.pending[w.allocated[serving.pending]], -w.priority)
        serve(
            serving,
            waits,
            lambda leaves: pools.neediest(leaves, self.deficit),
            self._targets(round_.state.now_s, pools),
            pools.fair,
            keep_share=False,
        )
        serving.fill()
        self.gap = np.where(pools.demand > 0, np.array(pools.fair) - serving.in_use, 0.0)
        return serving.verdict()

    def _minimum(self, serving: Serving) -> Floats:
        """Return the minimum share of each pool, float64[V], GPUs."""
        if self.minimum_gpus is not None:
            return np.array([self.minimum_gpus.get(path, 0) for path in self.paths], dtype=float)
        n, b = serving.state.nodes, serving.state.budgets
        gpus = int(n.gpus[n.up].sum())
        return np.where(b.is_leaf, MIN_SHARE * gpus * b.share_ppb / 1e9, 0.0)

    def _accrue(self, now_s: int, pools: _Pools) -> None:
        """Add to the deficits what the pools lacked since the last round."""
        grown = self.deficit + self.gap * (now_s - self.then_s)
        self.deficit = np.where(pools.demand > 0, grown, 0.0)
        self.then_s = now_s

    def _targets(self, now_s: int, pools: _Pools) -> Floats:
        """Return up to how many GPUs each pool may take others' place, float64[V]; 0 = may not."""
        used, fair = np.array(pools.serving.in_use), np.array(pools.fair)
        floor = np.minimum(pools.minimum, pools.demand)
        poor_s = self.below_minimum.lasts_s(used < floor, now_s)
        unfair_s = self.below_half.lasts_s(used < np.minimum(fair / 2, pools.demand), now_s)
        target = np.where(poor_s >= self.min_share_timeout_s, floor, 0.0)
        late = unfair_s >= self.fair_share_timeout_s
        return np.maximum(target, np.where(late, np.minimum(fair, pools.demand), 0.0))


class _Pools:
    """The pools of one round: demand, minimum and fair share of each budget tree node, 0 for inner nodes."""

    def __init__(self, serving: Serving, minimum: Floats) -> None:
        self.serving, self.minimum = serving, minimum
        state, w = serving.state, serving.state.workloads
        demand = serving.by_budget(w.allocated & (serving.board.standing | w.pending))
        self.demand: Floats = np.where(state.budgets.is_leaf, demand, 0.0)
        gpus = int(state.nodes.gpus[state.nodes.up].sum())
        self.fair = fair_shares(
            state.budgets.share_ppb.tolist(), minimum.tolist(), self.demand.tolist(), gpus
        )
        self.floor = np.minimum(minimum, self.demand).tolist()

    def neediest(self, leaves: Iterable[int], deficit: Floats) -> int:
        """Return the pool whose turn it is."""
        used = self.serving.in_use
        return min(leaves, key=lambda v: (used[v] >= self.floor[v], -deficit[v], v))
