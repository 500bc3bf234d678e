"""What if this workload were submitted now: the same round with it, also with shorter min runtimes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.errors import InputError
from planner.model.plan import Decision
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.model.workload import Workload
from planner.round import plan_round

SHORTER_S = (14_400, 3_600, 900, 0)
"""Min runtimes that are tried besides the one asked for."""


@dataclass(frozen=True)
class Trial:
    """What the round would decide with this min runtime (seconds)."""

    min_runtime_s: int
    decision: Decision


def what_if(site: Site, snapshot: Snapshot, workload: Workload) -> list[Trial]:
    """Return the decision on a workload added to the snapshot, for its own and for shorter min runtimes.

    One that waits there already under the same id is replaced; InputError if it runs.
    """
    asked_s = workload.min_runtime_s
    own_s = site.contract.default_min_runtime_s if asked_s is None else asked_s
    if any(w.id == workload.id and w.state != "pending" for w in snapshot.workloads):
        raise InputError([f"{workload.id}: runs already, give the new workload its own id"])
    others = tuple(w for w in snapshot.workloads if w.id != workload.id)
    trials = []
    for min_runtime_s in (own_s, *(s for s in SHORTER_S if s < own_s)):
        tried = replace(workload, min_runtime_s=min_runtime_s)
        plan = plan_round(site, replace(snapshot, workloads=(*others, tried)))
        decision = next(d for d in plan.decisions if d.workload == workload.id)
        trials.append(Trial(min_runtime_s, decision))
    return trials
