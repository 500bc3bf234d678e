"""`drf`: dominant resource fairness over GPUs, CPUs and memory, weighted by budget.

Source: Ghodsi et al., "Dominant Resource Fairness", NSDI'11, section 4.1 (algorithm 1: progressive filling)
and 4.3 (weights). Rule: with u_ir what allocation i holds of resource r, R_r all of it, w_i the share of i,

    s_i = max over r of u_ir / (R_r w_i)        its weighted dominant share;

whoever has the lowest s_i is served next, one workload at a time.

Differences: algorithm 1 stops when the chosen user's task does not fit; here its next one is tried and then
the next allocation, so that no GPU idles behind a gang. A task is a whole gang. As in the paper nothing is
preempted for fairness: unallocated work, which no s_i counts, is all that makes room. The budget tree is
flat: the paper has no hierarchy. Inside an allocation: priority, then submit. R counts healthy nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from planner.simulation.policies.base import Round, Setting, Verdict
from planner.simulation.policies.serving import Serving, Shapes
from solver.state import Floats, State


class Drf:
    """Lowest weighted dominant share first."""

    def __init__(self, setting: Setting) -> None:
        self.shapes = Shapes(setting.trace.count)

    def decide(self, round_: Round) -> Verdict:
        """Fill progressively."""
        serving, w = Serving(round_, self.shapes), round_.state.workloads
        waits = serving.pending[w.allocated[serving.pending]]
        filling = _Filling(serving)
        serving.by_turn(serving.in_turn(waits, -w.priority), filling.lowest, filling.take)
        serving.fill()
        return serving.verdict()


class _Filling:
    """Dominant shares as the round goes on."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        w, b = serving.state.workloads, serving.state.budgets
        self.part = fractions(serving.state)
        stands = serving.board.standing & w.allocated & (w.leaf >= 0)
        used = [np.bincount(w.leaf[stands], p[stands], b.count) for p in self.part]
        self.used = np.array(used).T.tolist()
        self.weight = (b.share_ppb / 1e9).tolist()

    def dominant(self, leaf: int) -> float:
        """Return the weighted dominant share of an allocation."""
        weight = self.weight[leaf]
        return float(max(self.used[leaf])) / weight if weight else float("inf")

    def lowest(self, leaves: Iterable[int]) -> int:
        """Return whose turn it is."""
        return min(leaves, key=lambda v: (self.dominant(v), v))

    def take(self, j: int) -> bool:
        """Start `j` if it fits, and charge it; tell whether."""
        if not self.serving.take(j):
            return False
        leaf = int(self.serving.state.workloads.leaf[j])
        self.used[leaf] = [u + float(p[j]) for u, p in zip(self.used[leaf], self.part, strict=True)]
        return True


def fractions(state: State) -> Floats:
    """Return what each workload asks of all healthy GPUs, CPUs and memory, float64[3, W], 0 to 1.

    0 where a resource is not counted.
    """
    n, w = state.nodes, state.workloads
    healthy = n.up
    out = np.zeros((3, w.count))
    asked = (w.gpus, w.replicas * w.cpus_milli, w.replicas * w.memory_bytes)
    for row, ask, have in zip(out, asked, (n.gpus, n.cpus_milli, n.memory_bytes), strict=True):
        total = float(have[healthy].sum())
        if total:
            row[:] = ask / total
    return out
