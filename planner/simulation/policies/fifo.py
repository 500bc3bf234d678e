"""`fifo`: first come, first served, one queue for everybody.

Source: the order of any batch system before fair share; no paper. Rule: allocated work starts in the order of
its submit; what does not fit is passed over and the next one is tried (first fit). There is no reservation,
so nothing bounds the wait of a large gang: that is the point of the baseline, and what EASY backfill mends.

Priorities, budgets and users count nothing. Unallocated work comes after all allocated work, by submit too,
and yields to it; allocated work yields to nobody. Requeued work keeps the place of its submit.
"""

from __future__ import annotations

from planner.simulation.policies.base import Round, Setting, Verdict
from planner.simulation.policies.serving import Serving, Shapes


class Fifo:
    """First come, first served, first fit."""

    def __init__(self, setting: Setting) -> None:
        self.shapes = Shapes(setting.trace.count)

    def decide(self, round_: Round) -> Verdict:
        """Start whatever fits, oldest first."""
        serving = Serving(round_, self.shapes)
        waits = serving.pending[round_.state.workloads.allocated[serving.pending]]
        serving.in_order(serving.in_turn(waits).tolist(), serving.take)
        serving.fill()
        return serving.verdict()
