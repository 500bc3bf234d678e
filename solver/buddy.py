"""The capacity algebra: equal nodes become one domain, equal workloads one class.

The fact that carries the model (docs/formulation.md, "buddy"): where piece sizes form a divisor chain, pieces
fit into nodes with free capacities f_n if and only if for every size s of the chain the pieces of size at
least s take at most sum_n floor(f_n / s) slots of size s, a piece of size t taking floor(t / s) of them. Off
the chain the same rows are a relaxation, and seating has the last word.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from solver.board import Board
from solver.state import Bools, Ints, Level, State

NODE, NONE = int(Level.NODE), int(Level.NONE)  # an enum's attributes are slow to look up

Slot = tuple[int, int]
"""A slot size as a fraction: (s, k) is s / k GPUs."""

FRACTIONS = 5
"""Slots of a size outside the longest chain over 1 to this have rows."""

RUNTIME_BUCKETS_S = (900, 3600, 7200, 14400)
"""Classes do not mix starts whose protection lasts very differently: they end in different company."""


@dataclass(frozen=True)
class Domains:
    """Where the model puts pieces: domains of nodes alike for every workload, and the seas they make up.

    Nodes of a domain have one pool, shape and promise, and one topology domain at every level that matters.
    A sea unites domains that differ in topology alone, for gangs that no level binds. Seas are numbered
    after the domains; a domain that is a sea by itself is listed once, as both.

    Attributes
    ----------
    of_node : int64[N]
        Domain of each node; -1 where nothing may start.
    sea : int64[D]
        Sea of each domain; of a sea itself.
    pool : int64[D]
    level : int64[L, D]
        Topology domain of each at every level; -1 for none, and where the level does not matter.
    node : int64[D]
        First node of each.
    """

    of_node: Ints
    sea: Ints
    pool: Ints
    level: Ints
    node: Ints

    @property
    def count(self) -> int:
        """Number of domains and seas."""
        return len(self.pool)

    @property
    def is_sea(self) -> Bools:
        """Tell which are seas, bool[D]."""
        out: Bools = self.sea == np.arange(self.count)
        return out

    @property
    def is_domain(self) -> Bools:
        """Tell which are domains, bool[D]."""
        out: Bools = np.arange(self.count) <= self.of_node.max(initial=-1)
        return out

    def nodes(self, d: int) -> Ints:
        """Return the nodes of a domain or sea."""
        inside = self.of_node >= 0
        own = self.sea[self.of_node] if self.sea[d] == d else self.of_node
        return np.flatnonzero(inside & (own == d))

    def sum(self, per_node: Ints) -> Ints:
        """Return the sums over each domain and sea of an amount per node, int64[D]."""
        inside = self.of_node >= 0
        weights = np.bincount(self.of_node[inside], per_node[inside], self.count)
        sums = np.rint(weights).astype(np.int64)
        parts = np.flatnonzero(~self.is_sea)
        np.add.at(sums, self.sea[parts], sums[parts])
        return sums


def domains_of(board: Board, apart: Bools, levels: Bools | None = None) -> Domains:
    """Group the usable nodes of a board.

    Parameters
    ----------
    apart : bool[N]
        Each of these nodes becomes a domain, and a sea, of its own.
    levels : bool[L] or None
        Levels that matter; None: all of them, and nothing roams a sea: every domain is its own.
    """
    n = board.state.nodes
    own = np.where(apart, np.arange(n.count), -1)
    alike = np.vstack((n.pool, n.gpus, n.cpus_milli, n.memory_bytes, board.hold_s, _holders(board), own))
    matter = np.ones(len(n.domain), dtype=bool) if levels is None else levels
    level = np.where(matter[:, None], n.domain, -1)
    keys = np.vstack((level, alike))[:, board.usable]
    of_node = np.full(n.count, -1, dtype=np.int64)
    first, of_node[board.usable] = _columns_alike(keys)
    if levels is None:
        sea = np.arange(len(first))
    else:
        first_of_sea, sea = _columns_alike(keys[len(level) :, first])
        first, sea = _with_seas(first, sea, first[first_of_sea])
    node = np.flatnonzero(board.usable)[first]
    level = level[:, node]
    level[:, of_node.max(initial=-1) + 1 :] = -1
    return Domains(of_node, sea, n.pool[node], level, node)


def _holders(board: Board) -> Ints:
    """Return a number for each node that is the same where the same gangs are promised it, int64[N]."""
    out = np.zeros(board.state.nodes.count, dtype=np.int64)
    promised = board.settled()
    for i, j in enumerate(promised):
        nodes = [n for n, _ in board.promised[j][1]]
        out[nodes] = out[nodes] * (len(promised) + 1) + i + 1
    return out


def _columns_alike(keys: Ints) -> tuple[Ints, Ints]:
    """Return the first of each kind of columns, and the kind of each column."""
    if not keys.shape[1]:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    _, first, kind = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    return first.astype(np.int64), kind.reshape(-1).astype(np.int64)


def _with_seas(first: Ints, sea: Ints, first_of_sea: Ints) -> tuple[Ints, Ints]:
    """Append the seas of several domains to the domains; return the first node and the sea of each."""
    several = np.bincount(sea, minlength=len(first_of_sea)) > 1
    number = np.zeros(len(several), dtype=np.int64)
    number[sea] = np.arange(len(sea))  # that of its only domain
    number[several] = len(first) + np.arange(several.sum())
    return np.concatenate((first, first_of_sea[several])), np.concatenate((number[sea], number[several]))


@dataclass(frozen=True)
class Classes:
    """Interchangeable pending workloads of one tier; a gang is `pieces` pieces of `size` GPUs.

    Attributes
    ----------
    members : tuple of int64 arrays
        Workloads of each class, best of the order first.
    size, pieces, cpus_milli, memory_bytes : int64[C]
        Of one gang; a required node makes the whole gang one piece.
    segment : int64[C], pieces
        Pieces that share one required domain; equals `pieces` where the whole gang does.
    required, preferred : int64[C]
        Level index, or `Level.NONE` (one pool is required of everybody).
    band : int64[C]
        Of the first member.
    shape : int64[C]
        Classes of one shape are alike but for the band.
    """

    members: tuple[Ints, ...]
    size: Ints
    pieces: Ints
    cpus_milli: Ints
    memory_bytes: Ints
    segment: Ints
    required: Ints
    preferred: Ints
    band: Ints
    shape: Ints

    @property
    def count(self) -> int:
        """Number of classes."""
        return len(self.members)

    @property
    def leader(self) -> Ints:
        """First member of each class, int64[C]."""
        return np.array([m[0] for m in self.members], dtype=np.int64)


def shapes(state: State, js: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """Return size, pieces, CPUs, memory, segment and required level of gangs, as pieces, int64[K] each.

    A gang (or segment) that needs a single node is one piece of that many replicas.
    """
    w = state.workloads
    replicas, required = w.replicas[js], w.required[js]
    segment = np.where(w.segment[js] > 0, w.segment[js], replicas)
    fused = np.where(required == NODE, segment, 1)
    pieces = replicas // fused
    required = np.where(required == NODE, NONE, required)
    segment = np.where((required == NONE) | (fused > 1), pieces, segment)
    return (
        w.gpus_per_replica[js] * fused,
        pieces,
        w.cpus_milli[js] * fused,
        w.memory_bytes[js] * fused,
        segment,
        required,
    )


@dataclass(frozen=True)
class Gang:
    """One gang as pieces: what `shapes` says of it, as plain integers for the searches of one gang."""

    size: int
    pieces: int
    segment: int
    required: int
    fused: int


def gang_of(state: State, j: int) -> Gang:
    """Return gang `j` as pieces; a piece is `fused` replicas."""
    w = state.workloads
    replicas, required = int(w.replicas[j]), int(w.required[j])
    segment = int(w.segment[j]) or replicas
    fused = segment if required == NODE else 1
    required = NONE if required == NODE else required
    pieces = replicas // fused
    segment = pieces if required == NONE or fused > 1 else segment
    return Gang(int(w.gpus_per_replica[j]) * fused, pieces, segment, required, fused)


def classes_of(board: Board, js: Ints, victim_bands: Ints, *, places: bool) -> Classes:
    """Group pending workloads (sorted by the order) into classes, in order of their first member.

    Parameters
    ----------
    victim_bands : int64
        Bands of the victims. What could evict the same of them is alike, whatever its own band.
    places : bool
        Group for the choice of places: wishes and the length of protection count, limits do not.
    """
    state, order, w = board.state, board.order, board.state.workloads
    size, pieces, cpus, memory, segment, required = shapes(state, js)
    ends = state.now_s + w.min_runtime_s[js]
    hold = np.where(w.allocated[js], np.searchsorted(np.unique(board.hold_s), ends), 0)
    hold[np.isin(js, board.settled())] = -1 - np.flatnonzero(np.isin(js, board.settled()))  # each by itself
    wishes = [size, pieces, cpus, memory, segment, required, hold, *w.pool_ok[js].T.astype(np.int64)]
    if places:
        wishes += [w.preferred[js], np.searchsorted(RUNTIME_BUCKETS_S, w.min_runtime_s[js])]
    else:
        wishes += [*state.budgets.limited_by()[w.leaf[js]].T.astype(np.int64)]
    shape = _first_seen(np.column_stack(wishes))
    spared = np.searchsorted(np.unique(victim_bands), order.band[js], side="right")
    group = _first_seen(np.column_stack((shape, spared)))
    first = np.flatnonzero(np.diff(np.maximum.accumulate(group), prepend=-1))
    turn = np.argsort(group, kind="stable")
    members = np.split(js[turn], np.cumsum(np.bincount(group))[:-1]) if len(js) else []
    return Classes(
        tuple(members), size[first], pieces[first], cpus[first], memory[first], segment[first],
        required[first], w.preferred[js][first], order.band[js][first], shape[first],
    )  # fmt: skip


def _first_seen(rows: Ints) -> Ints:
    """Return the number of each row's kind, kinds counted in order of first appearance, int64[K]."""
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    out: Ints = rank[inverse]
    return out


def piece_slots(classes: Classes, c: int, gpus: Ints, cpus: Ints, memory: Ints) -> Ints:
    """Return how many pieces of class `c` each node takes with so much free, int64[N]."""
    out: Ints = np.maximum(gpus, 0) // classes.size[c]
    for free, each in ((cpus, classes.cpus_milli[c]), (memory, classes.memory_bytes[c])):
        if each > 0:
            out = np.minimum(out, np.maximum(free, 0) // each)
    return out


def is_chain(sizes: Ints) -> bool:
    """Tell whether sizes (sorted, distinct) form a divisor chain: each divides the next."""
    return bool((sizes[1:] % sizes[:-1] == 0).all()) if len(sizes) > 1 else True


def row_slots(sizes: Ints) -> list[Slot]:
    """Return the slots that need a row for these piece sizes.

    On a divisor chain the sizes themselves: exact. Off it also 1, and fractions of the sizes outside the
    longest chain, which cut most of what whole slots overstate (`benchmarks.overstatement`): a slot (s, k)
    holds s / k GPUs.
    """
    sizes = np.unique(sizes)
    if is_chain(sizes):
        return [(s, 1) for s in sizes.tolist()]
    chain = set(_longest_chain(sizes.tolist()))
    rows = {(1, 1)}
    for s in sizes.tolist():
        for k in range(1, 2 if s in chain else FRACTIONS + 1):
            if s > k:  # a slot of one GPU or less says what (1, 1) says
                divisor = math.gcd(s, k)
                rows.add((s // divisor, k // divisor))
    return sorted(rows, key=lambda slot: (slot[0] / slot[1], slot))


def _longest_chain(sizes: list[int]) -> list[int]:
    """Return the longest divisor chain among sorted distinct sizes; of several the one of smaller sizes."""
    best: dict[int, list[int]] = {}
    for s in sizes:
        below = [best[t] for t in best if s % t == 0]
        best[s] = [*max(below, key=len, default=[]), s]
    return max(best.values(), key=len)


def allowed_pools(state: State, classes: Classes) -> Bools:
    """Return the pools of each class, bool[C, P]."""
    return state.workloads.pool_ok[classes.leader]
