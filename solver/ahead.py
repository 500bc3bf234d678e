"""When a gang could certainly start: the k-th smallest end of protection, domain by domain, node by node.

Under the contract every protection ends at a known time, and what is interruptible makes way for whoever
ranks before it. So free capacity only grows as time goes on, and the earliest start is found by bisection
over the ends (docs/formulation.md, "The certain start").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.board import UNCOUNTED, Amounts, Board, Parts
from solver.placing import choose
from solver.shares import BEYOND, UNALLOCATED, WITHIN
from solver.state import FOREVER_S, Bools, Ints


@dataclass
class Claims:
    """Who holds what until when, as parts: node, workload, replicas and end in epoch seconds, int64[M]."""

    node: Ints
    workload: Ints
    replicas: Ints
    ends_s: Ints

    def plus(self, j: int, parts: Parts, ends_s: int) -> Claims:
        """Return these claims and one gang more."""
        return self.merged(Claims.of([(n, j, k, ends_s) for n, k in parts]))

    @staticmethod
    def of(parts: list[tuple[int, int, int, int]]) -> Claims:
        """Build from (node, workload, replicas, end) of each part."""
        return Claims(*np.array(parts, dtype=np.int64).reshape(-1, 4).T)

    def merged(self, other: Claims) -> Claims:
        """Return both."""
        mine = (self.node, self.workload, self.replicas, self.ends_s)
        theirs = (other.node, other.workload, other.replicas, other.ends_s)
        return Claims(*(np.concatenate(pair) for pair in zip(mine, theirs, strict=True)))

    def lasting(self, workloads: Bools) -> Claims:
        """Return the claims as if those of some workloads, bool[W], never ended."""
        ends_s = np.where(workloads[self.workload], FOREVER_S, self.ends_s)
        return Claims(self.node, self.workload, self.replicas, ends_s)

    def only(self, workloads: Bools) -> Claims:
        """Return the claims of some workloads, bool[W]."""
        mine = workloads[self.workload]
        return Claims(self.node[mine], self.workload[mine], self.replicas[mine], self.ends_s[mine])


def claims_of(board: Board, unmoved: Bools) -> Claims:
    """Return what stands on the board: protected work until its end, `unmoved` (bool[W]) for ever.

    Work that is neither counts for nothing: it makes way. Stopping work is gone by the next round.
    """
    state, w = board.state, board.state.workloads
    p = w.placement
    ends = np.where(state.protected, w.protected_until_s, 0)
    ends = np.where(w.stopping, state.now_s + state.policy.due_s, ends)
    ends = np.where(unmoved, FOREVER_S, ends)
    part = np.flatnonzero((board.standing & (ends > state.now_s))[board.owner])
    owner = board.owner[part]
    claims = Claims(p.node[part], owner, p.replicas[part], ends[owner])
    starts = [(n, j, k) for j, parts in sorted(board.starts.items()) for n, k in parts]
    if not starts:
        return claims
    node, started, reps = np.array(starts, dtype=np.int64).T
    until_s = np.where(unmoved[started], FOREVER_S, state.now_s + w.min_runtime_s[started])
    lasts = until_s > state.now_s
    return claims.merged(Claims(node[lasts], started[lasts], reps[lasts], until_s[lasts]))


def protected_claims(board: Board) -> Claims:
    """Return what was protected, or still leaving, before the round began."""
    before = board.copy()
    before.starts = {}
    return claims_of(before, np.zeros(board.state.workloads.count, dtype=bool))


def promised_claims(board: Board) -> Claims:
    """Return what is protected as the board stands, and what it promises."""
    claims = claims_of(board, np.zeros(board.state.workloads.count, dtype=bool))
    min_runtime_s, promised = board.state.workloads.min_runtime_s, board.promised
    lasts_s = {j: max(min_runtime_s.item(j), 1) for j in board.settled()}
    ahead = [(n, j, k, promised[j][0] + s) for j, s in lasts_s.items() for n, k in promised[j][1]]
    return claims.merged(Claims.of(ahead)) if ahead else claims


def ranked_claims(board: Board, after: int, upto: int) -> Claims:
    """Return interruptible work of bands in (after, upto] as claims that never end."""
    band, p = board.order.band, board.state.workloads.placement
    mine = board.standing & board.interruptible & (band > after) & (band <= upto)
    part = np.flatnonzero(mine[board.owner])
    return Claims(p.node[part], board.owner[part], p.replicas[part], np.full(len(part), FOREVER_S))


def earliest_start(board: Board, j: int, claims: Claims) -> tuple[int, Parts] | None:
    """Return the earliest certain start of gang `j` and its place, or None where it never fits."""
    ends = np.unique(claims.ends_s[claims.ends_s < FOREVER_S])
    times = np.concatenate(([board.state.now_s], ends[ends > board.state.now_s]))
    low, high = 0, len(times) - 1
    best = _place_at(board, j, claims, int(times[high]))
    if best is None:
        return None
    while low < high:
        middle = (low + high) // 2
        found = _place_at(board, j, claims, int(times[middle]))
        if found is None:
            low = middle + 1
        else:
            high, best = middle, found
    return int(times[high]), best


def gentlest_start(board: Board, j: int, claims: Claims) -> tuple[int, Parts] | None:
    """Return the earliest certain start of gang `j`, on nodes where it takes the least from others.

    At that time: free nodes if they do, else also what unallocated work holds, else what stands beyond its
    share, and only at the last what stands within it.
    """
    found = earliest_start(board, j, claims)
    if found is None:
        return None
    order, mine = board.order, board.standing & board.interruptible
    for tier in (UNALLOCATED, BEYOND, WITHIN):  # whoever is of this tier or an earlier one stays
        stays = mine & (order.tier <= tier)
        parts = choose(
            board, j, place_slots(board, j, claims.merged(claims_of(board, stays).only(stays)), found[0])
        )
        if parts is not None:
            return found[0], parts
    return found


def place_slots(board: Board, j: int, claims: Claims, time_s: int) -> Ints:
    """Return how many replicas of `j` each healthy node takes at a time, given the claims, int64[N]."""
    n, w = board.state.nodes, board.state.workloads
    slots = board.slots(j, *left_at(board, claims, time_s))
    usable = board.usable & w.pool_ok[j][n.pool]
    if w.required[j] >= 0:
        usable &= n.domain[w.required[j]] >= 0
    slots[~usable] = 0
    return slots


def left_at(board: Board, claims: Claims, time_s: int) -> Amounts:
    """Return what the claims leave of each healthy node at a time."""
    n, w = board.state.nodes, board.state.workloads
    held = np.flatnonzero(claims.ends_s > time_s)
    node, owner, reps = claims.node[held], claims.workload[held], claims.replicas[held]
    gpus = np.where(n.up, n.gpus, 0)
    cpus = np.where(n.cpus_milli > 0, n.cpus_milli, UNCOUNTED)
    memory = np.where(n.memory_bytes > 0, n.memory_bytes, UNCOUNTED)
    np.subtract.at(gpus, node, reps * w.gpus_per_replica[owner])
    np.subtract.at(cpus, node, reps * w.cpus_milli[owner])
    np.subtract.at(memory, node, reps * w.memory_bytes[owner])
    return gpus, cpus, memory


def _place_at(board: Board, j: int, claims: Claims, time_s: int) -> Parts | None:
    return choose(board, j, place_slots(board, j, claims, time_s))
