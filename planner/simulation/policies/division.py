"""Dividing GPUs among pools: owned quotas in whole GPUs, and fair shares by filling up to one level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solver.state import Ints, State


def owned_gpus(state: State) -> Ints:
    """Return each allocation's share of all GPUs as whole GPUs that sum to all of them, int64[V].

    Largest remainders round up; 0 for inner nodes and, where no allocation has a share, for all.
    """
    share = np.where(state.budgets.is_leaf, state.budgets.share_ppb, 0)
    total, parts = int(state.nodes.gpus.sum()), int(share.sum())
    if not parts:
        return np.zeros(len(share), dtype=np.int64)
    whole, rest = np.divmod(share * total, parts)
    up = np.lexsort((np.arange(len(share)), -rest))[: total - int(whole.sum())]
    whole[up] += 1
    return whole


def fair_shares(
    weight: Sequence[float], least: Sequence[float], most: Sequence[float], capacity: float
) -> list[float]:
    """Return the weighted fair share of every pool: the water level r at which the shares use `capacity`.

    share_i(r) = min(most_i, max(r weight_i, least_i)); r is unbounded where all `most` fit. If the minimums
    alone exceed the capacity, they are scaled down alike.

    Parameters
    ----------
    least, most : GPUs
        Minimum share, and what a pool can use at most (its demand, or its limit).
    """
    low = [min(a, b) for a, b in zip(least, most, strict=True)]
    left = capacity - sum(low)
    if left <= 0:
        scale = capacity / sum(low) if sum(low) else 0.0
        return [a * scale for a in low]
    bends: list[tuple[float, float]] = []  # levels at which the sum of the shares begins to rise faster
    for w, a, b in zip(weight, low, most, strict=True):
        if w > 0 and b > a:
            bends += [(a / w, w), (b / w, -w)]
    level = slope = 0.0
    for at, change in sorted(bends):
        if slope > 0 and (at - level) * slope >= left:
            break
        left -= (at - level) * slope
        level, slope = at, slope + change
    if slope > 0:
        level += left / slope
    return [min(b, max(level * w, a)) for w, a, b in zip(weight, low, most, strict=True)]
