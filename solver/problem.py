"""What one exact solve decides on: the pending work of one tier, and whoever may make room for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from solver.board import Board
from solver.buddy import Classes, Domains, allowed_pools, classes_of, domains_of, piece_slots
from solver.shares import eviction_gpus, regret
from solver.state import Bools, Floats, Ints, Status

MIB = 1 << 20
"""Models count memory in MiB: bytes would cost a solver its precision."""


@dataclass(frozen=True)
class Cut:
    """Seating's lesson: class `c` gets no more than `most` pieces in the domain of `node`."""

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
    """One tier's question: who starts, who makes room, where.

    Attributes
    ----------
    worth : float64[W], GPU-hours
        Price x GPUs x H of every workload.
    caps : int64[C, D], pieces
        At most so many pieces of a class fit in a domain, even if all its possible victims went.
    """

    board: Board
    tier: int
    domains: Domains
    classes: Classes
    victims: Victims
    worth: Floats
    caps: Ints

    def starters(self) -> Ints:
        """Return the pending workloads of all classes, class after class, int64[J]."""
        members = self.classes.members
        return np.concatenate(members) if members else np.zeros(0, dtype=np.int64)

    def class_of_starters(self) -> Ints:
        """Return the class of each of `starters`, int64[J]."""
        sizes = [len(m) for m in self.classes.members]
        return np.repeat(np.arange(self.classes.count), sizes)


def problem_of(
    board: Board, tier: int, js: Ints, apart: Bools | None = None, cuts: Iterable[Cut] = ()
) -> Problem:
    """Put the question for pending allocated workloads `js` of one tier, as the board stands.

    Parameters
    ----------
    js : int64[K]
        Sorted by the order; 0-GPU workloads are left to the filling.
    apart : bool[N] or None
        Nodes that are domains of their own, so that the model sees what stands on each.
    """
    state, order = board.state, board.order
    apart = np.zeros(state.nodes.count, dtype=bool) if apart is None else apart
    classes, domains = classes_of(board, js), domains_of(board, apart)
    victims = _victims(board, tier, int(classes.band.min(initial=np.iinfo(np.int64).max)))
    worth = order.price * state.workloads.gpus * (state.policy.worth_s / 3600)
    caps = _caps(board, classes, domains, victims)
    for cut in cuts:
        d = domains.of_node[cut.node]
        caps[cut.c, d] = min(caps[cut.c, d], cut.most)
    return Problem(board, tier, domains, classes, victims, worth, caps)


def _victims(board: Board, tier: int, first_band: int) -> Victims:
    state, order, w = board.state, board.order, board.state.workloads
    running = w.status == Status.RUNNING
    may = board.standing & board.interruptible & running & (order.tier >= tier) & (order.band > first_band)
    index = np.flatnonzero(may)
    at = np.full(w.count, -1, dtype=np.int64)
    at[index] = np.arange(len(index))
    parts = np.flatnonzero(may[board.owner])
    owner = board.owner[parts]
    reps = w.placement.replicas[parts]
    hours = state.policy.worth_s / 3600
    restart = state.policy.restart_cost_s / 3600
    weighted = eviction_gpus(state, order, tier)[index]
    return Victims(
        index=index,
        band=order.band[index],
        tier=order.tier[index],
        gpus=w.gpus[index],
        weighted_gpus=weighted,
        worth=order.price[index] * w.gpus[index] * hours,
        regret=regret(state, order)[index],
        restart=(weighted * restart).astype(np.float64),
        part=at[owner],
        node=w.placement.node[parts],
        part_gpus=w.placement.gpus[parts],
        part_cpus=reps * w.cpus_milli[owner],
        part_memory=reps * w.memory_bytes[owner],
    )


def _caps(board: Board, classes: Classes, domains: Domains, victims: Victims) -> Ints:
    """Return how many pieces of each class could ever stand in each domain, int64[C, D]."""
    n = board.state.nodes.count
    pools = allowed_pools(board.state, classes)
    cpus = board.free_cpus + victims.freed(victims.part_cpus, n)
    memory = board.free_memory + victims.freed(victims.part_memory, n)
    caps = np.zeros((classes.count, domains.count), dtype=np.int64)
    gpus = {b: board.free_gpus + victims.freed_gpus(b, n) for b in np.unique(classes.band).tolist()}
    for c in range(classes.count):
        slots = piece_slots(classes, c, gpus[int(classes.band[c])], cpus, memory)
        caps[c] = domains.sum(slots)
        caps[c, ~_eligible(board, classes, domains, c, pools[c])] = 0
    return caps


def _eligible(board: Board, classes: Classes, domains: Domains, c: int, pools: Bools) -> Bools:
    state = board.state
    ok: Bools = pools[domains.pool]
    if classes.required[c] >= 0:
        ok &= domains.level[classes.required[c]] >= 0
    ends = state.now_s + state.workloads.min_runtime_s[classes.members[c]].max()
    ok &= ends <= domains.hold_s
    return ok
