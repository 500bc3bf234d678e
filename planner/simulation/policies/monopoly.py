"""`monopoly`: every team owns its nodes, and nobody else may use them.

Source: static partitions, the private clusters that tenants would have without sharing (Zhao et al., HiveD,
OSDI'20, section 2). Rule: the nodes, in the order of their places, are cut into one stretch for each team, as
long as its share; a node on a border goes to the team that has its middle. A workload starts on its team's
nodes alone: allocated work first, by priority, then submit, passing over what does not fit; it takes the
place of its team's unallocated work where nothing is free.

Differences: nodes are not split, so a team owns its share but for half a node at each end, and one with less
than half a node may own nothing. A gang larger than its team's nodes never starts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.simulation.policies.base import Round, Setting, Verdict
from planner.simulation.policies.serving import Serving, Shapes
from solver.state import Ints, State


class Monopoly:
    """Each team on its own nodes."""

    def __init__(self, setting: Setting) -> None:
        self.shapes = Shapes(setting.trace.count)

    def decide(self, round_: Round) -> Verdict:
        """Start what fits on its own team's nodes."""
        owner, w = owners(round_.state), round_.state.workloads
        serving = Serving(Round(partitioned(round_.state, owner), round_.who), self.shapes)
        leaf, gpus, allocated = w.leaf.tolist(), w.gpus.tolist(), w.allocated.tolist()
        room_gpus = _room(serving, owner)

        def take(j: int) -> bool:
            nonlocal room_gpus
            if gpus[j] > room_gpus[allocated[j]][leaf[j]] or not serving.take(j, right=leaf[j]):
                return False
            room_gpus = _room(serving, owner)
            return True

        serving.in_order(serving.in_turn(serving.pending, ~w.allocated, -w.priority).tolist(), take)
        return serving.verdict()


def _room(serving: Serving, owner: Ints) -> tuple[list[int], list[int]]:
    """Return the GPUs that unallocated and that allocated work of each allocation could use at most.

    What is free on its nodes, and for allocated work also what its unallocated work holds there.
    """
    board, budgets = serving.board, serving.state.budgets.count
    leaf = serving.state.workloads.leaf
    may = serving.unallocated & board.standing & (leaf >= 0)
    free = np.bincount(owner % (budgets + 1), board.free_gpus, budgets + 1)[:budgets]
    loose = np.bincount(leaf[may], serving.gpus[may], budgets)
    return free.astype(np.int64).tolist(), (free + loose).astype(np.int64).tolist()


def owners(state: State) -> Ints:
    """Return the allocation (budget tree node) that owns each node, int64[N]; -1 where none has a share."""
    share = np.where(state.budgets.is_leaf, state.budgets.share_ppb, 0)
    gpus = state.nodes.gpus
    if not share.sum():
        return np.full(len(gpus), -1)
    middle = (2 * np.cumsum(gpus) - gpus) * share.sum()  # both in half GPUs times all shares
    ends = 2 * np.cumsum(share) * gpus.sum()
    owner: Ints = np.searchsorted(ends, middle, side="right")
    return owner


def partitioned(state: State, owner: Ints) -> State:
    """Return the same world, but each team's nodes are pools of its own, the only ones that it may use."""
    n, w = state.nodes, state.workloads
    pools, teams = len(n.pool_type), state.budgets.count + 1  # the last one is nobody
    pool_ok = np.zeros((w.count, teams, pools), dtype=bool)
    pool_ok[np.arange(w.count), w.leaf] = w.pool_ok
    nodes = replace(
        n,
        pool=owner % teams * pools + n.pool,
        pool_cluster=np.tile(n.pool_cluster, teams),
        pool_type=np.tile(n.pool_type, teams),
    )
    policy = replace(state.policy, charge_micro=np.tile(state.policy.charge_micro, teams))
    return replace(
        state,
        nodes=nodes,
        workloads=replace(w, pool_ok=pool_ok.reshape(w.count, teams * pools)),
        policy=policy,
    )
