"""The time-expanded buddy model: which gangs begin when and where, and which starts of this round give way.

Symbols: j gangs, k times, d domains of nodes that come free alike, g groups of domains that a whole gang must
not leave, i starts that may give way, o ways in which those on one domain's nodes do, slots of s / q GPUs,
b bands (docs/formulation.md, "Reservations").
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from solver.assemble import Assembler
from solver.buddy import Slot, row_slots
from solver.holds import hold_price, restart_rate, standing_rate, start_worth
from solver.linear import LinearModel
from solver.outlook import Outlook
from solver.shares import eviction_gpus
from solver.state import Bools, Floats, Ints

MOST_TENANTS = 3
"""Starts on one domain's nodes of which every subset may give way; of more, each alone or all."""

LATER_SHARE = 0.001
"""Of the worth of a later tier's start, what it counts when it gives way: it chooses, it does not decide."""


@dataclass(frozen=True)
class Columns:
    """Column indices of the families, and what each column stands for.

    Attributes
    ----------
    begin : int64[J, K]
        One for each gang and time; -1 where it cannot begin then.
    take : int64[T]
        Pieces; `gang`, `time` and `domain`, int64[T], say of what.
    give_way : int64[Y]
        One for each start that may.
    """

    begin: Ints
    take: Ints
    gang: Ints
    time: Ints
    domain: Ints
    give_way: Ints


def book(o: Outlook) -> tuple[LinearModel, Columns]:
    """Build the model of an outlook; return it and what its columns mean."""
    a = Assembler()
    a.offset = o.board.objective()[o.tier]
    gang, time, domain = _where(o)
    begin = _add_begin(a, o, gang, time)
    take = _add_take(a, o, gang, time, domain)
    x = Columns(begin, take, gang, time, domain, _add_give_way(a, o))
    _add_once(a, o, x)
    _add_whole(a, o, x)
    _add_room(a, o, x, _add_ways(a, o, x.give_way))
    _add_limits(a, o, x)
    return a.build(), x


# --- columns ---------------------------------------------------------------------------------------------


def _where(o: Outlook) -> tuple[Ints, Ints, Ints]:
    """Return gang, time and domain of every place worth a column: what would start now begins later only."""
    slots = o.slots[:, :, o.first]
    some = slots > 0
    some[np.array(o.starting, dtype=bool), 0] = False
    gang, time, domain = np.nonzero(some)
    room = np.bincount(gang * len(o.times_s) + time, (slots[some] * o.size[domain]))
    pieces = np.array([s.pieces for s in o.shapes])
    enough = room[gang * len(o.times_s) + time] >= pieces[gang]
    worth = np.array([[_begins(o, j, k) for k in range(len(o.times_s))] for j in range(len(o.gangs))])
    keep = enough & (worth[gang, time] > 0)
    return gang[keep], time[keep], domain[keep]


def _begins(o: Outlook, j: int, k: int) -> float:
    """Return what it is worth that gang `j` begins at time `k`, holding apart, GPU-hours."""
    return start_worth(o.board, o.gangs[j], int(o.times_s[k]))


def _add_begin(a: Assembler, o: Outlook, gang: Ints, time: Ints) -> Ints:
    """begin[j,k]: gang j begins at time k, worth the less the later it is."""
    pairs = np.unique(np.column_stack((gang, time)), axis=0)
    value = [_begins(o, j, k) for j, k in pairs.tolist()]
    out = np.full((len(o.gangs), len(o.times_s)), -1, dtype=np.int64)
    out[pairs[:, 0], pairs[:, 1]] = a.columns("begin", _named(o, pairs), objective=value, upper=1)
    return out


def _add_take(a: Assembler, o: Outlook, gang: Ints, time: Ints, domain: Ints) -> Ints:
    """take[j,k,d]: pieces of gang j in domain d from time k on, at the cost of holding nodes till then."""
    slots = o.slots[gang, time, o.first[domain]]
    node_gpus = o.board.state.nodes.gpus[o.first[domain]]
    waits_s = o.times_s[time] - o.free_at_s[time, o.first[domain]]
    price = np.array([hold_price(o.board, j) for j in o.gangs])[gang]
    cost = price * node_gpus / slots * waits_s / 3600 + _ends_others(o, gang, time, domain)
    pieces = np.array([s.pieces for s in o.shapes], dtype=np.int64)
    labels = _named(o, np.column_stack((gang, time, domain)))
    return a.columns("take", labels, objective=-cost, upper=np.minimum(slots * o.size[domain], pieces[gang]))


def _ends_others(o: Outlook, gang: Ints, time: Ints, domain: Ints) -> Floats:
    """Return what a piece takes from those who stand in a domain and make way when it begins, float64[T]."""
    board, size = o.board, np.array([s.size for s in o.shapes], dtype=np.int64)
    out = np.zeros(len(gang))
    tier = o.tier
    inside = o.of_node >= 0
    for k in np.unique(time[time > 0]).tolist():
        left_s = max(board.state.policy.worth_s - (int(o.times_s[k]) - board.state.now_s), 0)
        rate = standing_rate(board, tier, int(o.times_s[k])) * left_s / 3600
        rate += restart_rate(board, tier, int(o.times_s[k]))
        mean = np.bincount(o.of_node[inside], rate[inside], len(o.first)) / o.size
        mine = time == k
        out[mine] = mean[domain[mine]] * size[gang[mine]]
    return out


def _add_give_way(a: Assembler, o: Outlook) -> Ints:
    """give_way[i]: a start of this round is taken back, at its worth less the restarts that it saves."""
    board, order = o.board, o.board.order
    tier = o.tier
    gainers = {r: board.gainers(r) for r in board.victims}
    restart = eviction_gpus(board.state, order, tier) * (board.state.policy.restart_cost_s / 3600)
    cost = []
    for i in o.yielding:
        loss = start_worth(board, i, board.state.now_s)
        if order.tier[i] > tier:
            cost.append(LATER_SHARE * loss)
        else:
            refund = sum(float(restart[r]) for r, js in gainers.items() if js == [i])
            cost.append(max(loss - refund, LATER_SHARE * loss))
    labels = np.array(o.yielding, dtype=np.int64)[:, None]
    return a.columns("give_way", labels, objective=-np.array(cost), upper=1)


# --- rows ------------------------------------------------------------------------------------------------


def _add_once(a: Assembler, o: Outlook, x: Columns) -> None:
    """Let a gang begin once, later only if it does not start now: once[j]; and not too many: most[0].

    sum_k begin[j,k] <= 1, or give_way[j] of what would start now; sum_(j,k>0) begin[j,k] <= most.
    """
    rows = a.rows("once", np.array(o.gangs)[:, None], upper=[0.0 if s else 1.0 for s in o.starting])
    j, k = np.nonzero(x.begin >= 0)
    a.put(rows[j], x.begin[j, k], 1)
    starting = [g for g, s in enumerate(o.starting) if s]
    its = np.array([o.yielding.index(o.gangs[g]) for g in starting], dtype=np.int64)
    a.put(rows[starting], x.give_way[its], -1)
    later = x.begin[:, 1:][x.begin[:, 1:] >= 0]
    a.put(np.repeat(a.rows("most", np.zeros((1, 1), dtype=np.int64), upper=o.most), len(later)), later, 1)


def _add_whole(a: Assembler, o: Outlook, x: Columns) -> None:
    """Gangs are whole, in one group each: begins[j,k], together[j,k,D,p], and section[j,k,D,p] for segments.

    begins: sum_(D,p) gather[j,k,D,p] - begin[j,k] = 0.
    together: sum_(d in D, p) take[j,k,d] - pieces * gather[j,k,D,p] = 0.
    section: sum_(d in D, p) take[j,k,d] - segment * sections[j,k,D,p] = 0.
    """
    pieces = np.array([s.pieces for s in o.shapes], dtype=np.int64)
    segment = np.array([s.segment for s in o.shapes], dtype=np.int64)
    can = x.begin >= 0
    begins = np.full(x.begin.shape, -1, dtype=np.int64)
    begins[can] = a.rows("begins", _named(o, np.argwhere(can)), lower=0, upper=0)
    a.put(begins[can], x.begin[can], -1)
    for family, column, per, whole in (
        ("together", "gather", pieces, True),
        ("section", "sections", segment, False),
    ):
        mine = np.arange(len(x.take)) if whole else np.flatnonzero((segment < pieces)[x.gang])
        if not len(mine):
            continue
        where = _groups(o, x.gang[mine], x.domain[mine], whole=whole)
        keys = np.column_stack((x.gang[mine], x.time[mine], *where))
        groups, row = np.unique(keys, axis=0, return_inverse=True)
        j = groups[:, 0]
        count = a.columns(column, _named(o, groups), upper=pieces[j] // per[j])
        rows = a.rows(family, _named(o, groups), lower=0, upper=0)
        a.put(rows[row.reshape(-1)], x.take[mine], 1)
        a.put(rows, count, -per[j])
        if whole:
            a.put(begins[j, groups[:, 1]], count, 1)


def _named(o: Outlook, labels: Ints) -> Ints:
    """Return labels whose first number is the workload and no longer its position among the gangs."""
    return np.column_stack((np.array(o.gangs, dtype=np.int64)[labels[:, 0]], labels[:, 1:]))


def _groups(o: Outlook, gang: Ints, domain: Ints, *, whole: bool) -> tuple[Ints, Ints]:
    """Return required domain (-1 for none) and pool that a gang or segment may not leave, int64[T] both."""
    nodes = o.board.state.nodes
    inside = np.full(len(gang), -1, dtype=np.int64)
    for g, s in enumerate(o.shapes):
        if s.required >= 0 and (not whole or s.segment == s.pieces):
            mine = gang == g
            inside[mine] = nodes.domain[s.required][o.first[domain[mine]]]
    return inside, nodes.pool[o.first[domain]]


@dataclass(frozen=True)
class _Ways:
    """Subsets of the starts on a domain's nodes that give way: column, domain and members of each."""

    column: list[int]
    domain: list[int]
    members: list[tuple[tuple[int, int], ...]]


def _add_ways(a: Assembler, o: Outlook, give_way: Ints) -> _Ways:
    """Let one set of starts give way on each node, cleared[d], of those who do everywhere, goes[d,o,i].

    cleared: sum_o way[d,o] <= 1; goes: way[d,o] - give_way[i] <= 0 for every i of o. A domain with one such
    start needs no way: its own column says it.
    """
    out = _Ways([], [], [])
    for d, tenants in enumerate(o.tenants):
        if len(tenants) == 1:
            out.column.append(int(give_way[tenants[0][0]]))
            out.domain.append(d)
            out.members.append(tenants)
        elif tenants:
            subsets = _subsets(tenants)
            labels = np.array([(d, w) for w in range(len(subsets))], dtype=np.int64)
            ways = a.columns("way", labels, upper=1)
            a.put(np.repeat(a.rows("cleared", np.array([[d]]), upper=1), len(ways)), ways, 1)
            for w, (way, members) in enumerate(zip(ways.tolist(), subsets, strict=True)):
                rows = a.rows("goes", np.array([(d, w, o.yielding[i]) for i, _ in members]), upper=0)
                a.put(rows, np.full(len(rows), way), 1)
                a.put(rows, give_way[[i for i, _ in members]], -1)
            out.column.extend(ways.tolist())
            out.domain.extend([d] * len(ways))
            out.members.extend(subsets)
    return out


def _subsets(tenants: tuple[tuple[int, int], ...]) -> list[tuple[tuple[int, int], ...]]:
    """Return the sets of tenants that may give way together."""
    if len(tenants) > MOST_TENANTS:
        return [*((t,) for t in tenants), tenants]
    return list(chain.from_iterable(combinations(tenants, k) for k in range(1, len(tenants) + 1)))


def _add_room(a: Assembler, o: Outlook, x: Columns, ways: _Ways) -> None:
    """Pieces fit at every time: room[d,k,s,q,b], a buddy row.

    sum_(j of bands >= b, k' <= k, protected at k) floor(q size_j / s) * take[j,k',d]
        <= nodes_d * (floor(q free_(d,k,b) / s) + sum_o more_(d,k,o) * way[d,o])
    free is what is left if nobody gives way, more what a way adds to it; slots.
    """
    size = np.array([s.size for s in o.shapes], dtype=np.int64)
    band = o.board.order.band[list(o.gangs)]
    runs_s = o.board.state.workloads.min_runtime_s[list(o.gangs)]
    ends_s = o.times_s[x.time] + np.maximum(runs_s[x.gang], 1)
    lasts = np.array([o.outlives(i) for i in range(len(o.yielding))]).reshape(-1, len(o.times_s))
    for b in np.unique(band).tolist():
        for k in range(len(o.times_s)):
            mine = (band[x.gang] >= b) & (x.time <= k) & (ends_s > o.times_s[k])
            if not (mine & (x.time == k)).any():
                continue  # what does not begin later still fits then
            for slot in row_slots(size):
                _add_slots(a, o, x, ways, mine, size, (b, k), slot, lasts[:, k])


def _add_slots(
    a: Assembler,
    o: Outlook,
    x: Columns,
    ways: _Ways,
    mine: Bools,
    size: Ints,
    at: tuple[int, int],
    slot: Slot,
    lasts: Bools,
) -> None:
    """Add the rows of one band, time and slot size."""
    (b, k), (s, q) = at, slot
    slots = q * size[x.gang] // s
    takes = np.flatnonzero(mine & (slots > 0))
    ds, row = np.unique(x.domain[takes], return_inverse=True)
    if not len(ds):
        return
    all_gone = o.free_gpus[b][k, o.first]
    held = np.array([sum(g for i, g in t if lasts[i]) for t in o.tenants], dtype=np.int64)
    left = np.maximum(all_gone - held, 0)
    labels = np.column_stack((ds, *(np.full_like(ds, v) for v in (k, s, q, b))))
    rows = a.rows("room", labels, upper=o.size[ds] * (q * left[ds] // s))
    a.put(rows[row.reshape(-1)], x.take[takes], slots[takes])
    row_of = np.full(len(o.first), -1, dtype=np.int64)
    row_of[ds] = rows
    for column, d, members in zip(ways.column, ways.domain, ways.members, strict=True):
        gone = sum(g for i, g in members if lasts[i])
        more = q * min(int(left[d]) + gone, int(all_gone[d])) // s - q * int(left[d]) // s
        if row_of[d] >= 0 and more:
            a.put(row_of[[d]], np.array([column]), -int(o.size[d]) * more)


def _add_limits(a: Assembler, o: Outlook, x: Columns) -> None:
    """Limits of budget tree nodes hold for what is promised as well: ceiling[v].

    sum_(j below v) GPUs_j * begin[j,k] <= limit_v - held_v + sum_(i below v) GPUs_i * give_way[i].
    """
    board = o.board
    gpus = board.state.workloads.gpus
    under: dict[int, tuple[list[int], list[int]]] = {}
    for g, j in enumerate(o.gangs):
        for v in board.limited_by(j):
            under.setdefault(v, ([], []))[0].append(g)
    for y, i in enumerate(o.yielding):
        for v in board.limited_by(i):
            if v in under:
                under[v][1].append(y)
    for v, (gangs, yields) in sorted(under.items()):
        row = a.rows("ceiling", np.array([[v]]), upper=max(board.limit_left(v), 0))
        for g in gangs:
            columns = x.begin[g][x.begin[g] >= 0]
            a.put(np.repeat(row, len(columns)), columns, int(gpus[o.gangs[g]]))
        for y in yields:
            a.put(row, x.give_way[[y]], -int(gpus[o.yielding[y]]))


# --- reading ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Begin:
    """A gang's turn in an answer: its time (position in `times_s`) and pieces by domain."""

    gang: int
    time: int
    pieces: dict[int, int]


def read(x: Columns, point: Floats) -> tuple[list[Begin], list[int]]:
    """Read an answer: who begins, earliest first, and which starts (positions in `yielding`) give way."""
    out = []
    for j, k in np.argwhere(x.begin >= 0).tolist():
        if point[x.begin[j, k]] > 0.5:
            mine = np.flatnonzero((x.gang == j) & (x.time == k))
            amounts = np.rint(point[x.take[mine]]).astype(np.int64)
            pieces = {int(d): int(n) for d, n in zip(x.domain[mine], amounts, strict=True) if n}
            out.append(Begin(j, k, pieces))
    out.sort(key=lambda begin: (begin.time, begin.gang))
    return out, np.flatnonzero(point[x.give_way] > 0.5).tolist()
