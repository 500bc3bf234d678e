"""CPUs and memory in the model of a tier: relaxations that seating completes node by node."""

from __future__ import annotations

import numpy as np

from solver.assemble import Assembler
from solver.columns import Columns
from solver.problem import MIB, Problem
from solver.state import Ints


def add_resource(a: Assembler, p: Problem, x: Columns) -> None:
    """CPUs and memory of a domain, where its nodes count them: cpus[d] and memory[d].

    sum_c each_c * unit * place[c,d] + sum_r held[r,d] * keep[r] <= sum_(n in d) free_n + sum_r held[r,d], in
    thousandths of a CPU and in MiB. A relaxation: seating sees to it node by node.
    """
    n, v = p.board.state.nodes, p.victims
    for family, counted, free, each, held, grain in (
        ("cpus", n.cpus_milli, p.board.free_cpus, p.classes.cpus_milli, v.part_cpus, 1),
        ("memory", n.memory_bytes, p.board.free_memory, p.classes.memory_bytes, v.part_memory, MIB),
    ):
        takes = np.flatnonzero((each[x.place_class] > 0) & (counted[p.domains.node[x.place_domain]] > 0))
        if not len(takes):
            continue
        ds, row = np.unique(x.place_domain[takes], return_inverse=True)
        part = np.flatnonzero(np.isin(p.domains.of_node[v.node], ds) & (held > 0))
        row_of = np.full(p.domains.count, -1, dtype=np.int64)
        released = held[part] // grain
        room = p.domains.sum(np.maximum(free, 0) // grain + 1)[ds].astype(float)
        np.add.at(room, np.searchsorted(ds, p.domains.of_node[v.node[part]]), released + 1)
        rows = a.rows(family, ds[:, None], upper=room)
        row_of[ds] = rows
        a.put(rows[row], x.place[takes], each[x.place_class[takes]] // grain * x.unit[takes])
        a.put(row_of[p.domains.of_node[v.node[part]]], x.keep[v.part[part]], released)


def add_room(a: Assembler, p: Problem, x: Columns) -> None:
    """Pieces hungry for CPUs or memory fit into nodes: room[d,t], with seats[n,t] on nodes of victims.

    For every shape t (GPUs, CPUs, memory of a piece) that finds fewer seats in d than by its GPUs alone:
    sum_(c at least t) times(c, t) * unit * place[c,d] <= sum_(n in d) seats of t on n,
    where times is how many t one piece of c contains; on a node of victims each resource bounds the seats:
    t * seats[n,t] + sum_r held[r,n] * keep[r] <= free_n + sum_r held[r,n]. Exact for pieces of one shape.
    """
    classes, v = p.classes, p.victims
    each = np.column_stack((classes.size, classes.cpus_milli, classes.memory_bytes))
    free = np.column_stack((p.board.free_gpus, p.board.free_cpus, p.board.free_memory))
    held = np.column_stack((v.part_gpus, v.part_cpus, v.part_memory))
    most = np.maximum(free, 0)
    np.add.at(most, v.node, held)
    for t, shape in enumerate(np.unique(each[each[:, 1:].any(axis=1)], axis=0)):
        now, ever = _seats(np.maximum(free, 0), shape), _seats(most, shape)
        hungry = (now < np.maximum(free[:, 0], 0) // shape[0]) | (ever < most[:, 0] // shape[0])
        ratio = np.where(shape > 0, each // np.maximum(shape, 1), np.iinfo(np.int64).max).min(axis=1)
        d_hungry = p.domains.sum(hungry.astype(np.int64)) > 0
        takes = np.flatnonzero((ratio[x.place_class] > 0) & d_hungry[x.place_domain])
        if not len(takes):
            continue
        ds, row = np.unique(x.place_domain[takes], return_inverse=True)
        row_of = np.full(p.domains.count, -1, dtype=np.int64)
        changed = (ever > now) & (p.domains.of_node >= 0)
        base = p.domains.sum(np.where(changed, 0, now))[ds]
        rows = a.rows("room", np.column_stack((ds, np.full_like(ds, t))), upper=base)
        row_of[ds] = rows
        a.put(rows[row], x.place[takes], ratio[x.place_class[takes]] * x.unit[takes])
        changed[changed] = row_of[p.domains.of_node[changed]] >= 0
        _seats_of_victims(a, p, x, (t, shape), np.flatnonzero(changed), ever, row_of)


def _seats(free: Ints, shape: Ints) -> Ints:
    """Return how many pieces of a shape each row of free amounts takes, int64[N]."""
    asked = shape > 0
    out: Ints = (free[:, asked] // shape[asked]).min(axis=1)
    return out


def _seats_of_victims(
    a: Assembler, p: Problem, x: Columns, t: tuple[int, Ints], nodes: Ints, ever: Ints, row_of: Ints
) -> None:
    """Add seats[n,t] on nodes where victims can make more of them."""
    if not len(nodes):
        return
    kind, shape = t
    v, board = p.victims, p.board
    labels = np.column_stack((nodes, np.full_like(nodes, kind)))
    seats = a.columns("seats", labels, upper=ever[nodes])
    a.put(row_of[p.domains.of_node[nodes]], seats, -1)
    at = np.full(len(ever), -1, dtype=np.int64)
    at[nodes] = np.arange(len(nodes))
    part = np.flatnonzero(at[v.node] >= 0)
    resources = (
        (board.free_gpus, v.part_gpus, 1),
        (board.free_cpus, v.part_cpus, 1),
        (board.free_memory, v.part_memory, MIB),
    )
    for r, (free, held, grain) in enumerate(resources):
        if not shape[r]:
            continue
        slack = int(grain > 1)  # what rounding to MiB may hide: the row must refuse nothing that fits
        released = held[part] // grain
        room = (np.maximum(free[nodes], 0) // grain + slack).astype(float)
        np.add.at(room, at[v.node[part]], released + slack)
        rows = a.rows("seats", np.column_stack((labels, np.full_like(nodes, r))), upper=room)
        a.put(rows, seats, shape[r] // grain)
        a.put(rows[at[v.node[part]]], x.keep[v.part[part]], released)
