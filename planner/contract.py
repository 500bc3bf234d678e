"""The contract applied to one workload: what it asked for, and what it gets."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from planner.model.site import Contract
from planner.model.workload import Workload
from planner.units import format_duration


@dataclass(frozen=True)
class Effective:
    """What the contract makes of a workload.

    Attributes
    ----------
    min_runtime_s : int, seconds
        Protection of a run from its start; 0 = none.
    allocated : bool
        Charged and protectable. A run keeps the occupancy that it was started with.
    debug : bool
        Counts as a debug workload.
    warnings : tuple of str
        Where it gets less, or more, than it asked for.
    """

    min_runtime_s: int
    allocated: bool
    debug: bool
    warnings: tuple[str, ...] = ()


def effective(workload: Workload, contract: Contract, share: Fraction) -> Effective:
    """Return what a workload gets under the site's contract; `share` is that of its allocation.

    A share of 0 is unallocated only; a run goes on as it began, for what was promised then is kept.
    """
    asked_s = workload.min_runtime_s
    gets_s = contract.default_min_runtime_s if asked_s is None else asked_s
    why = []
    occupancy = workload.occupancy if workload.state != "pending" else None
    if gets_s and not share and workload.state == "pending":
        gets_s = 0
        why.append(f"{workload.allocation} has a share of 0")
    if 0 < gets_s < contract.min_min_runtime_s:
        gets_s = contract.min_min_runtime_s
        why.append("the least that the site gives")
    if gets_s > contract.max_min_runtime_s:
        gets_s = contract.max_min_runtime_s
        why.append("the most that the site gives")
    if workload.time_limit_s is not None and gets_s > workload.time_limit_s:
        gets_s = workload.time_limit_s
        why.append("its time limit")
    allocated = gets_s > 0 if occupancy is None else occupancy == "allocated"
    rule = contract.debug
    short = 0 < gets_s <= rule.max_min_runtime_s and workload.gpus <= rule.max_gpus
    warnings: tuple[str, ...] = ()
    if asked_s is not None and gets_s != asked_s:
        warnings = (_warning(workload.id, asked_s, gets_s, why[-1]),)
    return Effective(gets_s, allocated, allocated and short, warnings)


def _warning(workload: str, asked_s: int, gets_s: int, why: str) -> str:
    """Say what a workload asked for and what it gets."""
    asked, gets = format_duration(asked_s), format_duration(gets_s)
    kind = "" if gets_s else " and runs unallocated"
    return f"{workload} asked for a min runtime of {asked} and gets {gets}{kind}: {why}"
