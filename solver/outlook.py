"""What plan-ahead decides on: gangs, the times at which they could begin, and nodes that come free alike.

A domain here is a set of nodes that look the same to every gang at every time: one topology domain at each
level that matters, one pool, the same starts of this round on them, and as much free at every time. So one
assignment of nodes serves all times, which domains that only share a leaf do not ensure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.ahead import Claims, earliest_start, left_at, place_slots, promised_claims, ranked_claims
from solver.board import Board
from solver.buddy import Gang, gang_of
from solver.holds import claims_against, worth_a_promise
from solver.state import FOREVER_S, Bools, Ints

MOST_TIMES = 12
"""Times at which promised gangs may begin, at most; more ends of protection are rounded up to one of them."""

LEAST_TIMES = 8

MOST_COLUMNS = 12_000
"""Triples of gang, time and domain, at most: a larger outlook leaves who would start now as it is, then it
looks at fewer times."""


@dataclass(frozen=True)
class Outlook:
    """One tier's question: who of its gangs begins when and where, and which starts give way.

    Attributes
    ----------
    board : Board
        As this round would leave it.
    cleared : Board
        The same without the starts that may give way.
    tier : int
    gangs : tuple of int
        Candidates, best of the order first: those that wait, and then those that would start now.
    starting : tuple of bool
        Which of them would start now.
    yielding : tuple of int
        Starts that may give way: of this tier or a later one, and protected.
    most : int
        Promises to be made, at most.
    times_s : int64[K], epoch seconds
        The first is now.
    of_node : int64[N]
        Domain of each node; -1 for none.
    first : int64[D]
        First node of each domain.
    tenants : tuple of tuple of (int, int)
        By domain: positions in `yielding`, and the GPUs that each holds on every node of the domain.
    free_gpus : dict of int to int64[K, N], by band
        What a gang of that band finds on each node at each time if all that may do so give way.
    slots : int64[J, K, N], pieces
        The same in pieces of each gang: CPUs, memory, pools, levels and promises count.
    free_at_s : int64[K, N], epoch seconds
        When each node has come free of what holds it no longer at each time.
    """

    board: Board
    cleared: Board
    tier: int
    gangs: tuple[int, ...]
    starting: tuple[bool, ...]
    yielding: tuple[int, ...]
    most: int
    times_s: Ints
    of_node: Ints
    first: Ints
    tenants: tuple[tuple[tuple[int, int], ...], ...]
    free_gpus: dict[int, Ints]
    slots: Ints
    free_at_s: Ints

    @cached_property
    def shapes(self) -> tuple[Gang, ...]:
        """The candidates as pieces."""
        return tuple(gang_of(self.board.state, j) for j in self.gangs)

    @cached_property
    def size(self) -> Ints:
        """Nodes of each domain, int64[D]."""
        return np.bincount(self.of_node[self.of_node >= 0], minlength=len(self.first)).astype(np.int64)

    def nodes(self, d: int) -> Ints:
        """Return the nodes of a domain."""
        return np.flatnonzero(self.of_node == d)

    def outlives(self, i: int) -> Bools:
        """Tell at which times start `yielding[i]` is still protected, bool[K]; now it always is."""
        board = self.board
        ends_s = board.state.now_s + int(board.state.workloads.min_runtime_s[self.yielding[i]])
        lasts: Bools = ends_s > self.times_s
        return lasts


def outlook_of(board: Board, tier: int, js: Ints, hints_s: Sequence[int] = ()) -> Outlook | None:
    """Return the question for one tier as a round would leave the board; None where nobody has to wait.

    Parameters
    ----------
    js : int64
        Pending allocated work, sorted by the order.
    hints_s : sequence of int, epoch seconds
        Times that are among those looked at, if they are within the horizon.
    """
    waiting, starting = _candidates(board, js[board.order.tier[js] == tier])
    if not waiting:
        return None
    yielding = _yielding(board, tier)
    cleared = board.copy()
    for i in yielding:
        cleared.cancel(i)
    claims = promised_claims(cleared)
    first_s = _first_starts(board, waiting)
    for gangs, most in ((waiting + starting, MOST_TIMES), (waiting, MOST_TIMES), (waiting, LEAST_TIMES)):
        times_s = _times(board, promised_claims(board), [*hints_s, *first_s], most)
        outlook = _outlook(board, cleared, gangs, len(waiting), yielding, claims, times_s)
        if np.count_nonzero(outlook.slots[:, :, outlook.first]) <= MOST_COLUMNS:
            break
    return outlook


def _candidates(board: Board, js: Ints) -> tuple[list[int], list[int]]:
    """Return the gangs that may be promised a start: the best that wait, the best that would start now."""
    policy, w = board.state.policy, board.state.workloads
    may = js[worth_a_promise(board, js)].tolist()
    room = policy.reservations - len(board.promised)
    waiting = [j for j in may if not board.standing[j] and board.limit_room(j) >= w.gpus[j]]
    waiting = [j for j in waiting if j not in board.promised]
    starting = [j for j in may if j in board.starts and j not in board.ahead and w.min_runtime_s[j] > 0]
    return waiting[: max(room, 0)], starting[: max(room, 0)]


def _yielding(board: Board, tier: int) -> tuple[int, ...]:
    w, order = board.state.workloads, board.order
    return tuple(
        i
        for i in sorted(board.starts)
        if i not in board.ahead and w.allocated[i] and w.min_runtime_s[i] > 0 and order.tier[i] >= tier
    )


def _first_starts(board: Board, gangs: list[int]) -> list[int]:
    """Return the certain start of each gang, if nothing gives way and nobody else is promised anything."""
    starts = [earliest_start(board, j, claims_against(board, j)) for j in gangs]
    return [start[0] for start in starts if start is not None]


def _times(board: Board, claims: Claims, wanted_s: Sequence[int], most: int) -> Ints:
    """Return now and up to `most` later ends of claims, int64: those wanted, others by how many GPUs end."""
    state = board.state
    ends, upto_s = claims.ends_s, state.now_s + state.policy.horizon_s
    later = np.flatnonzero((ends > state.now_s) & (ends <= upto_s))
    later = later[np.argsort(ends[later], kind="stable")]
    distinct = np.unique(ends[later])
    if len(distinct) > most:
        kept = set(list(dict.fromkeys(s for s in wanted_s if state.now_s < s <= upto_s))[:most])
        gpus = np.cumsum(claims.replicas[later] * state.workloads.gpus_per_replica[claims.workload[later]])
        spare = most - len(kept)
        marks = np.searchsorted(gpus, gpus[-1] * np.arange(1, spare + 1) / max(spare, 1))
        kept.update(ends[later[np.minimum(marks, len(later) - 1)]].tolist())
        distinct = np.array(sorted(kept), dtype=np.int64)
    return np.concatenate(([state.now_s], distinct))


def _outlook(
    board: Board,
    cleared: Board,
    gangs: list[int],
    waiting: int,
    yielding: tuple[int, ...],
    claims: Claims,
    times_s: Ints,
) -> Outlook:
    """Look at every time, and group the nodes that look alike."""
    by_band = {b: claims.merged(ranked_claims(board, -1, b)) for b in set(board.order.band[gangs].tolist())}
    free = {b: _free_gpus(cleared, ranked, times_s) for b, ranked in by_band.items()}
    slots = _slots(cleared, gangs, times_s)
    held = _held(board, yielding)
    came_free_s = _came_free_s(board, promised_claims(board), times_s)
    matter = np.unique(board.state.workloads.required[gangs])
    levels = board.state.nodes.domain[matter[matter >= 0]]
    alike = [board.state.nodes.pool, board.state.nodes.gpus, *levels, *came_free_s, *_company(held)]
    alike += [row for rows in (*free.values(), *slots) for row in rows]
    usable = np.flatnonzero(slots.any(axis=(0, 1)))
    of_node = np.full(board.state.nodes.count, -1, dtype=np.int64)
    firsts: Ints = np.zeros(0, dtype=np.int64)
    if len(usable):
        kinds = np.unique(np.vstack(alike)[:, usable], axis=1, return_index=True, return_inverse=True)
        of_node[usable] = kinds[2].reshape(-1)
        firsts = usable[kinds[1]]
    return Outlook(
        board=board,
        cleared=cleared,
        tier=int(board.order.tier[gangs[0]]),
        gangs=tuple(gangs),
        starting=tuple(k >= waiting for k in range(len(gangs))),
        yielding=yielding,
        most=board.state.policy.reservations - len(board.promised),
        times_s=times_s,
        of_node=of_node,
        first=firsts,
        tenants=tuple(tuple(held[n]) for n in firsts.tolist()),
        free_gpus=free,
        slots=slots,
        free_at_s=came_free_s,
    )


def _free_gpus(cleared: Board, claims: Claims, times_s: Ints) -> Ints:
    """Return the free GPUs of each node, int64[K, N]: now as it stands, later as the claims leave them."""
    now = np.maximum(cleared.free_gpus, 0)
    return np.stack([now, *(np.maximum(left_at(cleared, claims, s)[0], 0) for s in times_s[1:].tolist())])


def _slots(cleared: Board, gangs: list[int], times_s: Ints) -> Ints:
    """Return the pieces of each gang that each node takes at each time, int64[J, K, N]."""
    out = np.zeros((len(gangs), len(times_s), cleared.state.nodes.count), dtype=np.int64)
    promised = cleared.hold_s < FOREVER_S
    for i, j in enumerate(gangs):
        claims = claims_against(cleared, j)
        out[i, 0] = cleared.free_slots(j)
        for k, time_s in enumerate(times_s[1:].tolist(), start=1):
            out[i, k] = place_slots(cleared, j, claims, time_s)
        out[i, 1:, promised] = 0
        out[i] //= gang_of(cleared.state, j).fused
    return out


def _held(board: Board, yielding: tuple[int, ...]) -> list[list[tuple[int, int]]]:
    """Return who of `yielding` holds how many GPUs on each node."""
    out: list[list[tuple[int, int]]] = [[] for _ in range(board.state.nodes.count)]
    size = board.state.workloads.gpus_per_replica
    for i, j in enumerate(yielding):
        for n, k in board.starts[j]:
            out[n].append((i, k * int(size[j])))
    return out


def _company(held: list[list[tuple[int, int]]]) -> tuple[Ints]:
    """Return a number for each node that is the same where the same starts hold as much."""
    known: dict[tuple[tuple[int, int], ...], int] = {}
    return (np.array([known.setdefault(tuple(h), len(known)) for h in held], dtype=np.int64),)


def _came_free_s(board: Board, claims: Claims, times_s: Ints) -> Ints:
    """Return when each node has come free of what has ended by then, int64[K, N], as one of the times."""
    out = np.full((len(times_s), board.state.nodes.count), board.state.now_s, dtype=np.int64)
    at = np.searchsorted(times_s, claims.ends_s)
    ends = at < len(times_s)
    np.maximum.at(out, (at[ends], claims.node[ends]), times_s[at[ends]])
    came: Ints = np.maximum.accumulate(out, axis=0)
    return came
