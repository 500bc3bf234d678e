"""What logs do not say of the contract, drawn by a stated rule: min runtime and resumability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from planner.units import format_duration, parse_duration
from planner.words import shown
from solver.state import Bools, Floats, Ints

_BITS = 53


@dataclass(frozen=True)
class Rule:
    """How a contract is made of a run time d.

    Attributes
    ----------
    short_s : int
        Up to here a workload is taken for a debug workload: min runtime = d, at least a second.
    min_runtimes_s, weights : tuple
        Above, one of these min runtimes is drawn with these weights.
    long_s : int
        Above, a workload is resumable with chance `long_resumable`, else with `resumable`.
    """

    short_s: int = 900
    min_runtimes_s: tuple[int, ...] = (0, 3_600, 7_200, 14_400, 28_800)
    weights: tuple[float, ...] = (20, 25, 25, 15, 15)
    long_s: int = 28_800
    long_resumable: float = 0.8
    resumable: float = 0.0

    def __str__(self) -> str:
        pairs = zip(self.min_runtimes_s, self.weights, strict=True)
        draws = " ".join(f"{format_duration(s)}:{w:g}" for s, w in pairs)
        return (
            f"min runtime = run time up to {format_duration(self.short_s)}, above one of {draws}; resumable: "
            f"{self.long_resumable:.0%} above {format_duration(self.long_s)}, else {self.resumable:.0%}"
        )


def fill_in(ids: Sequence[str], runtime_s: Ints, rule: Rule, seed: int) -> tuple[Ints, Bools]:
    """Return min runtime and resumability of workloads, by id alone: any window of a log draws the same.

    Parameters
    ----------
    ids : sequence of str[T]
    runtime_s : int64[T]

    Returns
    -------
    int64[T], bool[T]
    """
    edges = np.cumsum(rule.weights)
    drawn = np.searchsorted(edges, draws(seed, "min_runtime", ids) * edges[-1], side="right")
    choices = np.array(rule.min_runtimes_s, dtype=np.int64)
    short = runtime_s <= rule.short_s
    min_runtime_s = np.where(short, np.maximum(runtime_s, 1), choices[drawn])
    chance = np.where(runtime_s > rule.long_s, rule.long_resumable, rule.resumable)
    return min_runtime_s, draws(seed, "resumable", ids) < chance


def draws(seed: int, purpose: str, names: Sequence[str]) -> Floats:
    """Return for each name a number in [0, 1), the same wherever the name stands and on every machine."""
    key = blake2b(f"{seed} {purpose}".encode(), digest_size=32).digest()
    found = [
        int.from_bytes(blake2b(name.encode(), digest_size=8, key=key).digest(), "big") >> (64 - _BITS)
        for name in names
    ]
    return np.array(found, dtype=np.float64) / 2.0**_BITS


def parse_weights(text: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Read `0s:20,1h:25,2h:55` into min runtimes in seconds and their weights."""
    min_runtimes_s, weights = [], []
    for part in text.split(","):
        duration, mark, weight = part.strip().partition(":")
        if not mark or not weight.replace(".", "", 1).isdecimal() or len(weight) > 12:
            raise ValueError(f"{shown(part)} is no min runtime with its weight, write 0s:20,1h:25,2h:55")
        min_runtimes_s.append(parse_duration(duration))
        weights.append(float(weight))
    if len(set(min_runtimes_s)) != len(min_runtimes_s):
        raise ValueError(f"{shown(text)} names a min runtime twice, write each once")
    if not any(weights):
        raise ValueError(f"{shown(text)} gives every min runtime the weight 0, write 0s:20,1h:25,2h:55")
    return tuple(min_runtimes_s), tuple(weights)
