"""Plan-ahead, greedy rung: funded gangs that do not fit now are promised the later start worth the most.

Under the contract every protection ends at a known time, so a place that will have come free by then is
certain (docs/formulation.md, "Reservations"). Until then allocated work that ends in time and unallocated
work run on the nodes held.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache, partial

import numpy as np

from solver.ahead import Claims, place_slots
from solver.board import Board, Parts
from solver.buddy import gang_of
from solver.holds import claims_against, free_at_s, idle_gpu_s, promise_worth, start_worth, worth_a_promise
from solver.placing import choose, group_key
from solver.state import FOREVER_S


def reserve(board: Board, j: int) -> bool:
    """Promise `j` the later start that is worth the most, if any is worth its hold; tell whether."""
    state = board.state
    if j in board.promised or not worth_a_promise(board, np.array([j]))[0]:
        return False
    if board.limit_room(j) < state.workloads.gpus[j]:
        return False
    claims = claims_against(board, j)
    times = np.unique(claims.ends_s[claims.ends_s <= state.now_s + state.policy.horizon_s])
    place = cache(partial(_place, board, j, claims))
    if not len(times) or place(int(times[-1])) is None:
        return False
    if place(state.now_s) is not None:
        return False  # it may have a place now, and was not worth its victims
    best: tuple[float, int, Parts] | None = None
    later = times[times > state.now_s].tolist()
    first = bisect_left(later, True, key=lambda time_s: place(time_s) is not None)
    for time_s in later[first:]:  # as claims only end, none before has a place
        if best is not None and start_worth(board, j, time_s) <= best[0]:
            break
        parts = place(time_s)
        if parts is not None:
            worth = promise_worth(board, j, time_s, parts, claims)
            if worth > 0 and (best is None or worth > best[0]):
                best = worth, time_s, parts
    if best is None:
        return False
    board.promise(j, best[1], best[2])
    return True


def _place(board: Board, j: int, claims: Claims, time_s: int) -> Parts | None:
    """Return the place for `j` at a time on the nodes that come free the latest before, or None.

    Of nodes that come free together, those with the least free now. A gang in segments takes whatever place
    there is.
    """
    slots = place_slots(board, j, claims, time_s)
    slots[board.hold_s < FOREVER_S] = 0  # promised to others already
    gang = gang_of(board.state, j)
    if gang.segment < gang.pieces or gang.fused > 1:
        return choose(board, j, slots)
    key = group_key(board, gang.required)
    usable = np.flatnonzero((slots > 0) & (key >= 0))
    free_at = free_at_s(board, claims, time_s)[usable]
    late_first = usable[np.lexsort((usable, board.free_gpus[usable], -free_at, key[usable]))]
    room = slots[late_first]
    best: tuple[int, Parts] | None = None
    for group in np.flatnonzero(np.bincount(key[late_first], room) >= gang.pieces).tolist():
        mine = late_first[key[late_first] == group]
        upto = np.cumsum(slots[mine])
        last = int(np.searchsorted(upto, gang.pieces))
        takes = slots[mine[: last + 1]].copy()
        takes[-1] -= upto[last] - gang.pieces
        parts = list(zip(mine[: last + 1].tolist(), takes.tolist(), strict=True))
        idle = idle_gpu_s(board, claims, parts, time_s)
        if best is None or idle < best[0]:
            best = idle, parts
    return None if best is None else best[1]
