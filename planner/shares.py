"""The allocations as managers see them: share, use, the ratio that sorts the queue, owed and delivered."""

from __future__ import annotations

import numpy as np

from planner.encode import Encoded
from planner.model.plan import ShareRow
from solver.state import Bools
from solver.window import HOUR_MICRO_S


def share_rows(encoded: Encoded, standing: Bools) -> tuple[ShareRow, ...]:
    """Return one row for each allocation: the ratio that sorts the queue, and its rank by it.

    Without hours of demand what is owed is bounded: today's demand is taken for the whole known past, and an
    allocation has demanded at least what it got.

    Parameters
    ----------
    standing : bool[W]
        What holds GPUs: before a round what runs, after it what the plan leaves.
    """
    state, names, b = encoded.state, encoded.names, encoded.state.budgets
    w = state.workloads
    total = int(state.nodes.gpus[~state.nodes.down].sum())
    leaves = np.flatnonzero(b.is_leaf).tolist()
    ratio = {v: int(b.usage[v]) / int(b.entitled[v]) if b.entitled[v] else float("inf") for v in leaves}
    rank = {v: i + 1 for i, v in enumerate(sorted(leaves, key=lambda v: (ratio[v], names.budgets[v])))}
    rows = []
    for v in leaves:
        mine = w.leaf == v
        running = mine & standing
        pending = mine & w.pending & ~standing & w.allocated
        demand = int(w.gpus[mine & w.allocated].sum())
        share_gpus_e9 = int(b.share_ppb[v]) * total
        wanted = int(b.entitled[v]) * demand * 10**9 // share_gpus_e9 if share_gpus_e9 else 0
        owed = min(int(b.entitled[v]), max(int(b.usage[v]), wanted))
        rows.append(
            ShareRow(
                allocation=names.budgets[v],
                share=int(b.share_ppb[v]) / 1e9,
                usage=int(b.usage[v]) / HOUR_MICRO_S,
                entitled=int(b.entitled[v]) / HOUR_MICRO_S,
                ratio=ratio[v] if b.entitled[v] else None,
                owed=owed / HOUR_MICRO_S,
                delivered=int(b.usage[v]) / HOUR_MICRO_S,
                running_gpus=int(w.gpus[running & w.allocated].sum()),
                unallocated_gpus=int(w.gpus[running & ~w.allocated].sum()),
                pending_gpus=int(w.gpus[pending].sum()),
                rank=rank[v],
            )
        )
    return tuple(rows)
