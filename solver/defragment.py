"""Advice: which moves of interruptible work would make room for which gang, and what they would throw away.

A plan preempts only where the order allows it and it is worth it. What it leaves is said here and done by
nobody: a run that stops and goes on elsewhere loses a restart, and somebody may want to pay that.
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.alternatives import without_promise
from solver.board import Board, Parts
from solver.evictable import Evictable
from solver.placing import find_free, make_room
from solver.shares import losses_gpu_s
from solver.state import Ints

GANGS = 8
"""Waiting gangs that are looked at, best of the order first."""

LEAST_COST = 1e-3
"""GPU-hours that a move costs at least, so that fewer moves are better than more."""


@dataclass(frozen=True)
class Moved:
    """A run that would have to leave its place.

    Attributes
    ----------
    workload : int
    to : Parts
        Free nodes on which it could go on; empty where there are none, and it would wait.
    lost_gpu_s : int
        Work that stopping it throws away.
    """

    workload: int
    to: Parts
    lost_gpu_s: int


@dataclass(frozen=True)
class Advice:
    """A gang that waits, where it could start, and who would have to move for that."""

    gang: int
    parts: Parts
    moves: tuple[Moved, ...]

    @property
    def lost_gpu_s(self) -> int:
        """Work that all the moves throw away."""
        return sum(move.lost_gpu_s for move in self.moves)


def advise(board: Board) -> list[Advice]:
    """Return what would let the best gangs that wait for a place start now, each on its own.

    Unallocated starts of this round do not count: they would start elsewhere, or not.
    """
    bare = board.copy()
    for i in [i for i in bare.starts if not bare.state.workloads.allocated[i]]:
        bare.cancel(i)
    w, order = bare.state.workloads, bare.order
    lost_gpu_s = losses_gpu_s(bare.state)
    may = bare.standing & bare.interruptible
    evictable = Evictable(bare, may, lost_gpu_s / 3600 + LEAST_COST)
    waits = ~bare.standing & w.pending & order.in_money & (w.replicas > 1)
    out = []
    for j in order.sequence[waits[order.sequence]][:GANGS].tolist():
        here = without_promise(bare, j)
        if here.limit_room(j) < w.gpus[j] or find_free(here, j) is not None:
            continue
        move = make_room(here, j, evictable)
        if move is not None:
            out.append(Advice(j, move.parts, _moved(here, j, move.parts, move.victims, lost_gpu_s)))
    return out


def _moved(board: Board, j: int, parts: Parts, victims: list[int], lost_gpu_s: Ints) -> tuple[Moved, ...]:
    """Return where each of the victims could go on once `j` has its place, the largest first."""
    trial = board.copy()
    for r in victims:
        trial.evict(r, int(board.order.tier[j]))
    trial.start(j, parts)
    gpus, out = board.state.workloads.gpus, []
    for r in sorted(victims, key=lambda r: (-int(gpus[r]), r)):
        to = find_free(trial, r)
        if to is not None:
            trial.start(r, to)
        out.append(Moved(r, to or [], int(lost_gpu_s[r])))
    return tuple(out)
