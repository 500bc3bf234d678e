"""Decisions to reasons: a stable code, and one or two sentences that a researcher understands."""

from __future__ import annotations

import numpy as np

from planner.encode import Encoded
from planner.hostlist import fold
from planner.model.plan import Reason
from planner.model.workload import Workload
from planner.prospects import Prospects
from planner.refusals import refusal, shape
from planner.units import format_duration, format_time
from planner.words import count, some
from solver.board import Parts
from solver.decide import Outcome
from solver.evidence import Evidence, ahead_of, evidence, rivals
from solver.feasible import Reject
from solver.placing import choose
from solver.promises import Moved
from solver.state import FOREVER_S, Action, NodeState

NO_SHARE = "no share"

MOVED = {
    Moved.NODE_LOST: "a node it was promised has left service",
    Moved.TAKEN: "protected work stands where it was promised",
    Moved.OVER_LIMIT: "its allocation is at its limit",
    Moved.BRAKED: "no more may be preempted for it in this round",
    Moved.BEYOND_BRAKE: "more would have to be preempted for it than the site allows in one round",
    Moved.STILL_LEAVING: "it has not left its nodes yet",
    Moved.MISFIT: "its promised place is no longer there, or no longer suits it",
}


def explain(encoded: Encoded, outcome: Outcome) -> list[Reason]:
    """Return the reason of every workload's decision, in the order of the state."""
    return _Explainer(encoded, outcome).all()


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


class _Explainer:
    def __init__(self, encoded: Encoded, outcome: Outcome) -> None:
        self.state, self.names, self.contract = encoded.state, encoded.names, encoded.contract
        self.outcome, self.order, self.board = outcome, outcome.order, outcome.board
        self.prospects = Prospects(encoded.names, outcome.board)
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
        """Name the allocation of `j`, and how it stands: its use over what it is entitled to."""
        leaf, name = int(self.state.workloads.leaf[j]), self.names.workloads[j].allocation
        if leaf < 0:
            return f"{name} (no allocation of this site)"
        ratio = self._leaf_ratio(leaf)
        return f"{name} ({ratio})" if ratio == NO_SHARE else f"{name} ({ratio} of its share)"

    def _leaf_ratio(self, leaf: int) -> str:
        b = self.state.budgets
        return f"{b.usage[leaf] / b.entitled[leaf]:.2f}" if b.entitled[leaf] else NO_SHARE

    def _where(self, parts: Parts) -> str:
        nodes = [self.names.nodes[n].name for n, _ in sorted(parts)]
        return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes, {fold(nodes)}"

    def _time(self, time_s: int) -> str:
        return format_time(time_s)

    def _again(self, w: Workload) -> str:
        return "requeued with its progress" if w.resumable else "it is not resumable and starts over"

    # --- actions -------------------------------------------------------------------------------------------

    def _start(self, j: int) -> Reason:
        w, e = self.names.workloads[j], self.names.effective[j]
        text = f"starts on {self._where(self.board.starts[j])}"
        if e.allocated:
            text += f", protected for {format_duration(e.min_runtime_s)}"
        if j in self.gained:
            text += f"; {some([self.names.workloads[r].id for r in self.gained[j]])} made room"
        if not e.allocated:
            return Reason("StartUnallocated", f"{text}; unallocated: free of charge, and first to make room")
        if j in self.outcome.book.met and j not in self.outcome.book.moved:
            return Reason("StartAsPromised", f"{text}; as it was promised")
        if j in self.outcome.lane:
            return Reason("StartInDebugLane", f"{text}; in the debug lane, ahead of the order")
        ratio = self._leaf_ratio(int(self.state.workloads.leaf[j]))
        had = f"has {ratio}" if ratio == NO_SHARE else f"has had {ratio} of its share"
        return Reason("Start", f"{text}; {w.allocation} {had}")

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
            moved = self.outcome.book.moved.get(j)
            text = "already preempted, and still leaving its nodes"
            if j in self.board.promised:
                text += f"; promised a start at {self._time(self.board.promised[j][0])}"
            if moved is not None:
                text += f", later than before, because {self._moved(j, moved)}"
            return Reason("Stopping", text)
        health = self.state.nodes.state
        sick = [n for n, _ in self.board.parts(j) if health[n] != NodeState.UP]
        if sick and j not in self.board.victims:
            return self._left_service(j, sick)
        gainers = self.outcome.decisions.victims_for.get(j, [])
        who = some([f"{self.names.workloads[g].id} of {self._ratio(g)}" for g in gainers])
        mine = "it is unallocated"
        if self.names.effective[j].allocated:
            mine = f"it is of {self._ratio(j)} and past its min runtime"
        return Reason("MadeRoom", f"makes room for {who}; {mine}; {self._again(w)}")

    def _left_service(self, j: int, sick: list[int]) -> Reason:
        w = self.names.workloads[j]
        down = [n for n in sick if self.state.nodes.down[n]]
        names = some([self.names.nodes[n].name for n in (down or sick)])
        are = _are(len(down or sick))
        if not down:
            text = f"{names} {are} draining and nothing protects it any more; {self._again(w)}"
            return Reason("NodeDraining", text)
        promised = self.board.promised.get(j)
        when = "" if promised is None else f", promised a start at {self._time(promised[0])}"
        return Reason("NodeDown", f"{names} {are} down; the whole gang is requeued{when}; {self._again(w)}")

    def _reject(self, j: int) -> Reason:
        code = Reject(int(self.outcome.rejected[j]))
        return Reason(_camel(code.name), f"can never run here: {refusal(self.board, self.names, j, code)}")

    # --- waiting -------------------------------------------------------------------------------------------

    def _wait(self, j: int) -> Reason:
        moved = self.outcome.book.moved.get(j)
        if j in self.board.promised:
            start_s, parts = self.board.promised[j]
            text = f"is promised a start at {self._time(start_s)} on {self._where(parts)}"
            text += self.prospects.domain(j, parts)
            if moved is None:
                text += self.prospects.until_then(j, start_s, parts)
                return Reason("Promised", text + self.prospects.if_it_asked_for_less(j, start_s))
            old_s, place = self._promised_before(j)
            if (start_s, sorted(parts)) == (old_s, place):
                why = self._moved(j, moved)
                return Reason("Promised", f"{text}, as before; it cannot start yet, because {why}")
            later = "later than" if start_s > old_s else "no longer where"
            was = f"{later} it was promised ({self._time(old_s)})"
            return Reason("PromiseMoved", f"{text}: {was}, because {self._moved(j, moved)}")
        reason = self._why(j)
        if moved is not None:
            why = self._moved(j, moved)
            return Reason("PromiseLost", f"later than it was promised, because {why}; {reason.text}")
        return reason

    def _promised_before(self, j: int) -> tuple[int, Parts]:
        """Return the start that the previous plan promised, and its place by node."""
        promises = self.state.promises
        i = int(np.flatnonzero(promises.workload == j)[0])
        part = promises.placement.part(i)
        place = zip(
            promises.placement.node[part].tolist(), promises.placement.replicas[part].tolist(), strict=True
        )
        return int(promises.start_s[i]), sorted(place)

    def _moved(self, j: int, moved: Moved) -> str:
        """Say why a promise was not kept as it was."""
        if moved == Moved.MISFIT and not self.names.effective[j].allocated:
            return "it is unallocated now, and only allocated work is promised a start"
        if moved == Moved.TAKEN:
            others = rivals(self.board, j, *self._promised_before(j), self.outcome.book.met)
            if others:
                ids = some([self.names.workloads[i].id for i in others])
                return f"its place is promised to {ids} at that time"
        return MOVED[moved]

    def _why(self, j: int) -> Reason:
        w = self.names.workloads[j]
        limit = self._limit(j)
        if limit:
            return Reason("AtLimit", limit)
        e = self._evidence(j)
        if not self.names.effective[j].allocated:
            text = "unallocated work runs only where nothing allocated needs to: it asks for "
            text += f"{shape(w)}, and {self._free(w, e)}"
            if self.state.budgets.entitled[self.state.workloads.leaf[j]]:
                text += ". A min runtime would give it a claim, charged to its allocation"
            return Reason("NoFreeGpus", text)
        if e.fits_empty < w.replicas:
            return self._too_few(j, w, e)
        if e.fits_unprotected < w.replicas:
            return Reason("Protected", self._protected(j, w, e))
        held = self._held(j)
        if held:
            return Reason("Held", held)
        code = "RanksBehind" if e.free_gpus < w.gpus else "Fragmented"
        return Reason(code, f"{self._behind(j)}. {self._fits(w, e)}. {self._hint(w, e)}".rstrip())

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
        b, board, w = self.state.budgets, self.board, self.names.workloads[j]
        for v in b.path(int(self.state.workloads.leaf[j])) if w.gpus else ():
            limit, held, before = (int(x[v]) for x in (b.limit_gpus, board.held_gpus, board.held_before))
            if limit < 0:
                continue
            promised = limit - held - board.limit_left(v, j)
            if max(before, held + promised + w.gpus) <= limit:
                continue
            has, more = f"holds {count(held, 'GPU')}", f"{shape(w)} more would pass it"
            if before > limit:
                has, more = f"holds {count(before, 'GPU')}", "beyond it nothing starts"
            elif promised:
                has += f", is promised {promised}"
            return (
                f"{self.names.budgets[v]} {has} and its limit is {limit}: {more}. "
                "It starts when work under that limit ends, or if the limit is raised"
            )
        return None

    def _held(self, j: int) -> str | None:
        """Say where it would fit if nothing were held for promises; None where that is not the reason."""
        board, w, now_s = self.board, self.state.workloads, self.state.now_s
        free = board.slots(j, board.free_gpus, board.free_cpus, board.free_memory)
        free[~(board.usable & w.pool_ok[j][self.state.nodes.pool])] = 0
        parts = choose(board, j, free)
        until_s = min((int(board.hold_s[n]) for n, _ in parts or ()), default=FOREVER_S)
        if parts is None or until_s == FOREVER_S:
            return None
        own = format_duration(int(w.min_runtime_s[j]))
        text = f"would fit on {self._where(parts)}, but that is promised to others from "
        text += f"{self._time(until_s)} on, before its min runtime of {own} would end"
        if until_s - now_s >= max(self.contract.min_min_runtime_s, 1):
            text += f". With a min runtime of at most {format_duration(until_s - now_s)} it could start now"
        return text

    def _behind(self, j: int) -> str:
        """Say who ranks before it and stands; where nobody does, who holds what it could use."""
        w, order = self.state.workloads, self.order
        ahead = ahead_of(self.board, j)
        named = [f"{self.names.budgets[v]} ({self._leaf_ratio(v)}; {count(g, 'GPU')})" for v, g in ahead]
        before = order.sequence[: int(order.position[j])]
        own = int(w.gpus[before[self.board.standing[before] & (w.leaf[before] == w.leaf[j])]].sum())
        who = [some(named)] if named else []
        who += [f"{count(own, 'GPU')} of its own"] if own else []
        place = int(order.position[j]) + 1
        mine = f"{self._ratio(j)} is number {place} of {len(order.sequence)} in the order"
        if who:
            return f"{mine}, after {' and '.join(who)}"
        return f"{mine}. The GPUs that it may use: {self._census(j)}"

    def _census(self, j: int) -> str:
        """Say what the work does that holds the GPUs which `j` may use."""
        board, w, state = self.board, self.state.workloads, self.state
        mine = board.usable & w.pool_ok[j][state.nodes.pool]
        gpus = dict.fromkeys(("protected", "leaving", "ahead", "given", "filled", "behind"), 0)
        for r in np.flatnonzero(board.standing).tolist():
            kind = "protected" if state.protected[r] else "ahead" if r in board.ahead else "behind"
            if kind == "behind" and r in board.starts:
                kind = "given" if w.allocated[r] else "filled"
            kind = "leaving" if w.stopping[r] else kind
            gpus[kind] += sum(k for n, k in board.parts(r) if mine[n]) * int(w.gpus_per_replica[r])
        words = {
            "protected": "{} protected",
            "leaving": "{} that preempted work has not left yet",
            "ahead": "{} given out ahead of the order, to debug work and promises",
            "given": "{} given to what ranks behind it, and is worth more in all",
            "filled": "{} filled with unallocated work as long as it does not fit",
            "behind": "{} with work that ranks behind it, but too closely or too dear to make room",
        }
        most = state.policy.max_preempted_gpus
        if most >= 0:
            words["behind"] = f"{{}} with work that ranks behind it, of which a round preempts {most} at most"
        found = [text.format(gpus[kind]) for kind, text in words.items() if gpus[kind]]
        return ", ".join(found) or "none is taken"

    def _free(self, w: Workload, e: Evidence) -> str:
        room = f"room for {e.fits_now} of {count(w.replicas, 'replica')}"
        if not w.gpus_per_replica:
            return f"there is {room}"
        if not e.free_gpus:
            return "no GPU that it may use is free"
        text = f"{count(e.free_gpus, 'GPU')} that it may use {_are(e.free_gpus)} free"
        if e.holes:
            have = "has" if e.holes == 1 else "have"
            text += f", {count(e.holes, 'node')} {have} too little for one replica"
        if w.replicas > 1:
            text += f", {room}"
        return f"{text} (the most on one node: {count(e.largest_hole, 'GPU')})"

    def _inside(self, w: Workload) -> str:
        """Say where a gang must stay together."""
        if not w.topology.required:
            return "in one cluster"
        if w.topology.segment and w.topology.segment < w.replicas:
            return f"in segments of {w.topology.segment} in one {w.topology.required} each"
        return f"in one {w.topology.required}"

    def _fits(self, w: Workload, e: Evidence) -> str:
        return f"It needs {shape(w)} {self._inside(w)}; {self._free(w, e)}"

    def _too_few(self, j: int, w: Workload, e: Evidence) -> Reason:
        """Say that even empty, healthy nodes of one GPU type do not hold it."""
        text = f"needs {shape(w)} of one GPU type {self._inside(w)}; healthy nodes hold at most "
        text += f"{e.fits_empty} of {count(w.replicas, 'replica')}"
        mine = self.state.workloads.pool_ok[j][self.state.nodes.pool]
        if (self.state.nodes.up[mine]).all():
            mend = "it can start with fewer replicas, or when one type has more nodes"
            return Reason("OneTypeTooSmall", f"{text}. A gang never mixes GPU types: {mend}")
        return Reason("TooFewHealthyNodes", f"{text}. It can start when nodes come back into service")

    def _protected(self, j: int, w: Workload, e: Evidence) -> str:
        cut = w.topology.segment and w.topology.segment < w.replicas
        best = "the cluster" if cut else self._group_name(e, w.topology.required or "cluster")
        text = (
            f"needs {shape(w)} {self._inside(w)}; {best} comes closest, with room "
            f"for {e.fits_unprotected} of {count(w.replicas, 'replica')} beside {self._keepers(e)}"
        )
        start_s = int(self.outcome.expected_start_s[j])
        if start_s >= 0:
            text += (
                f". With what ranks before it, and promises, it is expected to start at {self._time(start_s)}"
            )
            text += self.prospects.if_it_asked_for_less(j, start_s)
        hint = self._hint(w, e)
        return f"{text}. {hint}" if hint else text

    def _keepers(self, e: Evidence) -> str:
        """Say what cannot be moved from a group of nodes, and until when."""
        w = self.state.workloads
        inside = self.board.owner[np.isin(w.placement.node, e.group)]
        ends_s = int(w.protected_until_s[inside[self.state.protected[inside]]].max(initial=0))
        if not ends_s:
            return "work that is still leaving its nodes"
        what = count(e.protected_gpus, "GPU") if e.protected_gpus else "work without GPUs"
        return f"{what} protected until {self._time(ends_s)} at the latest"

    def _group_name(self, e: Evidence, level: str) -> str:
        if not len(e.group):
            return f"no {level}"
        n = int(e.group[0])
        cluster, node = self.names.node_cluster[n], self.names.nodes[n]
        name = cluster.name
        if level in cluster.levels:
            name = f"{level} {'/'.join(node.location[: cluster.levels.index(level) + 1])}"
        mixed = sum(c == cluster.name for c, _ in self.names.pools) > 1
        return f"{name} ({node.gpu_type or 'no type'})" if mixed else name

    def _hint(self, w: Workload, e: Evidence) -> str:
        if e.anywhere:
            return f"It would fit now if it did not need a single {w.topology.required}"
        if w.replicas > e.fits_now > 0:
            return f"{count(e.fits_now, 'replica')} would fit now"
        return ""


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
