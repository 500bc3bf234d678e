"""When a waiting gang could certainly start if it asked for less: the same place, or in more domains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from solver.ahead import earliest_start
from solver.board import Board
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


def start_with(board: Board, j: int, wish: Wish) -> int | None:
    """Return the certain start of gang `j` if it asked for this, epoch seconds; None where it never fits."""
    found = earliest_start(_asking(board, j, wish), j, claims_against(board, j))
    return None if found is None else found[0]


def _asking(board: Board, j: int, wish: Wish) -> Board:
    """Return the board with another wish of `j`."""
    w = board.state.workloads

    def changed(column: Ints, value: int) -> Ints:
        out = column.copy()
        out[j] = value
        return out

    out = board.copy()
    asked = replace(w, required=changed(w.required, wish.required), segment=changed(w.segment, wish.segment))
    out.state = replace(board.state, workloads=asked)
    return out
