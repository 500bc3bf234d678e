"""What of the contract a trace takes from the comment of a Slurm job."""

from __future__ import annotations

from dataclasses import dataclass

from planner.comment import said_in
from planner.simulation.trace import UNSAID


@dataclass(frozen=True)
class Contract:
    """What a comment says.

    Attributes
    ----------
    min_runtime_s : int, seconds; `UNSAID` where it says nothing
    resumable : bool or None
    faulty : bool
        It has a key of the contract with a value that means nothing; the key counts as not said.
    """

    min_runtime_s: int = UNSAID
    resumable: bool | None = None
    faulty: bool = False

    @property
    def says(self) -> bool:
        """Whether it says anything."""
        return self.min_runtime_s != UNSAID or self.resumable is not None


def contract_of(comment: str) -> Contract:
    """Return what a comment says of min runtime and progress."""
    said = said_in(comment)
    faulty = any(fault.startswith(("min_runtime", "resumable")) for fault in said.faults)
    return Contract(UNSAID if said.min_runtime_s is None else said.min_runtime_s, said.resumable, faulty)
