"""Who held GPUs from when to when, and what became of each workload: read from the events alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from planner.simulation.history import Event, History
from solver.state import Bools, Ints

NEVER = -1
"""In a column of seconds: it did not happen."""


class Fate(IntEnum):
    """What had become of a workload when the simulation ended."""

    PENDING = 0
    RUNNING = 1
    FINISHED = 2
    CANCELLED = 3
    REFUSED = 4


@dataclass(frozen=True)
class Runs:
    """Every run, by workload and then by time; R rows.

    Attributes
    ----------
    workload : int64[R], row in the trace
    start_s, end_s : int64[R]
        What still runs at the end of the simulation ends there.
    ended : bool[R]
        False of what still runs at the end.
    gpus : int64[R]
    allocated : bool[R]
    """

    workload: Ints
    start_s: Ints
    end_s: Ints
    ended: Bools
    gpus: Ints
    allocated: Bools

    @property
    def gpu_s(self) -> Ints:
        """GPU-seconds held by each run, int64[R]."""
        return (self.end_s - self.start_s) * self.gpus


@dataclass(frozen=True)
class Fates:
    """How each workload of the trace fared; T rows.

    Attributes
    ----------
    fate : int64[T], `Fate`
    submitted : bool[T]
        The simulation got as far as its submit.
    first_start_s, over_s : int64[T]
        First start, and finish or cancel; `NEVER` if there was none.
    wait_s : int64[T], seconds
        From submit to first start, or else to cancel, or else to the end; 0 for what was not submitted.
    starts, preemptions : int64[T]
    lost_gpu_s, delivered_gpu_s : int64[T]
        Thrown away by preemption; held, lost work included.
    """

    fate: Ints
    submitted: Bools
    first_start_s: Ints
    over_s: Ints
    wait_s: Ints
    starts: Ints
    preemptions: Ints
    lost_gpu_s: Ints
    delivered_gpu_s: Ints

    @property
    def counts(self) -> Bools:
        """Submitted and not refused: what figures are about, bool[T]."""
        counts: Bools = self.submitted & (self.fate != Fate.REFUSED)
        return counts


def runs_of(history: History) -> Runs:
    """Return the runs: each begins with a start and ends with the next event of its workload."""
    events, end_s = history.events, history.end_s
    order = np.argsort(events.workload, kind="stable")
    who, what, time_s = events.workload[order], events.event[order], events.time_s[order]
    begin = np.flatnonzero(what == Event.START)
    ended = np.append(who[1:], -1)[begin] == who[begin]
    next_s = np.append(time_s[1:], end_s)[begin]
    return Runs(
        workload=who[begin],
        start_s=np.minimum(time_s[begin], end_s),
        end_s=np.minimum(np.where(ended, next_s, end_s), end_s),
        ended=ended,
        gpus=history.terms.gpus[who[begin]],
        allocated=events.allocated[order][begin],
    )


def fates_of(history: History, runs: Runs) -> Fates:
    """Return how each workload fared."""
    events, trace, count = history.events, history.trace, history.trace.count
    preempt = events.event == Event.PREEMPT
    starts = np.bincount(runs.workload, minlength=count)
    preemptions = np.bincount(events.workload[preempt], minlength=count)
    first_start_s = np.full(count, NEVER)
    started, first = np.unique(runs.workload, return_index=True)
    first_start_s[started] = runs.start_s[first]
    over_s = np.full(count, NEVER)
    fate = np.where(starts > preemptions, int(Fate.RUNNING), int(Fate.PENDING))
    for event, becomes in ((Event.FINISH, Fate.FINISHED), (Event.CANCEL, Fate.CANCELLED)):
        ends = events.event == event
        over_s[events.workload[ends]] = events.time_s[ends]
        fate[events.workload[ends]] = becomes
    fate[history.terms.refused] = Fate.REFUSED
    submitted = trace.submitted_s <= history.end_s
    until_s = np.select([first_start_s != NEVER, over_s != NEVER], [first_start_s, over_s], history.end_s)
    return Fates(
        fate=fate,
        submitted=submitted,
        first_start_s=first_start_s,
        over_s=over_s,
        wait_s=np.where(submitted, until_s - trace.submitted_s, 0),
        starts=starts,
        preemptions=preemptions,
        lost_gpu_s=_sums(events.workload[preempt], events.lost_gpu_s[preempt], count),
        delivered_gpu_s=_sums(runs.workload, runs.gpu_s, count),
    )


def _sums(index: Ints, amount: Ints, count: int) -> Ints:
    """Return the exact sum of `amount` at each index below `count`."""
    out = np.zeros(count, dtype=np.int64)
    np.add.at(out, index, amount)
    return out
