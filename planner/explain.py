"""Decisions to reasons: a stable code, and one or two sentences that a researcher understands."""

from __future__ import annotations

import numpy as np

from planner.encode import Encoded
from planner.hostlist import fold
from planner.model.plan import Reason
from planner.model.workload import Workload
from planner.units import format_duration, format_time
from solver.board import Parts
from solver.decide import Outcome
from solver.evidence import Evidence, ahead_of, evidence
from solver.feasible import Reject
from solver.promises import Moved
from solver.state import Action, NodeState

NAMED_AT_MOST = 3
"""Allocations, nodes or workloads named in one sentence; the rest is counted."""

MOVED = {
    Moved.NODE_LOST: "a node it was promised has left service",
    Moved.TAKEN: "protected work stands where it was promised",
    Moved.OVER_LIMIT: "its allocation is at its limit",
    Moved.BRAKED: "more would have to be preempted for it than the site allows in one round",
    Moved.MISFIT: "its promised place is no longer there, or no longer suits it",
}


def explain(encoded: Encoded, outcome: Outcome) -> list[Reason]:
    """Return the reason of every workload's decision, in the order of the state."""
    return _Explainer(encoded, outcome).all()


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:NAMED_AT_MOST])
    more = len(names) - NAMED_AT_MOST
    return f"{shown} and {more} more" if more > 0 else shown


class _Explainer:
    def __init__(self, encoded: Encoded, outcome: Outcome) -> None:
        self.state, self.names = encoded.state, encoded.names
        self.outcome, self.order, self.board = outcome, outcome.order, outcome.board
        self.known: dict[tuple[int, ...], Evidence] = {}
        self.gained: dict[int, list[int]] = {}
        for r, js in outcome.decisions.victims_for.items():
            for j in js:
                self.gained.setdefault(j, []).append(r)

    def all(self) -> list[Reason]:
        by_action = {
            Action.START: self._start,
            Action.KEEP: self._keep,
            Action.PREEMPT: self._preempt,
            Action.WAIT: self._wait,
            Action.REJECT: self._reject,
        }
        actions = self.outcome.decisions.action.tolist()
        return [by_action[Action(a)](j) for j, a in enumerate(actions)]

    # --- words ---------------------------------------------------------------------------------------------

    def _ratio(self, j: int) -> str:
        """Say how the allocation of `j` stands: its use over what it is entitled to."""
        leaf = int(self.state.workloads.leaf[j])
        return f"{self.names.workloads[j].allocation} ({self._leaf_ratio(leaf)} of its share)"

    def _leaf_ratio(self, leaf: int) -> str:
        b = self.state.budgets
        return f"{b.usage[leaf] / b.entitled[leaf]:.2f}" if b.entitled[leaf] else "no share"

    def _where(self, parts: Parts) -> str:
        nodes = [self.names.nodes[n].name for n, _ in sorted(parts)]
        return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes, {fold(nodes)}"

    def _shape(self, w: Workload) -> str:
        each = f"{w.gpus_per_replica} GPU" + ("s" if w.gpus_per_replica != 1 else "")
        return f"{w.replicas} x {each}" if w.replicas > 1 else each

    def _time(self, time_s: int) -> str:
        return format_time(time_s)

    # --- actions -------------------------------------------------------------------------------------------

    def _start(self, j: int) -> Reason:
        w, e = self.names.workloads[j], self.names.effective[j]
        text = f"starts on {self._where(self.board.starts[j])}"
        if e.allocated:
            text += f", protected for {format_duration(e.min_runtime_s)}"
        if j in self.gained:
            text += f"; {_some([self.names.workloads[r].id for r in self.gained[j]])} made room"
        if not e.allocated:
            return Reason("StartUnallocated", f"{text}; unallocated: free of charge, and first to make room")
        if j in self.outcome.book.met:
            return Reason("StartAsPromised", f"{text}; as it was promised")
        if j in self.outcome.lane:
            return Reason("StartInDebugLane", f"{text}; in the debug lane, ahead of the order")
        ratio = self._leaf_ratio(int(self.state.workloads.leaf[j]))
        return Reason("Start", f"{text}; {w.allocation} has had {ratio} of its share")

    def _keep(self, j: int) -> Reason:
        w, until_s = self.names.workloads[j], int(self.state.workloads.protected_until_s[j])
        if self.state.protected[j]:
            return Reason("Protected", f"inside its min runtime until {self._time(until_s)}")
        if not self.names.effective[j].allocated:
            return Reason("KeepUnallocated", "unallocated, and nobody allocated needs its GPUs now")
        return Reason(
            "KeepInterruptible",
            f"its min runtime is over; goes on, charged to {w.allocation}, "
            "as nobody who ranks before it needs its GPUs",
        )

    def _preempt(self, j: int) -> Reason:
        w = self.names.workloads[j]
        if w.state == "stopping":
            return Reason("Stopping", "already preempted, and still leaving its nodes")
        health = self.state.nodes.state
        sick = [n for n, _ in self.board.parts(j) if health[n] != NodeState.UP]
        if sick and j not in self.board.victims:
            return self._left_service(j, sick)
        gainers = self.outcome.decisions.victims_for.get(j, [])
        who = _some([f"{self.names.workloads[g].id} of {self._ratio(g)}" for g in gainers])
        mine = "it is unallocated" if not self.names.effective[j].allocated else f"it is of {self._ratio(j)}"
        again = "requeued with its progress" if w.resumable else "it is not resumable and starts over"
        return Reason("MadeRoom", f"makes room for {who}; {mine} and past its min runtime; {again}")

    def _left_service(self, j: int, sick: list[int]) -> Reason:
        down = [n for n in sick if self.state.nodes.state[n] == NodeState.DOWN]
        names = _some([self.names.nodes[n].name for n in (down or sick)])
        if not down:
            return Reason("NodeDraining", f"{names} is draining and nothing protects it any more; requeued")
        promised = self.outcome.book.start_s.get(j)
        when = f", promised a start at {self._time(promised)}" if promised is not None else ""
        return Reason("NodeDown", f"{names} is down; the whole gang is requeued{when}")

    def _reject(self, j: int) -> Reason:
        w = self.names.workloads[j]
        code = Reject(int(self.outcome.rejected[j]))
        known = sorted({t for _, t in self.names.pools if t})
        level = w.topology.required or "cluster"
        nodes = self.state.nodes
        texts = {
            Reject.UNKNOWN_ALLOCATION: f"{w.allocation!r} is not an allocation of this site; "
            "ask whoever keeps the budgets",
            Reject.UNKNOWN_LEVEL: f"no cluster has the level {level!r}; "
            f"levels here: {', '.join((*self.names.levels, 'node'))}",
            Reject.NO_SUCH_POOL: f"no node has GPU type {', '.join(w.gpu_types) or 'any'} on cluster "
            f"{', '.join(w.clusters) or 'any'}; types here: {', '.join(known) or 'none named'}",
            Reject.BROKEN_SEGMENTS: f"{w.replicas} replicas are no multiple of segment {w.topology.segment}",
            Reject.OVER_LIMIT: f"{w.gpus} GPUs are more than the limit of {w.allocation} or of one above",
            Reject.REPLICA_TOO_LARGE: f"no node it accepts holds a replica of {w.gpus_per_replica} GPUs, "
            f"CPUs and memory (the largest has {int(nodes.gpus.max(initial=0))} GPUs)",
            Reject.TOO_LARGE: f"no {level} can hold {self._shape(w)}, even empty and healthy "
            f"(the largest has {self._largest(w)} GPUs that it could use)",
        }
        return Reason(_camel(code.name), f"can never run here: {texts[code]}")

    def _largest(self, w: Workload) -> int:
        j = self.names.index[w.id]
        nodes = self.state.nodes
        ok = self.state.workloads.pool_ok[j][nodes.pool]
        required = int(self.state.workloads.required[j])
        key = nodes.domain[required] if required >= 0 else nodes.pool
        inside = ok & (key >= 0)
        if w.topology.required == "node":
            return int(nodes.gpus[ok].max(initial=0))
        return int(np.bincount(key[inside], nodes.gpus[inside]).max(initial=0)) if inside.any() else 0

    # --- waiting -------------------------------------------------------------------------------------------

    def _wait(self, j: int) -> Reason:
        book = self.outcome.book
        moved = book.moved.get(j)
        if j in book.start_s:
            text = f"is promised a start at {self._time(book.start_s[j])} on {self._where(book.parts[j])}"
            if moved is not None:
                return Reason("PromiseMoved", f"{text}: later than it was promised, because {MOVED[moved]}")
            return Reason("Promised", text)
        reason = self._why(j)
        if moved is not None:
            return Reason(reason.code, f"later than it was promised, because {MOVED[moved]}; {reason.text}")
        return reason

    def _why(self, j: int) -> Reason:
        w = self.names.workloads[j]
        limit = self._limit(j)
        if limit:
            return Reason("AtLimit", limit)
        e = self._evidence(j)
        if not self.names.effective[j].allocated:
            return Reason(
                "NoFreeGpus",
                f"unallocated work runs only where nothing allocated needs to: it asks for {self._shape(w)}, "
                f"and {self._free(w, e)}. A min runtime would give it a claim, charged to its allocation",
            )
        if e.fits_empty < w.replicas:
            return Reason("TooFewHealthyNodes", self._unhealthy(w, e))
        if e.fits_unprotected < w.replicas:
            return Reason("Protected", self._protected(j, w, e))
        if not self.order.in_money[j] or e.fits_now < w.replicas:
            code = "RanksBehind" if e.free_gpus < w.gpus else "Fragmented"
            return Reason(code, f"{self._behind(j)}. {self._fits(w, e)}. {self._hint(w, e)}".rstrip())
        return Reason(
            "Held", f"{self._fits(w, e)}, but those GPUs are promised to others before it would be done"
        )

    def _evidence(self, j: int) -> Evidence:
        w = self.state.workloads
        key = (
            int(w.replicas[j]), int(w.gpus_per_replica[j]), int(w.cpus_milli[j]), int(w.memory_bytes[j]),
            int(w.required[j]), int(w.segment[j]), int(w.min_runtime_s[j]), int(self.order.band[j]),
            *w.pool_ok[j].tolist(),
        )  # fmt: skip
        if key not in self.known:
            self.known[key] = evidence(self.board, j)
        return self.known[key]

    def _limit(self, j: int) -> str | None:
        b, w = self.state.budgets, self.names.workloads[j]
        for v in b.path(int(self.state.workloads.leaf[j])):
            held, limit = int(self.board.held_gpus[v]), int(b.limit_gpus[v])
            if 0 <= limit < held + w.gpus:
                return (
                    f"{self.names.budgets[v]} holds {held} GPUs and its limit is {limit}: {self._shape(w)} "
                    "more would pass it. It starts when work under that limit ends, or if the limit is raised"
                )
        return None

    def _behind(self, j: int) -> str:
        ahead = ahead_of(self.board, j)
        who = _some([f"{self.names.budgets[v]} ({self._leaf_ratio(v)}; {g} GPUs)" for v, g in ahead])
        place, count = int(self.order.position[j]) + 1, len(self.order.sequence)
        mine = f"{self._ratio(j)} is number {place} of {count} in the order"
        return f"{mine}, after {who}" if who else mine

    def _free(self, w: Workload, e: Evidence) -> str:
        if not e.free_gpus:
            return "no GPU that it may use is free"
        each = "has" if e.holes == 1 else "have"
        text = f"{e.free_gpus} GPUs that it may use are free"
        if e.holes:
            text += f", of which {e.holes} node{'s' if e.holes > 1 else ''} {each} too few for one replica"
        if w.replicas > 1:
            text += f"; room for {e.fits_now} of {w.replicas} replicas"
        return f"{text} (the most on one node: {e.largest_hole})"

    def _fits(self, w: Workload, e: Evidence) -> str:
        where = f"in one {w.topology.required}" if w.topology.required else "in one cluster"
        return f"It needs {self._shape(w)} {where}; {self._free(w, e)}"

    def _unhealthy(self, w: Workload, e: Evidence) -> str:
        level = w.topology.required or "cluster"
        return (
            f"needs {self._shape(w)} of one GPU type in one {level}; the healthy nodes of none hold more "
            f"than {e.fits_empty} of {w.replicas} replicas. It can start when nodes come back into service"
        )

    def _protected(self, j: int, w: Workload, e: Evidence) -> str:
        level = w.topology.required or "cluster"
        text = (
            f"needs {self._shape(w)} in one {level}; {self._group_name(e, level)} comes closest, with room "
            f"for {e.fits_unprotected} of {w.replicas} replicas beside {e.protected_gpus} protected GPUs"
        )
        start_s = int(self.outcome.expected_start_s[j])
        if start_s >= 0:
            text += f"; enough of that ends by {self._time(start_s)}"
        hint = self._hint(w, e)
        return f"{text}. {hint}" if hint else text

    def _group_name(self, e: Evidence, level: str) -> str:
        if not len(e.group):
            return f"no {level}"
        n = int(e.group[0])
        cluster, node = self.names.node_cluster[n], self.names.nodes[n]
        if level == "node":
            return node.name
        if level in cluster.levels:
            return f"{level} {'/'.join(node.location[: cluster.levels.index(level) + 1])}"
        return cluster.name

    def _hint(self, w: Workload, e: Evidence) -> str:
        if e.anywhere:
            return f"It would fit now if it did not need a single {w.topology.required}"
        if w.replicas > 1 and e.fits_now:
            return f"{e.fits_now} replicas would fit now"
        return ""


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
