"""Forecasts: when what waits could start at the latest, if nobody better funded comes."""

from __future__ import annotations

import numpy as np

from solver.ahead import earliest_start, promised_claims, ranked_claims
from solver.board import Board
from solver.holds import beyond_brake, in_the_way
from solver.shares import bands, seniority, standing_ratio
from solver.state import FOREVER_S, Bools, Ints

FORECASTS = 500
"""Waiting workloads that get a forecast, at most: those further down change places anyway."""


def forecasts(board: Board) -> Ints:
    """Return the forecast start of what waits, int64[W], epoch seconds; -1 for none, promises as promised.

    In fair-share order each takes the earliest place that protections, promises and those before it leave.
    To what is in the money those make way when their protection ends, if they would rank behind it by what
    their allocations have had up to now. To what is not they never do: it gets a forecast where a place is
    left even so, within the horizon of plan-ahead.
    """
    state, w, order = board.state, board.state.workloads, board.order
    waits = ~board.standing & w.pending
    js = [j for j in order.sequence[waits[order.sequence]].tolist() if _may_start(board, j)]
    rich = [j for j in js if order.in_money[j]][:FORECASTS]
    out = np.full(w.count, -1, dtype=np.int64)
    _Queue(board, makes_way=True).serve(rich, out)
    last_s = state.now_s + state.policy.horizon_s
    theirs = np.full(w.count, -1, dtype=np.int64)
    _Queue(board, makes_way=False).serve(js[:FORECASTS], theirs)
    poor = ~order.in_money & (theirs <= last_s)
    out[poor] = theirs[poor]
    for j in board.settled():
        out[j] = board.promised[j][0]
    return out


def _may_start(board: Board, j: int) -> bool:
    """Tell whether a waiting workload has no promise yet, and room under its limits."""
    return j not in board.promised and board.limit_room(j) >= board.state.workloads.gpus[j]


class _Queue:
    """Who has which place from when on, as one after the other is served."""

    def __init__(self, board: Board, *, makes_way: bool) -> None:
        self.board, self.makes_way = board, makes_way
        self.claims, self.band = promised_claims(board), -1
        self.place = seniority(board.state)
        tier = board.order.tier
        self.standing_band = bands(standing_ratio(board.state), tier)

    def _outlast(self, j: int) -> Bools:
        """Tell who does not make way for `j` when its protection ends, bool[W], as ratios are now."""
        w, order = self.board.state.workloads, self.board.order
        elder = (w.leaf == w.leaf[j]) & (self.place < self.place[j])
        before = (order.tier < order.tier[j]) | (w.running & (self.standing_band <= order.band[j]))
        out: Bools = w.allocated & (before | elder)
        return out

    def serve(self, js: list[int], out: Ints) -> None:
        """Give each its earliest place, and note its start where that is not now.

        Where nobody makes way, all that comes after one in the money that finds no place gets none either.
        """
        w, order = self.board.state.workloads, self.board.order
        hopeless = set[tuple[int, int]]()
        for j in js:
            kind, band = (int(w.kind[j]), int(w.leaf[j])), int(order.band[j])
            if kind in hopeless:
                continue
            self.claims = self.claims.merged(ranked_claims(self.board, self.band, band))
            self.band = band  # who ranks no later keeps its place
            claims = self.claims.lasting(self._outlast(j))
            found = earliest_start(self.board, j, claims)
            if found is None:  # nor will what is like it: room only shrinks
                hopeless.add(kind)
                if order.in_money[j] and not self.makes_way:
                    return
            elif found[0] > self.board.state.now_s:
                if beyond_brake(self.board, in_the_way(self.board, j, *found, claims)):
                    continue
                out[j], parts = found
                until_s = out[j] + int(w.min_runtime_s[j]) if self.makes_way else FOREVER_S
                self.claims = self.claims.plus(j, parts, int(until_s))
