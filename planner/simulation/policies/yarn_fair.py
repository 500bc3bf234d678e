"""`yarn-fair`: instantaneous weighted fair shares, level by level, with preemption after a time-out.

Source: Apache Hadoop YARN, FairScheduler (its documentation, `weight`, `fairSharePreemptionThreshold`,
`fairSharePreemptionTimeout`, `preemption.cluster-utilization-threshold`; `ComputeFairShares`; YARN-2352 and
2393 for instantaneous against steady shares). A queue is a budget tree node. Among the children of a node
that are active (their allocated work runs or waits), with weight w_i = share and limit L_i, u_i GPUs run:

    fair share   f_i = min(r w_i, L_i), r such that sum f_i = f_parent; f_root = healthy GPUs;
                 an inactive queue has 0, and demand does not cap f
    turn         from the root down: the child with the lowest u_i / w_i that has work left to try
    preemption   a leaf with u_i < min(threshold f_i, demand) for the time-out takes the place of the most
                 recently started work of leaves above their f, up to min(f_i, demand); while more than
                 `UTILIZATION` of the GPUs are in allocated use

Differences: a container is a whole gang: a victim may hold more than the gang that it makes room for, though
its leaf keeps its fair share, as in YARN; for a gang larger than what its leaf lacks, no more than that is
evicted of allocated work. No minimum shares (YARN's default). Inside a leaf: priority, then submit, and no
preemption. Only work past its protection is taken (the contract). Unallocated work is as YARN's opportunistic
containers: outside every share, and it makes room for allocated work at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from planner.simulation.policies.base import Round, Setting, Verdict
from planner.simulation.policies.division import fair_shares
from planner.simulation.policies.serving import Serving, Shapes
from planner.simulation.policies.starvation import Hunger, serve
from solver.state import Bools, Floats

TIMEOUT_S = 600
"""Off by default in YARN; as long as that of Hadoop's documented example."""

THRESHOLD = 0.5
"""Part of its fair share below which a queue starves: YARN's default."""

UTILIZATION = 0.8
"""YARN's default."""


class YarnFair:
    """Fair shares of the moment, without memory but for who starves."""

    def __init__(self, setting: Setting, timeout_s: int = TIMEOUT_S, threshold: float = THRESHOLD) -> None:
        self.shapes = Shapes(setting.trace.count)
        self.timeout_s, self.threshold = timeout_s, threshold
        self.hunger = Hunger()

    def decide(self, round_: Round) -> Verdict:
        """Serve the lowest use for its weight at every level; then whoever has starved takes its share."""
        serving, w = Serving(round_, self.shapes), round_.state.workloads
        queues = Queues(serving)
        waits = serving.in_turn(serving.pending[w.allocated[serving.pending]], -w.priority)
        serve(serving, waits, queues.next_leaf, self.targets(queues), queues.fair, keep_share=True)
        serving.fill()
        return serving.verdict()

    def targets(self, queues: Queues) -> Floats:
        """Return up to how many GPUs each leaf may take others' place, float64[V]; 0 = may not."""
        lasts_s = self.hunger.lasts_s(self.starved(queues), queues.serving.state.now_s)
        if queues.serving.in_use[0] <= UTILIZATION * queues.gpus:
            return np.zeros(len(lasts_s))
        return np.where(lasts_s >= self.timeout_s, np.minimum(queues.fair, queues.demand), 0.0)

    def starved(self, queues: Queues) -> Bools:
        """Tell which leaves are below the threshold of their fair share, and want more, bool[V]."""
        leaf = queues.serving.state.budgets.is_leaf
        floor = np.minimum(self.threshold * np.array(queues.fair), queues.demand)
        out: Bools = leaf & (np.array(queues.serving.in_use) < floor)
        return out


class Queues:
    """The queue tree of one round.

    Attributes
    ----------
    demand : int64[V], GPUs
        What the allocated work of each subtree runs and wants.
    fair : list of float, GPUs
        Instantaneous fair share of each budget tree node.
    """

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        state, w = serving.state, serving.state.workloads
        b = state.budgets
        waits = w.pending
        self.demand = serving.by_budget(w.allocated & (serving.board.standing | waits))
        self.gpus = int(state.nodes.gpus[state.nodes.up].sum())
        self.parent, self.weight = b.parent.tolist(), b.share_ppb.tolist()
        self.children: dict[int, list[int]] = {}
        for v, parent in enumerate(self.parent):
            self.children.setdefault(parent, []).append(v)
        self.fair = self._fair(np.where(b.limit_gpus >= 0, b.limit_gpus, self.gpus).tolist())

    def _fair(self, limit: list[int]) -> list[float]:
        fair = [0.0] * len(self.parent)
        fair[0] = float(min(self.gpus, limit[0]))
        for v in range(len(self.parent)):  # parents come before their children
            active = [c for c in self.children.get(v, ()) if self.demand[c] > 0]
            most = [float(limit[c]) for c in active]
            shares = fair_shares([self.weight[c] for c in active], [0.0] * len(active), most, fair[v])
            for c, share in zip(active, shares, strict=True):
                fair[c] = share
        return fair

    def next_leaf(self, leaves: Iterable[int]) -> int:
        """Return the leaf whose turn it is among those with work left to try."""
        wanting: set[int] = set()
        for v in leaves:
            while v > 0 and v not in wanting:
                wanting.add(v)
                v = self.parent[v]
        v = 0
        while below := [c for c in self.children.get(v, ()) if c in wanting]:
            v = min(below, key=self._use_for_weight)
        return v

    def _use_for_weight(self, v: int) -> tuple[float, int]:
        weight = self.weight[v]
        return (self.serving.in_use[v] / weight if weight else float("inf")), v
