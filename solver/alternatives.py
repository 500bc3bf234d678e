"""When a waiting gang could certainly start if it asked for less: the same place, or in more domains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from solver.ahead import claims_of, earliest_start, place_slots
from solver.board import Board, Parts
from solver.greedy import serve
from solver.holds import claims_against
from solver.state import Ints, Level


@dataclass(frozen=True)
class Wish:
    """A topology that is asked for: level (or `Level`), and replicas that share a domain (0 = the gang)."""

    required: int
    segment: int


def looser_wishes(board: Board, j: int) -> Iterator[Wish]:
    """Yield what a gang of one domain could ask for instead: two domains, then none in particular."""
    w = board.state.workloads
    required, replicas = int(w.required[j]), int(w.replicas[j])
    if required < 0 or int(w.segment[j]) not in (0, replicas) or replicas == 1:
        return
    if replicas % 2 == 0:
        yield Wish(required, replicas // 2)
    yield Wish(int(Level.NONE), 0)


def start_with(board: Board, j: int, wish: Wish) -> tuple[int, Parts] | None:
    """Return the certain start of gang `j` if it asked for this, and its place; its own promise counts not.

    Epoch seconds; None where it never fits, a limit or the brake forbids it, or it could start now by rank
    and yet would not, such as for restarts that cost more than it is worth.
    """
    asking = _asking(board, j, wish)
    if asking.limit_room(j) < asking.state.workloads.gpus[j]:
        return None
    found = earliest_start(asking, j, claims_against(asking, j))
    if found is None or found[0] > asking.state.now_s:
        return found if found is not None and _brake_allows(asking, j, *found) else None
    serve(asking, np.array([j]))
    return (asking.state.now_s, asking.starts[j]) if j in asking.starts else None


def as_asked(board: Board, j: int) -> Wish:
    """Return what `j` asks for."""
    w = board.state.workloads
    return Wish(int(w.required[j]), int(w.segment[j]))


def without_promise(board: Board, j: int) -> Board:
    """Return a copy of the board on which nothing is promised to `j`, and nothing held for it."""
    out = board.copy()
    if out.promised.pop(j, None) is not None:
        out.release_nodes()
    return out


def _brake_allows(board: Board, j: int, start_s: int, parts: Parts) -> bool:
    """Tell whether no more stands in a place at its time than one round may preempt."""
    most, w = board.state.policy.max_preempted_gpus, board.state.workloads
    if most < 0:
        return True
    stays = board.standing & board.interruptible
    beside = claims_against(board, j).merged(claims_of(board, stays).only(stays))
    slots = place_slots(board, j, beside, start_s)
    full = [n for n, replicas in parts if slots[n] < replicas]
    there = np.unique(board.owner[np.isin(w.placement.node, full)])
    return int(w.gpus[there[stays[there]]].sum()) <= most


def _asking(board: Board, j: int, wish: Wish) -> Board:
    """Return a copy of the board with another wish of `j`, and nothing promised to it."""
    w = board.state.workloads

    def changed(column: Ints, value: int) -> Ints:
        out = column.copy()
        out[j] = value
        return out

    out = without_promise(board, j)
    asked = replace(w, required=changed(w.required, wish.required), segment=changed(w.segment, wish.segment))
    out.state = replace(board.state, workloads=asked)
    return out
