"""Gangs in columns: how wide they are, what they ask for, and what contract they are under.

The numbers are explained, with their sources, in `benchmarks.instances`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.text import HOUR, MINUTE

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Rng = np.random.Generator

NODE_GPUS = 8
WIDEST_GPUS = 4096
ANY, PREFER_LEAF, PREFER_BLOCK, ONE_LEAF, WHOLE_LEAVES = range(5)
"""Topology wishes; `ANY` has none."""


@dataclass(frozen=True)
class Layout:
    """How nodes are wired: nodes to a leaf, leaves to a block, clusters that share the nodes evenly."""

    leaf_nodes: int = 8
    block_leaves: int = 4
    clusters: int = 1

    @property
    def leaf_gpus(self) -> int:
        """GPUs of a leaf."""
        return self.leaf_nodes * NODE_GPUS

    @property
    def block_gpus(self) -> int:
        """GPUs of a block."""
        return self.block_leaves * self.leaf_gpus

    def topology(self, wish: int) -> dict[str, Any]:
        """Return a wish as it is written in a snapshot."""
        wishes: dict[int, dict[str, Any]] = {
            PREFER_LEAF: {"preferred": "leaf"},
            PREFER_BLOCK: {"preferred": "block"},
            ONE_LEAF: {"required": "leaf"},
            WHOLE_LEAVES: {"required": "leaf", "segment": self.leaf_nodes},
        }
        return wishes[wish]


@dataclass(frozen=True)
class Gangs:
    """Columns of workloads, each int64 or bool of one length; amounts are per replica."""

    replicas: Ints
    each: Ints
    wide: Bools
    topology: Ints
    debug: Bools
    unallocated: Bools
    min_runtime_s: Ints
    resumable: Bools
    cpus: Ints
    memory_gib: Ints

    @property
    def gpus(self) -> Ints:
        """GPUs of each gang."""
        return self.replicas * self.each

    def take(self, keep: npt.NDArray[Any]) -> Gangs:
        """Return the rows that `keep` selects."""
        return Gangs(**{f.name: getattr(self, f.name)[keep] for f in fields(self)})

    def join(self, other: Gangs) -> Gangs:
        """Return the rows of both."""
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        return Gangs(**{name: np.concatenate(pair) for name, pair in pairs.items()})


def _wide(rng: Rng, quota: float, cluster_gpus: int) -> list[int]:
    """Draw gangs of 12, 25 or 39% of the cluster within the quota, first the widest that fits."""
    steps = np.minimum(np.array([1 / 8, 1 / 4, 25 / 64]) * cluster_gpus, WIDEST_GPUS)
    sizes = steps.astype(np.int64) // NODE_GPUS * NODE_GPUS
    odds = np.array([0.30, 0.48, 0.22])
    out: list[int] = []
    while (fit := (sizes > 0) & (sizes <= quota - sum(out))).any():
        first = int(sizes[fit].max())
        out.append(int(rng.choice(sizes[fit], p=odds[fit] / odds[fit].sum())) if out else first)
    return out


def draw_small(rng: Rng, total: int, count: int) -> Ints:
    """Draw `count` sizes of 1, 2, 4 or 8 GPUs that add up to `total`: singles, doubled at random."""
    sizes = np.ones(count, dtype=np.int64)
    while (short := total - int(sizes.sum())) > 0:
        can = np.flatnonzero((sizes < NODE_GPUS) & (sizes <= short))
        if not can.size:
            break
        sizes[rng.choice(can, size=min(can.size, max(1, short // 8)), replace=False)] *= 2
    return sizes


def draw_big(
    rng: Rng, total: int, wide: float, shares: dict[int, float], cluster: int, layout: Layout
) -> Gangs:
    """Draw the wide gangs and the fixed sizes that have a share of `total` GPUs; `cluster` is GPUs of one."""
    widest = _wide(rng, wide * total, cluster)
    rest = [size for size, share in shares.items() for _ in range(int(share * total) // size)]
    return draw_gangs(rng, np.array(widest + rest, dtype=np.int64), len(widest), layout)


def draw_gangs(rng: Rng, sizes: Ints, wide: int, layout: Layout) -> Gangs:
    """Give each size its shape, topology wish and contract; the first `wide` of them are wide gangs."""
    count = len(sizes)
    is_wide = np.arange(count) < wide
    halved = np.isin(sizes, (4, 8, 16, 32)) & ~is_wide & (rng.random(count) < 0.15)
    each = np.minimum(sizes, NODE_GPUS) // np.where(halved, 2, 1)
    wish, coin = np.full(count, ANY), rng.random(count)
    wish[(sizes == 16) & (coin < 0.5)] = PREFER_LEAF
    wish[sizes == 32] = np.where(coin[sizes == 32] < 0.5, ONE_LEAF, PREFER_LEAF)
    wish[sizes == 64] = ONE_LEAF
    wish[(wish != ANY) & (sizes > layout.leaf_gpus)] = PREFER_BLOCK
    wish[is_wide & (sizes <= layout.block_gpus)] = PREFER_BLOCK
    wish[is_wide & (sizes % layout.leaf_gpus == 0) & (coin < 0.5)] = WHOLE_LEAVES
    hours = rng.choice([0.5, 1, 2, 4, 8], size=count, p=[0.10, 0.30, 0.30, 0.15, 0.15])
    wide_hours = rng.choice([0.25, 1, 4, 8], size=count, p=[0.30, 0.20, 0.25, 0.25])
    asks, heavy = rng.random(count) < 0.7, (sizes <= 2) & (rng.random(count) < 0.03)
    level = rng.integers(0, 3, size=count)
    cpus = np.where(heavy, 64, np.array([8, 16, 24])[level]) * each
    none = np.zeros(count, dtype=bool)
    return Gangs(
        replicas=sizes // each,
        each=each,
        wide=is_wide,
        topology=wish,
        debug=none,
        unallocated=none,
        min_runtime_s=(np.where(is_wide, wide_hours, hours) * HOUR).astype(np.int64),
        resumable=rng.random(count) < 0.85,
        cpus=np.where(asks, cpus, 0),
        memory_gib=np.where(asks, np.array([64, 128, 240])[level] * each, 0),
    )


def with_contracts(rng: Rng, gangs: Gangs, debug: Bools, unallocated: Bools) -> Gangs:
    """Make some gangs debug work and some unallocated; what is both is unallocated."""
    debug = debug & ~unallocated
    short = rng.choice([5 * MINUTE, 10 * MINUTE, 15 * MINUTE], size=len(debug))
    min_runtime = np.where(unallocated, 0, np.where(debug, short, gangs.min_runtime_s))
    resumable = np.where(debug, rng.random(len(debug)) < 0.3, gangs.resumable)
    return replace(
        gangs,
        debug=debug,
        unallocated=unallocated,
        min_runtime_s=min_runtime,
        resumable=resumable,
    )
