"""Rounds for policies from the worlds of `tests.solver.factories`, one after another, without the engine.

policy = Fifo(setting_of(world))
verdict = policy.decide(Round(world, everybody(world)))
world = after(world, verdict, 60)       # what started runs, victims wait, a minute has passed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from planner.model.site import Site
from planner.simulation.policies.base import Policy, Round, Setting, Verdict
from planner.simulation.trace import UNSAID, Trace
from solver.plan import Decisions
from solver.state import Action, Spread, State, Status


def setting_of(
    world: State,
    shares: Mapping[str, float] | None = None,
    users: Sequence[str] = (),
    seed: int = 0,
) -> Setting:
    """Return what a policy may know of a world whose workloads are the rows of the trace, in order."""
    w = world.workloads
    none, text = np.zeros(w.count, dtype=np.int64), ("",) * w.count
    trace = Trace(
        id=tuple(f"w{j}" for j in range(w.count)),
        allocation=text,
        user=tuple(users) or text,
        submitted_s=w.submitted_s.copy(),
        replicas=w.replicas,
        gpus_per_replica=w.gpus_per_replica,
        runtime_s=none,
        min_runtime_s=w.min_runtime_s,
        time_limit_s=none + UNSAID,
        cancelled_after_s=none + UNSAID,
        resumable=w.resumable,
        priority=w.priority,
        gpu_types=((),) * w.count,
        topology_required=(None,) * w.count,
        topology_preferred=(None,) * w.count,
        segment=w.segment,
        cpus_milli_per_replica=w.cpus_milli,
        memory_bytes_per_replica=w.memory_bytes,
        gpu_utilization=np.full(w.count, np.nan),
    )
    return Setting(Site(()), trace, 60, paths_of(world, shares), seed)


def paths_of(world: State, shares: Mapping[str, float] | None) -> tuple[str, ...]:
    """Return the path of each budget tree node of a world made with these shares."""
    if shares is None:
        return ("", *(f"b{v}" for v in range(1, world.budgets.count)))
    paths = {"": None}
    for path in shares:
        parts = path.split("/")
        paths |= {"/".join(parts[: depth + 1]): None for depth in range(len(parts))}
    return tuple(paths)


def everybody(world: State) -> np.ndarray:
    """Return the row of each workload: the trace holds them in the same order."""
    return np.arange(world.workloads.count)


def decide(policy: Policy, world: State) -> Verdict:
    """Have one round decided."""
    return policy.decide(Round(world, everybody(world)))


def after(world: State, verdict: Verdict, seconds: int, over: Sequence[int] = ()) -> State:
    """Return the world `seconds` after a verdict; what is `over` waits for nothing and runs no more."""
    w, board = world.workloads, verdict.board
    status, started, until = w.status.copy(), w.started_s.copy(), w.protected_until_s.copy()
    parts = [board.parts(j) if board.standing[j] else [] for j in range(w.count)]
    for j in board.starts:
        status[j], started[j] = Status.RUNNING, world.now_s
        until[j] = world.now_s + w.min_runtime_s[j] if w.allocated[j] else 0
    for j in np.flatnonzero((w.status == Status.RUNNING) & ~board.standing).tolist():
        status[j], started[j], until[j] = Status.PENDING, 0, 0
    leaf = w.leaf.copy()
    for j in over:
        status[j], leaf[j], parts[j] = Status.PENDING, -1, []
    spread = Spread.of(
        [[(n, k * int(w.gpus_per_replica[j]), k) for n, k in parts[j]] for j in range(w.count)]
    )
    workloads = replace(
        w, status=status, started_s=started, protected_until_s=until, placement=spread, leaf=leaf
    )
    return replace(world, workloads=workloads, now_s=world.now_s + seconds)


def plan_of(world: State, verdict: Verdict) -> Decisions:
    """Return a verdict as the plan that the rules of `solver.check` judge."""
    w, board = world.workloads, verdict.board
    usual = {Status.PENDING: Action.WAIT, Status.RUNNING: Action.KEEP, Status.STOPPING: Action.PREEMPT}
    action = np.array([usual[Status(s)] for s in w.status.tolist()], dtype=np.int64)
    action[list(board.starts)] = Action.START
    action[(w.status == Status.RUNNING) & ~board.standing] = Action.PREEMPT
    none = np.zeros(0, dtype=np.int64)
    gainers = {r: board.gainers(r) for r in board.victims}
    return Decisions(action, board.spread(), gainers, none, none, Spread.of([]))
