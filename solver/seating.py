"""From amounts per domain to nodes: true sizes, CPUs and memory, and company that ends at the same time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from solver.board import Board, Parts
from solver.buddy import Classes
from solver.problem import MIB, Problem
from solver.reseat import Solve, reseat
from solver.state import FOREVER_S, Ints, Level

Share = tuple[int, int]
"""Part of a gang: (domain, pieces)."""


@dataclass(frozen=True)
class Seated:
    """A board on which an answer stands.

    Attributes
    ----------
    board : Board
    wanted : int64[C, D], pieces
        What the answer asked for.
    unseated : dict of (class, domain) to int, pieces
        What of it found no seat; its gangs do not stand on the board.
    """

    board: Board
    wanted: Ints
    unseated: dict[tuple[int, int], int]


def seat(problem: Problem, gangs: Ints, pieces: Ints, evicted: Ints, solve: Solve | None = None) -> Seated:
    """Carry out an answer on a copy of the problem's board.

    Parameters
    ----------
    gangs : int64[C]
        Gangs started of each class.
    pieces : int64[C, D]
        Pieces of each class in each domain.
    evicted : int64
        Workloads that make room.
    solve : back end or None
        Seats domains where the simple way misses.
    """
    board = problem.board.copy()
    for r in evicted.tolist():
        board.evict(r, problem.tier)
    waiting: dict[int, list[_Want]] = {}
    for c, j, shares in _starters(problem, gangs, pieces):
        for d, k in shares:
            waiting.setdefault(d, []).append(_Want(j, c, d, k))
    hall = _Hall(problem, board, protection_ends(problem.board))
    parts: dict[int, Parts] = {}
    homeless: list[_Want] = []
    for d in sorted(waiting):
        found, missing = hall.seat_domain(d, waiting[d], solve)
        for want, where in found:
            parts.setdefault(want.j, []).extend(where)
        homeless += missing
    unseated: dict[tuple[int, int], int] = {}
    failed: set[int] = set()
    for want in homeless:
        where, left = hall.seat_elsewhere(want)
        parts.setdefault(want.j, []).extend(where)
        if left:
            failed.add(want.j)
            unseated[want.c, want.d] = unseated.get((want.c, want.d), 0) + left
    for j in sorted(parts):
        if j not in failed:
            board.start(j, _merged(problem, j, parts[j]))
    return Seated(board, pieces, unseated)


class _Want(NamedTuple):
    """So many pieces of workload `j`, as class `c`, wanted in domain `d`."""

    j: int
    c: int
    d: int
    pieces: int


@dataclass
class _Hall:
    """The tables of all domains: each is laid when first somebody wants a seat there."""

    problem: Problem
    board: Board
    ends_s: Ints
    tables: dict[int, _Table] = field(default_factory=dict)

    def seat_domain(
        self, d: int, wants: list[_Want], solve: Solve | None
    ) -> tuple[list[tuple[_Want, Parts]], list[_Want]]:
        """Seat the pieces of one domain; return what is seated, and what is not.

        Largest first is all that a divisor chain needs; where CPUs or memory get in the way, hungriest first.
        """
        best: tuple[_Table, list[tuple[_Want, Parts]], list[_Want]] | None = None
        for key in (_largest_first, _hungriest_first):
            table = self._lay(d)
            found, missing = table.seat_all(sorted(wants, key=partial(key, self.problem.classes)))
            if best is None or len(missing) < len(best[2]):
                best = (table, found, missing)
            if not missing:
                break
        assert best is not None
        if best[2] and solve is not None:
            table = self._lay(d)
            exactly = table.seat_exactly(wants, solve)
            best = best if exactly is None else (table, exactly, [])
        self.tables[d] = best[0]
        return best[1], best[2]

    def seat_elsewhere(self, want: _Want) -> tuple[Parts, int]:
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
                if d not in self.tables:
                    self.tables[d] = self._lay(d)
                found, left = self.tables[d].seat(want.j, want.c, left)
                where += found
        return where, left

    def _lay(self, d: int) -> _Table:
        return _Table(self.problem, self.board, d, self.ends_s)


def _largest_first(classes: Classes, want: _Want) -> tuple[float, ...]:
    return -int(classes.size[want.c]), -int(classes.band[want.c]), -want.pieces, want.j


def _hungriest_first(classes: Classes, want: _Want) -> tuple[float, ...]:
    """Sort by the largest share of what any class of the solve asks of a resource."""
    each = (classes.size, classes.cpus_milli, classes.memory_bytes)
    share = max(float(x[want.c] / max(int(x.max()), 1)) for x in each)
    return -share, *_largest_first(classes, want)


def _merged(problem: Problem, j: int, parts: Parts) -> Parts:
    """Return one entry per node, in replicas (a piece may be several replicas)."""
    w = problem.board.state.workloads
    c = next(c for c, members in enumerate(problem.classes.members) if j in members)
    fused = int(w.replicas[j]) // int(problem.classes.pieces[c])
    sums: dict[int, int] = {}
    for n, k in parts:
        sums[n] = sums.get(n, 0) + k * fused
    return sorted(sums.items())


def _starters(problem: Problem, gangs: Ints, pieces: Ints) -> list[tuple[int, int, list[Share]]]:
    """Return (class of its seats, workload, shares) of every start.

    Of workloads alike the first of the order start: seats go by shape, whatever class the solve gave them to.
    """
    classes, order = problem.classes, problem.board.order
    out: list[tuple[int, int, list[Share]]] = []
    for shape in np.unique(classes.shape).tolist():
        alike = np.flatnonzero(classes.shape == shape).tolist()
        seats = [
            (int(classes.band[c]), c, shares)
            for c in alike
            for shares in _split(problem, c, int(gangs[c]), pieces[c])
        ]
        seats.sort(key=lambda s: (s[0], s[1]))
        members = np.concatenate([classes.members[c] for c in alike])
        members = members[np.lexsort((order.position[members], order.band[members]))]
        out += [(c, j, shares) for (_, c, shares), j in zip(seats, members.tolist(), strict=False)]
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
    """The nodes of one domain while pieces are seated on them, the largest first.

    A piece of band b may stand only on what was free or was given up by victims of later bands; `room[i]`
    is what bands from the i-th on may still take of each node.
    """

    def __init__(self, problem: Problem, board: Board, d: int, ends_s: Ints) -> None:
        self.problem = problem
        self.nodes = np.flatnonzero(problem.domains.of_node == d)
        self.bands = np.unique(problem.classes.band)
        self.cpus, self.memory = board.free_cpus[self.nodes].copy(), board.free_memory[self.nodes].copy()
        self.room = np.repeat(board.free_gpus[self.nodes][None, :], len(self.bands), axis=0)
        at = {int(n): i for i, n in enumerate(self.nodes)}
        v = problem.victims
        gone = ~board.standing[v.index]
        for m in np.flatnonzero(gone[v.part] & (problem.domains.of_node[v.node] == d)).tolist():
            self.room[self.bands >= v.band[v.part[m]], at[int(v.node[m])]] -= v.part_gpus[m]
        self.ends_s = ends_s[self.nodes]

    def seat_all(self, wants: list[_Want]) -> tuple[list[tuple[_Want, Parts]], list[_Want]]:
        """Seat one after the other; return what is seated, and what is not."""
        found: list[tuple[_Want, Parts]] = []
        missing: list[_Want] = []
        for want in wants:
            where, left = self.seat(want.j, want.c, want.pieces)
            found.append((want, where))
            if left:
                missing.append(want._replace(pieces=left))
        return found, missing

    def seat_exactly(self, wants: list[_Want], solve: Solve) -> list[tuple[_Want, Parts]] | None:
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
        out: list[tuple[_Want, Parts]] = []
        for want in wants:
            k, where, left = kinds.index(want.c), [], want.pieces
            for i in np.flatnonzero(seats[k]).tolist():
                take = min(left, int(seats[k, i]))
                seats[k, i] -= take
                left -= take
                self._take(want.c, i, take)
                where += [(int(self.nodes[i]), take)] if take else []
            out.append((want, where))
        return out

    def _take(self, c: int, i: int, pieces: int) -> None:
        classes = self.problem.classes
        upto = int(np.searchsorted(self.bands, classes.band[c])) + 1
        self.room[:upto, i] -= pieces * classes.size[c]
        self.cpus[i] -= pieces * classes.cpus_milli[c]
        self.memory[i] -= pieces * classes.memory_bytes[c]

    def seat(self, j: int, c: int, k: int) -> tuple[Parts, int]:
        """Seat up to `k` pieces of class `c` for workload `j`; return where, and how many found no seat."""
        p, classes = self.problem, self.problem.classes
        size, cpus, memory = (int(x[c]) for x in (classes.size, classes.cpus_milli, classes.memory_bytes))
        upto = int(np.searchsorted(self.bands, classes.band[c])) + 1
        ends_s = p.board.state.now_s + int(p.board.state.workloads.min_runtime_s[j])
        parts: Parts = []
        at_once = k if classes.preferred[c] == Level.NODE else 1  # a gang that would like a single node
        while k:
            room = self.room[:upto].min(axis=0)
            fits = (
                (room >= at_once * size) & (self.cpus >= at_once * cpus) & (self.memory >= at_once * memory)
            )
            if not fits.any() and at_once > 1:
                at_once = 1
                continue
            if not fits.any():
                break
            left = np.where(fits, self.room[0] - size, FOREVER_S)
            longer_s = np.maximum(ends_s - self.ends_s, 0)
            i = int(np.lexsort((longer_s, left))[0])
            self._take(c, i, at_once)
            self.ends_s[i] = max(self.ends_s[i], ends_s)
            parts.append((int(self.nodes[i]), at_once))
            k -= at_once
        return parts, k


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
