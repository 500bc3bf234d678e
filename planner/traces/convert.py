"""From a log to a trace: window, allocations, the shape of gangs, and what the log does not say."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from planner.errors import InputError
from planner.schema.wording import one_of
from planner.simulation.trace import UNSAID, Trace
from planner.traces.fillin import Rule, fill_in
from planner.traces.log import BLANKS, Log
from planner.units import (
    MAX_CPUS,
    MAX_DURATION_S,
    MAX_MEMORY_BYTES,
    format_duration,
    format_time,
    parse_duration,
    parse_time,
)
from planner.words import shown
from solver.state import Bools, Ints

DAY_S = 86_400
NOBODY = "unknown"
MAX_LABEL = 100

_UNFIT = re.compile(r"[/|\s]+")


@dataclass(frozen=True)
class Wishes:
    """How a log is to become a trace.

    Attributes
    ----------
    allocation_from : str or None
        The column that names the allocation; None = the log's own default.
    begin : str or None
        First second of the window: a duration from the log's start, or a time. None = the log's start.
    days : int or None
        Length of the window; None = to the end of the log.
    gpus_per_node : int
        How many GPUs of a gang make a replica, where the log does not say on how many nodes it ran.
    keep_types : bool
        Whether the GPU types that were asked for bind.
    """

    allocation_from: str | None = None
    begin: str | None = None
    days: int | None = None
    gpus_per_node: int = 8
    keep_types: bool = False
    rule: Rule = field(default_factory=Rule)
    seed: int = 0


@dataclass(frozen=True)
class Converted:
    """A trace of a log, the time of its second 0, and what was left out or changed on the way, how often.

    `begin_s` counts as the log does: epoch seconds, or seconds from the log's second 0.
    """

    trace: Trace
    begin_s: int
    notes: dict[str, int]


def convert(log: Log, wishes: Wishes) -> Converted:
    """Make a trace of a log; InputError where nothing of it fits the wishes."""
    twice = [shown(job) for job, times in Counter(log.id).most_common(3) if times > 1]
    if twice:
        raise InputError([f"{', '.join(twice)}: stands in two of the files, leave one of them out"])
    ran = log.usable()
    if not ran.id:
        raise InputError(["no job of the log ran on GPUs, name another file"])
    begin_s = begin_of(wishes.begin, min(ran.submitted_s) if ran.calendar else 0, ran.calendar)
    log = _window(ran, begin_s, wishes.days)
    order = sorted(range(len(log.id)), key=lambda i: (log.submitted_s[i], log.id[i]))
    log = log.select(order)
    shapes = [
        _shape(gpus, nodes, wishes.gpus_per_node)
        for gpus, nodes in zip(log.gpus, log.column("nodes"), strict=True)
    ]
    grown = [r * each - gpus for (r, each), gpus in zip(shapes, log.gpus, strict=True)]
    notes = dict(log.notes)
    if any(grown):
        notes[f"changed: rounded up to whole nodes, {sum(grown)} GPUs in all"] = sum(map(bool, grown))
    return Converted(_trace(log, shapes, begin_s, wishes), begin_s, notes)


def begin_of(begin: str | None, first_s: int, calendar: bool) -> int:
    """Return the first second of a window: so long after the first of a log, or, with a calendar, a time."""
    if begin is None:
        return first_s
    try:
        if not re.match(r"\d{4}-\d\d-\d\d", begin):
            return first_s + parse_duration(begin)
        if calendar:
            return parse_time(begin)
    except ValueError as fault:
        raise InputError([f"--from: {fault}"]) from None
    fix = "write a duration from its start such as 26d"
    raise InputError([f"--from: this log counts seconds and knows no calendar, {fix}"])


def _window(log: Log, begin_s: int, days: int | None) -> Log:
    """Return the jobs that were submitted in the window."""
    end_s = max(log.submitted_s) + 1 if days is None else begin_s + days * DAY_S
    inside = [i for i, s in enumerate(log.submitted_s) if begin_s <= s < end_s]
    late = [i for i in inside if log.submitted_s[i] - begin_s > MAX_DURATION_S]
    if late:
        fault = "was submitted more than a hundred years after the window's begin, choose --from and --days"
        raise InputError([f"{shown(log.id[late[0]])}: {fault}"])
    if inside:
        return log.select(inside, "left out: outside the window")
    when = format_time if log.calendar else format_duration
    first, last = when(min(log.submitted_s)), when(max(log.submitted_s))
    raise InputError([f"--from: no job was submitted in this window, choose one from {first} to {last}"])


def _shape(gpus: int, nodes: int, gpus_per_node: int) -> tuple[int, int]:
    """Return replicas and GPUs of each: as it ran, if it ran evenly; else one replica, or whole nodes."""
    if nodes and gpus % nodes == 0 and gpus // nodes <= gpus_per_node:
        return nodes, gpus // nodes
    if gpus <= gpus_per_node:
        return 1, gpus
    return -(-gpus // gpus_per_node), gpus_per_node


def _labels(log: Log, column: str | None) -> tuple[str, ...]:
    """Return the allocation of each job, free of what means something in a path."""
    known = [name for name in log.labels if name]
    if column is not None and column not in known:
        raise InputError([f"--allocation-from: {one_of(column, known, 'a column of this log')}"])
    return _names(log.labels[known[0] if column is None else column], NOBODY)


def _names(cells: list[str], unsaid: str) -> tuple[str, ...]:
    """Return names that can stand in a path, a table and a trace file."""
    blanks = {"", "-1", *BLANKS}
    fit = {}
    for cell in dict.fromkeys(cells):
        seen = "".join(c if c.isprintable() else " " for c in cell)
        fit[cell] = _UNFIT.sub("-", seen.strip())[:MAX_LABEL]
    return tuple(unsaid if fit[cell] in blanks else fit[cell] for cell in cells)


def _each(totals: list[int], replicas: Ints, most: int) -> Ints:
    """Return the amount of each replica, capped at what a trace may hold: logs have absurd requests."""
    shares = [min(total // r, most) for total, r in zip(totals, replicas.tolist(), strict=True)]
    return np.array(shares, dtype=np.int64)


def _contract(log: Log, runtime_s: Ints, wishes: Wishes) -> tuple[Ints, Bools]:
    """Return min runtime and resumability: what the log says of them, and drawn where it says nothing."""
    min_runtime_s, resumable = fill_in(log.id, runtime_s, wishes.rule, wishes.seed)
    said_s, said = np.array(log.column("min_runtime_s"), dtype=np.int64), log.column("resumable")
    told = np.array([drawn if flag is None else flag for flag, drawn in zip(said, resumable, strict=True)])
    return np.where(said_s == UNSAID, min_runtime_s, said_s), told.astype(bool)


def _trace(log: Log, shapes: list[tuple[int, int]], begin_s: int, wishes: Wishes) -> Trace:
    """Put the columns together, and fill in what the log does not say."""
    replicas, each = np.array(shapes, dtype=np.int64).T
    runtime_s = np.array(log.runtime_s, dtype=np.int64)
    min_runtime_s, resumable = _contract(log, runtime_s, wishes)
    jobs = len(log.id)
    nothing = np.zeros(jobs, dtype=np.int64)
    return Trace(
        id=tuple(log.id),
        allocation=_labels(log, wishes.allocation_from),
        user=_names(log.column("user"), ""),
        submitted_s=np.array(log.submitted_s, dtype=np.int64) - begin_s,
        replicas=replicas,
        gpus_per_replica=each,
        runtime_s=runtime_s,
        min_runtime_s=min_runtime_s,
        time_limit_s=np.array(log.column("time_limit_s"), dtype=np.int64),
        cancelled_after_s=np.full(jobs, UNSAID),
        resumable=resumable,
        priority=nothing,
        gpu_types=tuple(log.column("gpu_types")) if wishes.keep_types else ((),) * jobs,
        topology_required=(None,) * jobs,
        topology_preferred=(None,) * jobs,
        segment=nothing,
        cpus_milli_per_replica=_each(log.column("cpus_milli"), replicas, 1000 * MAX_CPUS),
        memory_bytes_per_replica=_each(log.column("memory_bytes"), replicas, MAX_MEMORY_BYTES),
        gpu_utilization=np.full(jobs, np.nan),
    )
