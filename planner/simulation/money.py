"""Who is in the money under policies that do not rank by budget: by the order in which `plan` ranks."""

from __future__ import annotations

import numpy as np

from solver.feasible import candidates, placeable
from solver.shares import rank
from solver.state import Ints, State

LOOK_EVERY_S = 600
"""Simulated seconds between two looks, at least: ranking takes about as long as a baseline's whole round."""


def in_the_money(state: State) -> Ints:
    """Return the pending workloads that wait for a place and not for budget, as indices of the state."""
    order = rank(state, candidates(state), placeable(state))
    return np.flatnonzero(order.in_money & state.workloads.pending)


class Looks:
    """Looks at who is in the money every so often."""

    def __init__(self) -> None:
        self.next_s = 0

    def at(self, state: State) -> Ints | None:
        """Return who is in the money as a round finds it; None where the last look is young enough."""
        if state.now_s < self.next_s:
            return None
        self.next_s = state.now_s + LOOK_EVERY_S
        return in_the_money(state)
