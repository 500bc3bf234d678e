"""Ways to clear a node on which several victims stand: which of them go together.

What victims release together is more than the sum of what each releases: two of 3 GPUs make a slot of 4. With
one column for each way, a node releases exactly what it would, also in the fractions of a relaxation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solver.problem import Victims
from solver.state import Bools, Ints

MOST_WAYS = 64
"""A node that could be cleared in more ways has `extra` columns instead."""


@dataclass(frozen=True)
class Ways:
    """Ways to clear nodes.

    Attributes
    ----------
    node : int64[O]
        Node of each way.
    way, part : int64[M]
        Parts (of `Victims`) that go in each way.
    """

    node: Ints
    way: Ints
    part: Ints

    @property
    def count(self) -> int:
        """Number of ways."""
        return len(self.node)

    def gpus(self, victims: Victims, after_band: int) -> Ints:
        """Return the GPUs that each way frees of victims of bands later than `after_band`, int64[O]."""
        late = victims.band[victims.part[self.part]] > after_band
        freed = np.bincount(self.way[late], victims.part_gpus[self.part[late]], self.count)
        return np.rint(freed).astype(np.int64)


def ways_of(victims: Victims, tier: int, n_nodes: int) -> Ways:
    """Return the ways to clear every node on which several parts stand, unless there are too many.

    Of victims alike the one that costs least goes first, so that they make a way for each number of them.
    """
    parts = np.flatnonzero(np.bincount(victims.node, minlength=n_nodes)[victims.node] > 1)
    own = victims.tier[victims.part[parts]] == tier
    value = np.where(own, victims.worth[victims.part[parts]], victims.regret[victims.part[parts]])
    kind = _kinds(victims, parts)
    turn = np.lexsort((parts, value, kind, victims.node[parts]))
    parts, kind = parts[turn], kind[turn]
    node: list[int] = []
    members: list[list[int]] = []
    starts = np.flatnonzero(np.diff(victims.node[parts], prepend=-1))
    for here in np.split(np.arange(len(parts)), starts[1:]) if len(parts) else []:
        for ways in _subsets(parts[here].tolist(), kind[here].tolist()):
            node.append(int(victims.node[parts[here[0]]]))
            members.append(ways)
    way = np.repeat(np.arange(len(members)), [len(m) for m in members])
    part = np.array(list(itertools.chain.from_iterable(members)), dtype=np.int64)
    return Ways(np.array(node, dtype=np.int64), way.astype(np.int64), part)


def _kinds(victims: Victims, parts: Ints) -> Ints:
    """Return for each part its kind: parts of one kind on one node are alike to every row, int64[K]."""
    v = victims.part[parts]
    elsewhere = np.bincount(victims.part, minlength=victims.count)[v] > 1
    key = np.column_stack(
        (
            victims.part_gpus[parts], victims.part_cpus[parts], victims.part_memory[parts],
            victims.band[v], victims.tier[v], victims.limits[v], np.where(elsewhere, v, -1),
        )
    )  # fmt: skip
    kinds: Ints = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
    return kinds


def _subsets(parts: list[int], kind: list[int]) -> Iterator[list[int]]:
    """Yield the ways to clear one node: so many of each kind, the first of them; nothing if too many."""
    by_kind: dict[int, list[int]] = {}
    for p, k in zip(parts, kind, strict=True):
        by_kind.setdefault(k, []).append(p)
    kinds = list(by_kind.values())
    if math.prod(len(same) + 1 for same in kinds) - 1 > MOST_WAYS:
        return
    for chosen in itertools.product(*(range(len(same) + 1) for same in kinds)):
        if any(chosen):
            yield [p for same, k in zip(kinds, chosen, strict=True) for p in same[:k]]


def crowded(victims: Victims, ways: Ways, n_nodes: int) -> Bools:
    """Tell on which nodes several parts stand that too many ways would clear, bool[N]."""
    several: Bools = np.bincount(victims.node, minlength=n_nodes) > 1
    several[ways.node] = False
    return several
