"""Writes down what happens in a simulation, column by column."""

from __future__ import annotations

from array import array

import numpy as np

from planner.simulation.history import Event, Events
from planner.simulation.world import Run
from solver.state import Ints, Spread


class Log:
    """A table of whole numbers that only grows; each column is eight bytes a row."""

    def __init__(self, columns: int) -> None:
        self.columns = [array("q") for _ in range(columns)]

    def add(self, *row: int) -> None:
        """Append a row."""
        for column, value in zip(self.columns, row, strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(self.columns[0])

    def arrays(self) -> list[Ints]:
        """Return the columns, each int64[rows]."""
        return [np.array(c, dtype=np.int64) for c in self.columns]


class Recorder:
    """The events of a simulation, in the order in which they happen."""

    def __init__(self) -> None:
        self.events = Log(6)  # time, workload, event, allocated, lost GPU-seconds, parts
        self.parts = Log(3)  # node, GPUs, replicas

    def add(
        self,
        time_s: int,
        row: int,
        event: Event,
        *,
        allocated: bool,
        run: Run | None = None,
        lost_gpu_s: int = 0,
    ) -> None:
        """Write down an event of the workload in `row` of the trace; `run` says where it stands or stood."""
        self.events.add(time_s, row, event, allocated, lost_gpu_s, 0 if run is None else len(run.nodes))
        if run is not None:
            for part in zip(run.nodes, run.gpus, run.replicas, strict=True):
                self.parts.add(*part)

    def result(self) -> Events:
        """Return everything written down so far."""
        time_s, row, event, allocated, lost, parts = self.events.arrays()
        ptr = np.concatenate(([0], np.cumsum(parts)))
        return Events(time_s, row, event, allocated.astype(bool), Spread(ptr, *self.parts.arrays()), lost)
