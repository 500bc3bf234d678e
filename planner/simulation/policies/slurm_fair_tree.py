"""`slurm-fair-tree`: Slurm with Fair Tree priorities, backfill on time limits and preemption by QOS.

Source: Slurm's documentation: Fair Tree (fair_tree.html: LF = S / U, ties, depth-first ranking), the
multifactor priority plugin (`PriorityDecayHalfLife` 7-0), the scheduling guide (sched_config.html: strict
order, then sched/backfill), slurm.conf (`bf_job_part_count_reserve`, `bf_window`, `PreemptExemptTime`)
and preempt/qos with the flag NoReserve (preempt.html, sacctmgr). A site as its administrators might set it:

    usage        U_v <- U_v 2^(-t / half-life) + (GPUs x charge that its work held) t     per round, t apart
    rank         `fair_tree.ranking` of the allocations by S = share and U; it dominates all other factors
    turn         QOS allocated before unallocated, rank, priority (nice), submit; all that waits is tested
    backfill     the first `RESERVATIONS` allocated workloads that cannot start reserve whole nodes from their
                 earliest start on, by time limits (`MAX_TIME_S` where there is none, the partition's
                 MaxTime); nobody starts on them who may still run then
    preemption   QOS allocated preempts QOS unallocated, requeued; none preempts its own QOS, so allocated
                 work runs to its end or limit: fair share orders and never preempts. PreemptExemptTime of an
                 allocated run is its min runtime, which so is never put to the test

Both QOS are charged (UsageFactor 1). A run is charged until the first round that no longer sees it.

Differences: users of an allocation are not told apart; one partition; a node bears one reservation at most
(Slurm keeps a map over time); work on a draining node stops when its protection ends (the contract), where
Slurm lets it finish; starts are expected, not promised.
"""

from __future__ import annotations

import numpy as np

from planner.simulation.policies.backfill import Backfill
from planner.simulation.policies.base import Round, Setting, Verdict
from planner.simulation.policies.fair_tree import level_fairshare, ranking
from planner.simulation.policies.serving import Serving, Shapes
from solver.state import Floats, Ints, State

HALF_LIFE_S = 7 * 86_400
"""PriorityDecayHalfLife."""

MAX_TIME_S = 7 * 86_400
"""MaxTime of the partition: what a workload without a time limit is taken to ask for."""

RESERVATIONS = 8
"""bf_job_part_count_reserve; 1 is EASY backfill. By default Slurm reserves for all that it tests."""


class SlurmFairTree:
    """Fair Tree over decayed usage, and backfill.

    Attributes
    ----------
    usage : float64[V], GPU-seconds times charge
        Decayed usage of each allocation; 0 for inner nodes.
    rate : float64[V]
        What each allocation has been using since `then_s`, per second.
    """

    def __init__(self, setting: Setting) -> None:
        self.shapes = Shapes(setting.trace.count)
        self.usage = np.zeros(len(setting.paths))
        self.rate = np.zeros(len(setting.paths))
        self.then_s = 0

    def decide(self, round_: Round) -> Verdict:
        """Start by rank what delays no reservation."""
        serving, w = Serving(round_, self.shapes), round_.state.workloads
        self._accrue(round_.state.now_s)
        place = self.ranks(round_.state)[w.leaf]
        js = serving.in_turn(serving.pending, ~w.allocated, place, -w.priority)
        backfill = Backfill(serving, np.minimum(w.time_limit_s, MAX_TIME_S), RESERVATIONS)
        for j in js.tolist():
            backfill.take(j)
        self.rate = _rates(serving)
        return serving.verdict()

    def ranks(self, state: State) -> Ints:
        """Return the place of each allocation in the Fair Tree, int64[V]."""
        b, usage = state.budgets, self.usage.copy()
        for v in range(b.count - 1, 0, -1):  # parents come before their children
            usage[b.parent[v]] += usage[v]
        return ranking(b.parent, b.is_leaf, level_fairshare(b.parent, b.share_ppb, usage))

    def _accrue(self, now_s: int) -> None:
        """Let the usage decay, and add what has been used since the last round."""
        passed_s = now_s - self.then_s
        self.usage = self.usage * 0.5 ** (passed_s / HALF_LIFE_S) + self.rate * passed_s
        self.then_s = now_s


def _rates(serving: Serving) -> Floats:
    """Return what the work of each allocation uses per second as the board stands, float64[V]."""
    board, w = serving.board, serving.state.workloads
    charge = serving.state.policy.charge_micro / 1e6
    pool, p = serving.state.nodes.pool, w.placement
    rate = np.zeros(w.count)
    ran = np.flatnonzero(board.standing & (np.diff(p.ptr) > 0))
    rate[ran] = serving.gpus[ran] * charge[pool[p.node[p.ptr[ran]]]]
    for j, parts in board.starts.items():
        rate[j] = serving.gpus[j] * charge[pool[parts[0][0]]]
    known = w.leaf >= 0
    return np.bincount(w.leaf[known], rate[known], serving.state.budgets.count).astype(np.float64)
