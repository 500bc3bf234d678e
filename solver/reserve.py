"""Plan-ahead: funded gangs that do not fit now are promised a later start, where holding idles the least.

Under the contract every protection ends at a known time, so a place that will have come free by then is
certain (docs/formulation.md, "Reservations"). Until then allocated work that ends in time and unallocated
work run on the nodes held.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache, partial

import numpy as np

from solver.ahead import Claims, place_slots, promised_claims, ranked_claims
from solver.board import Board, Parts
from solver.buddy import gang_of
from solver.placing import choose, group_key
from solver.shares import seniority
from solver.state import FOREVER_S, Bools, Ints


def worth_a_promise(board: Board, js: Ints) -> Bools:
    """Tell which of the pending workloads `js` (int64[K]) may be promised a later start, bool[K].

    They are in the money, and gangs: a single replica takes the first place that comes free.
    """
    if len(board.promised) >= board.state.policy.reservations:
        return np.zeros(len(js), dtype=bool)
    may: Bools = board.order.in_money[js] & (board.state.workloads.replicas[js] > 1)
    return may


def reserve(board: Board, j: int) -> bool:
    """Promise `j` the later start that idles least and delays it least, if that is worth it; tell whether.

    The cost of a start at T on nodes n that come free at e_n is, in GPU-seconds,

        sum over n of gpus_n (T - e_n) + gpus_j (T - now).
    """
    state, order = board.state, board.order
    if j in board.promised or not worth_a_promise(board, np.array([j]))[0]:
        return False
    claims = promised_claims(board).merged(ranked_claims(board, -1, int(order.band[j])))
    claims = claims.lasting(_elders(board, j))
    times = np.unique(claims.ends_s[claims.ends_s <= state.now_s + state.policy.horizon_s])
    place = cache(partial(_place, board, j, claims))
    if not len(times) or place(int(times[-1])) is None:
        return False
    if place(state.now_s) is not None:
        return False  # it may have a place now, and was not worth its victims
    best: tuple[int, int, Parts] | None = None
    later = times[times > state.now_s].tolist()
    first = bisect_left(later, True, key=lambda time_s: place(time_s) is not None)
    for time_s in later[first:]:  # as claims only end, none before has a place
        delay = int(state.workloads.gpus[j]) * (time_s - state.now_s)
        if best is not None and delay >= best[0]:
            break
        parts = place(time_s)
        if parts is not None:
            idle = _idle_gpu_s(board, claims, parts, time_s)
            if (best is None or idle + delay < best[0]) and _worth_it(board, j, idle, time_s):
                best = idle + delay, time_s, parts
    if best is None:
        return False
    board.promise(j, best[1], best[2])
    return True


def _elders(board: Board, j: int) -> Bools:
    """Tell which protected runs go before `j` in its own allocation, and so go on when their time is over."""
    w, place = board.state.workloads, seniority(board.state)
    out: Bools = board.state.protected & w.allocated & (w.leaf == w.leaf[j]) & (place < place[j])
    return out


def _worth_it(board: Board, j: int, idle_gpu_s: int, time_s: int) -> bool:
    """Tell whether a start at `time_s` is worth more than the allocated work that holding may displace."""
    state, order = board.state, board.order
    ranked = order.sequence[order.in_money[order.sequence]]
    forgone = float(order.price[ranked].min()) * idle_gpu_s
    left_s = max(state.policy.worth_s - (time_s - state.now_s), 0)
    return forgone <= float(order.price[j]) * int(state.workloads.gpus[j]) * left_s


def free_at_s(board: Board, claims: Claims, time_s: int) -> Ints:
    """Return when each node has come free of the claims that end by `time_s`, int64[N], epoch seconds."""
    out = np.full(board.state.nodes.count, board.state.now_s, dtype=np.int64)
    over = claims.ends_s <= time_s
    np.maximum.at(out, claims.node[over], claims.ends_s[over])
    return out


def _idle_gpu_s(board: Board, claims: Claims, parts: Parts, time_s: int) -> int:
    nodes = np.array([n for n, _ in parts], dtype=np.int64)
    waits_s = time_s - free_at_s(board, claims, time_s)[nodes]
    return int((board.state.nodes.gpus[nodes] * waits_s).sum())


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
        idle = _idle_gpu_s(board, claims, parts, time_s)
        if best is None or idle < best[0]:
            best = idle, parts
    return None if best is None else best[1]
