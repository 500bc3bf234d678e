"""When a waiting gang could certainly start if it asked for less: the same place, or in more domains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from solver.ahead import earliest_start
from solver.board import Board, Parts
from solver.greedy import serve
from solver.holds import claims_against, promise_worth
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

    Epoch seconds; None where it never fits, a limit or the brake forbids it, or it is not worth what would
    have to make way.
    """
    asking = _asking(board, j, wish)
    if asking.limit_room(j) < asking.state.workloads.gpus[j]:
        return None
    claims = claims_against(asking, j)
    found = earliest_start(asking, j, claims)
    if found is None:
        return None
    if found[0] > asking.state.now_s:
        return found if promise_worth(asking, j, *found, claims) > 0 else None
    serve(asking, np.array([j]))
    return (asking.state.now_s, asking.starts[j]) if j in asking.starts else None


def as_asked(board: Board, j: int) -> Wish:
    """Return what `j` asks for."""
    w = board.state.workloads
    return Wish(int(w.required[j]), int(w.segment[j]))


def _asking(board: Board, j: int, wish: Wish) -> Board:
    """Return a copy of the board with another wish of `j`."""
    w = board.state.workloads

    def changed(column: Ints, value: int) -> Ints:
        out = column.copy()
        out[j] = value
        return out

    out = board.copy()
    asked = replace(w, required=changed(w.required, wish.required), segment=changed(w.segment, wish.segment))
    out.state = replace(board.state, workloads=asked)
    return out
