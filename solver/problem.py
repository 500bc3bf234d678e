"""What one exact solve decides on: the pending work of one tier, and whoever may make room for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from solver.board import Board
from solver.buddy import Classes, Domains, allowed_pools, classes_of, domains_of, piece_slots
from solver.shares import eviction_gpus, regret
from solver.state import Bools, Floats, Ints

MIB = 1 << 20
"""Models count memory in MiB: bytes would cost a solver its precision."""


@dataclass(frozen=True)
class Cut:
    """Seating's lesson: class `c` gets no more than `most` pieces in the domain (or sea) of `node`."""

    c: int
    node: int
    most: int


@dataclass(frozen=True)
class Victims:
    """Interruptible running work that may be evicted, and where each part of it stands.

    Attributes
    ----------
    index : int64[K]
        Workloads.
    band, tier, gpus : int64[K]
    weighted_gpus : int64[K]
        GPUs whose restart is charged, by `shares.eviction_gpus`.
    worth : float64[K], GPU-hours
        Price x GPUs x H of going on.
    regret : float64[K], GPU-hours
        Chooses among victims of later tiers, by `shares.regret`.
    restart : float64[K], GPU-hours
        Paid when it is evicted, whoever it is.
    limits : int64[K]
        Alike for victims below the same limits.
    part, node, part_gpus, part_cpus, part_memory : int64[M]
        Victim (position in `index`) of each part, its node, and what it holds there.
    """

    index: Ints
    band: Ints
    tier: Ints
    gpus: Ints
    weighted_gpus: Ints
    worth: Floats
    regret: Floats
    restart: Floats
    limits: Ints
    part: Ints
    node: Ints
    part_gpus: Ints
    part_cpus: Ints
    part_memory: Ints

    @property
    def count(self) -> int:
        """Number of possible victims."""
        return len(self.index)

    def freed_gpus(self, after_band: int, n_nodes: int) -> Ints:
        """Return the GPUs that victims of bands later than `after_band` hold on each node, int64[N]."""
        late = self.band[self.part] > after_band
        return _sums(self.node[late], self.part_gpus[late], n_nodes)

    def freed(self, amounts: Ints, n_nodes: int) -> Ints:
        """Return the sum of an amount per part over all victims on each node, int64[N]."""
        return _sums(self.node, amounts, n_nodes)


def _sums(node: Ints, amounts: Ints, n_nodes: int) -> Ints:
    out = np.zeros(n_nodes, dtype=np.int64)
    np.add.at(out, node, amounts)
    return out


@dataclass(frozen=True)
class Problem:
    """One tier's question: who starts and who makes room; or, once that is settled, where.

    Attributes
    ----------
    victims : Victims
        Who may make room; nobody once it is settled.
    gone : Victims
        Who makes room for certain.
    worth : float64[W], GPU-hours
        Price x GPUs x H of every workload.
    caps : int64[C, D], pieces
        At most so many pieces of a class fit in a domain or sea, even if all its possible victims went.
    """

    board: Board
    tier: int
    domains: Domains
    classes: Classes
    victims: Victims
    gone: Victims
    worth: Floats
    caps: Ints

    @property
    def members(self) -> Ints:
        """Number of workloads in each class, int64[C]."""
        return np.array([len(m) for m in self.classes.members], dtype=np.int64)

    def starters(self) -> Ints:
        """Return the pending workloads of all classes, class after class, int64[J]."""
        members = self.classes.members
        return np.concatenate(members) if members else np.zeros(0, dtype=np.int64)

    def class_of_starters(self) -> Ints:
        """Return the class of each of `starters`, int64[J]."""
        return np.repeat(np.arange(self.classes.count), self.members)

    def area(self, c: int, node: int) -> int:
        """Return the domain (or, of a class that no level binds, the sea) of a node."""
        d = self.domains.of_node[node]
        return int(d if self.classes.required[c] >= 0 else self.domains.sea[d])

    def free_gpus(self, band: int) -> Ints:
        """Return what starts of a band may take of each node without a further victim, int64[N]."""
        free = np.maximum(self.board.free_gpus, 0)
        return free + self.gone.freed_gpus(band, len(free))

    def free_cpus(self) -> Ints:
        """Return the CPUs of each node without a further victim, int64[N], thousandths."""
        free = np.maximum(self.board.free_cpus, 0)
        return free + self.gone.freed(self.gone.part_cpus, len(free))

    def free_memory(self) -> Ints:
        """Return the memory of each node without a further victim, int64[N], bytes."""
        free = np.maximum(self.board.free_memory, 0)
        return free + self.gone.freed(self.gone.part_memory, len(free))


def problem_of(
    board: Board, tier: int, js: Ints, apart: Bools | None = None, cuts: Iterable[Cut] = ()
) -> Problem:
    """Put the question who of `js` starts and who makes room, as the board stands.

    Parameters
    ----------
    js : int64[K]
        Pending allocated workloads of one tier, sorted by the order; 0-GPU workloads are left to the filling.
    apart : bool[N] or None
        Nodes that are domains of their own, so that the model sees what stands on each.
    """
    nodes, w, order = board.state.nodes, board.state.workloads, board.order
    may = board.standing & board.interruptible & w.running & (order.tier >= tier)
    may &= order.band > order.band[js].min(initial=np.iinfo(np.int64).max)
    victims = _victims(board, tier, np.flatnonzero(may))
    classes = classes_of(board, js, victims.band, places=False)
    matter = np.isin(np.arange(len(nodes.domain)), classes.required)
    apart = np.zeros(nodes.count, dtype=bool) if apart is None else apart
    nobody = _victims(board, tier, np.zeros(0, dtype=np.int64))
    problem = _put(board, tier, domains_of(board, apart, matter), classes, victims, nobody)
    for cut in cuts:
        d = problem.area(cut.c, cut.node)
        problem.caps[cut.c, d] = min(problem.caps[cut.c, d], cut.most)
    return problem


def places_problem(board: Board, tier: int, js: Ints, evicted: Ints, apart: Bools | None = None) -> Problem:
    """Put the question where `js` stand, all of which start, once `evicted` make room."""
    gone, nobody = (_victims(board, tier, index) for index in (np.sort(evicted), evicted[:0]))
    classes = classes_of(board, js, gone.band, places=True)
    apart = np.zeros(board.state.nodes.count, dtype=bool) if apart is None else apart
    return _put(board, tier, domains_of(board, apart), classes, nobody, gone)


def _put(
    board: Board, tier: int, domains: Domains, classes: Classes, victims: Victims, gone: Victims
) -> Problem:
    worth = board.order.price * board.state.workloads.gpus * (board.state.policy.worth_s / 3600)
    none = np.zeros((classes.count, domains.count), dtype=np.int64)
    problem = Problem(board, tier, domains, classes, victims, gone, worth, none)
    return replace(problem, caps=_caps(problem))


def _victims(board: Board, tier: int, index: Ints) -> Victims:
    state, order, w = board.state, board.order, board.state.workloads
    at = np.full(w.count, -1, dtype=np.int64)
    at[index] = np.arange(len(index))
    parts = np.flatnonzero(at[board.owner] >= 0)
    owner = board.owner[parts]
    reps = w.placement.replicas[parts]
    weighted = eviction_gpus(state, order, tier)[index]
    limits = np.unique(state.budgets.limited_by(), axis=0, return_inverse=True)[1].reshape(-1)
    return Victims(
        index=index,
        band=order.band[index],
        tier=order.tier[index],
        gpus=w.gpus[index],
        weighted_gpus=weighted,
        worth=order.price[index] * w.gpus[index] * (state.policy.worth_s / 3600),
        regret=regret(state, order)[index],
        restart=(weighted * (state.policy.restart_cost_s / 3600)).astype(np.float64),
        limits=np.where(w.leaf[index] >= 0, limits[w.leaf[index]], -1),
        part=at[owner],
        node=w.placement.node[parts],
        part_gpus=w.placement.gpus[parts],
        part_cpus=reps * w.cpus_milli[owner],
        part_memory=reps * w.memory_bytes[owner],
    )


def _caps(p: Problem) -> Ints:
    """Return how many pieces of each class could ever stand in each domain or sea, int64[C, D].

    What a level binds stands in domains, everything else roams its sea.
    """
    n = p.board.state.nodes.count
    pools = allowed_pools(p.board.state, p.classes)
    cpus = p.free_cpus() + p.victims.freed(p.victims.part_cpus, n)
    memory = p.free_memory() + p.victims.freed(p.victims.part_memory, n)
    bands = np.unique(p.classes.band).tolist()
    gpus = {b: p.free_gpus(b) + p.victims.freed_gpus(b, n) for b in bands}
    min_runtime_s = p.board.state.workloads.min_runtime_s
    caps = p.caps.copy()
    for c, level in enumerate(p.classes.required.tolist()):
        ok = p.domains.is_domain & (p.domains.level[level] >= 0) if level >= 0 else p.domains.is_sea
        ok = ok & pools[c][p.domains.pool]
        members = p.classes.members[c]
        hold_s = p.board.held_until_s(int(members[0]))[p.domains.node]
        ok &= p.board.state.now_s + min_runtime_s[members].max() <= hold_s
        slots = piece_slots(p.classes, c, gpus[int(p.classes.band[c])], cpus, memory)
        caps[c] = np.where(ok, p.domains.sum(slots), 0)
    return caps
