"""What a source is: the system that runs the work, as `gangplan run` reads and drives it.

Another system is one more class that keeps to `Source`. Its laws, which the conformance tests check on every
source that there is:

1. `observe` changes nothing, and shows a workload under the same id from its submit to its end, requeues
   included.
2. A workload runs whole or not at all. What `start` reports as started runs exactly where it was told to;
   what it reports as failed is held again, and keeps no node from others.
3. `preempt` touches only the run that it was shown. A workload that has ended meanwhile stays ended.
4. Work that the system could start by itself is in `World.loose`; once held, it is not any more.
5. Every call may come again after a crash, and then changes nothing more.

Whatever the system refuses or does not answer is a `SourceError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from planner.model.cluster import Cluster
from planner.model.workload import Placement, Workload


@dataclass(frozen=True)
class Run:
    """One run that has ended: what the system itself says, to the second.

    Attributes
    ----------
    started_s, ended_s : int, epoch seconds
    gpus : tuple of (cluster, GPU type, GPUs)
        What it held; an empty type where nodes have none.
    workload : Workload
        What is known of it besides; its state and placement mean nothing here.
    """

    workload: Workload
    started_s: int
    ended_s: int
    gpus: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class NodeFacts:
    """What the source knows of a node besides its place in the inventory.

    Attributes
    ----------
    reason : str
        Why it is not up; empty where it is.
    ours : bool
        It was drained by gangplan, which alone may bring it back.
    busy : bool
        Something is on it, planned by gangplan or not.
    failing : bool
        It is down or does not answer: a fault and nobody's decision. What runs there goes on while it may.
    kept : bool
        It is up, and kept from new work by somebody else: reserved for later.
    """

    reason: str = ""
    ours: bool = False
    busy: bool = False
    failing: bool = False
    kept: bool = False


@dataclass(frozen=True)
class World:
    """What one look at the source shows.

    Attributes
    ----------
    time_s : int, epoch seconds
        Never before a submit or start that the source itself reports.
    workloads : tuple of Workload
        All that waits, runs or is being stopped, and is gangplan's to plan.
    loose : tuple of str
        Pending workloads that the source could start by itself.
    ended : tuple of Run
        Runs that ended recently.
    unplanned : dict of str to str
        Work that waits and that gangplan cannot plan, and why.
    nodes : dict of str to NodeFacts
    warnings : tuple of str
    """

    time_s: int
    clusters: tuple[Cluster, ...]
    workloads: tuple[Workload, ...]
    loose: tuple[str, ...] = ()
    ended: tuple[Run, ...] = ()
    unplanned: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Start:
    """A workload to start, exactly there; `waits`: victims must leave its nodes first."""

    workload: Workload
    placement: tuple[Placement, ...]
    waits: bool = False


@dataclass(frozen=True)
class Started:
    """What became of starts.

    Attributes
    ----------
    at_s : dict of str to int, epoch seconds
        Since when each started workload runs.
    failed : dict of str to str
        Why the others did not start.
    """

    at_s: Mapping[str, int]
    failed: Mapping[str, str]


class Source(Protocol):
    """A system that runs work; see the laws above."""

    name: str
    """What the ledger calls it."""

    def observe(self) -> World:
        """Look at everything."""
        ...

    def ended_since(self, since_s: int) -> Sequence[Run]:
        """Return the runs that ended since, as the system's accounts have them; none where it keeps none."""
        ...

    def hold(self, workloads: Sequence[str]) -> None:
        """Keep pending workloads from starting until gangplan starts them."""
        ...

    def preempt(self, workloads: Sequence[Workload]) -> Mapping[str, int]:
        """Stop runs and requeue them, held; return since when each has been stopped (epoch seconds)."""
        ...

    def start(self, starts: Sequence[Start]) -> Started:
        """Start workloads, and see to it that they run where they were told to or are held again."""
        ...

    def drain(self, reasons: Mapping[str, str]) -> None:
        """Take nodes out of service: what runs there goes on, nothing starts."""
        ...

    def resume(self, nodes: Iterable[str]) -> None:
        """Bring back nodes that gangplan had drained."""
        ...

    def complaints(self) -> Sequence[str]:
        """Return what the system has complained of since this was last asked: for people to read."""
        ...
