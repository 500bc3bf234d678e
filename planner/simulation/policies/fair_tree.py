"""Slurm's Fair Tree: level fair-share among siblings, and the ranking of the leaves that follows from it."""

from __future__ import annotations

import numpy as np

from solver.state import Bools, Floats, Ints


def level_fairshare(parent: Ints, share: Ints, usage: Floats) -> Floats:
    """Return LF = S / U of each tree node, float64[V]: above 1 under-served, below 1 over-served.

    S is its part of its siblings' shares, U its part of its parent's usage. S = 0 gives 0, and else U = 0
    gives infinity; the root has infinity.

    Parameters
    ----------
    share : int64[V], any unit
    usage : float64[V], any unit
        An inner node's is that of all below it.
    """
    out = np.full(len(parent), np.inf)
    for v in range(1, len(parent)):
        siblings = int(share[parent == parent[v]].sum())
        norm = int(share[v]) / siblings if siblings else 0.0
        used = float(usage[v] / usage[parent[v]]) if usage[parent[v]] else 0.0
        if norm == 0:
            out[v] = 0.0
        elif used > 0:
            out[v] = norm / used
    return out


def ranking(parent: Ints, is_leaf: Bools, level: Floats) -> Ints:
    """Return the place of each leaf in the Fair Tree, int64[V]: 0 = first served; -1 for inner nodes.

    Depth first, siblings by falling LF: all below a node come before all below a sibling with a lower LF.
    Ties: leaves that are siblings share a place; a leaf shares that of the first leaf below a sibling node;
    tied inner siblings have their children merged into one family.
    """
    children: dict[int, list[int]] = {}
    for v, above in enumerate(parent.tolist()):
        children.setdefault(above, []).append(v)
    place = np.full(len(parent), -1, dtype=np.int64)
    seen = current = 0

    def visit(family: list[int], tied: bool) -> None:
        nonlocal seen, current
        inner: dict[float, list[int]] = {}
        for v in family:
            if not is_leaf[v]:
                inner.setdefault(float(level[v]), []).extend(children.get(v, []))
        last: float | None = None
        leaves = [(-float(level[v]), 0, v) for v in family if is_leaf[v]]
        for negative, kind, v in sorted([*leaves, *((-lf, 1, -1) for lf in inner)]):
            tied = tied if last is None else negative == last
            if kind:
                visit(inner[-negative], tied)
            else:
                current = current if tied else seen
                place[v] = current
                seen += 1
            last = negative

    visit(children.get(0, []), False)
    return place
