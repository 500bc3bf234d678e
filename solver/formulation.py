"""The buddy model of one tier as one linear model; each function adds one family of docs/formulation.md.

Symbols: c classes of interchangeable pending gangs, d domains of nodes alike, slots of s / k GPUs, b bands, r
possible victims, j pending workloads, g groups of domains that a whole gang must not leave (its pool, or one
required domain of its pool).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.assemble import Assembler
from solver.buddy import Slot, row_slots
from solver.columns import Columns
from solver.linear import LinearModel
from solver.problem import MIB, Problem
from solver.shares import eviction_gpus
from solver.state import Bools, Floats, Ints


@dataclass(frozen=True)
class Formulation:
    """A model, the meaning of its columns, and the problem it is of."""

    problem: Problem
    model: LinearModel
    columns: Columns


def formulate(problem: Problem) -> Formulation:
    """Build the model that decides who starts and who of the same tier makes room."""
    a, columns = assemble(problem)
    return Formulation(problem, a.build(), columns)


def assemble(problem: Problem) -> tuple[Assembler, Columns]:
    """Put the families together, so that more can be added to them."""
    a = Assembler()
    columns = _columns(a, problem)
    add_gang(a, problem, columns)
    add_buddy(a, problem, columns)
    add_resource(a, problem, columns)
    add_limit(a, problem, columns)
    add_brake(a, problem, columns)
    return a, columns


def _columns(a: Assembler, p: Problem) -> Columns:
    """Add start[j], place[c,d] and keep[r], with the objective of docs/formulation.md.

    start[j] may be fractional: inside a class the best prices win by themselves.
    """
    js = p.starters()
    start = a.columns("start", js[:, None], objective=p.worth[js], upper=1, integer=False)
    v = p.victims
    same = v.tier == p.tier
    keep = a.columns("keep", v.index[:, None], objective=np.where(same, v.worth, 0) + v.restart, upper=1)
    a.offset = _standing_worth(p) - float(v.restart.sum())
    c, d = np.nonzero(p.caps)
    unit = _units(p, c, d)
    cap = p.caps[c, d] // unit
    members = np.array([len(m) for m in p.classes.members], dtype=np.int64)
    cap = np.minimum(cap, members[c] * p.classes.pieces[c] // unit)
    some = cap > 0
    c, d, unit, cap = c[some], d[some], unit[some], cap[some]
    place = a.columns("place", np.column_stack((c, d)), upper=cap)
    return Columns(start, place, unit, c, d, unit == p.classes.pieces[c], keep)


def _standing_worth(p: Problem) -> float:
    """Return the constant of the objective: what of this tier stands and stays, less restarts paid so far."""
    board = p.board
    counted = board.standing & board.interruptible & (board.order.tier == p.tier)
    counted[p.victims.index] = False
    started = np.array([j for j in board.starts if board.order.tier[j] == p.tier], dtype=np.int64)
    gone = np.array([r for r, tier in board.victims.items() if tier == p.tier], dtype=np.int64)
    weighted = eviction_gpus(board.state, board.order, p.tier)[gone]
    restart = weighted.sum() * (board.state.policy.restart_cost_s / 3600)
    return float(p.worth[counted].sum() + p.worth[started].sum() - restart)


def _groups(p: Problem, c: Ints, d: Ints, *, whole: bool) -> Ints:
    """Return for each (class, domain) the group that a gang (or a segment) may not leave, int64[K].

    Groups are numbered over all classes: (class, required domain or -1, pool).
    """
    levels, required = p.domains.level, p.classes.required[c]
    inside = np.full(len(c), -1, dtype=np.int64)
    bound = required >= 0
    if whole:  # only a gang of a single segment is bound to one domain as a whole
        bound &= p.classes.segment[c] == p.classes.pieces[c]
    inside[bound] = levels[required[bound], d[bound]]
    keys = np.column_stack((c, inside, p.domains.pool[d]))
    out: Ints = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    return out


def _units(p: Problem, c: Ints, d: Ints) -> Ints:
    """Return how many pieces a column counts as one: a whole gang or segment where it has one domain only."""
    unit = np.ones(len(c), dtype=np.int64)
    if len(c):
        for whole, amount in ((False, p.classes.segment[c]), (True, p.classes.pieces[c])):
            group = _groups(p, c, d, whole=whole)
            alone = np.bincount(group)[group] == 1
            unit[alone] = amount[alone]
    return unit


def add_gang(a: Assembler, p: Problem, x: Columns) -> None:
    """Gangs start whole: start[c], gang[c,g] and segment[c,g].

    start: sum_j start[j] - sum_g whole[c,g] - sum_(unit a whole gang) place[c,d] = 0 for every class c.
    gang: sum_(d in g) unit * place[c,d] - pieces * whole[c,g] = 0 where g has several domains.
    segment: sum_(d in D) unit * place[c,d] - segment * segments[c,D] = 0 where D has several domains.
    """
    start = a.rows("start", np.arange(p.classes.count)[:, None], lower=0, upper=0)
    a.put(start[p.class_of_starters()], x.start, 1)
    a.put(start[x.place_class[x.whole]], x.place[x.whole], -1)
    loose = np.flatnonzero(~x.whole)
    if not len(loose):
        return
    members = np.array([len(m) for m in p.classes.members], dtype=np.int64)
    c, d = x.place_class[loose], x.place_domain[loose]
    for family, column, per, whole in (
        ("gang", "whole", p.classes.pieces, True),
        ("segment", "segments", p.classes.segment, False),
    ):
        chosen = np.ones(len(loose), dtype=bool)
        if not whole:  # single segments are whole gangs; a unit that is a segment is one by itself
            chosen = (p.classes.segment[c] < p.classes.pieces[c]) & (x.unit[loose] < p.classes.segment[c])
        if not chosen.any():
            continue
        group = _groups(p, c[chosen], d[chosen], whole=whole)
        first = np.unique(group, return_index=True)[1]
        of_class = c[chosen][first]
        labels = np.column_stack((of_class, np.arange(len(first))))
        most = members[of_class] * p.classes.pieces[of_class] // per[of_class]
        count = a.columns(column, labels, upper=most)
        rows = a.rows(family, labels, lower=0, upper=0)
        a.put(rows[group], x.place[loose[chosen]], x.unit[loose[chosen]])
        a.put(rows, count, -per[of_class])
        if whole:
            a.put(start[of_class], count, -1)


def add_buddy(a: Assembler, p: Problem, x: Columns) -> None:
    """Pieces fit into nodes: buddy[d,s,k,b], with extra[n,s,k,b] on nodes of several victims.

    sum_(c of bands >= b) floor(k size_c / s) * unit * place[c,d]
        <= sum_(n in d) floor(k free_n / s) + released(d,s,k,b)
    for every domain d, slot of s / k GPUs and band b; released counts victims of bands later than b only, so
    that a victim always ranks after whoever it makes room for. Units: slots.
    """
    size, band = p.classes.size[x.place_class], p.classes.band[x.place_class]
    free = np.maximum(p.board.free_gpus, 0)
    slots = {(s, k): p.domains.sum(k * free // s) for s, k in row_slots(size)}
    before = -1
    for b in np.unique(band).tolist():
        fresh = _domains_changed(p, before, b) if before >= 0 else np.ones(p.domains.count, dtype=bool)
        before = b
        for (s, k), base in slots.items():
            takes = np.flatnonzero((band >= b) & (k * size >= s) & fresh[x.place_domain])
            if not len(takes):
                continue
            ds, row = np.unique(x.place_domain[takes], return_inverse=True)
            row_of = np.full(p.domains.count, -1, dtype=np.int64)
            release, constant = _release(p, (s, k), b)
            rows = a.rows("buddy", _labels(ds, s, k, b), upper=(base + constant)[ds])
            row_of[ds] = rows
            a.put(rows[row], x.place[takes], (k * size[takes] // s) * x.unit[takes])
            direct = row_of[p.domains.of_node[p.victims.node]] >= 0
            direct &= release > 0
            at = p.victims.node[direct]
            a.put(row_of[p.domains.of_node[at]], x.keep[p.victims.part[direct]], release[direct])
            _extra(a, p, x, (s, k), b, row_of)


def _labels(first: Ints, *others: int) -> Ints:
    return np.column_stack((first, *(np.full_like(first, other) for other in others)))


def _domains_changed(p: Problem, before: int, b: int) -> Bools:
    """Tell where victims of a band in (before, b] stand: elsewhere the row of `before` says it all."""
    v = p.victims
    between = (v.band[v.part] > before) & (v.band[v.part] <= b)
    out = np.zeros(p.domains.count, dtype=bool)
    out[p.domains.of_node[v.node[between]]] = True
    return out


def _late(p: Problem, b: int) -> Bools:
    return p.victims.band[p.victims.part] > b


def _joint(p: Problem, slot: Slot, b: int) -> Bools:
    """Tell on which nodes victims release slots only together, bool[N]: they need extra[n,s,k,b]."""
    s, k = slot
    v, late, n = p.victims, _late(p, b), p.board.state.nodes.count
    several = np.bincount(v.node[late], minlength=n) > 1
    broken = np.bincount(v.node[late & (k * v.part_gpus % s != 0)], minlength=n) > 0
    out: Bools = several & broken
    return out


def _release(p: Problem, slot: Slot, b: int) -> tuple[Ints, Ints]:
    """Return the slots that each part releases by itself, and their sum over each domain.

    On a node of one victim: floor(k (free + g) / s) - floor(k free / s); for multiples of the slot: k g / s.
    """
    s, k = slot
    v, late = p.victims, _late(p, b) & ~_joint(p, slot, b)[p.victims.node]
    free = np.maximum(p.board.free_gpus, 0)[v.node]
    release = np.where(late, k * (free + v.part_gpus) // s - k * free // s, 0)
    whole = late & (k * v.part_gpus % s == 0)
    release[whole] = k * v.part_gpus[whole] // s
    constant = np.zeros(p.domains.count, dtype=np.int64)
    np.add.at(constant, p.domains.of_node[v.node], release)
    return release, constant


def _extra(a: Assembler, p: Problem, x: Columns, slot: Slot, b: int, row_of: Ints) -> None:
    """Add extra[n,s,k,b] slots where several victims share a node.

    s * extra[n,s,k,b] + k * sum_r g[r,n] * keep[r] <= k free_n mod s + k * sum_r g[r,n].
    """
    s, k = slot
    v, free = p.victims, np.maximum(p.board.free_gpus, 0)
    joint = _joint(p, slot, b) & (p.domains.of_node >= 0)
    joint[joint] = row_of[p.domains.of_node[joint]] >= 0
    nodes = np.flatnonzero(joint)
    if not len(nodes):
        return
    part = np.flatnonzero(_late(p, b) & joint[v.node])
    freed = np.bincount(v.node[part], v.part_gpus[part], len(free)).astype(np.int64)
    total = k * freed[nodes] + k * free[nodes] % s
    labels = _labels(nodes, s, k, b)
    extra = a.columns("extra", labels, upper=total // s)
    rows = a.rows("extra", labels, upper=total)
    at = np.full(len(free), -1, dtype=np.int64)
    at[nodes] = np.arange(len(nodes))
    a.put(rows, extra, s)
    a.put(rows[at[v.node[part]]], x.keep[v.part[part]], k * v.part_gpus[part])
    a.put(row_of[p.domains.of_node[nodes]], extra, -1)


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


def add_limit(a: Assembler, p: Problem, x: Columns) -> None:
    """Limits of tree nodes: limit[v,b].

    sum_(j below v, bands >= b) GPUs_j * start[j]
        <= limit_v - held_v + sum_(r below v, later than b) GPUs_r * (1 - keep[r]);
    a subtree that was over its limit starts nothing. Victims make room under a limit only inside its subtree.
    """
    board, b = p.board, p.board.state.budgets
    w, order, v = board.state.workloads, board.order, p.victims
    js = p.starters()
    below = b.limited_by()
    for k, tree in enumerate(np.flatnonzero(b.limit_gpus >= 0).tolist()):
        mine = np.flatnonzero(below[w.leaf[js], k])
        theirs = np.flatnonzero((w.leaf[v.index] >= 0) & below[w.leaf[v.index], k])
        over = board.held_before[tree] > b.limit_gpus[tree]
        room = 0 if over else int(b.limit_gpus[tree] - board.held_gpus[tree])
        before = -1
        for band in np.unique(order.band[js[mine]]).tolist():
            late = theirs[v.band[theirs] > band] if not over else theirs[:0]
            between = ((v.band[theirs] > before) & (v.band[theirs] <= band)).any()
            if before >= 0 and not between:
                continue
            before = band
            row = a.rows("limit", np.array([[tree, band]]), upper=room + int(v.gpus[late].sum()))
            takes = mine[order.band[js[mine]] >= band]
            a.put(np.repeat(row, len(takes)), x.start[takes], w.gpus[js[takes]])
            a.put(np.repeat(row, len(late)), x.keep[late], v.gpus[late])


def add_brake(a: Assembler, p: Problem, x: Columns) -> None:
    """Preempted GPUs of a round, where the site brakes them: sum_r GPUs_r * (1 - keep[r]) <= what is left."""
    if p.board.state.policy.max_preempted_gpus < 0 or not p.victims.count:
        return
    gpus = p.victims.gpus
    least = float(gpus.sum() - p.board.brake_room())
    row = a.rows("brake", np.zeros((1, 1), dtype=np.int64), lower=least)
    a.put(np.repeat(row, len(gpus)), x.keep, gpus)


def counts_of(f: Formulation, x: Floats) -> tuple[Ints, Ints]:
    """Read an answer: gangs started of each class, int64[C], and pieces in each domain, int64[C, D]."""
    p, columns = f.problem, f.columns
    pieces = np.zeros((p.classes.count, p.domains.count), dtype=np.int64)
    units = np.rint(x[columns.place]).astype(np.int64)
    pieces[columns.place_class, columns.place_domain] = units * columns.unit
    gangs = np.floor_divide(pieces.sum(axis=1), np.maximum(p.classes.pieces, 1)).astype(np.int64)
    return gangs, pieces


def first_of_each_class(f: Formulation, x: Floats) -> Floats:
    """Return `x` with the starts of each class given to its best members: as good, and whole."""
    out = x.copy()
    gangs, _ = counts_of(f, x)
    turn = np.concatenate([np.arange(len(m)) for m in f.problem.classes.members])
    out[f.columns.start] = turn < gangs[f.problem.class_of_starters()]
    return out


def evicted_of(f: Formulation, x: Floats) -> Ints:
    """Read an answer: the workloads that make room, int64."""
    gone: Ints = f.problem.victims.index[np.rint(x[f.columns.keep]) == 0]
    return gone
