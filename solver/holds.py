"""What a promise is worth and what holding its nodes costs: one sum for every rung.

A gang promised a start at T on nodes n that come free of claims at e_n is worth, in GPU-hours at price 1,

    0.9 x price x GPUs x (H - (T - now)) - mu x hold_cost x sum over n of GPUs_n x (T - e_n)
        - (H - (T - now)) x sum over n of GPUs on n x rate_n(T)

with mu the lowest price in the money: what allocated work that a hold displaces would have been worth at the
least; and rate_n the price of a GPU to whom the start would end on n (docs/formulation.md, "Reservations").
"""

from __future__ import annotations

import numpy as np

from solver.ahead import Claims, promised_claims, ranked_claims
from solver.board import Board, Parts
from solver.shares import seniority
from solver.state import Bools, Floats, Ints

LEAST_LEFT_S = 60
"""A promise as far ahead as H is worth so much of it, so that it beats none."""

CERTAINTY = 0.9
"""A promise is worth so much of a start: before it is due a node may fail, or somebody better funded come."""


def worth_a_promise(board: Board, js: Ints) -> Bools:
    """Tell which of the pending workloads `js` (int64[K]) may be promised a later start, bool[K].

    They are in the money, and gangs: a single replica takes the first place that comes free.
    """
    if len(board.promised) >= board.state.policy.reservations:
        return np.zeros(len(js), dtype=bool)
    may: Bools = board.order.in_money[js] & (board.state.workloads.replicas[js] > 1)
    return may


def claims_against(board: Board, j: int) -> Claims:
    """Return who holds what until when, as far as gang `j` is concerned, its own promise apart.

    Interruptible work that ranks no later goes on for ever, and so do protected runs that go before it in
    its own allocation.
    """
    w, place = board.state.workloads, seniority(board.state)
    others = np.ones(w.count, dtype=bool)
    others[j] = False
    elders = board.state.protected & w.allocated & (w.leaf == w.leaf[j]) & (place < place[j])
    claims = promised_claims(board).only(others)
    return claims.merged(ranked_claims(board, -1, int(board.order.band[j]))).lasting(elders)


def free_at_s(board: Board, claims: Claims, time_s: int) -> Ints:
    """Return when each node has come free of the claims that end by `time_s`, int64[N], epoch seconds."""
    out = np.full(board.state.nodes.count, board.state.now_s, dtype=np.int64)
    over = claims.ends_s <= time_s
    np.maximum.at(out, claims.node[over], claims.ends_s[over])
    return out


def idle_gpu_s(board: Board, claims: Claims, parts: Parts, time_s: int) -> int:
    """Return the GPU-seconds for which nodes are held between their last claim and a start at `time_s`."""
    nodes = np.array([n for n, _ in parts], dtype=np.int64)
    waits_s = time_s - free_at_s(board, claims, time_s)[nodes]
    return int((board.state.nodes.gpus[nodes] * waits_s).sum())


def hold_price(board: Board, j: int) -> float:
    """Return what a GPU-hour held for `j` costs: the price at the cut-off of the money, weighed by the site.

    Nothing for who has waited as long as protection may last: it is held for whatever it costs. A snapshot
    does not say how much of that wait it has been in the money.
    """
    order, state = board.order, board.state
    if state.now_s - state.workloads.submitted_s[j] >= state.policy.patience_s:
        return 0.0
    price = order.price[order.sequence[order.in_money[order.sequence]]]
    return float(price.min()) * state.policy.hold_cost if len(price) else 0.0


def start_worth(board: Board, j: int, time_s: int) -> float:
    """Return what a start of `j` at a time is worth, GPU-hours, holding apart: less the later it is."""
    wait_s = time_s - board.state.now_s
    left_s = max(board.state.policy.worth_s - wait_s, LEAST_LEFT_S) * (CERTAINTY if wait_s else 1.0)
    return float(board.order.price[j]) * int(board.state.workloads.gpus[j]) * left_s / 3600


def standing_rate(board: Board, tier: int, at_s: int) -> Floats:
    """Return the price of a GPU of each node to whom a promise for `at_s` would end there, float64[N].

    Of interruptible work of this tier or an earlier one, and of such starts of this round whose protection
    ends by then: their worth counts until then only. What is protected now has no price in this round.
    """
    state, order = board.state, board.order
    w, nodes = state.workloads, state.nodes
    counts = board.standing & board.interruptible & (order.tier <= tier)
    part = np.flatnonzero(counts[board.owner])
    node, owner, gpus = w.placement.node[part], board.owner[part], w.placement.gpus[part]
    rate = np.zeros(nodes.count)
    np.add.at(rate, node, order.price[owner] * gpus)
    for i, parts in board.starts.items():
        if order.tier[i] <= tier and state.now_s + w.min_runtime_s[i] <= at_s:
            for n, k in parts:
                rate[n] += order.price[i] * k * w.gpus_per_replica[i]
    out: Floats = rate / np.maximum(nodes.gpus, 1)
    return out


def promise_worth(board: Board, j: int, time_s: int, parts: Parts, claims: Claims | None = None) -> float:
    """Return what promising `j` a start is worth, GPU-hours; `claims` are those against it, where known.

    What its start is worth, less what its nodes idle until then and what makes way for it then.
    """
    left_h = max(board.state.policy.worth_s - (time_s - board.state.now_s), 0) / 3600
    nodes, replicas = (np.array(x, dtype=np.int64) for x in zip(*parts, strict=True))
    gpus = replicas * board.state.workloads.gpus_per_replica[j]
    after = float((standing_rate(board, int(board.order.tier[j]), time_s)[nodes] * gpus).sum()) * left_h
    claims = claims_against(board, j) if claims is None else claims
    held = hold_price(board, j) * idle_gpu_s(board, claims, parts, time_s) / 3600
    return start_worth(board, j, time_s) - held - after


def promised_worth(board: Board) -> dict[int, float]:
    """Return what each promised start that is yet to come is worth, GPU-hours, by workload."""
    return {j: promise_worth(board, j, *board.promised[j]) for j in board.settled()}


def worth(board: Board) -> tuple[float, ...]:
    """Return the common objective by tier, GPU-hours: what stands, less restarts, and what is promised."""
    out = list(board.objective())
    for j, value in promised_worth(board).items():
        out[int(board.order.tier[j])] += value
    return tuple(out)
