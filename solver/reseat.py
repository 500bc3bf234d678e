"""A domain that largest-first seating could not fill, seated by a small exact model: seat[c,n]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solver.assemble import Assembler
from solver.linear import LinearModel, Solution
from solver.state import Floats, Ints

Solve = Callable[[LinearModel, float, float, Floats | None], Solution]
"""A back end: (model, time limit in seconds, relative gap, feasible point or None) -> answer."""

LIMIT_S = 0.5
"""Domains are small; one that takes longer is left to a cut."""

MOST_COLUMNS = 20_000


def reseat(solve: Solve, wanted: Ints, each: Ints, upto: Ints, room: Ints, free: Ints) -> Ints | None:
    """Return pieces of each kind on each node, int64[K, n], that seat all that is wanted, or None.

    Rows: seat[k] - every piece has a seat; gpus[n,i] - bands from the i-th on fit what is theirs;
    cpus[n] and memory[n].

    Parameters
    ----------
    wanted : int64[K]
        Pieces of each kind.
    each : int64[K, 3]
        GPUs, thousandths of CPUs and MiB (rounded up) of a piece.
    upto : int64[K]
        A piece stands in the way of the first so many bands.
    room : int64[B, n], GPUs
        What bands from the i-th on may take of each node.
    free : int64[2, n]
        Thousandths of CPUs and MiB (rounded down).
    """
    kinds, (bands, n) = len(wanted), room.shape
    if kinds * n > MOST_COLUMNS:
        return None
    a = Assembler()
    k, node = (x.reshape(-1) for x in np.meshgrid(np.arange(kinds), np.arange(n), indexing="ij"))
    seat = a.columns("seat", np.column_stack((k, node)), objective=each[k, 0], upper=wanted[k])
    rows = a.rows("seat", np.arange(kinds)[:, None], upper=wanted)
    a.put(rows[k], seat, 1)
    for i in range(bands):
        rows = a.rows("gpus", np.column_stack((np.arange(n), np.full(n, i))), upper=np.maximum(room[i], 0))
        mine = upto[k] > i
        a.put(rows[node[mine]], seat[mine], each[k[mine], 0])
    for r, family in enumerate(("cpus", "memory")):
        rows = a.rows(family, np.arange(n)[:, None], upper=np.maximum(free[r], 0))
        a.put(rows[node], seat, each[k, r + 1])
    solution = solve(a.build(), LIMIT_S, 0.0, None)
    if solution.x is None:
        return None
    found = np.rint(solution.x[seat]).astype(np.int64).reshape(kinds, n)
    return found if (found.sum(axis=1) == wanted).all() else None
