"""Looks at the cluster at regular times: what is free, what is down, the largest gang that would fit."""

from __future__ import annotations

import numpy as np

from planner.simulation.history import Samples
from planner.simulation.recorder import Log
from planner.simulation.world import Phase, World
from solver.fragmentation import largest_gangs
from solver.state import Bools, Ints


class Sampler:
    """Samples of a world, every `every_s` seconds from 0, each as it is when its second is over."""

    def __init__(self, world: World, every_s: int) -> None:
        self.world, self.every_s = world, every_s
        self.next_s = 0
        self.samples = Log(4 + len(world.nodes.domain) + 2)

    def upto(self, now_s: int) -> None:
        """Take the samples that are due at `now_s` or before."""
        while self.next_s <= now_s:
            self.samples.add(self.next_s, *self._look())
            self.next_s += self.every_s

    def result(self) -> Samples:
        """Return all samples taken."""
        time_s, free, down, stranded, *largest = self.samples.arrays()
        return Samples(time_s, free, down, np.stack(largest, axis=1), stranded)

    def _look(self) -> tuple[int, ...]:
        n = self.world.nodes
        free = self.world.free_gpus()
        down = int(n.gpus[n.down].sum())
        stranded = int(free[~self._useful(free)].sum())
        return int(free.sum()), down, stranded, *largest_gangs(self.world.bare(), free)

    def _useful(self, free_gpus: Ints) -> Bools:
        """Tell for each node whether a replica of anything pending would fit on it as it stands, bool[N]."""
        world, n = self.world, self.world.nodes
        waits = np.flatnonzero((world.phase == Phase.PENDING) & (world.jobs.gpus_per_replica > 0))
        kinds = np.unique(
            np.column_stack([world.jobs.gpus_per_replica[waits], world.jobs.pool_ok[waits]]), axis=0
        )
        out = np.zeros(n.count, dtype=bool)
        for size, *pools in kinds.tolist():
            out |= (free_gpus >= size) & np.array(pools, dtype=bool)[n.pool]
        return out
