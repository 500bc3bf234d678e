"""Preemption after time-outs, as in the fair schedulers of Hadoop and YARN: who starves, who gives way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from planner.simulation.policies.serving import Serving
from solver.state import FOREVER_S, Bools, Floats, Ints


class Hunger:
    """For how long each pool has starved, round after round without a break."""

    def __init__(self) -> None:
        self.since_s = np.zeros(0, dtype=np.int64)

    def lasts_s(self, starved: Bools, now_s: int) -> Ints:
        """Note who starves at `now_s` (bool[V]); return for how long, int64[V], -1 for who does not."""
        if not len(self.since_s):
            self.since_s = np.full(len(starved), FOREVER_S, dtype=np.int64)
        self.since_s = np.where(starved, np.minimum(self.since_s, now_s), FOREVER_S)
        return np.where(starved, now_s - self.since_s, -1)


def over_share(serving: Serving, share_gpus: Sequence[float], *, keep_share: bool) -> Bools:
    """Return the allocated work of pools above their share that may give way, bool[W], youngest first.

    Parameters
    ----------
    share_gpus : fair share of every budget tree node, GPUs
    keep_share : bool
        True: a pool keeps its share whatever it gives. False: it gives while it is above its share, so that
        the last gang it gives may take it below.
    """
    board, w = serving.board, serving.state.workloads
    out = np.zeros(w.count, dtype=bool)
    mine = board.standing & board.interruptible & w.allocated & w.running & (w.leaf >= 0)
    excess = [held - share for held, share in zip(serving.in_use, share_gpus, strict=True)]
    js = np.flatnonzero(mine)
    for r in js[np.lexsort((serving.who[js], -w.started_s[js]))].tolist():
        leaf, gpus = int(w.leaf[r]), int(serving.gpus[r])
        if excess[leaf] >= (gpus if keep_share else 1e-9):
            out[r] = True
            excess[leaf] -= gpus
    return out


def serve(
    serving: Serving,
    waits: Ints,
    choose: Callable[[Iterable[int]], int],
    target_gpus: Floats,
    share_gpus: Sequence[float],
    *,
    keep_share: bool,
) -> None:
    """Give pools their turns, then let those that have starved take others' place, then fill what is left.

    Parameters
    ----------
    waits : int64[K]
        Allocated work, in the order in which a pool serves its own.
    choose : callable
        Picks the pool whose turn it is.
    target_gpus : float64[V]
        Up to how many GPUs a starved pool may take others' place; 0 for all others.
    """
    board, leaf = serving.board, serving.state.workloads.leaf
    serving.by_turn(waits, choose)
    victims = len(board.victims)
    for pool in np.flatnonzero(target_gpus > 0).tolist():
        mine = waits[leaf[waits] == pool].tolist()
        _reclaim(serving, mine, float(target_gpus[pool]), share_gpus, keep_share=keep_share)
    if len(board.victims) > victims:
        serving.by_turn(waits[~board.standing[waits]], choose)


def _reclaim(
    serving: Serving, js: list[int], target_gpus: float, share_gpus: Sequence[float], *, keep_share: bool
) -> None:
    """Start work `js` of one pool, in order, in the place of pools above their share, up to its target.

    For a gang larger than what the pool lacks, allocated work that holds no more than that is evicted.
    """
    w, failed = serving.state.workloads, set[int]()
    may = serving.unallocated | over_share(serving, share_gpus, keep_share=keep_share)
    for j in js:
        lacks = target_gpus - serving.in_use[int(w.leaf[j])]
        if lacks <= 0:
            return
        if serving.board.standing[j] or serving.shape[j] in failed:
            continue
        most_gpus = np.inf if serving.gpus[j] <= lacks else lacks
        if serving.board.limit_room(j) >= serving.gpus[j] and serving.evict_for(j, may, most_gpus):
            may = serving.unallocated | over_share(serving, share_gpus, keep_share=keep_share)
        else:
            failed.add(serving.shape[j])
