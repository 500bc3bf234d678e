"""Backfill on time limits: nobody starts who could delay a reserved start.

Reservations are worked out only once somebody could overtake who has one coming: most rounds need none.
"""

from __future__ import annotations

import numpy as np

from planner.simulation.policies.serving import Serving, might_hold
from solver.placing import choose
from solver.state import FOREVER_S, Bools, Ints

RESOLUTION_S = 60
"""What is over its end, or stopping, is expected to go after so long (Slurm's bf_resolution)."""


class Backfill:
    """The reservations of one round: on whole nodes, one for each node at most.

    Attributes
    ----------
    lasts_s : int64[W], seconds
        How long a run may take.
    room : int
        Reservations that may still be made.
    hold_s : int64[N], epoch seconds
        The reserved start on each node; `FOREVER_S` where there is none.
    blocked : list of int
        Work that is to have a reservation, none worked out yet, highest rank first.
    failed : dict of int to int
        Shortest time, by shape, for which no place was found; victims make no difference to it, because all
        that may be evicted counted as free.
    """

    def __init__(self, serving: Serving, lasts_s: Ints, most: int) -> None:
        self.serving, self.lasts_s, self.room = serving, lasts_s, most
        self.hold_s = np.full(serving.state.nodes.count, FOREVER_S, dtype=np.int64)
        self.blocked: list[int] = []
        self.failed: dict[int, int] = {}

    def take(self, j: int) -> bool:
        """Start `j` if it delays no reservation; tell whether. Blocked allocated work gets a reservation."""
        if self.serving.board.limit_room(j) < self.serving.gpus[j]:
            return False
        if self._start(j):
            return True
        if self.serving.state.workloads.allocated[j] and self.room > 0:
            self.room -= 1
            self.blocked.append(j)
        return False

    def _start(self, j: int) -> bool:
        serving, board = self.serving, self.serving.board
        shape, lasts_s = serving.shape[j], int(self.lasts_s[j])
        if lasts_s >= self.failed.get(shape, FOREVER_S):
            return False
        if not (serving.within_reach(j) and serving.could_start(j, serving.unallocated, 0)):
            self.failed[shape] = 0
            return False
        self._reserve()
        held = self.hold_s < serving.state.now_s + lasts_s
        board.hold_s = np.where(held, 0, FOREVER_S)
        started = serving.start(j, serving.unallocated, 0)
        board.hold_s = np.full(len(held), FOREVER_S, dtype=np.int64)
        if not started:
            self.failed[shape] = lasts_s if held.any() else 0
        return started

    def _reserve(self) -> None:
        """Reserve nodes for whoever is blocked, each from its earliest start on."""
        ahead = _Ahead(self.serving, self.lasts_s) if self.blocked else None
        for j in self.blocked:
            found = ahead.earliest(j, self.hold_s == FOREVER_S) if ahead else None
            if found is not None:
                start_s, nodes = found
                self.hold_s[nodes] = start_s
        self.blocked = []


class _Ahead:
    """Free capacity from now on, if allocated work runs to its limit and unallocated work makes room.

    Attributes
    ----------
    times_s : int64[K], epoch seconds
        When something comes free, and now.
    free : three of int64[K, N], or int64[N] where nothing asks for the resource
        Free GPUs, CPUs and memory of each node at these times.
    total_gpus : int64[K]
    """

    def __init__(self, serving: Serving, lasts_s: Ints) -> None:
        self.board, self.gpus = serving.board, serving.gpus
        state, w, p = serving.state, serving.state.workloads, serving.state.workloads.placement
        ends_s = np.maximum(w.started_s + lasts_s, state.now_s + RESOLUTION_S)
        ends_s[w.stopping] = state.now_s + RESOLUTION_S
        ends_s[serving.unallocated] = state.now_s
        stands = self.board.standing[self.board.owner]
        owner, node, reps = self.board.owner[stands], p.node[stands], p.replicas[stands]
        if self.board.starts:
            new = [(j, n, k) for j, parts in self.board.starts.items() for n, k in parts]
            more = np.array(new, dtype=np.int64).T
            owner, node, reps = (np.concatenate(x) for x in zip((owner, node, reps), more, strict=True))
            started = list(self.board.starts)
            ends_s[started] = state.now_s + lasts_s[started]
        up = self.board.usable[node]
        owner, node, reps = owner[up], node[up], reps[up]
        self.times_s = np.unique(np.append(ends_s[owner], state.now_s))
        at = (np.searchsorted(self.times_s, ends_s[owner]), node)
        free = (self.board.free_gpus, self.board.free_cpus, self.board.free_memory)
        self.free: list[Ints] = []
        for have, each in zip(free, (w.gpus_per_replica, w.cpus_milli, w.memory_bytes), strict=True):
            grid = np.zeros((len(self.times_s), len(have)), dtype=np.int64)
            if each.any():
                np.add.at(grid, at, reps * each[owner])
                np.cumsum(grid, axis=0, out=grid)
            self.free.append(grid + have if each.any() else have)
        self.total_gpus = np.atleast_1d(self.free[0].sum(axis=-1))

    def earliest(self, j: int, open_nodes: Bools) -> tuple[int, list[int]] | None:
        """Return when and on which nodes of `open_nodes` (bool[N]) gang `j` could start first, or None."""
        may = open_nodes & self.board.eligible(j)
        low, high = int(np.searchsorted(self.total_gpus, self.gpus[j])), len(self.times_s)
        while low < high:  # what is free only grows
            middle = (low + high) // 2
            if might_hold(self.board, j, np.where(may, self._slots(j, middle), 0)):
                high = middle
            else:
                low = middle + 1
        for k in range(low, len(self.times_s)):  # the first, but for gangs of segments
            parts = choose(self.board, j, np.where(may, self._slots(j, k), 0))
            if parts is not None:
                return int(self.times_s[k]), [n for n, _ in parts]
        return None

    def _slots(self, j: int, k: int) -> Ints:
        return self.board.slots(j, *(f[k] if f.ndim == 2 else f for f in self.free))
