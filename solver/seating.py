"""From amounts per domain to nodes: true sizes, CPUs and memory, and company that ends at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from solver.board import Board, Parts
from solver.buddy import Classes, gang_of, piece_slots
from solver.problem import MIB, Problem
from solver.reseat import Solve, reseat
from solver.state import Ints, Level

Share = tuple[int, int]
"""Part of a gang: (domain, pieces)."""


class Want(NamedTuple):
    """So many pieces of workload `j`, as class `c`, wanted in domain (or sea) `d`."""

    j: int
    c: int
    d: int
    pieces: int


@dataclass(frozen=True)
class Seated:
    """A board on which an answer stands.

    Attributes
    ----------
    problem : Problem
    board : Board
    unseated : list of Want
        What of the answer found no seat; its gangs do not stand on the board.
    """

    problem: Problem
    board: Board
    unseated: list[Want]


def seat(problem: Problem, gangs: Ints, pieces: Ints, evicted: Ints, solve: Solve | None = None) -> Seated:
    """Carry out an answer on a copy of the problem's board.

    Parameters
    ----------
    gangs : int64[C]
        Gangs started of each class.
    pieces : int64[C, D]
        Pieces of each class in each domain or sea.
    evicted : int64
        Workloads that make room.
    solve : back end or None
        Seats domains where the simple way misses.
    """
    board = problem.board.copy()
    for r in evicted.tolist():
        board.evict(r, problem.tier)
    waiting: dict[int, list[Want]] = {}
    for c, j, shares in _starters(problem, gangs, pieces):
        for d, k in shares:
            waiting.setdefault(d, []).append(Want(j, c, d, k))
    hall = _Hall(problem, board, evicted)
    parts: dict[int, Parts] = {}
    homeless: list[Want] = []
    for d in sorted(waiting):  # domains come before seas: what roams takes what they leave
        found, missing = hall.seat_domain(d, waiting[d], solve)
        for want, where in found:
            parts.setdefault(want.j, []).extend(where)
        homeless += missing
    unseated: list[Want] = []
    for want in homeless:
        where, left = hall.seat_elsewhere(want)
        parts.setdefault(want.j, []).extend(where)
        if left:
            unseated.append(want._replace(pieces=left))
    failed = {want.j for want in unseated}
    for j in sorted(parts):
        if j not in failed:
            board.start(j, _merged(problem, j, parts[j]))
    return Seated(problem, board, unseated)


class _Hall:
    """What is left of every node while pieces are seated.

    A piece of band b may stand only on what was free or was given up by victims of later bands; `room[i]`
    is what bands from the i-th on may still take of each node.
    """

    def __init__(self, problem: Problem, board: Board, evicted: Ints) -> None:
        self.problem = problem
        self.bands = np.unique(problem.classes.band)
        self.cpus, self.memory = board.free_cpus.copy(), board.free_memory.copy()
        self.room = np.repeat(board.free_gpus[None, :], len(self.bands), axis=0)
        self.ends_s = protection_ends(problem.board)
        placement, band = board.state.workloads.placement, board.order.band
        for r in evicted.tolist():
            part = placement.part(r)
            spared = np.flatnonzero(self.bands >= band[r])
            self.room[np.ix_(spared, placement.node[part])] -= placement.gpus[part]

    def seat_domain(
        self, d: int, wants: list[Want], solve: Solve | None
    ) -> tuple[list[tuple[Want, Parts]], list[Want]]:
        """Seat the pieces of one domain or sea; return what is seated, and what is not.

        Largest first is all that a divisor chain needs; where CPUs or memory get in the way, hungriest first.
        """
        nodes = self.problem.domains.nodes(d)
        best: tuple[_Table, list[tuple[Want, Parts]], list[Want]] | None = None
        for key in (_largest_first, _hungriest_first):
            table = _Table(self, nodes)
            found, missing = table.seat_all(sorted(wants, key=partial(key, self.problem.classes)))
            if best is None or len(missing) < len(best[2]):
                best = (table, found, missing)
            if not missing:
                break
        assert best is not None
        if best[2] and solve is not None:
            table = _Table(self, nodes)
            exactly = table.seat_exactly(wants, solve)
            best = best if exactly is None else (table, exactly, [])
        best[0].clear()
        return best[1], best[2]

    def seat_elsewhere(self, want: Want) -> tuple[Parts, int]:
        """Seat pieces that found no seat in their domain in others of the gang; return how many are left."""
        classes, domains = self.problem.classes, self.problem.domains
        where: Parts = []
        left = want.pieces
        if classes.segment[want.c] < classes.pieces[want.c]:
            return where, left
        level = int(classes.required[want.c])
        others = (domains.pool == domains.pool[want.d]) & (self.problem.caps[want.c] > 0)
        if level >= 0:
            others &= domains.level[level] == domains.level[level][want.d]
        for d in np.flatnonzero(others).tolist():
            if d != want.d and left:
                table = _Table(self, domains.nodes(d))
                found, left = table.seat(want.j, want.c, left)
                table.clear()
                where += found
        return where, left


def _largest_first(classes: Classes, want: Want) -> tuple[float, ...]:
    return -int(classes.size[want.c]), -int(classes.band[want.c]), -want.pieces, want.j


def _hungriest_first(classes: Classes, want: Want) -> tuple[float, ...]:
    """Sort by the largest share of what any class of the solve asks of a resource."""
    each = (classes.size, classes.cpus_milli, classes.memory_bytes)
    share = max(float(x[want.c] / max(int(x.max()), 1)) for x in each)
    return -share, *_largest_first(classes, want)


def _merged(problem: Problem, j: int, parts: Parts) -> Parts:
    """Return one entry per node, in replicas (a piece may be several replicas)."""
    fused = gang_of(problem.board.state, j).fused
    sums: dict[int, int] = {}
    for n, k in parts:
        sums[n] = sums.get(n, 0) + k * fused
    return sorted(sums.items())


def started(problem: Problem, gangs: Ints) -> Ints:
    """Return who starts when so many gangs of each class do, int64, sorted by the order.

    Of workloads alike the first of the order, whichever class the solve gave the places to.
    """
    classes, order = problem.classes, problem.board.order
    chosen = [
        _in_order(problem, alike)[: int(gangs[alike].sum())]
        for alike in (np.flatnonzero(classes.shape == shape) for shape in np.unique(classes.shape))
    ]
    js = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
    return js[np.argsort(order.position[js], kind="stable")]


def _in_order(problem: Problem, alike: Ints) -> Ints:
    """Return the members of some classes, best of the order first."""
    order = problem.board.order
    members = np.concatenate([problem.classes.members[c] for c in alike.tolist()])
    return members[np.lexsort((order.position[members], order.band[members]))]


def _starters(problem: Problem, gangs: Ints, pieces: Ints) -> list[tuple[int, int, list[Share]]]:
    """Return (class of its seats, workload, shares) of every start.

    Of workloads alike the first of the order start: seats go by shape, whatever class the solve gave them to.
    """
    classes = problem.classes
    out: list[tuple[int, int, list[Share]]] = []
    for shape in np.unique(classes.shape).tolist():
        alike = np.flatnonzero(classes.shape == shape)
        seats = [
            (int(classes.band[c]), c, shares)
            for c in alike.tolist()
            for shares in _split(problem, c, int(gangs[c]), pieces[c])
        ]
        seats.sort(key=lambda s: (s[0], s[1]))
        members = _in_order(problem, alike).tolist()
        out += [(c, j, shares) for (_, c, shares), j in zip(seats, members, strict=False)]
    return out


def _split(problem: Problem, c: int, gangs: int, pieces: Ints) -> list[list[Share]]:
    """Divide the pieces of a class among its gangs, segment by segment, keeping each gang's domains few."""
    classes, domains = problem.classes, problem.domains
    segment, required = int(classes.segment[c]), int(classes.required[c])
    inner = domains.level[required] if required >= 0 else np.zeros(domains.count, dtype=np.int64)
    used = np.flatnonzero(pieces)
    keys = list(zip(domains.pool[used].tolist(), inner[used].tolist(), strict=True))
    segments: dict[int, list[list[Share]]] = {}
    for key in sorted(set(keys)):
        group = [d for d, k in zip(used.tolist(), keys, strict=True) if k == key]
        segments.setdefault(key[0], []).extend(_split_group({d: int(pieces[d]) for d in group}, segment))
    per = int(classes.pieces[c]) // segment
    return [
        [share for part in of_pool[i : i + per] for share in part]
        for of_pool in segments.values()
        for i in range(0, len(of_pool) - per + 1, per)
    ][:gangs]


def _split_group(left: dict[int, int], per: int) -> list[list[Share]]:
    """Divide the pieces of one group: each segment takes a domain that holds it whole, else the fullest."""
    out: list[list[Share]] = []
    while sum(left.values()) >= per:
        shares: list[Share] = []
        need = per
        while need:
            whole = [d for d, k in left.items() if k >= need]
            exact = [d for d in whole if left[d] % per == need % per]
            d = min(exact or whole) if whole else max(left, key=lambda d: (left[d], -d))
            take = min(need, left[d])
            shares.append((d, take))
            left[d] -= take
            need -= take
            if not left[d]:
                del left[d]
        out.append(shares)
    return out


class _Table:
    """Some nodes of the hall while pieces are seated on them: a copy, until it is cleared into the hall."""

    def __init__(self, hall: _Hall, nodes: Ints) -> None:
        self.hall, self.problem, self.bands, self.nodes = hall, hall.problem, hall.bands, nodes
        self.room, self.cpus, self.memory = hall.room[:, nodes], hall.cpus[nodes], hall.memory[nodes]
        self.tight = np.minimum.accumulate(self.room, axis=0)  # room for a band: no more than those before
        self.ends_s = hall.ends_s[nodes]
        n = hall.problem.board.state.nodes
        self.gpus = n.gpus[nodes]
        self.level = n.domain[:, nodes]
        innermost = self.level[-1] if len(self.level) else np.zeros(len(nodes), dtype=np.int64)
        self.leaf = np.unique(innermost, return_inverse=True)[1].reshape(-1)

    def clear(self) -> None:
        """Tell the hall what has been taken here."""
        hall, nodes = self.hall, self.nodes
        hall.room[:, nodes], hall.cpus[nodes], hall.memory[nodes] = self.room, self.cpus, self.memory
        hall.ends_s[nodes] = self.ends_s

    def seat_all(self, wants: list[Want]) -> tuple[list[tuple[Want, Parts]], list[Want]]:
        """Seat one after the other; return what is seated, and what is not."""
        found: list[tuple[Want, Parts]] = []
        missing: list[Want] = []
        for want in wants:
            where, left = self.seat(want.j, want.c, want.pieces)
            found.append((want, where))
            if left:
                missing.append(want._replace(pieces=left))
        return found, missing

    def seat_exactly(self, wants: list[Want], solve: Solve) -> list[tuple[Want, Parts]] | None:
        """Seat everything by a small exact model, or return None where there is no way."""
        classes = self.problem.classes
        kinds = sorted({want.c for want in wants})
        c = np.array(kinds, dtype=np.int64)
        wanted = np.array([sum(x.pieces for x in wants if x.c == k) for k in kinds], dtype=np.int64)
        memory = -(-classes.memory_bytes[c] // MIB)
        each = np.column_stack((classes.size[c], classes.cpus_milli[c], memory))
        upto = np.searchsorted(self.bands, classes.band[c]) + 1
        free = np.vstack((self.cpus, self.memory // MIB))
        seats = reseat(solve, wanted, each, upto, self.room, free)
        if seats is None:
            return None
        out: list[tuple[Want, Parts]] = []
        for want in wants:
            k, where, left = kinds.index(want.c), [], want.pieces
            for i in np.flatnonzero(seats[k]).tolist():
                take = min(left, int(seats[k, i]))
                seats[k, i] -= take
                left -= take
                self._take(want.c, np.array([i]), np.array([take]))
                where += [(int(self.nodes[i]), take)] if take else []
            out.append((want, where))
        return out

    def _upto(self, c: int) -> int:
        """Return how many bands a piece of class `c` stands in the way of: its own and all before it."""
        return int(np.searchsorted(self.bands, self.problem.classes.band[c])) + 1

    def _take(self, c: int, at: Ints, pieces: Ints) -> None:
        classes = self.problem.classes
        self.room[: self._upto(c), at] -= pieces * classes.size[c]
        self.tight[:, at] = np.minimum.accumulate(self.room[:, at], axis=0)
        self.cpus[at] -= pieces * classes.cpus_milli[c]
        self.memory[at] -= pieces * classes.memory_bytes[c]

    def seat(self, j: int, c: int, k: int) -> tuple[Parts, int]:
        """Seat up to `k` pieces of class `c` for workload `j`; return where, and how many found no seat."""
        board = self.problem.board
        room = self.tight[self._upto(c) - 1]
        slots = piece_slots(self.problem.classes, c, room, self.cpus, self.memory)
        ends_s = board.state.now_s + int(board.state.workloads.min_runtime_s[j])
        at = self._turn(j, k, slots, int(self.problem.classes.size[c]), ends_s)
        taken = np.diff(np.minimum(np.cumsum(slots[at]), k), prepend=0)
        at, taken = at[taken > 0], taken[taken > 0]
        self._take(c, at, taken)
        self.ends_s[at] = np.maximum(self.ends_s[at], ends_s)
        return list(zip(self.nodes[at].tolist(), taken.tolist(), strict=True)), k - int(taken.sum())

    def _turn(self, j: int, k: int, slots: Ints, size: int, ends_s: int) -> Ints:
        """Return the nodes (their positions here) in the order in which `k` pieces fill them.

        One node where the gang would like one; one domain of the level that it prefers; one leaf, else as
        few as can be. In a leaf first the node that is left with the least, then the one whose protections
        it outlasts least.
        """
        preferred = int(self.problem.board.state.workloads.preferred[j])
        at = np.flatnonzero(slots)
        if preferred == Level.NODE and (slots >= k).any():
            at = np.flatnonzero(slots >= k)
        if preferred >= 0:
            at = self._narrowed(at, self.level[preferred], k, slots, size, ends_s)
        at = self._narrowed(at, self.leaf, k, slots, size, ends_s)
        longer_s = np.maximum(ends_s - self.ends_s[at], 0)
        turn: Ints = at[np.lexsort((longer_s, self.room[0, at], self._leaf_turn(at, slots, k)))]
        return turn

    def _narrowed(self, at: Ints, domain: Ints, k: int, slots: Ints, size: int, ends_s: int) -> Ints:
        """Return the nodes of `at` in the one domain that best holds all `k` pieces; all, if none does.

        First one that is not wholly free, then where the fewest wholly free nodes are broken, then where
        protections last about as long anyway, then the one that has the least room.
        """
        ids, domain = np.unique(domain[at], return_inverse=True)
        if len(ids) <= 1:
            return at
        domain = domain.reshape(-1)
        room = np.bincount(domain, slots[at])
        holds = np.flatnonzero(room >= k)
        if not len(holds):
            return at
        whole = (self.room[0, at] == self.gpus[at]) & (size < self.gpus[at])
        free = np.bincount(domain, self.room[0, at] == self.gpus[at]) == np.bincount(domain)
        broken = np.maximum(k - np.bincount(domain, np.where(whole, 0, slots[at])), 0)
        last_s = np.zeros(len(ids), dtype=np.int64)
        np.maximum.at(last_s, domain, self.ends_s[at])
        longer_s = np.maximum(ends_s - np.maximum(last_s, self.problem.board.state.now_s), 0)
        best = holds[np.lexsort((room[holds], longer_s[holds], broken[holds], free[holds]))[0]]
        nodes: Ints = at[domain == best]
        return nodes

    def _leaf_turn(self, at: Ints, slots: Ints, k: int) -> Ints:
        """Return the turn of each node's leaf: the roomiest first, as the last the tightest that will do."""
        ids, leaf = np.unique(self.leaf[at], return_inverse=True)
        leaf = leaf.reshape(-1)
        room = np.bincount(leaf, slots[at], len(ids)).astype(np.int64)
        by_room = np.argsort(-room, kind="stable")
        full = int(np.searchsorted(np.cumsum(room[by_room]), k))  # so many before the last
        if full < len(ids):
            left = k - int(room[by_room[:full]].sum())
            rest = by_room[full:]
            last = full + int(np.flatnonzero(room[rest] >= left)[-1])
            by_room[[full, last]] = by_room[[last, full]]
        turn = np.empty(len(ids), dtype=np.int64)
        turn[by_room] = np.arange(len(ids))
        return turn[leaf]


def protection_ends(board: Board) -> Ints:
    """Return when the last protection on each node ends, int64[N], epoch seconds; 0 where none is."""
    state, w = board.state, board.state.workloads
    ends = np.zeros(state.nodes.count, dtype=np.int64)
    held = np.flatnonzero(state.protected[board.owner])
    np.maximum.at(ends, w.placement.node[held], w.protected_until_s[board.owner[held]])
    for j, parts in board.starts.items():
        for n, _ in parts:
            ends[n] = max(ends[n], state.now_s + int(w.min_runtime_s[j]))
    return ends
