"""What a promise is worth and what holding its nodes costs: one sum for every rung.

A gang promised a start at T on nodes n that come free of claims at e_n is worth, in GPU-hours at price 1,

    0.9 x price x GPUs x (H - (T - now)) - mu x hold_cost x sum over n of GPUs_n x (T - e_n)
        - (H - (T - now)) x sum over n of GPUs on n x rate_n(T) - restarts(T)

with mu the lowest price in the money: what allocated work that a hold displaces would have been worth at the
least; rate_n the price of a GPU to whom the start would end on n; and the restarts of those who would have to
make way (docs/formulation.md, "Reservations").
"""

from __future__ import annotations

import numpy as np

from solver.ahead import Claims, promised_claims, ranked_claims
from solver.board import Board, Parts
from solver.shares import eviction_gpus, seniority
from solver.state import Bools, Floats, Ints, State

LEAST_LEFT_S = 60
"""A promise as far ahead as H is worth so much of it, so that it beats none."""

CERTAINTY = 0.9
"""A promise is worth so much of a start: before it is due a node may fail, or somebody better funded come."""


def worth_a_promise(board: Board, js: Ints) -> Bools:
    """Tell which of the pending workloads `js` (int64[K]) may be promised a later start, bool[K].

    They are in the money, and gangs of GPUs: a single replica takes the first place that comes free.
    """
    w = board.state.workloads
    if len(board.promised) >= board.state.policy.reservations:
        return np.zeros(len(js), dtype=bool)
    may: Bools = board.order.in_money[js] & (w.replicas[js] > 1) & (w.gpus_per_replica[js] > 0)
    return may


def claims_against(board: Board, j: int) -> Claims:
    """Return who holds what until when, as far as gang `j` is concerned, its own promise apart.

    Interruptible work that ranks no later goes on for ever, and so do protected runs and starts of this round
    that go before it in its own allocation.
    """
    w, place = board.state.workloads, seniority(board.state)
    others = np.ones(w.count, dtype=bool)
    others[j] = False
    elders = board.state.protected.copy()
    elders[list(board.starts)] = True
    elders &= w.allocated & (w.leaf == w.leaf[j]) & (place < place[j])
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


def patient(state: State, j: int) -> bool:
    """Tell whether `j` has waited as long as protection may last.

    A snapshot does not say how much of that wait it has been in the money.
    """
    return bool(state.now_s - state.workloads.submitted_s[j] >= state.policy.patience_s)


def hold_price(board: Board, j: int) -> float:
    """Return what a GPU-hour held for `j` costs: the price at the cut-off of the money, weighed by the site.

    Nothing for who has been patient: it is held for whatever it costs.
    """
    order = board.order
    if patient(board.state, j):
        return 0.0
    price = order.price[order.sequence[order.in_money[order.sequence]]]
    return float(price.min()) * board.state.policy.hold_cost if len(price) else 0.0


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


def restart_rate(board: Board, tier: int, at_s: int) -> Floats:
    """Return what restarts a GPU of each node costs that is promised for `at_s`, GPU-hours, float64[N].

    On average over the node: of who is not protected any more by then, each by what it holds there.
    """
    state = board.state
    w, nodes, p = state.workloads, state.nodes, state.workloads.placement
    weight = eviction_gpus(state, board.order, tier) / np.maximum(w.gpus, 1)
    goes = board.standing & w.running & ~(state.protected & (w.protected_until_s > at_s))
    part = np.flatnonzero(goes[board.owner])
    held = np.bincount(p.node[part], p.gpus[part] * weight[board.owner[part]], nodes.count)
    for i, parts in board.starts.items():
        if state.now_s + w.min_runtime_s[i] <= at_s:
            for n, k in parts:
                held[n] += weight[i] * k * w.gpus_per_replica[i]
    out: Floats = held * (state.policy.restart_cost_s / 3600) / np.maximum(nodes.gpus, 1)
    return out


def in_the_way(board: Board, j: int, time_s: int, parts: Parts, claims: Claims) -> Ints:
    """Return who would have to make way for `j` on its nodes at a time if nobody there ended, int64.

    On each node those whose claims have ended by then, the fewest GPUs to lose first.
    """
    w, p = board.state.workloads, board.state.workloads.placement
    size = int(w.gpus_per_replica[j])
    lacks = {n: k * size - max(int(board.free_gpus[n]), 0) for n, k in parts}
    stays = np.zeros(w.count, dtype=bool)
    stays[claims.workload[claims.ends_s > time_s]] = True
    here = np.zeros(board.state.nodes.count, dtype=bool)
    here[list(lacks)] = True
    part = np.flatnonzero(here[p.node] & (board.standing & w.running & ~stays)[board.owner])
    there = list(zip(p.node[part].tolist(), board.owner[part].tolist(), p.gpus[part].tolist(), strict=True))
    for n in lacks:
        starts = [i for i in board.tenants.get(n, ()) if i != j and not stays[i]]
        there += [(n, i, dict(board.starts[i])[n] * int(w.gpus_per_replica[i])) for i in starts]
    out = set[int]()
    for n, i, gpus in sorted(there, key=lambda t: (int(w.gpus[t[1]]), t[1])):
        if lacks[n] > 0:
            lacks[n] -= gpus
            out.add(i)
    return np.array(sorted(out), dtype=np.int64)


def beyond_brake(board: Board, rs: Ints) -> bool:
    """Tell whether no round may preempt all of `rs` (int64) at once."""
    most, w = board.state.policy.max_preempted_gpus, board.state.workloads
    return bool(0 <= most < w.gpus[rs].sum())


def promise_worth(board: Board, j: int, time_s: int, parts: Parts, claims: Claims | None = None) -> float:
    """Return what promising `j` a start is worth, GPU-hours; `claims` are those against it, where known.

    What its start is worth, less what its nodes idle until then, what makes way for it then, and the restarts
    of who does. Less than nothing where the site lets no round preempt so many.
    """
    claims = claims_against(board, j) if claims is None else claims
    they = in_the_way(board, j, time_s, parts, claims)
    return -np.inf if beyond_brake(board, they) else _worth(board, j, time_s, parts, claims, they)


def _worth(board: Board, j: int, time_s: int, parts: Parts, claims: Claims, they: Ints) -> float:
    left_h = max(board.state.policy.worth_s - (time_s - board.state.now_s), 0) / 3600
    nodes, replicas = (np.array(x, dtype=np.int64) for x in zip(*parts, strict=True))
    gpus = replicas * board.state.workloads.gpus_per_replica[j]
    after = float((standing_rate(board, int(board.order.tier[j]), time_s)[nodes] * gpus).sum()) * left_h
    held = hold_price(board, j) * idle_gpu_s(board, claims, parts, time_s) / 3600
    weighted = eviction_gpus(board.state, board.order, int(board.order.tier[j]))[they]
    restarts = float(weighted.sum()) * board.state.policy.restart_cost_s / 3600
    return start_worth(board, j, time_s) - held - after - restarts


def promised_worth(board: Board) -> dict[int, float]:
    """Return what each promised start that is yet to come is worth, GPU-hours, by workload."""
    out = {}
    for j in board.settled():
        time_s, parts = board.promised[j]
        claims = claims_against(board, j)
        they = in_the_way(board, j, time_s, parts, claims)
        out[j] = _worth(board, j, time_s, parts, claims, they)  # it stands, whatever the brake may be by now
    return out


def worth(board: Board) -> tuple[float, ...]:
    """Return the common objective by tier, GPU-hours: what stands, less restarts, and what is promised."""
    out = list(board.objective())
    for j, value in promised_worth(board).items():
        out[int(board.order.tier[j])] += value
    return tuple(out)
