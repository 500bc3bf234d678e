"""The engine: events over integer seconds, and a round of the policy wherever something can change.

Within a second: finish, cancel, node event, submit, round. A run of no length ends after it has started.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from planner.model.site import Site
from planner.simulation.history import Effort, Event, History
from planner.simulation.money import Looks
from planner.simulation.policies import make
from planner.simulation.policies.base import PlacesArrivals, Round, Setting, Verdict
from planner.simulation.recorder import Log, Recorder
from planner.simulation.sampler import Sampler
from planner.simulation.trace import UNSAID, Trace
from planner.simulation.world import Phase, Run, World
from solver.state import FOREVER_S, NodeState, Spread

FINISH, CANCEL, NODE, SUBMIT = range(4)
"""Kinds of events, in the order in which they happen within a second."""


@dataclass(frozen=True)
class Outages:
    """Changes of the health of nodes, in order of time.

    Attributes
    ----------
    time_s, node, state : tuple of int
        Seconds from the trace's start, number of the node as the site file lists them, `NodeState`.
    """

    time_s: tuple[int, ...] = ()
    node: tuple[int, ...] = ()
    state: tuple[int, ...] = ()


@dataclass(frozen=True)
class Options:
    """How to run.

    Attributes
    ----------
    policy : str
    period_s : int
        Seconds between rounds.
    end_s : int or None
        The simulation covers [0, end_s); None = until all work is over.
    seed : int
    sample_s : int
        Seconds between two samples of the cluster.
    """

    policy: str
    period_s: int = 60
    end_s: int | None = None
    seed: int = 0
    sample_s: int = 3600


class Engine:
    """One simulation; it can be stopped between any two moments, pickled, and go on.

    Attributes
    ----------
    now_s : int
        Everything before it has happened.
    """

    def __init__(self, site: Site, trace: Trace, options: Options, outages: Outages | None = None) -> None:
        self.site, self.trace, self.options = site, trace, options
        self.outages = outages or Outages()
        self.world = World(site, trace, options.period_s)
        self.listed = [self.world.names.node_index[n.name] for c in site.clusters for n in c.nodes]
        paths = self.world.names.budgets
        self.policy = make(options.policy, Setting(site, trace, options.period_s, paths, options.seed))
        self.recorder, self.sampler = Recorder(), Sampler(self.world, options.sample_s)
        self.promised = Log(3)
        self.promised_parts: list[list[tuple[int, int, int]]] = []
        self.moved, self.node_changes = Log(3), Log(3)
        self.queue: list[tuple[int, int, int, int]] = []  # time, kind, workload or change, run
        position = self.world.position.tolist()
        self.queue += [(s, SUBMIT, position[i], 0) for i, s in enumerate(trace.submitted_s.tolist())]
        self.queue += [(s, NODE, i, 0) for i, s in enumerate(self.outages.time_s)]
        heapq.heapify(self.queue)
        self.now_s, self.last_round_s = 0, -1
        self.round_s = FOREVER_S  # of the next round
        self.freed = False  # something has come free since the last round
        self.waiting, self.unfinished = 0, trace.count
        self.rich = set[int]()  # who waited for its first start, in the money, when waits were last counted
        self.counted_s, self.looks = 0, Looks()
        self.placement_wait_s = np.zeros(trace.count, dtype=np.int64)
        self.solve_s: list[float] = []
        self.exact = self.placed_between = 0
        self.wall_s = 0.0

    # --- time --------------------------------------------------------------------------------------------

    @property
    def next_s(self) -> int:
        """When something happens next; `FOREVER_S` when all work is over."""
        return min(self.queue[0][0] if self.queue else FOREVER_S, self.round_s)

    def run(self, until_s: int = FOREVER_S, go_on: Callable[[int], bool] | None = None) -> bool:
        """Go on until all before `until_s` has happened, at most to the end.

        Parameters
        ----------
        go_on : callable or None
            Asked after every round, with the time; where it says no, this stops and returns False.
        """
        stop_s = min(until_s, FOREVER_S if self.options.end_s is None else self.options.end_s)
        began_s = time.perf_counter()
        try:
            while self.next_s < stop_s and (self.unfinished or stop_s < FOREVER_S):
                self.now_s = self.next_s
                self.sampler.upto(self.now_s - 1)
                if self.queue and self.queue[0][0] == self.now_s:
                    self._happen(*heapq.heappop(self.queue))
                    continue
                if self._may_matter():
                    self._round()
                self._call_next()
                if go_on is not None and not go_on(self.now_s):
                    return False
        finally:
            self.wall_s += time.perf_counter() - began_s
        if stop_s < FOREVER_S:
            self.now_s = stop_s
        return True

    def settle(self, at_s: int, go_on: Callable[[int], bool] | None = None) -> bool:
        """Go on until all before `at_s` has happened and all but the round in that second; as `run`."""
        if not self.run(at_s, go_on):
            return False
        while self.queue and self.queue[0][0] == at_s:
            self._happen(*heapq.heappop(self.queue))
        return True

    def _call_round(self) -> None:
        """Have a round at the next time for one, this second included."""
        period_s = self.options.period_s
        at_s = -(-self.now_s // period_s) * period_s
        if at_s == self.last_round_s:  # what ends in the second of a round is seen by the next
            at_s += period_s
        self.round_s = min(self.round_s, at_s)

    # --- events ------------------------------------------------------------------------------------------

    def _happen(self, time_s: int, kind: int, which: int, run: int) -> None:
        if kind == SUBMIT:
            self._submit(which)
        elif kind == NODE:
            self._node_changes(which)
        elif kind == CANCEL:
            self._cancel(which)
        elif self.world.phase[which] == Phase.RUNNING and self.world.starts[which] == run:
            ended = self.world.stop(which, time_s, Phase.OVER)
            self.unfinished -= 1
            self._note(which, Event.FINISH, ended)
            self._free()

    def _submit(self, j: int) -> None:
        world = self.world
        self._note(j, Event.SUBMIT)
        if world.refused[j]:
            world.phase[j] = Phase.OVER
            self.unfinished -= 1
            self._note(j, Event.CANCEL)
            return
        world.submit(j)
        self.waiting += 1
        cancelled_s = int(self.trace.cancelled_after_s[world.row[j]])
        if cancelled_s != UNSAID:
            heapq.heappush(self.queue, (self.now_s + cancelled_s, CANCEL, j, 0))
        self.changed = True
        self._call_round()
        if self.round_s > self.now_s:
            self._place(j)

    def _place(self, j: int) -> None:
        """Have a policy that can do so place what was just submitted, in nobody's way.

        Unallocated work waits for the round, and so does what could take places that came free since the
        last one, for which others have waited longer; debug work has its lane.
        """
        jobs = self.world.jobs
        if not isinstance(self.policy, PlacesArrivals) or not jobs.allocated[j]:
            return
        if self.freed and not jobs.debug[j]:
            return
        round_ = self.world.round_at(self.now_s, newest=j)
        verdict = self.policy.arrive(round_)
        if verdict is not None:
            self.placed_between += len(verdict.board.starts)
            self._carry_out(round_, verdict)

    def _cancel(self, j: int) -> None:
        world = self.world
        if world.phase[j] == Phase.OVER:
            return
        self.unfinished -= 1
        if world.phase[j] == Phase.RUNNING:
            self._note(j, Event.CANCEL, world.stop(j, self.now_s, Phase.OVER))
            self._free()
        else:
            world.phase[j] = Phase.OVER
            world.promises.pop(j, None)
            self._waits_no_more(j)
            self._note(j, Event.CANCEL)
            self._free()  # what was held for it is free for others

    def _node_changes(self, which: int) -> None:
        node, health = self.listed[self.outages.node[which]], NodeState(self.outages.state[which])
        if self.world.nodes.state[node] == health:
            return
        self.node_changes.add(self.now_s, node, health)
        there = self.world.set_health(node, health, self.now_s)
        if health == NodeState.DOWN:
            for j in there:
                run = self._preempt(j)
                if self.world.jobs.allocated[j]:  # the first claim on the next round
                    self.world.promises[j] = (self.now_s, list(zip(run.nodes, run.replicas, strict=True)))
        self._free()

    def _free(self) -> None:
        self.freed = self.changed = True
        if self.waiting or self.world.promises or self.world.some_must_leave():
            self._call_round()

    # --- rounds ------------------------------------------------------------------------------------------

    def _may_matter(self) -> bool:
        """Tell whether a round could decide anything that the last one could not.

        While some work may be interrupted, every round may: ratios move with time.
        """
        world, due_s = self.world, self.now_s + self.options.period_s
        if self.changed or any(start_s <= due_s for start_s, _ in world.promises.values()):
            return True
        return world.some_interruptible(self.now_s)

    def _round(self) -> None:
        self.last_round_s, self.freed, self.changed = self.now_s, False, False
        round_ = self.world.round_at(self.now_s)
        verdict = self.policy.decide(round_)
        self.solve_s.append(verdict.solve_s)
        self.exact += verdict.solved != "greedy"
        self._count_money(round_, verdict)
        waited = self.waiting
        self._carry_out(round_, verdict)
        self._remember_promises(round_, verdict)
        # what it started may end in this very second, and whom it took off may start elsewhere in the next
        self.changed = bool(verdict.board.starts) or self.waiting > waited

    def _call_next(self) -> None:
        """Have the next round a period later, as long as somebody waits for one."""
        world = self.world
        alive = self.queue or world.runs or world.promises or self.changed
        self.round_s = FOREVER_S
        if (self.waiting and alive) or world.some_must_leave():
            self.round_s = self.now_s + self.options.period_s

    def _carry_out(self, round_: Round, verdict: Verdict) -> None:
        """Preempt and start as the policy says, and take off what may not stay."""
        world, board = self.world, verdict.board
        js = world.position[round_.who]
        stood = round_.state.workloads.running
        for i in np.flatnonzero(stood & ~board.standing).tolist():
            self._preempt(int(js[i]))
        for i, parts in board.starts.items():
            j = int(js[i])
            run = world.start(j, sorted(parts), self.now_s)
            self._waits_no_more(j)
            self._note(j, Event.START, run)
            heapq.heappush(self.queue, (self.now_s + world.lasts_s(j), FINISH, j, int(world.starts[j])))

    def _preempt(self, j: int) -> Run:
        run, lost_gpu_s = self.world.preempt(j, self.now_s)
        self.waiting += 1
        self._note(j, Event.PREEMPT, run, lost_gpu_s)
        return run

    def _remember_promises(self, round_: Round, verdict: Verdict) -> None:
        js, before = self.world.position[round_.who], self.world.promises
        self.world.promise({int(js[p.workload]): (p.start_s, sorted(p.parts)) for p in verdict.promises})
        for p in verdict.promises:
            row, j = int(round_.who[p.workload]), int(js[p.workload])
            if before.get(j) != self.world.promises[j]:  # a new one, or it has moved
                self.promised.add(self.now_s, row, p.start_s)
                size = int(self.trace.gpus_per_replica[row])
                self.promised_parts.append([(n, k * size, k) for n, k in sorted(p.parts)])
        for i, why in verdict.moved:
            self.moved.add(self.now_s, int(round_.who[i]), why)

    def _count_money(self, round_: Round, verdict: Verdict) -> None:
        """Split the time since the last count, for who waits for its first start, by why it waited."""
        found = self.looks.at(round_.state) if verdict.in_money is None else list(verdict.in_money)
        if found is None:
            return
        world = self.world
        self.placement_wait_s[world.row[list(self.rich)]] += self.now_s - self.counted_s
        js = world.position[round_.who[found]]
        self.rich, self.counted_s = set(js[world.starts[js] == 0].tolist()), self.now_s

    def _waits_no_more(self, j: int) -> None:
        self.waiting -= 1
        if j in self.rich:
            self.rich.remove(j)
            self.placement_wait_s[self.world.row[j]] += self.now_s - self.counted_s

    def _note(self, j: int, event: Event, run: Run | None = None, lost_gpu_s: int = 0) -> None:
        row, allocated = int(self.world.row[j]), bool(self.world.jobs.allocated[j])
        self.recorder.add(self.now_s, row, event, allocated=allocated, run=run, lost_gpu_s=lost_gpu_s)

    # --- the end -----------------------------------------------------------------------------------------

    def history(self) -> History:
        """Return what has happened up to now."""
        self.sampler.upto(self.now_s - 1)
        placement_wait_s = self.placement_wait_s.copy()
        placement_wait_s[self.world.row[list(self.rich)]] += self.now_s - self.counted_s
        node_time_s, node, node_state = self.node_changes.arrays()
        promised_at_s, promised, promised_start_s = self.promised.arrays()
        moved_at_s, moved, moved_why = self.moved.arrays()
        return History(
            site=self.site,
            trace=self.trace,
            inventory=self.world.inventory(),
            terms=self.world.terms(),
            policy=self.options.policy,
            end_s=self.now_s,
            events=self.recorder.result(),
            samples=self.sampler.result(),
            placement_wait_s=placement_wait_s,
            node_time_s=node_time_s,
            node=node,
            node_state=node_state,
            promised_at_s=promised_at_s,
            promised=promised,
            promised_start_s=promised_start_s,
            promised_placement=Spread.of(self.promised_parts),
            effort=Effort(
                len(self.solve_s), np.array(self.solve_s), self.exact, self.placed_between, self.wall_s
            ),
            moved_at_s=moved_at_s,
            moved=moved,
            moved_why=moved_why,
            period_s=self.options.period_s,
        )
