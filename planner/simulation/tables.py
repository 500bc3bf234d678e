"""What a simulation leaves behind as tables: their columns with types and units, and the frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from planner.model.budget import leaf_shares
from planner.simulation.history import Event, History
from planner.simulation.metrics.hours import HOUR_S
from planner.simulation.metrics.measure import Measured
from planner.simulation.metrics.runs import NEVER, Fate
from planner.simulation.metrics.waits import first_promises, kept_start_s, largest
from solver.state import Bools, Ints, NodeState, Spread

PIECE = 20_000
"""Events that are made into text at a time: a placement of many nodes takes a line of many kilobytes."""


class Column(NamedTuple):
    """Type of a column, and its unit; "" where it has none."""

    type: Literal["int64", "float64", "string", "bool"]
    unit: str = ""


TIME = Column("int64", "s from the trace's start")
SPAN = Column("int64", "s")
COUNT = Column("int64")
GPUS = Column("int64", "GPUs")
GPU_S = Column("int64", "GPU-seconds")
GPU_H = Column("float64", "GPU-hours")
PART = Column("float64", "0 to 1")
TEXT = Column("string")
FLAG = Column("bool")

COLUMNS: dict[str, dict[str, Column]] = {
    "events": {
        "time_s": TIME,
        "workload": TEXT,
        "event": TEXT,
        "gpus": GPUS,
        "nodes": TEXT,
        "occupancy": TEXT,
        "lost_gpu_s": GPU_S,
    },
    "allocations": {
        "hour": COUNT,
        "allocation": TEXT,
        "owed": GPU_H,
        "delivered_allocated": GPU_H,
        "delivered_unallocated": GPU_H,
        "demand": GPU_H,
    },
    "hours": {
        "hour": COUNT,
        "capacity": GPU_H,
        "unavailable": GPU_H,
        "allocated": GPU_H,
        "unallocated": GPU_H,
        "idle": GPU_H,
    },
    "workloads": {
        "id": TEXT,
        "allocation": TEXT,
        "gpus": GPUS,
        "replicas": COUNT,
        "gpus_per_replica": GPUS,
        "occupancy": TEXT,
        "min_runtime_s": SPAN,
        "resumable": FLAG,
        "topology_required": TEXT,
        "topology_preferred": TEXT,
        "debug": FLAG,
        "largest": FLAG,
        "submitted_s": TIME,
        "first_start_s": TIME,
        "end_s": TIME,
        "state": TEXT,
        "wait_s": SPAN,
        "budget_wait_s": SPAN,
        "placement_wait_s": SPAN,
        "starts": COUNT,
        "preemptions": COUNT,
        "lost_gpu_s": GPU_S,
        "delivered_gpu_s": GPU_S,
        "promised_start_s": TIME,
    },
    "cluster": {
        "time_s": TIME,
        "availability": PART,
        "occupancy": PART,
        "free_gpus": GPUS,
        "stranded_gpus": GPUS,
        "largest_gpus_<level>": GPUS,
    },
    "promises": {
        "made_at_s": TIME,
        "workload": TEXT,
        "start_s": TIME,
        "actual_start_s": TIME,
        "nodes": TEXT,
    },
    "nodes": {
        "node": TEXT,
        "cluster": TEXT,
        "gpus": GPUS,
        "gpu_type": TEXT,
        "levels": TEXT,
        "location": TEXT,
    },
    "outages": {
        "time_s": TIME,
        "node": TEXT,
        "state": TEXT,
    },
    "shares": {
        "allocation": TEXT,
        "share": PART,
    },
}
"""Every table. A name that ends in `<level>` stands for a column for each level, the narrowest first."""


def pieces(measured: Measured, table: str) -> Iterator[pd.DataFrame]:
    """Yield a table in one or more pieces, so that a long one is never in memory as text."""
    if table != "events":
        yield FRAMES[table](measured)
        return
    count = len(measured.history.events.time_s)
    for first in range(0, max(count, 1), PIECE):
        yield events(measured, first, first + PIECE)


def columns(measured: Measured, table: str) -> dict[str, Column]:
    """Return the columns of a table, those of the levels written out."""
    out = {}
    for name, column in COLUMNS[table].items():
        stem, mark, _ = name.partition("<level>")
        levels = ("node", *reversed(measured.history.inventory.levels), "cluster") if mark else ("",)
        out.update({stem + level: column for level in levels})
    return out


# --- frames ------------------------------------------------------------------------------------------


def events(measured: Measured, first: int = 0, last: int | None = None) -> pd.DataFrame:
    """Return everything that happened, in order; rows from `first` up to `last`."""
    history, rows = measured.history, slice(first, last)
    e, terms = history.events, history.terms
    who = e.workload[rows]
    return pd.DataFrame(
        {
            "time_s": e.time_s[rows],
            "workload": _named(history.trace.id, who),
            "event": _named([x.name.lower() for x in Event], e.event[rows]),
            "gpus": terms.gpus[who],
            "nodes": _places(history.inventory.node_names, e.placement, range(*rows.indices(len(e.time_s)))),
            "occupancy": _occupancy(terms.allocated[who]),
            "lost_gpu_s": e.lost_gpu_s[rows],
        }
    )


def allocations(measured: Measured) -> pd.DataFrame:
    """Return what each allocation was owed, received and asked for, by hour."""
    h = measured.hours
    count = len(h.allocations)
    owed = np.zeros((count, h.count))
    for a in range(count):
        parts, bottom = h.owed(a)
        owed[a] = [part / (bottom * HOUR_S) for part in parts]
    return pd.DataFrame(
        {
            "hour": np.repeat(np.arange(h.count), count),
            "allocation": _named(h.allocations, np.tile(np.arange(count), h.count)),
            "owed": owed.T.ravel(),
            "delivered_allocated": h.allocated_gpu_s.T.ravel() / HOUR_S,
            "delivered_unallocated": h.unallocated_gpu_s.T.ravel() / HOUR_S,
            "demand": h.demand_gpu_s.T.ravel() / HOUR_S,
        }
    )


def hours(measured: Measured) -> pd.DataFrame:
    """Return where the GPU time of every hour went."""
    h = measured.hours
    return pd.DataFrame(
        {
            "hour": np.arange(h.count),
            "capacity": h.capacity_gpu_s / HOUR_S,
            "unavailable": h.unavailable_gpu_s / HOUR_S,
            "allocated": h.allocated_gpu_s.sum(axis=0) / HOUR_S,
            "unallocated": h.unallocated_gpu_s.sum(axis=0) / HOUR_S,
            "idle": h.idle_gpu_s / HOUR_S,
        }
    )


def workloads(measured: Measured) -> pd.DataFrame:
    """Return how each submitted workload fared."""
    history, fates = measured.history, measured.fates
    trace, terms = history.trace, history.terms
    rows = np.flatnonzero(fates.submitted)
    promised_s, promise = np.full(trace.count, NEVER), first_promises(history)
    promised_s[history.promised[promise]] = history.promised_start_s[promise]
    wait_s, placement_s, refused = fates.wait_s, history.placement_wait_s, fates.fate == Fate.REFUSED
    return pd.DataFrame(
        {
            "id": _named(trace.id, rows),
            "allocation": _named(_payers(history), rows),
            "gpus": terms.gpus[rows],
            "replicas": trace.replicas[rows],
            "gpus_per_replica": trace.gpus_per_replica[rows],
            "occupancy": _occupancy(terms.allocated[rows]),
            "min_runtime_s": terms.min_runtime_s[rows],
            "resumable": trace.resumable[rows],
            "topology_required": _wishes(trace.topology_required, rows),
            "topology_preferred": _wishes(trace.topology_preferred, rows),
            "debug": terms.debug[rows],
            "largest": largest(history)[rows],
            "submitted_s": trace.submitted_s[rows],
            "first_start_s": _known(fates.first_start_s[rows]),
            "end_s": _known(fates.over_s[rows]),
            "state": _named([x.name.lower() for x in Fate], fates.fate[rows]),
            "wait_s": _known(np.where(refused, NEVER, wait_s)[rows]),
            "budget_wait_s": _known(np.where(refused, NEVER, wait_s - placement_s)[rows]),
            "placement_wait_s": _known(np.where(refused, NEVER, placement_s)[rows]),
            "starts": fates.starts[rows],
            "preemptions": fates.preemptions[rows],
            "lost_gpu_s": fates.lost_gpu_s[rows],
            "delivered_gpu_s": fates.delivered_gpu_s[rows],
            "promised_start_s": _known(promised_s[rows]),
        }
    )


def cluster(measured: Measured) -> pd.DataFrame:
    """Return the cluster at the times at which it was looked at, after what happened in that second."""
    samples, total = measured.history.samples, int(measured.history.inventory.nodes.gpus.sum())
    available = total - samples.down_gpus
    names = [name for name in columns(measured, "cluster") if name.startswith("largest_gpus_")]
    return pd.DataFrame(
        {
            "time_s": samples.time_s,
            "availability": _share(available, np.full_like(available, total)),
            "occupancy": _share(_held_gpus(measured, samples.time_s), available),
            "free_gpus": samples.free_gpus,
            "stranded_gpus": samples.stranded_gpus,
            **dict(zip(names, samples.largest_gpus.T, strict=True)),
        }
    )


def promises(measured: Measured) -> pd.DataFrame:
    """Return each promise, and the first start from then on."""
    history = measured.history
    return pd.DataFrame(
        {
            "made_at_s": history.promised_at_s,
            "workload": _named(history.trace.id, history.promised),
            "start_s": history.promised_start_s,
            "actual_start_s": _known(kept_start_s(history, measured.runs)),
            "nodes": _places(
                history.inventory.node_names, history.promised_placement, range(len(history.promised))
            ),
        }
    )


def nodes(measured: Measured) -> pd.DataFrame:
    """Return the machines, in the order of their places."""
    placed = sorted(
        ((c, n) for c in measured.history.site.clusters for n in c.nodes),
        key=lambda x: (x[0].name, x[1].location, x[1].name),
    )
    rows = [
        (n.name, c.name, n.gpus, n.gpu_type or "", "/".join(c.levels), "/".join(n.location))
        for c, n in placed
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS["nodes"]))


def outages(measured: Measured) -> pd.DataFrame:
    """Return how the health of nodes changed."""
    history = measured.history
    return pd.DataFrame(
        {
            "time_s": history.node_time_s,
            "node": _named(history.inventory.node_names, history.node),
            "state": _named([x.name.lower() for x in NodeState], history.node_state),
        }
    )


def shares(measured: Measured) -> pd.DataFrame:
    """Return the share of the clusters that is each allocation's own."""
    found = leaf_shares(measured.history.site.budgets)
    return pd.DataFrame({"allocation": list(found), "share": [float(share) for share in found.values()]})


FRAMES: dict[str, Callable[[Measured], pd.DataFrame]] = {
    "events": events,
    "allocations": allocations,
    "hours": hours,
    "workloads": workloads,
    "cluster": cluster,
    "promises": promises,
    "nodes": nodes,
    "outages": outages,
    "shares": shares,
}


def _payers(history: History) -> list[str]:
    """Return the path of each workload's allocation; of an unknown one the name in the trace."""
    paths = history.inventory.paths
    leaves = history.terms.leaf.tolist()
    return [
        paths[leaf] if leaf >= 0 else name
        for leaf, name in zip(leaves, history.trace.allocation, strict=True)
    ]


# --- cells -------------------------------------------------------------------------------------------


def _named(names: Any, index: Ints) -> pd.Series[str]:
    """Return the names at `index`, as text."""
    return pd.Series(np.array(names, dtype=object)[index], dtype="str")


def _occupancy(allocated: Bools) -> pd.Series[str]:
    return _named(("unallocated", "allocated"), allocated.astype(np.int64))


def _wishes(levels: Sequence[str | None], rows: Ints) -> pd.Series[str]:
    """Return the level that each workload asks for; empty where it asks for none."""
    return _named([level or "" for level in levels], rows)


def _known(times_s: Ints) -> pd.Series[Any]:
    """Return whole seconds, empty where there is none: never as floats, which cannot say both."""
    return pd.Series(times_s, dtype="Int64").mask(times_s == NEVER)


def _share(part: Ints, whole: Ints) -> pd.Series[Any]:
    """Return part ÷ whole; empty of nothing."""
    return pd.Series(part / np.maximum(whole, 1)).mask(whole == 0)


def _places(names: tuple[str, ...], placement: Spread, rows: range) -> pd.Series[str]:
    """Return `name:gpus` of each part of the placements in `rows`, joined by `|`."""
    ptr = placement.ptr[rows.start : rows.stop + 1].tolist()
    parts = slice(ptr[0], ptr[-1])
    pairs = zip(placement.node[parts].tolist(), placement.gpus[parts].tolist(), strict=True)
    texts = [f"{names[n]}:{gpus}" for n, gpus in pairs]
    return pd.Series(["|".join(texts[a - ptr[0] : b - ptr[0]]) for a, b in pairwise(ptr)], dtype="str")


def _held_gpus(measured: Measured, time_s: Ints) -> Ints:
    """Return the GPUs held at each time, after all that happened in that second."""
    runs = measured.runs
    change_s = np.concatenate([runs.start_s, runs.end_s[runs.ended]])
    order = np.argsort(change_s, kind="stable")
    held = np.cumsum(np.concatenate([runs.gpus, -runs.gpus[runs.ended]])[order])
    return np.append(0, held)[np.searchsorted(change_s[order], time_s, side="right")]
