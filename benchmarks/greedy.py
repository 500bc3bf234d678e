"""The greedy round by phase: `python -m benchmarks.greedy --sizes 128/300 1280/3000 --minutes 180`.

Milliseconds of processor time, medians. *snapshot*: a seeded instance as it comes, in which a round has much
to move. *steady*: the same cluster simulated by the minute, full and with one or two things changed since the
round before, as in nearly all rounds of a simulation: medians over the rounds of its last hour; *pending* is
then what waited in the last one.

A minute later what was started runs, what was preempted waits again, one or two random runs have ended, and
as many workloads like those that waited at first have come.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from statistics import median
from typing import Any

import numpy as np

from benchmarks.rounds import state_of
from solver import decide as round_
from solver.decide import Outcome, decide
from solver.state import MICRO, Action, Ints, Promises, SolveParams, Spread, State, Status, Workloads

PHASES = {
    "rank": ("placeable", "rejections", "rank"),
    "promises + lane": ("Board", "keep_promises", "run_lane"),
    "greedy": ("greedy",),
    "polish": ("polish",),
    "check": ("check",),
}
"""Functions that `solver.decide` calls, by phase."""

MINUTE_S, WEEK_S = 60, 7 * 86_400
HOUR_ROUNDS = 60
NOBODY = Spread.of([])

Times = dict[str, float]
"""Milliseconds by phase, and of the whole round."""


@contextmanager
def stopwatch() -> Iterator[Times]:
    """Time the phases of the rounds decided inside, in milliseconds."""
    spent = dict.fromkeys(PHASES, 0.0)

    def timed(phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **more: Any) -> Any:
            began_s = time.process_time()
            try:
                return call(*args, **more)
            finally:
                spent[phase] += 1000 * (time.process_time() - began_s)

        return wrapper

    calls = {name: getattr(round_, name) for names in PHASES.values() for name in names}
    for phase, names in PHASES.items():
        for name in names:
            setattr(round_, name, timed(phase, calls[name]))
    try:
        yield spent
    finally:
        for name, call in calls.items():
            setattr(round_, name, call)


def one_round(state: State) -> tuple[Outcome, Times]:
    """Decide one round greedily; nothing that an earlier call has worked out of the state is at hand."""
    state = replace(state, workloads=replace(state.workloads))
    with stopwatch() as spent:
        began_s = time.process_time()
        outcome = decide(state, SolveParams("greedy"))
        spent["whole"] = 1000 * (time.process_time() - began_s)
    return outcome, spent


def steady(state: State, minutes: int, seed: int) -> tuple[list[Times], State]:
    """Simulate `minutes` of a cluster from a snapshot; return the times of each round, and the last state."""
    rng = np.random.default_rng(seed)
    waiting = waiting_in(state)
    times: list[Times] = []
    for _ in range(minutes):
        last = state
        outcome, spent = one_round(state)
        times.append(spent)
        state = minute_later(state, outcome, waiting, rng)
    return times, last


def waiting_in(state: State) -> Workloads:
    """Return the pending workloads."""
    return _rows(state.workloads, np.flatnonzero(state.workloads.status == Status.PENDING))


def minute_later(state: State, outcome: Outcome, waiting: Workloads, rng: np.random.Generator) -> State:
    """Return the state a minute after a plan was applied; newcomers are drawn from `waiting`."""
    now_s, action = state.now_s + MINUTE_S, outcome.decisions.action
    w = _applied(state, outcome)
    runs = np.flatnonzero(w.status == Status.RUNNING)
    events = int(rng.integers(1, 3))
    stays = action != Action.REJECT
    stays[rng.choice(runs, size=min(events, len(runs)), replace=False)] = False
    new = rng.choice(waiting.count, size=events)
    come = replace(_rows(waiting, new), submitted_s=np.full(events, now_s - MINUTE_S // 2))
    use = state.budgets.usage * (WEEK_S - MINUTE_S) // WEEK_S
    for j in runs[w.allocated[runs]].tolist():
        use[state.budgets.path(int(w.leaf[j]))] += w.gpus[j] * MINUTE_S * MICRO
    none = np.zeros(0, dtype=np.int64)
    return replace(
        state,
        now_s=now_s,
        workloads=_joined(_rows(w, np.flatnonzero(stays)), come),
        budgets=replace(state.budgets, usage=use),
        promises=Promises(none, none, NOBODY),
    )


def _applied(state: State, outcome: Outcome) -> Workloads:
    """Return the workloads once the plan is applied."""
    w, plan = state.workloads, outcome.decisions
    start, stop = plan.action == Action.START, plan.action == Action.PREEMPT
    status = np.where(start, int(Status.RUNNING), np.where(stop, int(Status.PENDING), w.status))
    until_s = np.where(start & w.allocated, state.now_s + w.min_runtime_s, w.protected_until_s)
    sources = [plan.placement if s else w.placement for s in start.tolist()]
    parts = [_parts(source, j) if status[j] != Status.PENDING else [] for j, source in enumerate(sources)]
    return replace(
        w,
        status=status,
        started_s=np.where(stop, 0, np.where(start, state.now_s, w.started_s)),
        protected_until_s=np.where(stop, 0, until_s),
        placement=Spread.of(parts),
    )


def _parts(spread: Spread, j: int) -> list[tuple[int, int, int]]:
    part = spread.part(j)
    return list(zip(*(x[part].tolist() for x in (spread.node, spread.gpus, spread.replicas)), strict=True))


def _rows(w: Workloads, js: Ints) -> Workloads:
    """Return some of the workloads, in the order given."""
    columns = {f.name: getattr(w, f.name)[js] for f in fields(Workloads) if f.name != "placement"}
    return Workloads(**columns, placement=Spread.of([_parts(w.placement, j) for j in js.tolist()]))


def _joined(a: Workloads, b: Workloads) -> Workloads:
    columns = {
        f.name: np.concatenate((getattr(a, f.name), getattr(b, f.name)))
        for f in fields(Workloads)
        if f.name != "placement"
    }
    parts = [_parts(w.placement, j) for w in (a, b) for j in range(w.count)]
    return Workloads(**columns, placement=Spread.of(parts))


def _line(nodes: int, pending: int, seed: int, world: str, times: list[Times]) -> str:
    figures = [f"{median(t[phase] for t in times):.2f}" for phase in (*PHASES, "whole")]
    return f"| {' | '.join(map(str, (nodes, pending, seed, world, *figures)))} |"


def main() -> int:
    """Print the table."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--sizes", nargs="+", default=["128/300"], metavar="NODES/PENDING")
    ap.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    ap.add_argument("--times", type=int, default=5, help="rounds of each snapshot")
    ap.add_argument("--minutes", type=int, default=0, help="simulated for the steady line; 0 = leave it out")
    a = ap.parse_args()
    header = ("nodes", "pending", "seed", "world", *PHASES, "whole")
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for nodes, pending in (map(int, size.split("/")) for size in a.sizes):
        for seed in a.seeds:
            state = state_of(nodes, pending, seed)
            print(_line(nodes, pending, seed, "snapshot", [one_round(state)[1] for _ in range(a.times)]))
            if a.minutes:
                times, last = steady(state, a.minutes, seed)
                waits = int(np.count_nonzero(last.workloads.status == Status.PENDING))
                print(_line(nodes, waits, seed, "steady", times[-HOUR_ROUNDS:]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
