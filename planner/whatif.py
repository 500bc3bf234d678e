"""What if this workload were submitted now: the same round with it, also if it asked for less.

Shorter min runtimes are the brake on everybody asking for eight hours; a gang that asks for one domain is
also tried in two of them, and in any.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from planner.contract import effective
from planner.encode import accounts_of
from planner.errors import InputError
from planner.model.budget import leaf_shares
from planner.model.plan import Decision
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.model.workload import Topology, Workload
from planner.round import plan_round

SHORTER_S = (14_400, 3_600, 900, 0)
"""Min runtimes that are tried besides the one asked for."""


@dataclass(frozen=True)
class Trial:
    """What the round would decide with this min runtime (seconds, as the contract gives it) and topology."""

    min_runtime_s: int
    topology: Topology
    decision: Decision


def what_if(site: Site, snapshot: Snapshot, workload: Workload) -> list[Trial]:
    """Return the decision on a workload added to the snapshot, as it asks and if it asked for less.

    InputError if the snapshot has its id already, waiting or running.
    """
    if any(w.id == workload.id for w in snapshot.workloads):
        raise InputError([f"{workload.id}: is in the snapshot already, give the new workload its own id"])
    own_s, *shorter_s = granted(site, workload)
    asks = [(s, workload.topology) for s in (own_s, *shorter_s)]
    asks += [(own_s, topology) for topology in looser(workload)]
    trials = []
    for min_runtime_s, topology in asks:
        tried = replace(workload, min_runtime_s=min_runtime_s, topology=topology)
        plan = plan_round(site, replace(snapshot, workloads=(*snapshot.workloads, tried)))
        decision = next(d for d in plan.decisions if d.workload == workload.id)
        trials.append(Trial(min_runtime_s, topology, decision))
    return trials


def granted(site: Site, workload: Workload) -> list[int]:
    """Return the min runtimes to be tried, seconds: what the contract makes of that asked for, and shorter.

    Those which the contract would raise, or cut, to the same are one.
    """
    shares, path = leaf_shares(site.budgets), workload.allocation
    share = shares.get(path if path in shares else accounts_of(site).get(path, path), Fraction(1))
    gets_s = [
        effective(replace(workload, min_runtime_s=asked_s), site.contract, share).min_runtime_s
        for asked_s in (workload.min_runtime_s, *SHORTER_S)
    ]
    return list(dict.fromkeys(s for s in gets_s if s <= gets_s[0]))


def looser(workload: Workload) -> list[Topology]:
    """Return what a gang that requires one domain could ask for instead: two of them, or none."""
    asked, replicas = workload.topology, workload.replicas
    whole = asked.segment in (None, replicas)
    if not asked.required or asked.required == "node" or not whole or replicas == 1:
        return []
    halves = [Topology(asked.required, asked.preferred, replicas // 2)] if replicas % 2 == 0 else []
    return [*halves, Topology(None, asked.preferred, None)]
