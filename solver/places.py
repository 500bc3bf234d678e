"""Where starts stand, once it is settled who starts and who makes room: the fragmentation terms of the model.

Starts and victims are fixed, so these terms need no weight against the prices; among themselves a preferred
domain comes first, then whole domains and whole nodes, then company that ends at the same time.
"""

from __future__ import annotations

import numpy as np

from solver.assemble import Assembler
from solver.columns import Columns
from solver.formulation import Formulation, add_columns, add_gang, add_resource
from solver.problem import Problem
from solver.seating import protection_ends
from solver.slots import add_buddy
from solver.state import Floats, Ints

SPLIT_COST = 10.0
"""For each domain more than one that a gang touches at its preferred level."""

BROKEN_NODE_COST = 0.1
"""For each GPU of a wholly free node that smaller pieces break."""

BROKEN_DOMAIN_COST = 0.02
"""For each GPU of a wholly free topology domain that is no longer whole."""

UNALIGNED_COST = 0.01
"""For each GPU-hour by which a protection outlasts all others of its innermost topology domain."""


def formulate_places(p: Problem) -> Formulation:
    """Return the model that chooses domains for all workloads of a problem whose victims are settled."""
    a = Assembler()
    columns = add_columns(a, p)
    a.forget_objective()
    a.fix(columns.start, np.ones(len(columns.start)))
    add_gang(a, p, columns)
    add_buddy(a, p, columns)
    add_resource(a, p, columns)
    a.charge(columns.place, _unaligned(p, columns))
    free = p.free_gpus(-1)
    add_split(a, p, columns)
    add_broken_domain(a, p, columns, free)
    add_broken_node(a, p, columns, free)
    return Formulation(p, a.build(), columns)


def _unaligned(p: Problem, x: Columns) -> Floats:
    """Return the cost of a unit in each place: GPU-hours protected beyond the last end of its domain."""
    levels, ends_s = p.domains.level, protection_ends(p.board)
    group = levels[-1] if len(levels) else p.domains.pool
    last_s = np.zeros(int(group.max(initial=-1)) + 2, dtype=np.int64)
    inside = p.domains.of_node >= 0
    np.maximum.at(last_s, group[p.domains.of_node[inside]], ends_s[inside])
    until_s = p.board.state.now_s + p.board.state.workloads.min_runtime_s[p.classes.leader]
    beyond_s = np.maximum(
        until_s[x.place_class] - np.maximum(last_s[group], p.board.state.now_s)[x.place_domain], 0
    )
    gpus = p.classes.size[x.place_class] * x.unit
    return (UNALIGNED_COST * gpus * beyond_s / 3600).astype(np.float64)


def add_split(a: Assembler, p: Problem, x: Columns) -> None:
    """Preferred levels: split[c,D] counts the gangs of class c that touch domain D.

    sum_(d in D) unit * place[c,d] <= min(pieces, capacity of D) * split[c,D]; each costs SPLIT_COST.
    """
    wants = np.flatnonzero((p.classes.preferred[x.place_class] >= 0) & (p.classes.pieces[x.place_class] > 1))
    if not len(wants):
        return
    c, d = x.place_class[wants], x.place_domain[wants]
    inside = p.domains.level[p.classes.preferred[c], d]
    keys = np.column_stack((c, inside))
    labels, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    capacity = np.zeros(len(labels), dtype=np.int64)
    np.add.at(capacity, group, p.caps[c, d])
    most = np.minimum(capacity, p.classes.pieces[labels[:, 0]])
    upper = p.members[labels[:, 0]] * p.classes.pieces[labels[:, 0]]
    split = a.columns("split", labels, objective=-SPLIT_COST, upper=upper)
    rows = a.rows("split", labels, upper=0)
    a.put(rows[group], x.place[wants], x.unit[wants])
    a.put(rows, split, -most)


def add_broken_domain(a: Assembler, p: Problem, x: Columns, free: Ints) -> None:
    """Wholly free topology domains stay whole: broken_domain[l,D] is 1 where anything starts in D.

    sum_c size * unit * place[c,d in D] <= GPUs of D * broken_domain[l,D]; each costs its GPUs.
    """
    nodes = p.board.state.nodes
    gpus = p.classes.size[x.place_class] * x.unit
    cost = BROKEN_DOMAIN_COST * p.board.state.policy.keep_whole
    for level in range(len(nodes.domain)):
        domain = nodes.domain[level]
        inside = domain >= 0
        total = np.bincount(domain[inside], nodes.gpus[inside]).astype(np.int64)
        idle = np.bincount(domain[inside], free[inside]).astype(np.int64) == total
        of_place = p.domains.level[level][x.place_domain]
        takes = np.flatnonzero(of_place >= 0)
        takes = takes[idle[of_place[takes]]]
        if not len(takes):
            continue
        ds, row = np.unique(of_place[takes], return_inverse=True)
        labels = np.column_stack((np.full_like(ds, level), ds))
        broken = a.columns("broken_domain", labels, objective=-cost * total[ds], upper=1)
        rows = a.rows("broken_domain", labels, upper=0)
        a.put(rows[row], x.place[takes], gpus[takes])
        a.put(rows, broken, -total[ds])


def add_broken_node(a: Assembler, p: Problem, x: Columns, free: Ints) -> None:
    """Small pieces go to broken nodes first: broken_node[d] counts wholly free nodes that they break.

    sum_(size_c < g) floor(size_c / s) * unit * place[c,d] <= slots of s on d's broken nodes
    + floor(g / s) * broken_node[d] for every slot size s below the node's g GPUs.
    """
    nodes = p.board.state.nodes
    node_gpus = nodes.gpus[p.domains.node]
    size = p.classes.size[x.place_class]
    small = np.flatnonzero(size < node_gpus[x.place_domain])
    whole = (free == nodes.gpus) & (free > 0)
    count = p.domains.sum(whole.astype(np.int64))
    small = small[count[x.place_domain[small]] > 0]
    if not len(small):
        return
    ds = np.unique(x.place_domain[small])
    cost = BROKEN_NODE_COST * p.board.state.policy.keep_whole
    broken = a.columns("broken_node", ds[:, None], objective=-cost * node_gpus[ds], upper=count[ds])
    at = np.full(p.domains.count, -1, dtype=np.int64)
    at[ds] = np.arange(len(ds))
    for s in np.unique(size[small]).tolist():
        room = p.domains.sum(np.where(whole, 0, free // s))[ds]
        labels = np.column_stack((ds, np.full_like(ds, s)))
        rows = a.rows("broken_node", labels, upper=room)
        takes = small[size[small] >= s]
        row = at[x.place_domain[takes]]
        a.put(rows[row], x.place[takes], (size[takes] // s) * x.unit[takes])
        a.put(rows, broken, -(node_gpus[ds] // s))
