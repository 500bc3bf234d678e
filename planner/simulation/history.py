"""What a simulation leaves behind, in columns: the food of metrics, outputs and reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from planner.model.site import Site
from planner.simulation.trace import Trace
from solver.state import Bools, Floats, Ints, Nodes, Spread


class Event(IntEnum):
    """What happens to a workload; a node failure under it is a preempt."""

    SUBMIT = 0
    START = 1
    PREEMPT = 2
    FINISH = 3
    CANCEL = 4


@dataclass(frozen=True)
class Terms:
    """What the contract makes of each workload of the trace; T rows.

    Attributes
    ----------
    leaf : int64[T]
        Index of its allocation in `Inventory.paths`; -1 where the site has none of that name.
    allocated, debug, refused : bool[T]
        `refused`: can never run here; cancelled in the second of its submit, counts nowhere.
    min_runtime_s : int64[T], seconds
    gpus : int64[T], GPUs of the whole gang
    """

    leaf: Ints
    allocated: Bools
    debug: Bools
    refused: Bools
    min_runtime_s: Ints
    gpus: Ints


@dataclass(frozen=True)
class Inventory:
    """The machines and the budget tree, with names.

    Attributes
    ----------
    nodes : Nodes
        As the simulation began.
    node_names, levels : tuple of str
    paths : tuple of str
        Path of each budget tree node, "" for the root.
    is_leaf : bool[V]
    share_ppb : int64[V]
        Share of the clusters in parts per billion.
    """

    nodes: Nodes
    node_names: tuple[str, ...]
    levels: tuple[str, ...]
    paths: tuple[str, ...]
    is_leaf: Bools
    share_ppb: Ints


@dataclass(frozen=True)
class Events:
    """Everything that happened, in the order in which it happened; E rows.

    Attributes
    ----------
    time_s : int64[E], seconds from the trace's start
    workload : int64[E], row in the trace
    event : int64[E], `Event`
    allocated : bool[E]
        Occupancy of the run (of starts and of what ends a run).
    placement : Spread over E
        Where it stands: of starts, preempts, and of finishes and cancels of what ran; else empty.
    lost_gpu_s : int64[E]
        Work thrown away by a preempt.
    """

    time_s: Ints
    workload: Ints
    event: Ints
    allocated: Bools
    placement: Spread
    lost_gpu_s: Ints


@dataclass(frozen=True)
class Samples:
    """The cluster at chosen times; S rows.

    Attributes
    ----------
    time_s : int64[S]
    free_gpus, down_gpus : int64[S]
        `free_gpus` on healthy nodes.
    largest_gpus : int64[S, L + 2]
        Largest gang placeable on free GPUs within one node, within one domain of each level from the
        innermost outwards, and anywhere in one cluster, in GPUs.
    stranded_gpus : int64[S]
        Free GPUs on nodes where no pending workload fits.
    """

    time_s: Ints
    free_gpus: Ints
    down_gpus: Ints
    largest_gpus: Ints
    stranded_gpus: Ints


@dataclass(frozen=True)
class Effort:
    """What deciding cost.

    Attributes
    ----------
    rounds : int
        Rounds decided; those in which nothing could change were skipped.
    solve_s : float64[rounds], wall seconds
    exact : int
        Rounds in which an exact back end made the plan.
    placed_between : int
        Workloads that the hot path started between rounds.
    wall_s : float
    """

    rounds: int
    solve_s: Floats
    exact: int
    placed_between: int
    wall_s: float


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class History:
    """A whole simulation.

    Attributes
    ----------
    end_s : int
        The simulation covers [0, end_s).
    placement_wait_s : int64[T]
        Time pending while in the money; the rest of a wait is budget wait.
    node_time_s, node, node_state : int64[M]
        Changes of the health of nodes (`NodeState`), in order.
    promised_at_s, promised, promised_start_s : int64[P]
        When a start was promised, to which row of the trace, for when; again where it moved in time or place.
    promised_placement : Spread over P
        Where.
    moved_at_s, moved, moved_why : int64[Q]
        When a promise could not be kept as it was, that of which row, and the policy's `Moved`.
    period_s : int
        Seconds between rounds.
    """

    site: Site
    trace: Trace
    inventory: Inventory
    terms: Terms
    policy: str
    end_s: int
    events: Events
    samples: Samples
    placement_wait_s: Ints
    node_time_s: Ints
    node: Ints
    node_state: Ints
    promised_at_s: Ints
    promised: Ints
    promised_start_s: Ints
    promised_placement: Spread
    effort: Effort
    moved_at_s: Ints = field(default_factory=_none)
    moved: Ints = field(default_factory=_none)
    moved_why: Ints = field(default_factory=_none)
    period_s: int = 60
