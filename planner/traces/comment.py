"""The contract as it travels in the comment of a Slurm job: `{"min_runtime": "4h", "resumable": true}`.

People write comments for other ends too. What is no JSON object says nothing of the contract; keys that are
not known here are passed over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from planner.simulation.trace import UNSAID
from planner.units import parse_duration

LONGEST = 4096
"""Characters of a comment that is looked at; Slurm takes 1,023 bytes."""


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
    """Return what a comment says of the contract."""
    said = _object(comment)
    min_runtime_s, resumable = _seconds(said.get("min_runtime")), said.get("resumable")
    flag = resumable if isinstance(resumable, bool) else None
    faulty = ("min_runtime" in said and min_runtime_s == UNSAID) or ("resumable" in said and flag is None)
    return Contract(min_runtime_s, flag, faulty)


def _seconds(value: object) -> int:
    """Return the seconds of a duration; `UNSAID` of anything else."""
    try:
        return parse_duration(value) if isinstance(value, str) else UNSAID
    except ValueError:
        return UNSAID


def _object(comment: str) -> dict[str, object]:
    """Return the JSON object that a comment is; of any other, nothing."""
    if not comment.lstrip().startswith("{") or len(comment) > LONGEST:
        return {}
    try:
        said = json.loads(comment)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
