"""Tables of a simulation or comparison as they are read: with every column, of its kind, and of one source.

Whoever copies files between folders is told which file does not belong, before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api import types

from planner.errors import InputError
from planner.simulation.output import read_summary, read_table
from planner.simulation.tables import COLUMNS, Column
from planner.words import shown, some

FIX = "simulate again"

LONGEST_S = 2**31
"""Ends from here on do not fit the timeline, which counts seconds in 32 bits."""

MAY_BE_EMPTY = frozenset(
    {
        "first_start_s", "end_s", "wait_s", "budget_wait_s", "placement_wait_s", "promised_start_s",
        "actual_start_s",
    }
)  # fmt: skip
"""Whole numbers that not every row has: of what never started, ended or was promised."""

NAMED_IN: dict[str, dict[str, tuple[str, str]]] = {
    "events": {"workload": ("workloads", "id")},
    "promises": {"workload": ("workloads", "id")},
    "outages": {"node": ("nodes", "node")},
    "allocations": {"allocation": ("shares", "allocation"), "hour": ("hours", "hour")},
}
"""Columns whose values stand in a column of another table."""

PLACED = ("events", "promises")
"""Tables whose `nodes` are placements, `name:gpus` joined by `|`."""


def checked_summary(folder: Path) -> dict[str, Any]:
    """Return the summary of a simulation; InputError where a figure that pages need is of another kind."""
    found = read_summary(folder)
    end_s, policy = found["end_s"], found.get("policy")
    faults = []
    if isinstance(end_s, bool) or not isinstance(end_s, int) or not 0 <= end_s < LONGEST_S:
        faults.append(f"end_s: {shown(end_s)} is no whole number of seconds")
    if not isinstance(policy, str):
        faults.append(f"policy: {shown(policy)} is no name of a policy")
    if faults:
        raise InputError([f"{folder / 'summary.json'}: {fault}, {FIX}" for fault in faults])
    return found


def checked(folder: Path, table: str) -> pd.DataFrame:
    """Return a table of a simulation; InputError where it is missing, or not the table of this simulation."""
    frame = read_columns(folder, table, COLUMNS[table])
    faults = [*_unnamed(folder, table, frame), *_unplaced(folder, table, frame)]
    if faults:
        raise InputError([f"{folder / table}.parquet: {fault}, {FIX}" for fault in faults])
    return frame


def read_columns(folder: Path, table: str, columns: Mapping[str, Column], fix: str = FIX) -> pd.DataFrame:
    """Return a table that has these columns, each of its kind; InputError with all that is wrong with it."""
    path = folder / f"{table}.parquet"
    if not path.exists():
        raise InputError([f"{path}: is not there, {fix}"])
    frame = read_table(folder, table)
    wanted = {name: column for name, column in columns.items() if not name.endswith("<level>")}
    missing = [name for name in wanted if name not in frame]
    if missing:
        raise InputError([f"{path}: is not the table {table}, as it has no column {some(missing)}, {fix}"])
    faults = [
        f"column {name}: is not all {KINDS[column.type]}"
        for name, column in wanted.items()
        if not _is_of_kind(frame[name], column, name in MAY_BE_EMPTY)
    ]
    if faults:
        raise InputError([f"{path}: {fault}, {fix}" for fault in faults])
    return frame


KINDS = {"int64": "whole numbers", "float64": "numbers", "string": "text", "bool": "true or false"}


def _is_of_kind(values: pd.Series[Any], column: Column, may_be_empty: bool) -> bool:
    """Tell whether all values are of the column's kind."""
    if column.type == "string":
        return types.infer_dtype(values, skipna=False) in ("string", "empty")
    if column.type == "bool":
        return types.is_bool_dtype(values) and not values.isna().any()
    if not types.is_numeric_dtype(values) or types.is_bool_dtype(values):
        return False
    if column.type == "float64":
        return True
    known = values.dropna()
    return bool((known % 1 == 0).all()) and (may_be_empty or len(known) == len(values))


def _unnamed(folder: Path, table: str, frame: pd.DataFrame) -> Iterator[str]:
    """Yield what a table names that the table in which it should stand does not have."""
    for name, (other, key) in NAMED_IN.get(table, {}).items():
        strangers = set(frame[name]) - _values(folder, other, key)
        if strangers:
            yield _stranger(name, strangers, other)


def _unplaced(folder: Path, table: str, frame: pd.DataFrame) -> Iterator[str]:
    """Yield what is wrong with the placements of a table."""
    if table not in PLACED:
        return
    parts = {part for places in frame["nodes"].unique() for part in places.split("|") if part}
    split = [part.rpartition(":") for part in parts]
    if any(not gpus.isdecimal() for _, _, gpus in split):
        yield "column nodes: is not all name:gpus joined by |"
    strangers = {node for node, _, _ in split} - _values(folder, "nodes", "node")
    if strangers:
        yield _stranger("nodes", strangers, "nodes")


def _values(folder: Path, table: str, key: str) -> set[object]:
    return set(read_columns(folder, table, COLUMNS[table])[key])


def _stranger(column: str, strangers: set[Any], other: str) -> str:
    names = some(sorted(map(str, strangers)))
    return f"column {column}: names {names}, which is not in {other}.parquet: they are of two simulations"
