"""The buddy model of one tier as one linear model; each function adds one family of docs/formulation.md.

Symbols: c classes of interchangeable pending gangs, d domains of nodes alike and the seas they make up, slots
of s / k GPUs, b bands, r possible victims, n nodes, o ways to clear one, j pending workloads, g groups of
domains that a whole gang must not leave (its pool, or one required domain of its pool).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.assemble import Assembler
from solver.clearing import ways_of
from solver.columns import Columns, gone_columns
from solver.linear import LinearModel
from solver.problem import MIB, Problem
from solver.shares import eviction_gpus
from solver.slots import add_buddy
from solver.state import Floats, Ints


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
    columns = add_columns(a, problem)
    add_gang(a, problem, columns)
    add_clear(a, problem, columns)
    add_buddy(a, problem, columns)
    add_resource(a, problem, columns)
    add_limit(a, problem, columns)
    add_brake(a, problem, columns)
    return a, columns


def add_columns(a: Assembler, p: Problem) -> Columns:
    """Add start[j], place[c,d], keep[r] and clear[n,o], with the objective of docs/formulation.md."""
    js, v = p.starters(), p.victims
    start = a.columns("start", js[:, None], objective=p.worth[js], upper=1, integer=False)
    ways = ways_of(v, p.tier, p.board.state.nodes.count)
    own = v.tier == p.tier
    value = np.where(own, v.worth, 0) + v.restart
    elsewhere = np.bincount(v.part, minlength=v.count)
    elsewhere[v.part[np.unique(ways.part)]] -= 1  # all its parts but one, which a way takes
    stays = np.flatnonzero(elsewhere > 0)
    keep = np.full(v.count, -1, dtype=np.int64)
    keep[stays] = a.columns("keep", v.index[stays, None], objective=value[stays], upper=1)
    victim = v.part[ways.part]
    alone = keep[victim] < 0
    cost = np.bincount(ways.way[alone], value[victim[alone]], ways.count)
    first = np.searchsorted(ways.node, ways.node)
    labels = np.column_stack((ways.node, np.arange(ways.count) - first))
    clear = a.columns("clear", labels, objective=-cost, upper=1)
    a.offset = _standing_worth(p) + float(v.worth[own & (keep < 0)].sum()) - float(v.restart[stays].sum())
    c, d = np.nonzero(p.caps)
    unit = _units(p, c, d)
    cap = np.minimum(p.caps[c, d] // unit, p.members[c] * p.classes.pieces[c] // unit)
    some = cap > 0
    c, d, unit = c[some], d[some], unit[some]
    place = a.columns("place", np.column_stack((c, d)), upper=cap[some])
    whole = unit == p.classes.pieces[c]
    gone = gone_columns(keep, clear, ways, v.part)
    return Columns(start, place, unit, c, d, whole, keep, clear, ways, *gone)


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
    """Gangs are whole: start[c], gang[c,g], and segment[c,D] for gangs of several segments.

    start: sum_(j in c) start[j] - sum_g whole[c,g] - sum_(d where a unit is a gang) place[c,d] = 0.
    gang: sum_(d in g) unit * place[c,d] - pieces * whole[c,g] = 0 where g has several domains.
    segment: sum_(d in D) unit * place[c,d] - segment * segments[c,D] = 0 where D has several domains.
    """
    start = a.rows("start", np.arange(p.classes.count)[:, None], lower=0, upper=0)
    a.put(start[p.class_of_starters()], x.start, 1)
    a.put(start[x.place_class[x.whole]], x.place[x.whole], -1)
    loose = np.flatnonzero(~x.whole)
    if not len(loose):
        return
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
        most = p.members[of_class] * p.classes.pieces[of_class] // per[of_class]
        count = a.columns(column, labels, upper=most)
        rows = a.rows(family, labels, lower=0, upper=0)
        a.put(rows[group], x.place[loose[chosen]], x.unit[loose[chosen]])
        a.put(rows, count, -per[of_class])
        if whole:
            a.put(start[of_class], count, -1)


def add_clear(a: Assembler, p: Problem, x: Columns) -> None:
    """Clear each node in one way at most, clear[n], and in none that takes who stays, stays[n,r].

    clear: sum_o clear[n,o] <= 1.
    stays: sum_(o that takes r) clear[n,o] + keep[r] <= 1 for victims that stand elsewhere as well.
    """
    if not x.ways.count:
        return
    nodes, row = np.unique(x.ways.node, return_inverse=True)
    a.put(a.rows("clear", nodes[:, None], upper=1)[row], x.clear, 1)
    victim = p.victims.part[x.ways.part]
    wider = np.flatnonzero(x.keep[victim] >= 0)
    pairs, row = np.unique(
        np.column_stack((x.ways.node[x.ways.way[wider]], victim[wider])), axis=0, return_inverse=True
    )
    labels = np.column_stack((pairs[:, 0], p.victims.index[pairs[:, 1]]))
    rows = a.rows("stays", labels, upper=1)
    a.put(rows[row.reshape(-1)], x.clear[x.ways.way[wider]], 1)
    a.put(rows, x.keep[pairs[:, 1]], 1)


def add_resource(a: Assembler, p: Problem, x: Columns) -> None:
    """CPUs and memory of a domain or sea, where its nodes count them: cpus[d] and memory[d].

    sum_c each_c * unit * place[c,d] <= sum_(n in d) free_n + sum_r held[r,d] * gone[r], in thousandths of a
    CPU and in MiB. A relaxation: seating sees to it node by node.
    """
    n, v = p.board.state.nodes, p.victims
    d, of_part = x.place_domain, p.domains.of_node[v.node]
    for family, counted, free, each, held, grain in (
        ("cpus", n.cpus_milli, p.free_cpus(), p.classes.cpus_milli, v.part_cpus, 1),
        ("memory", n.memory_bytes, p.free_memory(), p.classes.memory_bytes, v.part_memory, MIB),
    ):
        asks = (each[x.place_class] > 0) & (counted[p.domains.node[d]] > 0)
        amount = each[x.place_class] // grain * x.unit
        room = p.domains.sum(free // grain + 1)
        for takes, area, at in (
            (asks & ~p.domains.is_sea[d], d, of_part),
            (asks, p.domains.sea[d], p.domains.sea[of_part]),
        ):
            ds, row = np.unique(area[takes], return_inverse=True)
            part = np.flatnonzero(np.isin(at, ds) & (held > 0))
            released, in_row = held[part] // grain, np.searchsorted(ds, at[part])
            upper = room[ds].astype(float)
            np.add.at(upper, in_row, 1 + released * x.kept[v.part[part]])
            rows = a.rows(family, ds[:, None], upper=upper)
            a.put(rows[row], x.place[takes], amount[takes])
            which, column, sign = x.gone_terms(v.part[part])
            a.put(rows[in_row[which]], column, -sign * released[which])


def add_limit(a: Assembler, p: Problem, x: Columns) -> None:
    """Limits of tree nodes: limit[v,b].

    sum_(j below v, bands >= b) GPUs_j * start[j] <= limit_v - held_v + sum_(r below v, later than b) GPUs_r *
    gone[r]; a subtree that was over its limit starts nothing. Victims make room under a limit only inside its
    subtree.
    """
    board, b = p.board, p.board.state.budgets
    w, order, v = board.state.workloads, board.order, p.victims
    js = p.starters()
    below = b.limited_by()
    for k, tree in enumerate(np.flatnonzero(b.limit_gpus >= 0).tolist()):
        mine = np.flatnonzero(below[w.leaf[js], k])
        theirs = np.flatnonzero((w.leaf[v.index] >= 0) & below[w.leaf[v.index], k])
        over = board.held_before[tree] > b.limit_gpus[tree]
        room = 0 if over else max(board.limit_left(tree), 0)
        before = -1
        for band in np.unique(order.band[js[mine]]).tolist():
            late = theirs[v.band[theirs] > band] if not over else theirs[:0]
            between = ((v.band[theirs] > before) & (v.band[theirs] <= band)).any()
            if before >= 0 and not between:
                continue
            before = band
            kept = int(v.gpus[late] @ x.kept[late])
            row = a.rows("limit", np.array([[tree, band]]), upper=room + kept)
            takes = mine[order.band[js[mine]] >= band]
            a.put(np.repeat(row, len(takes)), x.start[takes], w.gpus[js[takes]])
            _put_gone(a, x, row, late, -v.gpus[late])


def add_brake(a: Assembler, p: Problem, x: Columns) -> None:
    """Preempted GPUs of a round, where the site brakes them: sum_r GPUs_r * gone[r] <= what is left."""
    if p.board.state.policy.max_preempted_gpus < 0 or not p.victims.count:
        return
    gpus = p.victims.gpus
    most = float(p.board.brake_room() - gpus @ x.kept)
    row = a.rows("brake", np.zeros((1, 1), dtype=np.int64), upper=most)
    _put_gone(a, x, row, np.arange(len(gpus)), gpus)


def add_settled(a: Assembler, p: Problem, x: Columns, gone: Ints) -> None:
    """Hold the answer while victims of later tiers are chosen again: settled[r] and spared[0].

    settled: gone[r] as it was, for every possible victim of the own tier.
    spared: sum_(r of later tiers) w_r * GPUs_r * gone[r] no more than it was.
    """
    later = p.victims.tier > p.tier
    own = np.flatnonzero(~later)
    value = gone[own] - x.kept[own]
    rows = a.rows("settled", p.victims.index[own, None], lower=value, upper=value)
    which, column, sign = x.gone_terms(own)
    a.put(rows[which], column, sign)
    weights = p.victims.weighted_gpus[later]
    most = float(weights @ (gone - x.kept)[later])
    row = a.rows("spared", np.zeros((1, 1), dtype=np.int64), upper=most)
    _put_gone(a, x, row, np.flatnonzero(later), weights)


def _put_gone(a: Assembler, x: Columns, row: Ints, victims: Ints, amounts: Ints) -> None:
    """Add amount * gone[r] of some victims to one row, constants apart."""
    which, column, sign = x.gone_terms(victims)
    a.put(np.repeat(row, len(which)), column, sign * amounts[which])


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
    return f.problem.victims.index[f.columns.gone(x) > 0]
