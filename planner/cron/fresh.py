"""Whether a plan still fits the world: it was made of a snapshot, and the world has gone on since.

Only what is still true is carried out. A start is dropped where its workload or its nodes have changed, a
victim where its run is over or nobody is left to gain by it. Dropping a start only leaves GPUs free, so what
remains breaks no rule that the whole plan kept.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from planner.hostlist import fold
from planner.model.plan import Decision, Plan
from planner.model.snapshot import Snapshot
from planner.model.workload import Workload
from planner.sources.base import Start, World


@dataclass(frozen=True)
class Fresh:
    """What of a plan is carried out.

    Attributes
    ----------
    dropped : dict of str to str
        Decisions that are not, and why.
    """

    preempt: tuple[Workload, ...]
    start: tuple[Start, ...]
    dropped: dict[str, str]


def still_true(plan: Plan, snapshot: Snapshot, world: World) -> Fresh:
    """Return what of a plan for `snapshot` can be carried out in `world`."""
    was = {w.id: w for w in snapshot.workloads}
    now = {w.id: w for w in world.workloads}
    victims = [d for d in plan.decisions if d.action == "preempt" and was[d.workload].state == "running"]
    starts = [d for d in plan.decisions if d.action == "start"]
    dropped = {d.workload: why for d in victims if (why := _over(was[d.workload], now.get(d.workload)))}
    standing = [d for d in victims if d.workload not in dropped]
    dropped |= _unstartable(starts, {d.workload for d in standing}, was, world)
    kept = [d for d in starts if d.workload not in dropped]
    gainers = {d.workload for d in kept}
    for d in standing:
        if d.victims_for and not gainers & set(d.victims_for):
            dropped[d.workload] = f"makes room for {', '.join(d.victims_for)}, which cannot start any more"
    preempt = tuple(now[d.workload] for d in standing if d.workload not in dropped)
    cleared = {p.node for w in preempt for p in w.placement}
    cleared |= {p.node for w in world.workloads if w.state == "stopping" for p in w.placement}
    start = tuple(
        Start(now[d.workload], d.placement, any(p.node in cleared for p in d.placement)) for d in kept
    )
    return Fresh(preempt, start, dropped)


def _over(was: Workload, now: Workload | None) -> str | None:
    """Return why a victim need not be stopped any more."""
    if now is None or now.state != "running":
        return "has left its nodes already"
    return None if now.started_s == was.started_s else "has begun another run"


def _unstartable(
    starts: list[Decision], victims: set[str], was: dict[str, Workload], world: World
) -> dict[str, str]:
    """Return the starts that cannot be carried out any more, and why."""
    now = {w.id: w for w in world.workloads}
    room = {n.name: n.gpus for c in world.clusters for n in c.nodes if n.state == "up"}
    for name, facts in world.nodes.items():
        if facts.failing or facts.kept:
            room.pop(name, None)
    taken = Counter[str]()
    for w in world.workloads:
        if w.id not in victims and w.state != "stopping":
            for part in w.placement:
                taken[part.node] += part.gpus
    out = {}
    for d in starts:
        why = _changed(was[d.workload], now.get(d.workload)) or _no_room(d, room, taken)
        if why:
            out[d.workload] = why
        else:
            taken.update(_parts(d))
    return out


def _changed(was: Workload, now: Workload | None) -> str | None:
    """Return why a workload is not the one that was planned."""
    if now is None:
        return "does not wait any more"
    if now.state != "pending":
        return f"is {now.state} already"
    same = (was.replicas, was.gpus_per_replica, was.allocation) == (
        now.replicas,
        now.gpus_per_replica,
        now.allocation,
    )
    return None if same else "asks for something else now"


def _no_room(d: Decision, room: dict[str, int], taken: Counter[str]) -> str | None:
    """Return which of its nodes cannot take a start any more."""
    lost = [p.node for p in d.placement if p.node not in room]
    if lost:
        return f"{fold(sorted(lost))} left service meanwhile"
    full = [node for node, gpus in _parts(d).items() if taken[node] + gpus > room[node]]
    return f"{fold(sorted(full))} was taken meanwhile" if full else None


def _parts(d: Decision) -> Counter[str]:
    """Return the GPUs that a start takes on each node."""
    gpus = Counter[str]()
    for p in d.placement:
        gpus[p.node] += p.gpus
    return gpus
