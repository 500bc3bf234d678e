"""Traces for tests: drawn ones, small ones, and whether two are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import strategies as st

from planner.simulation.trace import UNSAID, Trace

ODD = ["a", "b/c", "1", "true", "nan", "x,y", 'q"q"', "it's", "a b", "ü-日本", "-1", "0.5", "|", "=1+1"]
NAMES = st.sampled_from(ODD)
SECONDS = st.one_of(st.integers(0, 100), st.integers(0, 36_500 * 86_400))
HOUR = 3600


def same(a: Trace, b: Trace) -> bool:
    """Say whether two traces are equal in every value and type."""
    for f in fields(Trace):
        x, y = getattr(a, f.name), getattr(b, f.name)
        if isinstance(x, tuple):
            if not isinstance(y, tuple) or x != y:
                return False
        elif x.dtype != y.dtype or not np.array_equal(x, y, equal_nan=x.dtype.kind == "f"):
            return False
    return True


def trace(rows: Sequence[dict[str, Any]]) -> Trace:
    """Return a trace of these rows, each with what differs from a default gang of one node."""
    default = {
        "id": "w", "allocation": "a", "user": "", "submitted_s": 0, "replicas": 1, "gpus_per_replica": 8,
        "runtime_s": HOUR, "min_runtime_s": UNSAID, "time_limit_s": UNSAID, "cancelled_after_s": UNSAID,
        "resumable": True, "priority": 0, "gpu_types": (), "topology_required": None,
        "topology_preferred": None, "segment": 0, "cpus_milli_per_replica": 0, "memory_bytes_per_replica": 0,
        "gpu_utilization": np.nan,
    }  # fmt: skip
    full = sorted(({**default, **row} for row in rows), key=lambda row: (row["submitted_s"], row["id"]))
    kinds = {"resumable": bool, "gpu_utilization": float}
    columns: dict[str, Any] = {}
    for f in fields(Trace):
        cells = [row[f.name] for row in full]
        plain = isinstance(default[f.name], str | tuple) or default[f.name] is None
        columns[f.name] = tuple(cells) if plain else np.array(cells, dtype=kinds.get(f.name, np.int64))
    return Trace(**columns)


@st.composite
def traces(draw: st.DrawFn, max_size: int = 6) -> Trace:
    """Draw a trace with anything in it that a file may hold."""
    types = NAMES.filter(lambda s: "|" not in s)
    unsaid = st.one_of(st.just(UNSAID), SECONDS)
    required = st.one_of(st.none(), NAMES)
    row = st.fixed_dictionaries(
        {
            "id": st.builds("{}{}".format, NAMES, st.integers(0, 99)),
            "allocation": NAMES,
            "user": st.one_of(st.just(""), NAMES),
            "submitted_s": SECONDS,
            "replicas": st.integers(1, 1000),
            "gpus_per_replica": st.integers(0, 1000),
            "runtime_s": SECONDS,
            "min_runtime_s": unsaid,
            "time_limit_s": unsaid.filter(bool),
            "cancelled_after_s": unsaid,
            "resumable": st.booleans(),
            "priority": st.integers(-(10**9), 10**9),
            "gpu_types": st.lists(types, max_size=3, unique=True).map(tuple),
            "topology_required": required,
            "topology_preferred": st.one_of(st.none(), NAMES),
            "segment": st.integers(0, 64),
            "cpus_milli_per_replica": st.integers(0, 10**9),
            "memory_bytes_per_replica": st.one_of(
                st.integers(0, 1 << 60), st.integers(0, 1024).map(lambda g: g << 30)
            ),
            "gpu_utilization": st.one_of(st.just(np.nan), st.floats(0, 1)),
        }
    )
    rows = draw(st.lists(row, min_size=1, max_size=max_size, unique_by=lambda r: r["id"]))
    return trace([r if r["topology_required"] else {**r, "segment": 0} for r in rows])
