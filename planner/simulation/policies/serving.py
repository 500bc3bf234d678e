"""What all baselines do alike: give pending work its turn on a board, on free capacity or in others' place.

A policy says whose turn it is and who may make room for it. Here is the contract: an unallocated start evicts
nobody, only interruptible work makes room, and only for a start on its own nodes; limits and the brake hold.
In every baseline allocated work takes the place of unallocated work, the least work lost first, and
unallocated work is free of charge and of shares unless the policy says otherwise.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

import numpy as np

from planner.simulation.policies.base import Round, Verdict
from solver.board import Amounts, Board, Parts
from solver.buddy import gang_of
from solver.feasible import hopeful
from solver.placing import find_by_eviction, find_free, group_key
from solver.shares import BEYOND, UNALLOCATED, WITHIN, Order
from solver.state import Bools, Floats, Ints, State

ALLOCATED_COST_S = 10**9
"""Seconds of lost work that an allocated victim counts beyond its own: unallocated work goes first."""


class Shapes:
    """Numbers for what makes workloads alike to a search, remembered by row of the trace."""

    def __init__(self, rows: int) -> None:
        self.number = np.full(rows, -1, dtype=np.int64)
        self.known: dict[tuple[int, ...], int] = {}

    def of(self, round_: Round) -> Ints:
        """Return the shape of each workload of the round, int64[W]."""
        new = np.flatnonzero(self.number[round_.who] < 0)
        if len(new):
            w = round_.state.workloads
            columns = (w.replicas, w.gpus_per_replica, w.cpus_milli, w.memory_bytes, w.required, w.segment)
            table = np.column_stack([c[new] for c in (*columns, w.allocated, w.pool_ok)])
            found = [self.known.setdefault(tuple(row), len(self.known)) for row in table.tolist()]
            self.number[round_.who[new]] = found
        return self.number[round_.who]


def plain_order(state: State) -> Order:
    """Return an order that ranks nobody: pending allocated, running allocated, unallocated work."""
    w = state.workloads
    waits = w.allocated & w.pending
    band = np.where(w.allocated, np.where(waits, WITHIN, BEYOND), UNALLOCATED)
    sequence = np.flatnonzero(waits)
    position = np.full(w.count, len(sequence), dtype=np.int64)
    position[sequence] = np.arange(len(sequence))
    ones = np.ones(w.count)
    return Order(sequence, position, ones, ones, band, band, np.zeros(w.count, dtype=bool))


def might_hold(board: Board, j: int, slots: Ints) -> bool:
    """Tell whether some group of nodes has slots (int64[N]) for gang `j`; exact but for segments."""
    gang = gang_of(board.state, j)
    key = group_key(board, gang.required)
    inside = key >= 0
    return bool(np.bincount(key[inside], slots[inside] // gang.fused, 1).max() >= gang.pieces)


class Serving:
    """One round being decided.

    Attributes
    ----------
    pending : int64[K]
        Work that waits and whose allocation is known.
    gpus : int64[W]
        Of each whole gang.
    in_use : list of int, GPUs
        What allocated work holds under each budget tree node as the board stands.
    unallocated : bool[W]
        Who makes room for any allocated start.
    loose : bool[W]
        Who makes room for anybody at all under this policy.
    cost : float64[W]
        What evicting each costs: GPU-seconds since its start, which are the work that may be lost.
    """

    def __init__(self, round_: Round, shapes: Shapes) -> None:
        self.began_s = time.perf_counter()
        self.state, self.who = round_.state, round_.who
        self.board = Board(round_.state, plain_order(round_.state))
        w = self.state.workloads
        self.gpus = w.gpus
        self.shape = shapes.of(round_).tolist()
        self.pending = np.flatnonzero(w.pending & (w.leaf >= 0))
        runs = w.running
        self.unallocated: Bools = runs & ~w.allocated
        self.loose = self.unallocated
        done_s = np.where(runs, self.state.now_s - w.started_s + 1, 0)
        self.cost: Floats = self.gpus * (done_s + np.where(w.allocated, ALLOCATED_COST_S, 0.0))
        self.cost += self.who / len(shapes.number)  # ties do not depend on the order of the state
        self.in_use = self.by_budget(self.board.standing & w.allocated).tolist()
        self.hopeless: set[tuple[int, int]] = set()
        self.moves = (-1, -1)
        self.roomy: dict[int | None, Amounts] = {}
        self.reach: set[int] | None = None

    def by_budget(self, which: Bools) -> Ints:
        """Return the GPUs of the workloads `which` (bool[W]) under each budget tree node, int64[V]."""
        leaf, parent = self.state.workloads.leaf, self.state.budgets.parent
        which = which & (leaf >= 0)
        out = np.bincount(leaf[which], self.gpus[which], len(parent)).astype(np.int64)
        for v in range(len(parent) - 1, 0, -1):  # parents come before their children
            out[parent[v]] += out[v]
        return out

    def in_turn(self, js: Ints, *keys: Ints | Bools) -> Ints:
        """Return `js` sorted by `keys` of all workloads, the first one first, then by submit and row."""
        columns = (self.who, self.state.workloads.submitted_s, *reversed(keys))
        return js[np.lexsort([c[js] for c in columns])]

    def free_gpus(self) -> int:
        """Return the GPUs that nothing stands on."""
        return int(self.board.free_gpus.sum())

    def could_start(self, j: int, may: Bools, right: int) -> bool:
        """Tell whether `j` might start now if all of `may` made room for it; `right` as in `take`."""
        board = self.board
        free = self._without(may, right) if self.state.workloads.allocated[j] else board.free
        slots = board.slots(j, *free)
        slots[~board.eligible(j)] = 0
        return might_hold(board, j, slots)

    def within_reach(self, j: int) -> bool:
        """Tell whether `j` might start in this round, were it the first and all loose work made room."""
        if self.reach is None:
            self.reach = set(hopeful(self.board, self.pending, self._without(self.loose, None)).tolist())
        return j in self.reach

    def _without(self, may: Bools, right: int | None) -> Amounts:
        """Return what would be free on each node if `may` made room: GPUs, CPUs, memory."""
        board, w, p = self.board, self.state.workloads, self.state.workloads.placement
        moves = (len(board.starts), len(board.victims))
        if moves != self.moves:
            self.moves, self.roomy = moves, {}
        if right not in self.roomy:
            part = (may & board.standing & board.interruptible)[board.owner] & board.usable[p.node]
            node, owner, reps = p.node[part], board.owner[part], p.replicas[part]
            gpus, cpus, memory = (
                have + np.bincount(node, reps * each[owner], len(have)).astype(np.int64)
                for have, each in zip(
                    board.free, (w.gpus_per_replica, w.cpus_milli, w.memory_bytes), strict=True
                )
            )
            self.roomy[right] = gpus, cpus, memory
        return self.roomy[right]

    # --- starting ----------------------------------------------------------------------------------------

    def take(self, j: int, may: Bools | None = None, right: int = 0) -> bool:
        """Start `j` on free capacity or, if it is allocated, where some of `may` make room; tell whether.

        Parameters
        ----------
        may : bool[W] or None
            Who of `loose` may be evicted for it, if not protected; None = all unallocated work.
        right : int
            Names `may`: in one round equal numbers mean equal rights, so that a shape that found no place is
            not tried again.
        """
        key = (self.shape[j], right)
        if key in self.hopeless or not self.within_reach(j) or self.board.limit_room(j) < self.gpus[j]:
            return False
        if self.start(j, self.unallocated if may is None else may, right):
            return True
        self.hopeless.add(key)
        return False

    def start(self, j: int, may: Bools, right: int) -> bool:
        """Do what `take` does, limits apart, and remember nothing."""
        return self._start_free(j) or (self.could_start(j, may, right) and self.evict_for(j, may))

    def _start_free(self, j: int) -> bool:
        parts = find_free(self.board, j) if self.gpus[j] <= self.free_gpus() else None
        if parts is None:
            return False
        self.start_at(j, parts)
        return True

    def evict_for(self, j: int, may: Bools, most_gpus: float = np.inf) -> bool:
        """Start `j` where some of `may` make room, if it is allocated; tell whether.

        Parameters
        ----------
        most_gpus : float
            What allocated victims may hold together.
        """
        board, w = self.board, self.state.workloads
        may = may & board.standing & board.interruptible
        if not w.allocated[j] or self.gpus[j] > self.free_gpus() + int(self.gpus[may].sum()):
            return False
        move = find_by_eviction(board, j, may, self.cost)
        if move is None or int(self.gpus[move.victims].sum()) > board.brake_room():
            return False
        charged = [r for r in move.victims if w.allocated[r]]
        if int(self.gpus[charged].sum()) > most_gpus:
            return False
        self.start_at(j, move.parts, move.victims)
        return True

    def start_at(self, j: int, parts: Parts, victims: Iterable[int] = ()) -> None:
        """Start `j` in a place that fits once `victims` on its nodes are gone."""
        for r in victims:
            self.board.evict(r, WITHIN)
            self.hopeless.clear()  # it may leave more room than its gainer takes
            if not self.loose[r]:
                self.reach = None
            if self.state.workloads.allocated[r]:
                self._count(r, -1)
        self.board.start(j, parts)
        if self.state.workloads.allocated[j]:
            self._count(j, 1)

    def _count(self, j: int, sign: int) -> None:
        for v in self.state.budgets.path(int(self.state.workloads.leaf[j])):
            self.in_use[v] += sign * int(self.gpus[j])

    # --- turns -------------------------------------------------------------------------------------------

    def in_order(self, js: Iterable[int], take: Callable[[int], bool]) -> None:
        """Give each of `js` its turn, and all that still wait another one whenever somebody made room."""
        waiting, before = list(js), -1
        while len(self.board.victims) != before:
            before = len(self.board.victims)
            waiting = [j for j in waiting if not take(j)]

    def by_turn(
        self, js: Ints, choose: Callable[[Iterable[int]], int], take: Callable[[int], bool] | None = None
    ) -> None:
        """Serve one workload at a time, of the leaf that `choose` picks among those with work left to try.

        Parameters
        ----------
        js : int64[K]
            In the order in which a leaf serves its own; what does not fit is passed over.
        """
        take, before = take or self.take, -1
        while len(self.board.victims) != before:
            before = len(self.board.victims)
            queues: dict[int, deque[int]] = {}
            for j, leaf in zip(js.tolist(), self.state.workloads.leaf[js].tolist(), strict=True):
                queues.setdefault(leaf, deque()).append(j)
            while queues:
                leaf = choose(queues)
                queue = queues[leaf]
                while queue and not take(queue.popleft()):
                    pass
                if not queue:
                    del queues[leaf]
            js = js[~self.board.standing[js]]

    def fill(self) -> None:
        """Start unallocated work on what is left, first come first served."""
        waits = self.pending[~self.state.workloads.allocated[self.pending]]
        self.in_order(self.in_turn(hopeful(self.board, waits, self.board.free)).tolist(), self.take)

    def verdict(self) -> Verdict:
        """Return what has been decided."""
        return Verdict(self.board, solve_s=time.perf_counter() - self.began_s)
