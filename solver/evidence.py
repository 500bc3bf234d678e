"""Facts about what waits: what fits now, what would fit if others went, and who stands in the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.ahead import claims_of, left_at, place_slots, promised_claims, protected_claims
from solver.board import Board, Parts
from solver.buddy import gang_of
from solver.placing import group_key
from solver.shares import losses_gpu_s
from solver.state import FOREVER_S, Ints


@dataclass(frozen=True)
class Evidence:
    """What stands in the way of one waiting gang.

    Attributes
    ----------
    free_gpus : int, GPUs
        Free on nodes that the gang may use.
    holes : int
        Of these nodes, how many have free GPUs but too few for one replica.
    largest_hole : int, GPUs
        Most free GPUs on any one of them.
    fits_now : int, replicas
        In the best group (a required domain, or a pool) as the plan leaves it.
    fits_unprotected : int, replicas
        In the best group, if only what is protected since before the round stood there.
    fits_empty : int, replicas
        In the best group, if nothing stood on its healthy nodes.
    group : int64, nodes
        The best group by `fits_unprotected`.
    protected_gpus : int, GPUs
        Held in that group by work that was protected before the round.
    anywhere : bool
        It would fit now if its required level were dropped.
    """

    free_gpus: int
    holes: int
    largest_hole: int
    fits_now: int
    fits_unprotected: int
    fits_empty: int
    group: Ints
    protected_gpus: int
    anywhere: bool


def evidence(board: Board, j: int) -> Evidence:
    """Return the facts about waiting gang `j` as the plan leaves the board."""
    state, w = board.state, board.state.workloads
    gang = gang_of(state, j)
    pieces, segment, required, fused = gang.pieces, gang.segment, gang.required, gang.fused
    free = np.where(board.eligible(j), board.free_gpus, 0)
    slots = board.free_slots(j)
    nobody = np.zeros(w.count, dtype=bool)
    later = place_slots(board, j, protected_claims(board), state.now_s)
    empty = place_slots(board, j, claims_of(board, nobody), FOREVER_S)
    key = group_key(board, required)
    per = segment if segment < pieces else 0
    now, unprotected, whole = (_by_group(board, x // fused, key, per) for x in (slots, later, empty))
    best = int(np.lexsort((-whole, -unprotected))[0]) if len(whole) else -1
    group = np.flatnonzero(((state.nodes.pool if per else key) == best) & (empty > 0))
    held = (state.protected & w.running)[board.owner] & np.isin(w.placement.node, group)
    single = required >= 0 and segment == pieces
    pool = _by_group(board, slots // fused, state.nodes.pool, 0)
    return Evidence(
        free_gpus=int(free.sum()),
        holes=int(((free > 0) & (slots == 0)).sum()),
        largest_hole=int(free.max(initial=0)),
        fits_now=int(now.max(initial=0)) * fused,
        fits_unprotected=int(unprotected.max(initial=0)) * fused,
        fits_empty=int(whole.max(initial=0)) * fused,
        group=group,
        protected_gpus=int(w.placement.gpus[held].sum()),
        anywhere=bool(single and pool.max(initial=0) >= pieces),
    )


def _by_group(board: Board, slots: Ints, key: Ints, segment: int) -> Ints:
    """Return the pieces that each group takes, int64; with segments, what each pool takes in whole ones."""
    inside = key >= 0
    pieces = np.bincount(key[inside], slots[inside]).astype(np.int64)
    if not segment:
        return pieces
    pools = len(board.state.nodes.pool_cluster)
    whole = pieces // segment * segment
    return np.bincount(np.arange(len(whole)) % pools, whole, pools).astype(np.int64)


def ahead_of(board: Board, j: int) -> list[tuple[int, int]]:
    """Return (budget leaf, GPUs) of what ranks before `j` and stands, most GPUs first."""
    w, order = board.state.workloads, board.order
    before = order.sequence[: int(order.position[j])]
    before = before[board.standing[before] & (w.leaf[before] != w.leaf[j])]
    gpus: dict[int, int] = {}
    for leaf, g in zip(w.leaf[before].tolist(), w.gpus[before].tolist(), strict=True):
        gpus[leaf] = gpus.get(leaf, 0) + g
    return sorted(gpus.items(), key=lambda x: (-x[1], x[0]))


def awaited(board: Board, j: int, start_s: int, parts: Parts) -> dict[int, int]:
    """Return who must be gone before `j` can start at a promised place, and when each is, epoch seconds.

    Protected work, starts of this round and earlier promises: on each node those that end first, until what
    is left has room. Interruptible work makes way when the time has come.
    """
    claims = claims_of(board, np.zeros(board.state.workloads.count, dtype=bool))
    for i in board.settled():
        earlier_s, place = board.promised[i]
        if i != j and earlier_s < start_s:
            claims = claims.plus(i, place, earlier_s + max(int(board.state.workloads.min_runtime_s[i]), 1))
    w, whole = board.state.workloads, left_at(board, claims, FOREVER_S)
    ask, out = (w.gpus_per_replica, w.cpus_milli, w.memory_bytes), dict[int, int]()
    for n, replicas in parts:
        here = np.flatnonzero(claims.node == n)
        here = here[np.argsort(claims.ends_s[here], kind="stable")]
        owner = claims.workload[here]
        fits = np.ones(len(here) + 1, dtype=bool)  # once so many have ended
        for size, each in zip(whole, ask, strict=True):
            taken = np.cumsum((each[owner] * claims.replicas[here])[::-1])[::-1]
            fits &= size[n] - np.append(taken, 0) >= replicas * each[j]
        for k in here[: int(fits.argmax())].tolist():
            ends_s = int(claims.ends_s[k])
            out[int(claims.workload[k])] = max(out.get(int(claims.workload[k]), 0), ends_s)
    return out


def rivals(board: Board, j: int, start_s: int, parts: Parts, met: list[int]) -> list[int]:
    """Return whose promises stand where and when `j` was promised a start; none where protected work does.

    Parameters
    ----------
    met : list of int
        Workloads that started by their promise in this round.
    """
    count, at_s = board.state.workloads.count, max(start_s, board.state.now_s)
    claims, promised = promised_claims(board), np.zeros(count, dtype=bool)
    promised[[*board.settled(), *met]] = True
    promised[j] = False
    others = np.ones(count, dtype=bool)
    others[j] = False
    slots = place_slots(board, j, claims.only(others & ~promised), at_s)
    if any(slots[n] < replicas for n, replicas in parts):
        return []
    theirs = claims.only(promised)
    there = np.isin(theirs.node, [n for n, _ in parts]) & (theirs.ends_s > at_s)
    return [int(i) for i in np.unique(theirs.workload[there])]


def lost_gpu_s(board: Board, r: int) -> int:
    """Return the GPU-seconds that evicting `r` throws away; a run can lose no more than it has done."""
    return int(losses_gpu_s(board.state)[r])
