"""How broken up the free GPUs are, and when they come together again.

A *cell* is what one gang may use at a level: the nodes of one pool inside one domain; for `Level.NODE` the
node itself, for `Level.NONE` the whole pool. Nodes that are not up have no free GPUs and no cell. Everything
is an amount, never a ratio: on a full cluster every ratio is near one (Weng et al., FGD, ATC'23).

Symbols: f_n free GPUs of node n, g GPUs of a node, w_d wholly free nodes of cell d, F free GPUs in all cells.
GPUs alone count here, not CPUs or memory.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from solver.state import FOREVER_S, Ints, Level, State


@dataclass(frozen=True)
class Demand:
    """Gangs that could come: what free GPUs are judged by.

    Attributes
    ----------
    size_gpus, replicas : int64[K]
        Each gang is `replicas` pieces of `size_gpus` >= 1, one piece on one node.
    weight : int64[K]
        How much each kind of gang counts, relative to the others.
    """

    size_gpus: Ints
    replicas: Ints
    weight: Ints


@dataclass(frozen=True)
class Claims:
    """GPUs taken until a known time: `gpus[k]` of `node[k]` until `end_s[k]`, epoch seconds; all int64[K]."""

    node: Ints
    gpus: Ints
    end_s: Ints


@dataclass(frozen=True)
class LevelMeasure:
    """The free GPUs seen by gangs that must stay inside one cell of `level`; all GPUs but the last.

    Attributes
    ----------
    level : int
        Index of a topology level, `Level.NODE` or, for the whole pool, `Level.NONE`.
    largest_gang_gpus : int
        See `largest_gangs`.
    stranded_gpus : int
        Free GPUs of cells that take no gang of the demand (Borg's stranding, for gangs); 0 without demand.
    unusable_gpus : int
        Free GPUs that a gang of the demand leaves unused when gangs like it fill every cell, in the weighted
        mean: sum over s of p_s (F - s K(s)), FGD's expected fragmentation lifted to gangs; rounded down.
    whole_cells : int
        Wholly free cells that are part of no wholly free cell of a wider level (HiveD's buddy inventory).
    """

    level: int
    largest_gang_gpus: int
    stranded_gpus: int
    unusable_gpus: int
    whole_cells: int


@dataclass(frozen=True)
class Fragmentation:
    """The measures of one moment.

    Attributes
    ----------
    free_gpus : int
    sliver_nodes, sliver_gpus : int
        Nodes that are neither full nor wholly free, and what is free on them.
    levels : tuple of LevelMeasure
        In the order of `levels_of`.
    """

    free_gpus: int
    sliver_nodes: int
    sliver_gpus: int
    levels: tuple[LevelMeasure, ...]


def measure(state: State, free_gpus: Ints, demand: Demand) -> Fragmentation:
    """Return how broken up `free_gpus`, int64[N], is for gangs like those of `demand`."""
    free = _usable(state, free_gpus)
    sliver = (free > 0) & (free < state.nodes.gpus)
    columns = zip(levels_of(state), largest_gangs(state, free), buddy_inventory(state, free), strict=True)
    return Fragmentation(
        free_gpus=int(free.sum()),
        sliver_nodes=int(sliver.sum()),
        sliver_gpus=int(free[sliver].sum()),
        levels=tuple(
            LevelMeasure(level, largest, *_wasted(free, cells(state, level), _pieces(demand, level)), whole)
            for level, largest, whole in columns
        ),
    )


def queued(state: State) -> Demand:
    """Return the gangs that wait, each kind weighted by the GPUs that all of it wants."""
    w = state.workloads
    waits = w.pending & (w.gpus > 0)
    kinds, count = np.unique(
        np.stack([w.gpus_per_replica[waits], w.replicas[waits]]), axis=1, return_counts=True
    )
    return Demand(kinds[0], kinds[1], kinds[0] * kinds[1] * count)


# Levels and cells


def levels_of(state: State) -> tuple[int, ...]:
    """Return the levels that are measured: the node, the topology from the innermost out, the pool."""
    return (Level.NODE, *reversed(range(len(state.nodes.domain))), Level.NONE)


def cells(state: State, level: int) -> Ints:
    """Return the cell of each node at `level`, int64[N]; -1 where it is not up or has no such level."""
    return np.where(state.nodes.up, _all_cells(state, level), -1)


def _all_cells(state: State, level: int) -> Ints:
    """Return the cell of each node at `level`, whatever its health."""
    n = state.nodes
    if level == Level.NODE:
        return np.arange(n.count)
    if level == Level.NONE:
        return n.pool
    domain = n.domain[level]
    return np.where(domain < 0, -1, domain * len(n.pool_cluster) + n.pool)


def _usable(state: State, free_gpus: Ints) -> Ints:
    return np.where(state.nodes.up, np.maximum(free_gpus, 0), 0)


def _sum(cell: Ints, amount: Ints) -> Ints:
    """Return the exact sum of `amount` in each cell, at least one; what has no cell counts nowhere."""
    out = np.zeros(cell.max(initial=0) + 1, dtype=np.int64)
    np.add.at(out, cell[cell >= 0], amount[cell >= 0])
    return out


# What fits now


def largest_gangs(state: State, free_gpus: Ints) -> tuple[int, ...]:
    """Return the largest gang that fits one cell of each level of `levels_of`, GPUs.

    On a node: its free GPUs, max_n f_n. Wider: a gang of whole nodes of one size, max_d g w_d. Nodes of
    several sizes in one cell are not added up, as the replicas of a gang are equal.
    """
    n, free = state.nodes, _usable(state, free_gpus)
    whole = (n.gpus > 0) & (free == n.gpus)
    out = [int(free.max(initial=0))]
    for level in levels_of(state)[1:]:
        cell = cells(state, level)
        there = whole & (cell >= 0)
        kinds, count = np.unique(np.stack([cell[there], n.gpus[there]]), axis=1, return_counts=True)
        out.append(int((kinds[1] * count).max(initial=0)))
    return tuple(out)


def buddy_inventory(state: State, free_gpus: Ints) -> tuple[int, ...]:
    """Return the number of wholly free cells that lie in no wider one, at each level of `levels_of`.

    Every wholly free node lies in exactly one of them. Nodes without GPUs do not count, and a node that is
    not up leaves no cell around it whole.
    """
    n = state.nodes
    counts = n.gpus > 0
    broken = counts & (_usable(state, free_gpus) != n.gpus)
    inside = ~counts
    out = []
    for level in reversed(levels_of(state)):
        cell = np.where(counts, _all_cells(state, level), -1)
        whole = (_sum(cell, broken.astype(np.int64)) == 0)[cell] & (cell >= 0) & ~inside
        out.append(len(np.unique(cell[whole])))
        inside |= whole
    return tuple(reversed(out))


def hole_filling(free_gpus: Ints, cell: Ints, size_gpus: int, replicas: int) -> int:
    """Return how many gangs of `replicas` pieces of `size_gpus` fit together, each inside one cell.

    K = sum_d floor(sum_{n in d} floor(f_n / size) / replicas): Verma et al.'s hole filling, for gangs.

    Parameters
    ----------
    free_gpus, cell : int64[N]
        -1 in `cell` = not usable.
    """
    return int((_sum(cell, free_gpus // size_gpus) // replicas).sum())


def _pieces(demand: Demand, level: int) -> Demand:
    """Return what must fit one cell: the whole gang, but on a node one piece of it."""
    if level != Level.NODE:
        return demand
    return Demand(demand.size_gpus, np.ones_like(demand.replicas), demand.weight)


def _wasted(free: Ints, cell: Ints, demand: Demand) -> tuple[int, int]:
    """Return the stranded and the unusable GPUs of the cells."""
    inside = _sum(cell, free)
    total = int(inside.sum())
    stranded = np.ones(len(inside), dtype=bool)
    unusable = 0
    gangs = zip(demand.size_gpus.tolist(), demand.replicas.tolist(), demand.weight.tolist(), strict=True)
    for size, replicas, weight in gangs:
        fit = _sum(cell, free // size) // replicas
        stranded &= fit == 0
        unusable += weight * (total - size * replicas * int(fit.sum()))
    weights = int(demand.weight.sum())
    return (int(inside[stranded].sum()) if weights else 0), (unusable // weights if weights else 0)


# What is certain to fit, and when


def protected_claims(state: State) -> Claims:
    """Return what running protected work certainly holds, and until when; all else can be interrupted."""
    w = state.workloads
    owner = np.repeat(np.arange(w.count), np.diff(w.placement.ptr))
    held = state.protected[owner]
    return Claims(w.placement.node[held], w.placement.gpus[held], w.protected_until_s[owner[held]])


def free_at_s(claims: Claims, count: int, now_s: int) -> Ints:
    """Return the time e_n from which no claim is left on each of `count` nodes, int64[count]."""
    out = np.full(count, now_s)
    np.maximum.at(out, claims.node, claims.end_s)
    return out


def certain_start_s(node_free_s: Ints, cell: Ints, nodes: int) -> Ints:
    """Return the time T_d(k) from which k = `nodes` whole nodes of each cell are free of claims, int64[D].

    It is the k-th smallest e_n of the cell; `FOREVER_S` where the cell is smaller.
    """
    usable = cell >= 0
    order = np.lexsort((node_free_s[usable], cell[usable]))
    sorted_cell, sorted_s = cell[usable][order], node_free_s[usable][order]
    every = np.arange(cell.max(initial=-1) + 1)
    kth = np.searchsorted(sorted_cell, every) + nodes - 1
    reached = kth < np.searchsorted(sorted_cell, every, side="right")
    out = np.full(len(every), FOREVER_S)
    out[reached] = sorted_s[kth[reached]]
    return out


def earliest_fit_s(
    capacity: Ints, claims: Claims, size_gpus: int, replicas: int, domain: Ints, now_s: int
) -> tuple[int, int]:
    """Return when and in which domain `replicas` pieces of `size_gpus` GPUs are first certain to fit.

    Exact: claims only end, so what is free never shrinks, and the first time that works is found by halving
    the sorted distinct ends. (A claim that begins later, as a promise does, would break this.)

    Parameters
    ----------
    capacity, domain : int64[N]
        GPUs of each node and where it counts; -1 = not usable.

    Returns
    -------
    time_s, domain : int
        The lowest domain if several come free together; `FOREVER_S` and -1 if none ever suffices.
    """

    def fitting(time_s: int) -> Ints:
        slots = _left(capacity, claims, time_s) // size_gpus
        return np.flatnonzero(_sum(domain, slots) >= replicas)

    times_s = [now_s, *np.unique(claims.end_s[claims.end_s > now_s]).tolist()]
    first = bisect_left(times_s, 1, key=lambda time_s: min(len(fitting(time_s)), 1))
    if first == len(times_s):
        return FOREVER_S, -1
    return times_s[first], int(fitting(times_s[first])[0])


def largest_at(state: State, claims: Claims, times_s: list[int]) -> list[tuple[int, ...]]:
    """Return for each time the largest gang certain to fit then, as `largest_gangs` does."""
    return [largest_gangs(state, _left(state.nodes.gpus, claims, time_s)) for time_s in times_s]


def _left(capacity: Ints, claims: Claims, time_s: int) -> Ints:
    """Return the GPUs of each node that no claim holds at `time_s`; an end frees its GPUs in that second."""
    active = claims.end_s > time_s
    left = capacity.copy()
    np.subtract.at(left, claims.node[active], claims.gpus[active])
    return np.maximum(left, 0)
