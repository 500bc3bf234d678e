"""One trace's gangs on another's background: wide gangs of real training among the work of many."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from planner.errors import InputError
from planner.simulation.trace import Trace
from planner.simulation.tracefile import MAX_GPUS
from planner.traces.summary import gang_gpus
from planner.words import shown
from solver.state import Ints

PREFIX = "gang-"


@dataclass(frozen=True)
class Overlay:
    """The trace of both, and how many gangs went in, were not taken, and came too late."""

    trace: Trace
    taken: int
    not_wanted: int
    too_late: int


def overlay(
    background: Trace,
    gangs: Trace,
    scale: Fraction,
    allocations: Sequence[str],
    min_gpus: int = 0,
    of: Collection[str] = (),
) -> Overlay:
    """Put gangs on a background; both keep their own times from second 0.

    Parameters
    ----------
    scale : Fraction
        GPUs of a gang times this, in whole replicas: the nearest number, at least one.
    allocations : sequence of str
        Who gets the gangs, in turn, by submit.
    min_gpus : int
        Take gangs of at least so many GPUs, before they are scaled.
    of : collection of str
        Take gangs of these allocations of their own trace; empty = of all.

    Raises
    ------
    InputError
        If no gang is left, or an id stands in both.
    """
    wanted = gang_gpus(gangs) >= min_gpus
    if of:
        wanted &= np.isin(np.array(gangs.allocation), list(of))
    in_time = gangs.submitted_s <= background.submitted_s.max()
    rows = np.flatnonzero(wanted & in_time)
    if not len(rows):
        raise InputError(
            ["no gang is left to put on the background, ask for smaller ones or other allocations"]
        )
    ids = tuple(PREFIX + gangs.id[i] for i in rows)
    twins = sorted(set(ids) & set(background.id))
    if twins:
        raise InputError([f"{shown(twins[0])}: stands in the background already, overlay each trace once"])
    added = replace(
        _rows(gangs, rows),
        id=ids,
        allocation=tuple(allocations[k % len(allocations)] for k in range(len(rows))),
        replicas=_scaled(gangs.replicas[rows], scale),
    )
    widest = int(gang_gpus(added).argmax())
    if (gpus := int(gang_gpus(added)[widest])) > MAX_GPUS:
        name = shown(gangs.id[rows[widest]])
        raise InputError(
            [f"{name}: is scaled to {gpus} GPUs, choose a factor that leaves {MAX_GPUS} at most"]
        )
    late = int((wanted & ~in_time).sum())
    return Overlay(_merged(background, added), len(rows), int((~wanted).sum()), late)


def _scaled(replicas: Ints, scale: Fraction) -> Ints:
    """Return replicas times a factor, rounded half up, at least one."""
    return np.array([max(1, int(r * scale + Fraction(1, 2))) for r in replicas.tolist()], dtype=np.int64)


def _rows(trace: Trace, rows: Ints) -> Trace:
    """Return some rows of a trace, in this order."""
    picked: dict[str, Any] = {}
    for name, cells in _columns(trace):
        picked[name] = tuple(cells[i] for i in rows) if isinstance(cells, tuple) else cells[rows]
    return Trace(**picked)


def _merged(a: Trace, b: Trace) -> Trace:
    """Return two traces as one, sorted."""
    both: dict[str, Any] = {}
    for (name, x), (_, y) in zip(_columns(a), _columns(b), strict=True):
        both[name] = x + y if isinstance(x, tuple) else np.concatenate((x, y))
    return _rows(Trace(**both), np.lexsort((np.array(both["id"]), both["submitted_s"])))


def _columns(trace: Trace) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a trace with their names."""
    for f in fields(trace):
        yield f.name, getattr(trace, f.name)
