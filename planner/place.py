"""Placing one new workload against a standing plan, in milliseconds: for schedulers that embed gangplan.

standing = Standing(site, snapshot, plan)
result = standing.place(workload)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from planner.contract import effective
from planner.encode import accounts_of, encode, encode_one
from planner.errors import InputError
from planner.model.budget import leaf_shares
from planner.model.plan import ActionName, Decision, Plan, Reason
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.model.workload import Placement, Workload
from planner.refusals import refusal, shape
from planner.strangers import broken_gangs, overfull, strangers
from planner.units import format_duration, format_time
from solver.board import Board, Parts
from solver.evidence import lost_gpu_s
from solver.feasible import Reject, candidates, rejections
from solver.hotpath import Placed, place, with_last
from solver.shares import rank
from solver.state import State

SPARE = "\U0010ffff"
"""Id of the spare workload: sorts after every other."""


@dataclass(frozen=True)
class Result:
    """The decision on the new workload, and on those that make room for it."""

    decision: Decision
    preempted: tuple[Decision, ...]


def after(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Return the world as a plan leaves it: its starts run, its victims have left, its promises stand.

    What the snapshot says runs already, runs where the snapshot says.

    Raises
    ------
    InputError
        The plan is not of this snapshot, or it cannot be carried out.
    """
    _refuse(plan, [*strangers(snapshot, plan), *broken_gangs(snapshot, plan)])
    decisions = {d.workload: d for d in plan.decisions}
    workloads = []
    for w in snapshot.workloads:
        d = decisions[w.id]
        if d.action == "start" and w.state == "pending":
            w = replace(
                w, state="running", started_s=plan.time_s, placement=d.placement, occupancy=d.occupancy
            )
        elif d.action == "preempt" and w.state == "running":
            w = replace(w, state="pending", started_s=None, placement=(), occupancy=None)
        workloads.append(w)
    time_s = max(plan.time_s, snapshot.time_s)
    left = replace(snapshot, time_s=time_s, workloads=tuple(workloads), reservations=plan.reservations)
    _refuse(plan, overfull(left))
    return left


def _refuse(plan: Plan, faults: list[str]) -> None:
    when = format_time(plan.time_s)
    if faults:
        raise InputError([f"the plan of {when}: {fault}, plan this snapshot first" for fault in faults])


def standing_board(state: State) -> Board:
    """Return the board of a state as it stands between rounds: interruptible work ranked, promises held."""
    ranked = candidates(state)
    board = Board(state, rank(state, ranked[state.workloads.running[ranked]], state.workloads.running))
    p = state.promises
    for i, (j, start_s) in enumerate(zip(p.workload.tolist(), p.start_s.tolist(), strict=True)):
        part = p.placement.part(i)
        nodes, replicas = p.placement.node[part].tolist(), p.placement.replicas[part].tolist()
        board.promise(j, start_s, list(zip(nodes, replicas, strict=True)))
    return board


class Standing:
    """A standing plan, kept ready: each `place` answers as if its workload were the only new one.

    Raises
    ------
    InputError
        The plan is not of this snapshot.
    """

    def __init__(self, site: Site, snapshot: Snapshot, plan: Plan) -> None:
        self.site, self.shares = site, leaf_shares(site.budgets)
        self.aliases = accounts_of(site)
        world = after(snapshot, plan)
        spare = Workload(SPARE, next(iter(self.shares)), 1, 0, world.time_s, "pending", min_runtime_s=0)
        encoded = encode(site, replace(world, workloads=(*world.workloads, spare)))
        self.state, self.names = encoded.state, encoded.names
        self.board = standing_board(self.state)

    def place(self, workload: Workload) -> Result:
        """Decide on one new pending workload; nothing that the plan protects or promises is touched."""
        if workload.id in self.names.index:
            raise InputError([f"{workload.id}: is in the snapshot already, give the new workload its own id"])
        if workload.allocation not in self.shares:
            workload = replace(
                workload, allocation=self.aliases.get(workload.allocation, workload.allocation)
            )
        terms = effective(workload, self.site.contract, self.shares.get(workload.allocation, Fraction(1)))
        names = replace(
            self.names,
            workloads=(*self.names.workloads[:-1], workload),
            effective=(*self.names.effective[:-1], terms),
        )
        state = with_last(self.state, encode_one(self.names, workload, terms, self.shares))
        j = state.workloads.count - 1
        refused = Reject(int(rejections(state, np.array([j]))[j]))
        if refused != Reject.NO:
            board = self.board.copy()
            board.state = state
            why = f"can never run here: {refusal(board, names, j, refused)}"
            return Result(self._decision(workload, "reject", Reason("Rejected", why)), ())
        return self._result(workload, terms.min_runtime_s, place(self.board, state))

    def _result(self, w: Workload, min_runtime_s: int, placed: Placed) -> Result:
        names, board = self.names, placed.board
        if placed.parts is None:
            text = (
                f"{shape(w)} do not fit beside the standing plan without breaking it; the next round decides"
            )
            return Result(self._decision(w, "wait", Reason("NextRound", text)), ())
        text = f"starts on {', '.join(names.nodes[n].name for n, _ in sorted(placed.parts))}"
        if min_runtime_s:
            text += f", protected for {format_duration(min_runtime_s)}"
        code = "StartInDebugLane" if placed.in_lane else "Start" if min_runtime_s else "StartUnallocated"
        start = replace(
            self._decision(w, "start", Reason(code, text)),
            occupancy="allocated" if min_runtime_s else "unallocated",
            placement=self._placement(w, placed.parts),
            protected_until_s=board.state.now_s + min_runtime_s if min_runtime_s else None,
        )
        victims = []
        for r in placed.victims:
            reason = Reason("MadeRoom", f"makes room for {w.id} of {w.allocation}")
            lost = lost_gpu_s(board, r) / 3600
            told = self._decision(names.workloads[r], "preempt", reason)
            victims.append(replace(told, victims_for=(w.id,), lost_gpu_hours=lost))
        return Result(start, tuple(victims))

    def _placement(self, w: Workload, parts: Parts) -> tuple[Placement, ...]:
        each, nodes = w.gpus_per_replica, self.names.nodes
        return tuple(
            Placement(nodes[n].name, k * each)
            for n, reps in sorted(parts)
            for k in ([reps] if each else [1] * reps)  # without GPUs each entry is one replica
        )

    def _decision(self, w: Workload, action: ActionName, reason: Reason) -> Decision:
        return Decision(w.id, action, reason, w.allocation, w.gpus)
