"""Advice: which moves of interruptible work would make room for which gang, and what they would throw away.

A plan preempts only where the order allows it and it is worth it. What it leaves is said here and done by
nobody: a run that stops and goes on elsewhere loses a restart, and somebody may want to pay that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.board import Board, Parts
from solver.evictable import Evictable
from solver.feasible import placeable
from solver.greedy import greedy
from solver.placing import find_free, make_room
from solver.shares import losses_gpu_s, rank
from solver.state import Bools, Ints

GANGS = 8
"""Waiting gangs that are looked at, best of the order first."""

LEAST_COST = 1e-3
"""GPU-hours that a move costs at least, so that fewer moves are better than more."""


@dataclass(frozen=True)
class Departure:
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
    moves: tuple[Departure, ...]

    @property
    def lost_gpu_s(self) -> int:
        """Work that all the moves throw away."""
        return sum(move.lost_gpu_s for move in self.moves)


def advise(board: Board) -> list[Advice]:
    """Return what would let the best gangs that wait for a place start now, each on its own.

    On the board as the plan leaves it, for a gang that gets the room if those who move are kept away: without
    them others rank anew, and whoever then goes before it has its turn first.
    """
    w, order = board.state.workloads, board.order
    waits = ~board.standing & w.pending & order.in_money & (w.replicas > 1)
    js = order.sequence[waits[order.sequence]][:GANGS].tolist()
    if not js:
        return []
    lost_gpu_s, fits = losses_gpu_s(board.state), placeable(board.state)
    evictable = Evictable(board, board.standing & board.interruptible, lost_gpu_s / 3600 + LEAST_COST)
    out = []
    for j in js:
        if board.limit_room(j) < w.gpus[j] or find_free(board, j) is not None:
            continue
        move = make_room(board, j, evictable)
        after = None if move is None else _once_gone(board, j, move.victims, fits)
        if move is not None and after is not None:
            out.append(Advice(j, after.starts[j], _departures(after, move.victims, lost_gpu_s)))
    return out


def _once_gone(board: Board, j: int, victims: list[int], fits: Bools) -> Board | None:
    """Return the board once some have left for good and `j` has had its turn; None if it starts not even so.

    Parameters
    ----------
    fits : bool[W]
        Could start if all that is interruptible made room.
    """
    trial, order, preempted_gpus = board.copy(), board.order, board.preempted_gpus
    for r in victims:
        trial.evict(r, int(order.tier[j]))
    trial.preempted_gpus = preempted_gpus  # whoever is moved by hand is not preempted by a round
    left = order.sequence[~np.isin(order.sequence, victims)]
    trial.order = rank(board.state, left, fits)
    turns = trial.order.sequence[: int(trial.order.position[j]) + 1]
    # whom this plan preempts will wait as well, and has a turn
    after = greedy(trial, turns)
    others = after.victims.keys() - trial.victims.keys()
    return after if j in after.starts and not any(j in after.gainers(r) for r in others) else None


def _departures(after: Board, victims: list[int], lost_gpu_s: Ints) -> tuple[Departure, ...]:
    """Return where each of the victims could go on once the gang has its place, the largest first."""
    trial, gpus, out = after.copy(), after.state.workloads.gpus, []
    trial.release_nodes()
    for r in sorted(victims, key=lambda r: (-int(gpus[r]), r)):
        to = find_free(trial, r)
        if to is not None:
            trial.start(r, to)
        out.append(Departure(r, to or [], int(lost_gpu_s[r])))
    return tuple(out)
