"""`monopoly`: every team owns its GPUs, and nobody else may use them.

Source: static partitions, the quota of virtual clusters without sharing (Zhao et al., HiveD, OSDI'20, section
2: what a tenant would have in a private cluster). Rule: team i owns q_i GPUs,

    q_i = floor(s_i G) + (1 for the largest remainders),   sum of q_i = G,

s_i its share, G all GPUs of the clusters, healthy or not. A workload starts only while its team holds, with
it, at most q_i; inside a team by priority, then submit, passing over what does not fit. Allocated work takes
the place of its own team's unallocated work where GPUs or the quota lack.

Differences: a team owns a number of GPUs and not nodes, so teams still share nodes and their fragmentation,
and an outage is everybody's. A workload larger than q_i never starts.
"""

from __future__ import annotations

import numpy as np

from planner.simulation.policies.base import Round, Setting, Verdict
from planner.simulation.policies.division import owned_gpus
from planner.simulation.policies.serving import Serving, Shapes
from solver.board import Board, Parts
from solver.placing import choose


class Monopoly:
    """Each team within its own quota."""

    def __init__(self, setting: Setting) -> None:
        self.shapes = Shapes(setting.trace.count)

    def decide(self, round_: Round) -> Verdict:
        """Start what fits into its own team's quota."""
        serving, w = Serving(round_, self.shapes), round_.state.workloads
        quota = owned_gpus(round_.state)
        for leaf in np.unique(w.leaf[serving.pending]).tolist():
            team = _Team(serving, leaf, int(quota[leaf]))
            mine = serving.pending[w.leaf[serving.pending] == leaf]
            serving.in_order(serving.in_turn(mine, ~w.allocated, -w.priority).tolist(), team.take)
        return serving.verdict()


class _Team:
    """One team's turn in a round."""

    def __init__(self, serving: Serving, leaf: int, quota_gpus: int) -> None:
        self.serving, self.leaf, self.quota_gpus = serving, leaf, quota_gpus
        self.own = serving.unallocated & (serving.state.workloads.leaf == leaf)
        self.hopeless: set[int] = set()
        self.victims, self.loose_gpus = -1, 0

    def take(self, j: int) -> bool:
        """Start `j` within the quota, if need be in the place of own unallocated work; tell whether."""
        serving = self.serving
        lacks = int(serving.board.held_gpus[self.leaf] + serving.gpus[j]) - self.quota_gpus
        if lacks <= 0:
            return serving.take(j, self.own, self.leaf + 1)
        if len(serving.board.victims) != self.victims:
            self.victims = len(serving.board.victims)
            self.loose_gpus = int(serving.gpus[self.own & serving.board.standing].sum())
            self.hopeless.clear()
        if lacks > self.loose_gpus or serving.shape[j] in self.hopeless:
            return False
        if serving.state.workloads.allocated[j] and self._swap(j, lacks):
            return True
        self.hopeless.add(serving.shape[j])
        return False

    def _swap(self, j: int, lacks: int) -> bool:
        """Start `j` on the nodes of own unallocated work that gives back what the quota lacks.

        One run alone where that is enough, else the cheapest together.
        """
        serving, board = self.serving, self.serving.board
        own = np.flatnonzero(self.own & board.standing)
        own = own[np.lexsort((serving.who[own], serving.cost[own]))]
        alone = own[serving.gpus[own] >= lacks, None].tolist()
        enough = int(np.searchsorted(np.cumsum(serving.gpus[own]), lacks)) + 1
        for gone in [*alone, *(own[:k].tolist() for k in range(max(enough, 2), len(own) + 1))]:
            found = self._fewest(j, gone, int(serving.gpus[gone].sum()) - lacks)
            if found is not None and int(serving.gpus[found[1]].sum()) <= board.brake_room():
                serving.start_at(j, *found)
                return True
        return False

    def _fewest(self, j: int, gone: list[int], spare: int) -> tuple[Parts, list[int]] | None:
        """Return a place for `j` and those of `gone` that it needs, or None; the dearest are spared first.

        Parameters
        ----------
        spare : int, GPUs
            What `gone` gives back beyond what the quota lacks.
        """
        trial, gpus = self.serving.board.copy(), self.serving.gpus
        for r in gone:
            trial.evict(r, 0)
        parts = _place_on(trial, j, gone)
        for r in reversed(gone):
            rest = [k for k in gone if k != r]
            if gpus[r] > spare or not rest:
                continue
            trial.restore(r)
            other = _place_on(trial, j, rest)
            if other is None:
                trial.evict(r, 0)
            else:
                parts, gone, spare = other, rest, spare - int(gpus[r])
        return None if parts is None else (parts, gone)


def _place_on(trial: Board, j: int, gone: list[int]) -> Parts | None:
    """Return a place for `j` on nodes of all of `gone`, or None."""
    homes = [{n for n, _ in trial.parts(r)} for r in gone]
    slots = trial.free_slots(j)
    inside = np.zeros(len(slots), dtype=bool)
    inside[list(set().union(*homes))] = True
    parts = choose(trial, j, np.where(inside, slots, 0))
    if parts is None or trial.limit_room(j) < trial.state.workloads.gpus[j]:
        return None
    there = {n for n, _ in parts}
    return parts if all(home & there for home in homes) else None
