"""The rows that carry the model: pieces fit into nodes, by slots of every size (docs/formulation.md).

What a level binds must fit its domain; all that the sea takes, bound or roaming, must fit the sea. That alone
is exact where the pieces bound to a domain are multiples of those that roam. Of larger roaming pieces
spread[s,b,d] tells how many stand in the domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.assemble import Assembler
from solver.buddy import Slot, is_chain, row_slots
from solver.clearing import crowded
from solver.columns import Columns
from solver.problem import Problem
from solver.state import Bools, Ints

_NOTHING = np.iinfo(np.int64).max


@dataclass(frozen=True)
class _Load:
    """What takes slots, one entry for each column of pieces.

    Attributes
    ----------
    column, size, band : int64[K]
    pieces : int64[K]
        For each count of the column.
    domain : int64[K]
        -1 for what roams.
    sea : int64[K]
    told : bool[K]
        Counts again what roams, by domain.
    """

    column: Ints
    size: Ints
    band: Ints
    pieces: Ints
    domain: Ints
    sea: Ints
    told: Bools

    def and_told(self, column: Ints, size: Ints, band: Ints, domain: Ints, sea: Ints) -> _Load:
        """Return these entries and those of roaming pieces by domain."""
        ones = np.ones_like(column)
        more = (column, size, band, ones, domain, sea, ones.astype(bool))
        mine = (self.column, self.size, self.band, self.pieces, self.domain, self.sea, self.told)
        return _Load(*(np.concatenate(pair) for pair in zip(mine, more, strict=True)))

    def least_bound(self, domains: int) -> Ints:
        """Return the smallest pieces that a level binds to each domain, int64[D]; `_NOTHING` where none."""
        return _least(self, (self.domain >= 0) & ~self.told, self.domain, domains)


def _least(load: _Load, which: Bools, area: Ints, areas: int) -> Ints:
    out = np.full(areas, _NOTHING)
    np.minimum.at(out, area[which], load.size[which])
    return out


def add_buddy(a: Assembler, p: Problem, x: Columns) -> None:
    """Pieces fit into nodes: buddy[d,s,k,b] for domains and seas.

    sum_(c of bands >= b) floor(k size_c / s) * unit * place[c,d]
        <= sum_(n in d) floor(k free_n / s) + released(d,s,k,b)
    for every domain d that a level binds something to, every sea d, slot of s / k GPUs and band b. released
    counts victims of bands later than b only, so that a victim always ranks after whoever it makes room for.
    Units: slots.
    """
    d = x.place_domain
    roams = p.domains.is_sea[d]
    size, band = p.classes.size[x.place_class], p.classes.band[x.place_class]
    load = _Load(x.place, size, band, x.unit, np.where(roams, -1, d), p.domains.sea[d], np.zeros_like(roams))
    load = add_spread(a, p, load)
    bands = np.unique(band).tolist()
    for before, b in zip([-1, *bands], bands, strict=False):
        fresh = _changed(p, before, b) if before >= 0 else np.ones(p.domains.count, dtype=bool)
        for slot in row_slots(size):
            _Slots(p, x, load, slot, b).add(a, fresh)


def add_spread(a: Assembler, p: Problem, load: _Load) -> _Load:
    """Roaming pieces larger than some that a level binds to a domain: spread[s,b,d] of them stand there.

    sum_(d in sea) spread[s,b,d] <= sum_(c of size s and band b) unit * place[c,sea].
    """
    least = load.least_bound(p.domains.count)
    roams = np.flatnonzero(load.domain < 0)
    keys = np.column_stack((load.size, load.band, load.sea))[roams]
    kinds, kind = np.unique(keys, axis=0, return_inverse=True)
    of, d = np.nonzero((kinds[:, 2:] == p.domains.sea) & (kinds[:, :1] > least))
    if not len(of):
        return load
    size, band = kinds[of, 0], kinds[of, 1]
    most = np.zeros(len(of), dtype=np.int64)
    for s, b in np.unique(kinds[of, :2], axis=0).tolist():
        free = p.free_gpus(b) + p.victims.freed_gpus(b, len(p.domains.of_node))
        mine = (size == s) & (band == b)
        most[mine] = p.domains.sum(free // s)[d[mine]]
    spread = a.columns("spread", np.column_stack((size, band, d)), upper=most)
    row_of = np.full(len(kinds), -1, dtype=np.int64)
    used = np.unique(of)
    row_of[used] = a.rows("spread", kinds[used], upper=0)
    a.put(row_of[of], spread, 1)
    rows = row_of[kind.reshape(-1)]
    a.put(rows[rows >= 0], load.column[roams[rows >= 0]], -load.pieces[roams[rows >= 0]])
    return load.and_told(spread, size, band, d, kinds[of, 2])


def _changed(p: Problem, before: int, b: int) -> Bools:
    """Tell where victims of a band in (before, b] stand, bool[D]: elsewhere the row of `before` says all."""
    out = np.zeros(p.domains.count, dtype=bool)
    for v in (p.victims, p.gone):
        between = (v.band[v.part] > before) & (v.band[v.part] <= b)
        out[p.domains.of_node[v.node[between]]] = True
    out[p.domains.sea[out]] = True
    return out


class _Slots:
    """The rows of one slot size and band: each has an area, of pieces as of nodes; -1 is none."""

    def __init__(self, p: Problem, x: Columns, load: _Load, slot: Slot, b: int) -> None:
        s, k = slot
        self.p, self.x, self.slot, self.b = p, x, slot, b
        apart = _apart(p, load, slot)
        in_apart = (load.domain >= 0) & apart[load.domain]
        slots = k * load.size // s * load.pieces + self._by_whole_gangs(load)
        takes = (load.band >= b) & (slots > 0)
        roomy = p.domains.of_node
        sea = np.where(apart[roomy] | (roomy < 0), -1, p.domains.sea[roomy])
        self.parts = (
            (np.where(takes, load.domain, -1), slots, np.where(p.domains.is_sea[roomy], -1, roomy)),
            (
                np.where(takes & (load.told == in_apart), load.sea, -1),
                np.where(load.told, -slots, slots),
                sea,
            ),
        )
        self.column = load.column

    def add(self, a: Assembler, fresh: Bools) -> None:
        """Add the rows of all areas in which something has changed."""
        s, k = self.slot
        free = self.p.free_gpus(self.b)
        column, node, freed = self._released(free)
        room = k * free // s
        np.add.at(room, node, np.maximum(freed, 0))
        rows_at = []
        for area, slots, of_node in self.parts:
            mine = np.flatnonzero(fresh[area] & (area >= 0))
            ds, row = np.unique(area[mine], return_inverse=True)
            inside = of_node >= 0
            upper = np.bincount(of_node[inside], room[inside], self.p.domains.count)[ds]
            rows = a.rows("buddy", _labels(ds, s, k, self.b), upper=np.rint(upper))
            row_of = np.full(self.p.domains.count + 1, -1, dtype=np.int64)  # the last one is that of no area
            row_of[ds] = rows
            a.put(rows[row], self.column[mine], slots[mine])
            at = row_of[of_node[node]]
            a.put(at[at >= 0], column[at >= 0], freed[at >= 0])
            rows_at.append(row_of[of_node])
        self._add_extra(a, rows_at)

    def _released(self, free: Ints) -> tuple[Ints, Ints, Ints]:
        """Return columns that say what victims release, the node of each, and its coefficient in the rows.

        A part that is alone on its node: floor(k (free + g) / s) - floor(k free / s), where keep is 0; a way
        to clear a node the same, for all that it takes. Victims of later bands only.
        """
        s, k = self.slot
        v, ways = self.p.victims, self.x.ways
        alone = np.bincount(v.node, minlength=len(free))[v.node] == 1
        part = np.flatnonzero(alone & (v.band[v.part] > self.b))
        node = np.concatenate((v.node[part], ways.node))
        gpus = np.concatenate((v.part_gpus[part], ways.gpus(v, self.b)))
        column = np.concatenate((self.x.keep[v.part[part]], self.x.clear))
        sign = np.concatenate((np.ones_like(part), np.full(ways.count, -1)))
        slots = k * (free[node] + gpus) // s - k * free[node] // s
        return column[slots > 0], node[slots > 0], (sign * slots)[slots > 0]

    def _by_whole_gangs(self, load: _Load) -> Ints:
        """Return the slots that gangs of smaller pieces take, as they must stand in one domain, int64[K].

        At most so many of their pieces find room beside the slots, the others take whole ones, `fit` to each.
        A slot that one gang does not fill may be another's; where many fit beside, the same room has been
        taken off for each gang, and that outweighs it.
        """
        s, k = self.slot
        out = np.zeros(len(load.column), dtype=np.int64)
        smaller = (load.domain >= 0) & ~load.told & (load.size < s) & (load.pieces > 1)
        sizes = np.unique(load.size[smaller])
        if k > 1 or not is_chain(np.append(sizes, s)):
            return out
        for t in sizes.tolist():
            mine = smaller & (load.size == t)
            fit, beside = s // t, self.p.domains.sum(self._beside(t))[load.domain[mine]]
            filled = (beside < 2 * (fit - 1)) | (len(sizes) > 1)
            out[mine] = np.maximum(load.pieces[mine] - beside + np.where(filled, 0, fit - 1), 0) // fit
        return out

    def _beside(self, t: int) -> Ints:
        """Return how many pieces of size `t` each node takes beside its slots, whoever goes, int64[N]."""
        s, _ = self.slot
        p, v, ways = self.p, self.p.victims, self.x.ways
        free = p.free_gpus(self.b)
        out = free % s // t
        late = np.where(v.band[v.part] > self.b, v.part_gpus, 0)
        for node, gpus in ((v.node, late), (ways.node, ways.gpus(v, self.b))):
            np.maximum.at(out, node, (free[node] + gpus) % s // t)
        out[crowded(v, ways, len(free))] = (s - 1) // t
        return out

    def _add_extra(self, a: Assembler, rows_at: list[Ints]) -> None:
        """Add extra[n,s,k,b] slots where too many ways would clear a node, of which rows_at are the rows.

        s * extra[n,s,k,b] <= k free_n mod s + k * sum_r g[r,n] * gone[r].
        """
        s, k = self.slot
        v, free = self.p.victims, self.p.free_gpus(self.b)
        seen = (rows_at[0] >= 0) | (rows_at[1] >= 0)
        nodes = np.flatnonzero(crowded(v, self.x.ways, len(free)) & seen)
        if not len(nodes):
            return
        at = np.full(len(free), -1, dtype=np.int64)
        at[nodes] = np.arange(len(nodes))
        part = np.flatnonzero((v.band[v.part] > self.b) & (at[v.node] >= 0))
        freed = np.bincount(at[v.node[part]], v.part_gpus[part], len(nodes)).astype(np.int64)
        most = k * freed + k * free[nodes] % s
        labels = _labels(nodes, s, k, self.b)
        extra = a.columns("extra", labels, upper=most // s)
        rows = a.rows("extra", labels, upper=most)
        a.put(rows, extra, s)
        a.put(rows[at[v.node[part]]], self.x.keep[v.part[part]], k * v.part_gpus[part])
        for row in rows_at:
            there = row[nodes] >= 0
            a.put(row[nodes[there]], extra[there], -1)


def _apart(p: Problem, load: _Load, slot: Slot) -> Bools:
    """Tell which domains are left out of the sea's row of a slot, bool[D].

    Where all that roams and takes such slots is told by domain, the domain's own row says it exactly.
    """
    s, k = slot
    roams = (load.domain < 0) & (k * load.size >= s)
    smallest = _least(load, roams, load.sea, p.domains.count)
    out: Bools = (load.least_bound(p.domains.count) < smallest[p.domains.sea]) & ~p.domains.is_sea
    return out


def _labels(first: Ints, *others: int) -> Ints:
    return np.column_stack((first, *(np.full_like(first, other) for other in others)))
