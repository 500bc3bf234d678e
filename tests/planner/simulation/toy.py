"""Toy simulations: gangs start, are preempted and finish at random on a few nodes that fail at random.

A toy follows the contract and no policy. Beside the events it keeps a grid of every GPU in every second, from
which the tests add up what the metrics should find.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from planner.simulation.engine import Outages
from planner.simulation.history import Effort, Event, Events, History, Samples
from planner.simulation.node_events import write_node_events
from planner.simulation.trace import UNSAID
from planner.simulation.tracefile import write_trace
from planner.simulation.world import World
from planner.site import parse_site
from solver.state import Level, NodeState, Spread
from tests.planner.simulation.histories import SITE, random_trace

FINISH, CANCEL, NODE, SUBMIT, ROUND = range(5)
"""Order of what happens within a second."""


@dataclass
class Job:
    """A workload on its way through the toy."""

    row: int
    gpus: int
    min_s: int
    limit_s: int
    work_s: int
    resumable: bool
    submitted_s: int
    progress_s: int = 0
    started_s: int | None = None
    parts: list[tuple[int, int, int]] = field(default_factory=list)
    runs: int = 0
    first_s: int | None = None
    over: bool = False
    waiting: bool = False


@dataclass(frozen=True)
class Toy:
    """A history, the files that its inputs would be, and the truth by GPU and second.

    Attributes
    ----------
    allocated, unallocated : int64[N, end_s], GPUs held
    down : bool[N, end_s]
    """

    history: History
    allocated: np.ndarray
    unallocated: np.ndarray
    down: np.ndarray

    def write_inputs(self, folder: Path) -> tuple[Path, Path]:
        """Write the trace and the node events as CSV; return their paths."""
        trace_path, nodes_path = folder / "trace.csv", folder / "node-events.csv"
        h = self.history
        outages = Outages(*map(tuple, (h.node_time_s.tolist(), h.node.tolist(), h.node_state.tolist())))
        write_trace(h.trace, trace_path)
        write_node_events(nodes_path, outages, h.inventory.node_names)
        return trace_path, nodes_path


def toy(seed: int, end_s: int = 9000, jobs: int = 25) -> Toy:
    """Play one toy to its end."""
    return _Play(seed, end_s, jobs).play()


class _Play:
    """The loop of a toy, one second after the other."""

    def __init__(self, seed: int, end_s: int, count: int) -> None:
        self.luck = random.Random(seed)
        self.end_s = end_s
        self.site = parse_site(SITE, "site.yaml")
        self.trace = random_trace(self.luck, end_s, count)
        world = World(self.site, self.trace, 60)
        self.inventory, self.terms = world.inventory(), world.terms()
        self.nodes, self.wishes, self.position = world.nodes, world.jobs, world.position
        self.health = [NodeState.UP] * self.nodes.count
        self.jobs = [self._job(i) for i in range(count)]
        self.queue: list[tuple[int, int, int, int]] = []
        self.rows: list[tuple[int, int, int, bool, int]] = []
        self.places: list[list[tuple[int, int, int]]] = []
        self.node_changes: list[tuple[int, int, int]] = []
        self.promises: list[tuple[int, int, int]] = []
        shape = (self.nodes.count, end_s)
        self.allocated, self.unallocated = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.down = np.zeros(shape, bool)

    def _job(self, i: int) -> Job:
        t, limit_s = self.trace, int(self.trace.time_limit_s[i])
        return Job(
            row=i,
            gpus=int(self.terms.gpus[i]),
            min_s=int(self.terms.min_runtime_s[i]),
            limit_s=10**9 if limit_s == UNSAID else limit_s,
            work_s=int(t.runtime_s[i]),
            resumable=bool(t.resumable[i]),
            submitted_s=int(t.submitted_s[i]),
        )

    def play(self) -> Toy:
        """Let everything happen that is due before the end."""
        for job in self.jobs:
            self._at(job.submitted_s, SUBMIT, job.row)
        regular, odd = 60 * self.luck.randrange(2), range(self.end_s)
        rounds = {*range(regular, self.end_s, 300), *(self.luck.choice(odd) for _ in range(20))}
        for time_s in sorted(rounds):
            self._at(time_s, ROUND)
        for node, time_s in self._outages():
            self._at(time_s, NODE, node)
        while self.queue and self.queue[0][0] < self.end_s:
            now_s, kind, which, run = heapq.heappop(self.queue)
            if kind == SUBMIT:
                self._submit(self.jobs[which], now_s)
            elif kind == ROUND:
                self._round(now_s)
            elif kind == NODE:
                self._node(which, now_s)
            else:
                self._end(self.jobs[which], now_s, kind, run)
        for job in self.jobs:
            if job.started_s is not None:
                self._paint(job, self.end_s)
        return Toy(self._history(), self.allocated, self.unallocated, self.down)

    # --- what happens ----------------------------------------------------------------------------------

    def _submit(self, job: Job, now_s: int) -> None:
        self._note(now_s, job, Event.SUBMIT)
        after_s = int(self.trace.cancelled_after_s[job.row])
        if self.terms.refused[job.row]:
            job.over = True
            self._note(now_s, job, Event.CANCEL)
            return
        job.waiting = True
        if after_s != UNSAID:
            self._at(now_s + after_s, CANCEL, job.row)

    def _end(self, job: Job, now_s: int, kind: int, run: int) -> None:
        if job.over or (kind == FINISH and (job.started_s is None or job.runs != run)):
            return
        self._note(now_s, job, Event.FINISH if kind == FINISH else Event.CANCEL)
        job.over, job.waiting = True, False
        self._leave(job, now_s)

    def _node(self, node: int, now_s: int) -> None:
        was = self.health[node]
        now = self.luck.choice([s for s in NodeState if s != was])
        self.health[node] = now
        self.node_changes.append((now_s, node, int(now)))
        self.down[node, now_s:] = now == NodeState.DOWN
        for job in self.jobs:
            if now == NodeState.DOWN and _on(job, node):
                self._preempt(job, now_s)

    def _round(self, now_s: int) -> None:
        for node, health in enumerate(self.health):
            for job in self._evictable(node, now_s) if health == NodeState.DRAINING else []:
                if self.luck.random() < 0.5:
                    self._preempt(job, now_s)
        waiting = [job for job in self.jobs if job.waiting]
        self.luck.shuffle(waiting)
        for job in waiting[:4]:
            evict = self.terms.allocated[job.row] and self.luck.random() < 0.6
            self._try_start(job, now_s, evict=bool(evict))
        for job in waiting:
            if job.waiting and self.terms.allocated[job.row] and self.luck.random() < 0.1:
                self.promises.append((now_s, job.row, now_s + self.luck.randrange(1, 4000)))

    def _try_start(self, job: Job, now_s: int, *, evict: bool) -> None:
        each = int(self.trace.gpus_per_replica[job.row])
        left, parts, victims = int(self.trace.replicas[job.row]), [], []
        for node in self._candidates(job):
            room = self._free(node)
            for other in self._evictable(node, now_s) if evict else []:
                if room < left * each and other not in victims:
                    room += _on(other, node)
                    victims.append(other)
            take = min(left, room // each)
            if take:
                parts.append((node, take * each, take))
                left -= take
        if left:
            return
        if any(not any(_on(victim, n) for n, _, _ in parts) for victim in victims):
            return
        for victim in victims:
            self._preempt(victim, now_s)
        job.started_s, job.parts, job.waiting = now_s, parts, False
        job.first_s = now_s if job.first_s is None else job.first_s
        job.runs += 1
        self._note(now_s, job, Event.START)
        self._at(now_s + min(job.work_s - job.progress_s, job.limit_s), FINISH, job.row, job.runs)

    def _preempt(self, job: Job, now_s: int) -> None:
        assert job.started_s is not None
        length_s = now_s - job.started_s
        if job.resumable:
            kept_s = max(0, length_s - 300)
            lost_s, job.progress_s = length_s - kept_s, job.progress_s + kept_s
        else:
            lost_s = length_s
        self._note(now_s, job, Event.PREEMPT, lost_s * job.gpus)
        self._leave(job, now_s)
        job.waiting = True

    def _leave(self, job: Job, now_s: int) -> None:
        if job.started_s is not None:
            self._paint(job, now_s)
        job.started_s, job.parts = None, []

    # --- questions -------------------------------------------------------------------------------------

    def _evictable(self, node: int, now_s: int) -> list[Job]:
        """Return what stands on a node and may be interrupted; what has just started stays."""
        there = [job for job in self.jobs if _on(job, node)]
        return [
            job for job in there if job.started_s is not None and job.started_s + max(job.min_s, 1) <= now_s
        ]

    def _free(self, node: int) -> int:
        return int(self.nodes.gpus[node]) - sum(_on(job, node) for job in self.jobs)

    def _candidates(self, job: Job) -> list[int]:
        """Return the healthy nodes of one pool, or one domain of it, that the job accepts, in any order."""
        nodes, wish = self.nodes, self.position[job.row]
        pools = np.flatnonzero(self.wishes.pool_ok[wish]).tolist()
        inside = nodes.pool == self.luck.choice(pools)
        if self.wishes.required[wish] != Level.NONE:
            domain = nodes.domain[self.wishes.required[wish]]
            inside &= (domain >= 0) & (domain == self.luck.choice(domain[inside].tolist()))
        out = [n for n in np.flatnonzero(inside).tolist() if self.health[n] == NodeState.UP]
        self.luck.shuffle(out)
        return out

    def _outages(self) -> list[tuple[int, int]]:
        count = self.luck.choice((0, 4, 12))
        nodes = range(self.nodes.count)
        found = {(self.luck.choice(nodes), self.luck.randrange(self.end_s + 100)) for _ in range(count)}
        return sorted(found)

    # --- records ---------------------------------------------------------------------------------------

    def _at(self, time_s: int, kind: int, which: int = 0, run: int = 0) -> None:
        heapq.heappush(self.queue, (time_s, kind, which, run))

    def _note(self, now_s: int, job: Job, event: Event, lost_gpu_s: int = 0) -> None:
        self.rows.append((now_s, job.row, int(event), bool(self.terms.allocated[job.row]), lost_gpu_s))
        self.places.append(list(job.parts))

    def _paint(self, job: Job, until_s: int) -> None:
        grid = self.allocated if self.terms.allocated[job.row] else self.unallocated
        for node, gpus, _ in job.parts:
            grid[node, job.started_s : until_s] += gpus

    def _history(self) -> History:
        time_s, who, event, allocated, lost = np.array(self.rows, dtype=np.int64).reshape(-1, 5).T
        changes = np.array(self.node_changes, dtype=np.int64).reshape(-1, 3).T
        promises = np.array(self.promises, dtype=np.int64).reshape(-1, 3).T
        waits = [self.luck.randrange(self._wait(job) + 1) for job in self.jobs]
        rounds = self.luck.randrange(9)
        return History(
            site=self.site,
            trace=self.trace,
            inventory=self.inventory,
            terms=self.terms,
            policy="toy",
            end_s=self.end_s,
            events=Events(time_s, who, event, allocated.astype(bool), Spread.of(self.places), lost),
            samples=self._samples(),
            placement_wait_s=np.array(waits),
            node_time_s=changes[0],
            node=changes[1],
            node_state=changes[2],
            promised_at_s=promises[0],
            promised=promises[1],
            promised_start_s=promises[2],
            promised_placement=Spread.of([[] for _ in self.promises]),
            effort=Effort(rounds, np.array([self.luck.random() for _ in range(rounds)]), 0, 0, 1.5),
        )

    def _wait(self, job: Job) -> int:
        over = [
            t for t, who, event, _, _ in self.rows if who == job.row and event in (Event.FINISH, Event.CANCEL)
        ]
        until_s = job.first_s if job.first_s is not None else over[0] if over else self.end_s
        return max(0, until_s - job.submitted_s)

    def _samples(self) -> Samples:
        time_s = np.array(sorted({self.luck.randrange(self.end_s) for _ in range(5)}))
        gpus = self.nodes.gpus
        free = gpus[:, None] * ~self.down[:, time_s] - (self.allocated + self.unallocated)[:, time_s]
        levels = np.stack([free.max(axis=0)] * (len(self.inventory.levels) + 2), axis=1)
        down = (gpus[:, None] * self.down[:, time_s]).sum(axis=0)
        return Samples(time_s, free.sum(axis=0), down, levels, free.sum(axis=0) // 2)


def _on(job: Job, node: int) -> int:
    """Return the GPUs that a workload holds on a node."""
    return sum(gpus for n, gpus, _ in job.parts if n == node)


@cache
def _nth(n: int) -> Toy:
    return toy(n, (9000, 7200, 10801, 3599, 1)[n % 5], (25, 60, 1)[n % 3])


TOYS = st.integers(0, 23).map(_nth)
"""Toys of all lengths, down to a second and a single workload; the tests share them."""
