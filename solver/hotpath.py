"""The hot path: one new workload against a standing plan, without a solver and without breaking a promise.

A standing board has one spare workload, the last one; placing fills it in on a copy. Nothing is ranked anew:
the new workload gets the ratio at which its allocation stands, and with it its tier, band and price.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from solver.board import Board, Parts
from solver.evictable import Evictable
from solver.greedy import eviction_cost, start_by_eviction, start_free, victims_for, worth
from solver.lane import run_lane
from solver.shares import BEYOND, UNALLOCATED, WITHIN, Order, bands, commitments, prices
from solver.state import Bools, Ints, State, Workloads


@dataclass(frozen=True)
class Placed:
    """What became of the new workload; `parts` is None where it has to wait for the next round."""

    board: Board
    parts: Parts | None
    victims: list[int]
    in_lane: bool
    ratio: float


def with_last(state: State, row: Workloads) -> State:
    """Return the state with its last workload, which stands nowhere, filled in from a single `row`."""
    changed: dict[str, Ints | Bools] = {}
    for f in fields(Workloads):
        if f.name != "placement":
            column = getattr(state.workloads, f.name).copy()
            column[-1] = getattr(row, f.name)[0]
            changed[f.name] = column
    return replace(state, workloads=replace(state.workloads, **changed))  # type: ignore[arg-type]


def place(standing: Board, state: State) -> Placed:
    """Place the last workload of `state` on a copy of a standing board.

    Parameters
    ----------
    standing : Board
        As the plan leaves it: what the plan started runs, promised nodes are held.
    state : State
        That of the board, its last workload filled in (`with_last`).
    """
    j = state.workloads.count - 1
    ratio = _ratio(state, j)
    board = standing.copy()
    board.state, board.order = state, _ranked(standing.order, state, j, ratio)
    before = set(board.victims)
    lane = bool(run_lane(board, np.array([j]))) if state.workloads.debug[j] else False
    done = lane or start_free(board, j)
    if not done and state.workloads.allocated[j]:
        evictable = Evictable(board, victims_for(board, j), eviction_cost(board, j))
        done = start_by_eviction(board, j, evictable, worth(board, j))
    victims = sorted(board.victims.keys() - before)
    return Placed(board, board.starts[j] if done else None, victims, lane, ratio)


def _ratio(state: State, j: int) -> float:
    """Return the ratio of the leaf of `j`: use and all that its running work commits, over entitlement."""
    w, b = state.workloads, state.budgets
    leaf = int(w.leaf[j])
    running = (w.leaf == leaf) & w.allocated & (np.diff(w.placement.ptr) > 0)
    use = int(b.usage[leaf]) + int(commitments(state)[running].sum())
    return use / int(b.entitled[leaf]) if b.entitled[leaf] else float("inf")


def _ranked(order: Order, state: State, j: int, ratio: float) -> Order:
    """Return the order with the last workload in it: after all candidates of no higher ratio."""
    allocated = bool(state.workloads.allocated[j])
    tier_of_j = (WITHIN if ratio <= 1 else BEYOND) if allocated else UNALLOCATED
    one, its_tier = np.array([ratio]), np.array([tier_of_j])
    position, tier, band = order.position.copy(), order.tier.copy(), order.band.copy()
    ratios, price = order.ratio.copy(), order.price.copy()
    ratios[j], tier[j] = ratio, tier_of_j
    band[j], price[j] = bands(one, its_tier)[0], prices(one, its_tier)[0]
    position[j] = int((order.ratio[order.sequence] <= ratio).sum())
    return replace(order, position=position, ratio=ratios, price=price, tier=tier, band=band)
