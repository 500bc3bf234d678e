"""The world that a simulation moves: who waits, who runs where, which nodes are well, who has used what.

The trace is encoded once, by the same code as a snapshot. A round's state is cut out of those arrays, so that
one implementation of every rule serves the planner and the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from itertools import chain

import numpy as np

from planner.encode import encode, lane_gpus
from planner.errors import InputError
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.model.workload import Topology, Workload
from planner.overdraft import IDLE
from planner.simulation.history import Inventory, Terms
from planner.simulation.policies.base import Round
from planner.simulation.trace import UNSAID, Trace
from planner.simulation.usage import Usage
from solver.board import Parts
from solver.feasible import Reject, rejections
from solver.state import Ints, NodeState, Promises, Spread, State, Status, Workloads


class Phase(IntEnum):
    """Where a workload of the trace is in its life."""

    AHEAD = 0
    PENDING = 1
    RUNNING = 2
    OVER = 3


@dataclass
class Run:
    """A gang at work: where, since when, and as the how manieth of its runs."""

    started_s: int
    nodes: list[int]
    gpus: list[int]
    replicas: list[int]


class World:
    """Every workload of the trace by id, the nodes and the budgets, as the clock goes on.

    Attributes
    ----------
    row : int64[W]
        Row in the trace of each workload; `position` is its inverse.
    phase : int8[W], `Phase`
    progress_s : int64[W], seconds of work done and kept, of the present run nothing
    starts : int64[W], runs begun so far
    runs : dict of int to Run
        By workload.
    refused : bool[W]
        Can never run here.
    warnings : tuple of str
        What of site and trace was changed or does nothing.
    promises : dict of int to (int, Parts)
        Promised start, epoch seconds of the trace, and place by workload.
    """

    def __init__(self, site: Site, trace: Trace, period_s: int) -> None:
        if not site.clusters:
            raise InputError(["the site file lists no clusters, a simulation needs their inventory"])
        fair = site.fair_share
        plain = replace(
            site, fair_share=replace(fair, carry_overdraft=False)
        )  # carried without a ledger here
        encoded = encode(plain, Snapshot(0, site.clusters, _workloads(trace)))
        self.site, self.names, self.warnings = site, encoded.names, encoded.warnings
        if fair.carry_overdraft and fair.lookback.half_life_s is not None:
            self.warnings += (IDLE,)
        self._bare = encoded.state
        self.jobs, self.nodes = encoded.state.workloads, encoded.state.nodes
        self.budgets = encoded.state.budgets
        self.policy = replace(encoded.state.policy, due_s=period_s)
        self.position = np.array([self.names.index[i] for i in trace.id], dtype=np.int64)
        self.row = np.empty_like(self.position)
        self.row[self.position] = np.arange(trace.count)
        self.refused = (rejections(encoded.state) != Reject.NO) | (self.jobs.leaf < 0)
        self.runtime_s = trace.runtime_s[self.row]
        self.phase = np.full(trace.count, int(Phase.AHEAD), dtype=np.int8)
        self.progress_s = np.zeros(trace.count, dtype=np.int64)
        self.starts = np.zeros(trace.count, dtype=np.int64)
        self.runs: dict[int, Run] = {}
        self.promises: dict[int, tuple[int, Parts]] = {}
        self._started_s = np.zeros(trace.count, dtype=np.int64)
        self._gpus = self.jobs.gpus
        self._charge = self.policy.charge_micro[self.nodes.pool].tolist()
        self._usage = Usage(site, self.names.budgets, self.budgets)
        self._usage.available(0, self._capacity())

    # --- questions ---------------------------------------------------------------------------------------

    def inventory(self) -> Inventory:
        """Return the machines and the budget tree, with names."""
        names = self.names
        return Inventory(
            self._bare.nodes,
            tuple(n.name for n in names.nodes),
            names.levels,
            names.budgets,
            self.budgets.is_leaf,
            self.budgets.share_ppb,
        )

    def terms(self) -> Terms:
        """Return what the contract makes of each workload, by row of the trace."""
        j, at = self.jobs, self.position
        return Terms(
            j.leaf[at], j.allocated[at], j.debug[at], self.refused[at], j.min_runtime_s[at], self._gpus[at]
        )

    def lasts_s(self, j: int) -> int:
        """Return how long the next or present run of workload `j` lasts if nothing stops it."""
        left_s = int(self.runtime_s[j] - self.progress_s[j])
        return min(left_s, int(self.jobs.time_limit_s[j]))

    def some_interruptible(self, now_s: int) -> bool:
        """Tell whether anything that runs may be interrupted at `now_s`."""
        js = np.fromiter(self.runs, dtype=np.int64, count=len(self.runs))
        until_s = self._started_s[js] + np.where(self.jobs.allocated[js], self.jobs.min_runtime_s[js], 0)
        return bool((until_s <= now_s).any())

    def some_must_leave(self) -> bool:
        """Tell whether anything runs on a node that drains: it leaves when its protection ends."""
        drains = self.nodes.state == int(NodeState.DRAINING)
        return bool(drains.any()) and any(drains[run.nodes].any() for run in self.runs.values())

    def bare(self) -> State:
        """Return the machines as they are, as a state in which the workloads of the trace stand nowhere."""
        return replace(self._bare, nodes=self.nodes)

    def free_gpus(self) -> Ints:
        """Return what nothing stands on, int64[N]; 0 on nodes that may start nothing."""
        free = self.nodes.gpus.copy()
        for run in self.runs.values():
            for n, gpus in zip(run.nodes, run.gpus, strict=True):
                free[n] -= gpus
        free[~self.nodes.up] = 0
        return free

    def round_at(self, now_s: int, newest: int | None = None) -> Round:
        """Return the question of the round at `now_s`.

        Parameters
        ----------
        newest : int or None
            A workload that arrives between rounds: it stands last, beside what runs or is promised a start.
            Who else waits has no say before the next round.
        """
        running = self.phase == int(Phase.RUNNING)
        if newest is None:
            js = np.flatnonzero(running | (self.phase == int(Phase.PENDING)))
        else:
            asks = running.copy()
            asks[list(self.promises)] = True
            asks[newest] = False
            js = np.append(np.flatnonzero(asks), newest)
        runs, started_s = running[js], self._started_s[js]
        until_s = started_s + self.jobs.min_runtime_s[js]
        workloads = _cut(
            self.jobs,
            js,
            started_s=started_s,
            protected_until_s=np.where(runs & self.jobs.allocated[js], until_s, 0),
            status=np.where(runs, int(Status.RUNNING), int(Status.PENDING)),
            placement=_spread(len(js), np.flatnonzero(runs), [self.runs[j] for j in js[runs].tolist()]),
        )
        state = State(
            now_s,
            self.nodes,
            workloads,
            self._usage.budgets(now_s),
            self._promised(js),
            self.policy,
        )
        return Round(state, self.row[js])

    def _promised(self, js: Ints) -> Promises:
        place = {j: i for i, j in enumerate(js.tolist())} if self.promises else {}
        kept = sorted((start_s, place[j], parts) for j, (start_s, parts) in self.promises.items())
        size = self.jobs.gpus_per_replica[js]
        return Promises(
            np.array([i for _, i, _ in kept], dtype=np.int64),
            np.array([s for s, _, _ in kept], dtype=np.int64),
            Spread.of([[(n, k * int(size[i]), k) for n, k in sorted(parts)] for _, i, parts in kept]),
        )

    # --- moves -------------------------------------------------------------------------------------------

    def submit(self, j: int) -> None:
        """Let workload `j` wait from now on."""
        self.phase[j] = Phase.PENDING

    def start(self, j: int, parts: Parts, now_s: int) -> Run:
        """Let pending workload `j` run on `parts`."""
        each = int(self.jobs.gpus_per_replica[j])
        nodes, reps = [n for n, _ in parts], [k for _, k in parts]
        run = Run(now_s, nodes, [k * each for k in reps], reps)
        self.runs[j] = run
        self.promises.pop(j, None)
        self.phase[j], self._started_s[j] = Phase.RUNNING, now_s
        self.starts[j] += 1
        self._charge_for(j, run, now_s, 1)
        return run

    def stop(self, j: int, now_s: int, phase: Phase) -> Run:
        """End the run of workload `j`; what becomes of its progress is the caller's affair."""
        run = self.runs.pop(j)
        self.phase[j], self._started_s[j] = phase, 0
        self._charge_for(j, run, now_s, -1)
        return run

    def preempt(self, j: int, now_s: int) -> tuple[Run, int]:
        """Requeue running workload `j`; return its run and the GPU-seconds that it loses."""
        length_s = now_s - self.runs[j].started_s
        kept_s = max(0, length_s - self.site.preemption.restart_cost_s) if self.jobs.resumable[j] else 0
        lost_s = length_s - kept_s if self.jobs.resumable[j] else length_s + int(self.progress_s[j])
        self.progress_s[j] = self.progress_s[j] + kept_s if self.jobs.resumable[j] else 0
        return self.stop(j, now_s, Phase.PENDING), lost_s * int(self._gpus[j])

    def set_health(self, node: int, health: NodeState, now_s: int) -> list[int]:
        """Change a node's health; return the workloads that stand on it."""
        state = self.nodes.state.copy()
        state[node] = health
        self.nodes = replace(self.nodes, state=state)
        self._usage.available(now_s, self._capacity())
        lane = lane_gpus(self.site, int(self.nodes.gpus[state != NodeState.DOWN].sum()))
        self.policy = replace(self.policy, lane_gpus=lane)
        return sorted(j for j, run in self.runs.items() if node in run.nodes)

    def promise(self, promised: dict[int, tuple[int, Parts]]) -> None:
        """Carry these promises, start and place by workload, and no others."""
        self.promises = promised

    def _charge_for(self, j: int, run: Run, now_s: int, sign: int) -> None:
        if self.jobs.allocated[j]:
            rate = sign * int(self._gpus[j]) * self._charge[run.nodes[0]]
            self._usage.charge(now_s, int(self.jobs.leaf[j]), rate)

    def _capacity(self) -> int:
        """Return the micro budget units per second of the nodes that are not down."""
        up = ~self.nodes.down
        return int((self.nodes.gpus * self.policy.charge_micro[self.nodes.pool])[up].sum())


def _workloads(trace: Trace) -> tuple[Workload, ...]:
    """Return the workloads of a trace as a snapshot would have them, all pending."""

    def said(seconds: int) -> int | None:
        return None if seconds == UNSAID else seconds

    return tuple(
        Workload(
            id=trace.id[i],
            allocation=trace.allocation[i],
            replicas=int(trace.replicas[i]),
            gpus_per_replica=int(trace.gpus_per_replica[i]),
            submitted_s=int(trace.submitted_s[i]),
            state="pending",
            min_runtime_s=said(int(trace.min_runtime_s[i])),
            time_limit_s=said(int(trace.time_limit_s[i])),
            resumable=bool(trace.resumable[i]),
            priority=int(trace.priority[i]),
            cpus_milli_per_replica=int(trace.cpus_milli_per_replica[i]),
            memory_bytes_per_replica=int(trace.memory_bytes_per_replica[i]),
            gpu_types=trace.gpu_types[i],
            topology=Topology(
                trace.topology_required[i], trace.topology_preferred[i], int(trace.segment[i]) or None
            ),
        )
        for i in range(trace.count)
    )


CUT = tuple(f.name for f in fields(Workloads) if f.name not in ("started_s", "protected_until_s", "status"))


def _cut(jobs: Workloads, js: Ints, **now: object) -> Workloads:
    """Return the rows `js` of the workloads, with the columns that change as they are `now`."""
    kept = {name: getattr(jobs, name)[js] for name in CUT if name not in now}
    return Workloads(**kept, **now)  # type: ignore[arg-type]


def _spread(count: int, where: Ints, runs: list[Run]) -> Spread:
    """Return where `count` workloads stand: those `where` (sorted) as the runs, all others nowhere."""
    ptr = np.zeros(count + 1, dtype=np.int64)
    ptr[where + 1] = [len(run.nodes) for run in runs]
    np.cumsum(ptr, out=ptr)

    def flat(lists: Iterable[list[int]]) -> Ints:
        return np.array(list(chain.from_iterable(lists)), dtype=np.int64)

    return Spread(
        ptr,
        flat([run.nodes for run in runs]),
        flat([run.gpus for run in runs]),
        flat([run.replicas for run in runs]),
    )
