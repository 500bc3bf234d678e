"""Plan-ahead, exact rung: later starts for the best gangs by order, for which starts of this round make room.

The model of `solver.booking` decides jointly over gangs, times, domains and clusters. A start of this round
gives way where an earlier promise is worth more than it, and a gang that would start now may be promised a
later start instead.
"""

from __future__ import annotations

import time

import numpy as np

from solver.ahead import place_slots
from solver.board import Board, Parts
from solver.booking import Begin, Columns, book, read
from solver.holds import claims_against, promise_worth, worth
from solver.linear import LinearModel
from solver.outlook import Outlook, outlook_of
from solver.reseat import Solve
from solver.reserve import reserve
from solver.shares import BEYOND, WITHIN
from solver.state import FOREVER_S, Ints

LIMIT_S = 8.0
"""Seconds for one tier's promises, at most: at the deadline those that are made one by one stand."""

LEAST_S = 0.05


def foresee(board: Board, js: Ints, solve: Solve, deadline_s: float, gap: float) -> tuple[Board, list[str]]:
    """Return the board with later starts promised, tier by tier, and notes on what went wrong.

    Parameters
    ----------
    js : int64
        Pending allocated work, sorted by the order.
    deadline_s : float
        On the clock of `time.monotonic`.
    """
    notes: list[str] = []
    for tier in (WITHIN, BEYOND):
        mine = js[board.order.tier[js] == tier]
        simple = board.copy()
        _one_by_one(simple, mine)
        hints = [start_s for start_s, _ in simple.promised.values()]
        outlook = outlook_of(board, tier, mine, hints)
        jointly = None
        if outlook is not None:
            jointly, note = _jointly(outlook, mine, solve, deadline_s, gap)
            notes += [note] if note else []
        board = simple if jointly is None else max(jointly, simple, key=worth)
    return board, notes


def _one_by_one(board: Board, js: Ints) -> None:
    """Promise what waits its best later start, in order."""
    for j in js[~board.standing[js]].tolist():
        reserve(board, j)


def _jointly(
    outlook: Outlook, js: Ints, solve: Solve, deadline_s: float, gap: float
) -> tuple[Board | None, str]:
    """Return the board of the model's answer, None where there is none, and why."""
    left_s = min(max(deadline_s - time.monotonic(), LEAST_S), LIMIT_S)
    model, columns = book(outlook)
    if not len(columns.take):
        return None, ""
    solution = solve(model, left_s, _gap(outlook, model, columns, gap), None)
    if solution.x is None:
        return None, f"promises were made one by one: {solution.note or solution.status}"
    begins, yields = read(columns, solution.x)
    board = carried_out(outlook, begins, yields)
    _one_by_one(board, js)
    return board, ""


def _gap(o: Outlook, model: LinearModel, x: Columns, gap: float) -> float:
    """Return the gap to ask for: that of the site, on the worth of the clusters at price 1 at most."""
    state = o.board.state
    at_share = float(state.nodes.gpus.sum()) * state.policy.worth_s / 3600
    begins = np.where(x.begin >= 0, model.objective[x.begin], 0.0)
    most = model.offset + float(begins.max(axis=1, initial=0.0).sum())
    return gap * min(1.0, at_share / most) if most > 0 else gap


def carried_out(o: Outlook, begins: list[Begin], yields: list[int]) -> Board:
    """Return the board on which those who give way are gone, and those who begin have their nodes."""
    board = o.board.copy()
    gone = {i: board.starts[i] for i in (o.yielding[y] for y in yields)}
    for i in gone:
        board.cancel(i)
    for begin in begins:
        j = o.gangs[begin.gang]
        parts = _seat(o, board, begin)
        if parts is None:
            continue
        time_s = int(o.times_s[begin.time])
        if begin.time == 0:
            board.start(j, parts)
        elif promise_worth(board, j, time_s, parts) > 0:  # the model knows restarts on average only
            board.promise(j, time_s, parts)
    for i in sorted(gone, key=board.order.position.item):
        _restore(board, i, gone[i])
    return board


def _seat(o: Outlook, board: Board, begin: Begin) -> Parts | None:
    """Return nodes for a gang that begins, those with the least free now first; None where they do not do."""
    j, time_s = o.gangs[begin.gang], int(o.times_s[begin.time])
    if begin.time == 0:
        slots = board.free_slots(j)
    else:
        slots = place_slots(board, j, claims_against(board, j), time_s)
        slots[o.cleared.hold_s < FOREVER_S] = 0
    fused = o.shapes[begin.gang].fused
    slots //= fused
    parts: Parts = []
    for d, pieces in begin.pieces.items():
        nodes = o.nodes(d)
        nodes = nodes[np.lexsort((nodes, board.free_gpus[nodes]))]
        upto = np.minimum(np.cumsum(slots[nodes]), pieces)
        if not len(upto) or upto[-1] < pieces:
            return None
        takes = np.diff(upto, prepend=0)
        parts += [(n, k * fused) for n, k in zip(nodes.tolist(), takes.tolist(), strict=True) if k]
    return sorted(parts)


def _restore(board: Board, i: int, parts: Parts) -> None:
    """Let a start have its place again, if nobody took it and no promise is in the way."""
    if i in board.starts or i in board.promised or board.limit_room(i) < board.state.workloads.gpus[i]:
        return
    slots = board.free_slots(i)
    if all(slots[n] >= k for n, k in parts):
        board.start(i, parts)
