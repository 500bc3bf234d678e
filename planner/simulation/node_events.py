"""Failures of nodes and their repairs: read from CSV, drawn by chance, written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from planner.atomic import write_atomic
from planner.cells import seconds
from planner.errors import InputError
from planner.sheet import Columns, read_csv
from planner.simulation.engine import Outages
from planner.simulation.trace import Trace
from planner.words import shown
from solver.state import NodeState

HEADER = ("time_s", "node", "state")
STATES = {state.name.lower(): state for state in NodeState}

DAY_S, YEAR_S = 86_400, 365 * 86_400

REPAIR_SIGMA = 1.0
"""Spread of the logarithm of repair times: most are short and a few take days."""


def read_node_events(path: Path, node_names: Sequence[str]) -> Outages:
    """Read a CSV of `time_s`, `node` and `state`, its lines in any order; InputError with every fault of it.

    Returns
    -------
    Outages
        By time, then node; nodes as indices of `node_names`.
    """
    index = {name: n for n, name in enumerate(node_names)}

    def node(text: str) -> int:
        if text not in index:
            raise ValueError(f"{shown(text)} is no node of the site, write the name of one")
        return index[text]

    def state(text: str) -> NodeState:
        if text not in STATES:
            raise ValueError(f"{shown(text)} is unknown, write {', '.join(STATES)}")
        return STATES[text]

    columns = Columns(read_csv(path))
    columns.expect(HEADER, HEADER)
    rows = list(
        zip(
            columns.read("time_s", seconds),
            columns.read("node", node),
            columns.read("state", state),
            strict=True,
        )
    )
    first: dict[tuple[int, int], int] = {}
    for row, (time_s, which, _) in enumerate(rows):
        before = first.setdefault((time_s, which), row)
        if before != row and columns.sound(row) and columns.sound(before):
            fault = f"has two states in one second, see line {columns.sheet.lines[before]}, write one"
            columns.fault(row, "node", fault)
    columns.finish()
    return _outages(rows)


def may_last_s(trace: Trace) -> int:
    """Return for how long failures are drawn where the end is not given, seconds: longer than the work lasts.

    As if all of it ran one after the other once the last was submitted, and a year of that at most.
    """
    work_s = int(trace.runtime_s.sum())
    return int(trace.submitted_s.max(initial=0)) + min(max(work_s, DAY_S), YEAR_S)


def draw(
    node_names: Sequence[str],
    mtbf_s: int,
    mttr_s: int,
    end_s: int,
    seed: int,
    *,
    draining_share: float = 0.0,
    repair_sigma: float = REPAIR_SIGMA,
) -> Outages:
    """Draw failures before `end_s` of nodes that are all well at 0, and when each is repaired.

    Times to failure are exponential, times to repair log-normal. Each node has a stream of its own: what
    befalls it does not change when nodes are added after it, or when the end moves.

    Parameters
    ----------
    mtbf_s, mttr_s : int, seconds
        Means of the time from a repair to the next failure, and from that to the repair; at least 1.
    draining_share : float
        Part of the failures that a health check sees coming: the node drains until it is repaired.
    """
    if min(mtbf_s, mttr_s) < 1:
        raise InputError(["the mean times between failures and to repair are a second at least, write more"])
    rows: list[tuple[int, int, NodeState]] = []
    middle = np.log(mttr_s) - repair_sigma**2 / 2  # makes mttr_s the mean
    for n, stream in enumerate(np.random.SeedSequence(seed).spawn(len(node_names))):
        luck = np.random.default_rng(stream)
        time_s = 0
        while True:
            time_s += _whole(luck.exponential(mtbf_s))
            drains = luck.random() < draining_share
            repaired_s = time_s + _whole(luck.lognormal(middle, repair_sigma))
            if time_s >= end_s:
                break
            rows.append((time_s, n, NodeState.DRAINING if drains else NodeState.DOWN))
            rows.append((repaired_s, n, NodeState.UP))
            time_s = repaired_s
    return _outages(rows)


def write_node_events(path: Path, outages: Outages, node_names: Sequence[str]) -> None:
    """Write outages as `read_node_events` reads them."""
    rows = zip(outages.time_s, outages.node, outages.state, strict=True)
    lines = [f"{time_s},{_quoted(node_names[n])},{NodeState(s).name.lower()}\n" for time_s, n, s in rows]
    write_atomic(path, ",".join(HEADER) + "\n" + "".join(lines))


def _outages(rows: list[tuple[int, int, NodeState]]) -> Outages:
    """Return rows of time, node and state by time."""
    time_s, node, state = zip(*sorted(rows), strict=True) if rows else ((), (), ())
    return Outages(time_s, node, tuple(map(int, state)))


def _whole(span_s: float) -> int:
    """Return a drawn time in whole seconds; nothing happens at once."""
    return max(1, round(span_s))


def _quoted(name: str) -> str:
    """Return a node name as a cell; names hold no comma and no line break."""
    return '"' + name.replace('"', '""') + '"' if '"' in name else name
