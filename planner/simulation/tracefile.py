"""Trace files: CSV (plain or gzipped) and Parquet, read strictly and written whole."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from planner.atomic import write_atomic
from planner.cells import name, names, optional, seconds, truth, whole, within
from planner.errors import InputError
from planner.rights import unreadable
from planner.sheet import MAX_BYTES, Columns, Sheet, read_csv, refuse
from planner.simulation.trace import UNSAID, Trace
from planner.units import parse_cpus, parse_memory, parse_number

MAX_GPUS = 1_000_000
MAX_PRIORITY = 1_000_000_000

_UNITS = "KMGTP"


@dataclass(frozen=True)
class Column:
    """A column of a trace file and the field of `Trace` that it is.

    Attributes
    ----------
    read : callable
        Text of a cell to the value of the field.
    kind : type
        Of the field's values; `tuple` where the field is a tuple and no array.
    default : object
        What an absent column, an empty cell and None in Parquet mean.
    required : bool
    """

    header: str
    field: str
    read: Callable[[str], Any]
    kind: type
    default: Any = None
    required: bool = False


def _cpus(text: str) -> int:
    """Read decimal CPUs into thousandths."""
    return parse_cpus(parse_number(within(0, 1e9)(text)))


_count = whole(1, MAX_GPUS)
_duration = optional(seconds, UNSAID)
_limit = optional(whole(1, 36_500 * 86_400, "whole seconds"), UNSAID)

COLUMNS = (
    Column("id", "id", name, tuple, required=True),
    Column("allocation", "allocation", name, tuple, required=True),
    Column("user", "user", optional(name, ""), tuple, ""),
    Column("submitted_s", "submitted_s", seconds, np.int64, required=True),
    Column("replicas", "replicas", _count, np.int64, required=True),
    Column("gpus_per_replica", "gpus_per_replica", whole(0, MAX_GPUS), np.int64, required=True),
    Column("runtime_s", "runtime_s", seconds, np.int64, required=True),
    Column("min_runtime_s", "min_runtime_s", _duration, np.int64, UNSAID),
    Column("time_limit_s", "time_limit_s", _limit, np.int64, UNSAID),
    Column("resumable", "resumable", optional(truth, True), np.bool_, True),
    Column("priority", "priority", optional(whole(-MAX_PRIORITY, MAX_PRIORITY), 0), np.int64, 0),
    Column("gpu_types", "gpu_types", names, tuple, ()),
    Column("topology_required", "topology_required", optional(name, None), tuple),
    Column("topology_preferred", "topology_preferred", optional(name, None), tuple),
    Column("segment", "segment", optional(whole(0, MAX_GPUS), 0), np.int64, 0),
    Column("cancelled_after_s", "cancelled_after_s", _duration, np.int64, UNSAID),
    Column("cpus_per_replica", "cpus_milli_per_replica", optional(_cpus, 0), np.int64, 0),
    Column("memory_per_replica", "memory_bytes_per_replica", optional(parse_memory, 0), np.int64, 0),
    Column("gpu_utilization", "gpu_utilization", optional(within(0, 1), math.nan), np.float64, math.nan),
)
"""Every column, in the order in which it is written."""


def read_trace(path: Path) -> Trace:
    """Read a trace; InputError with what is wrong with it, each fault with its line and column."""
    sheet = _parquet_sheet(path) if path.suffix == ".parquet" else read_csv(path)
    columns = Columns(sheet)
    columns.expect((c.header for c in COLUMNS if c.required), [c.header for c in COLUMNS])
    values = {c.field: columns.read(c.header, c.read, c.default) for c in COLUMNS}
    columns.unique("id")
    _check_gangs(columns, values)
    columns.finish()
    if not sheet.count:
        raise refuse(sheet.name, "holds no workload, write at least one line below the header", 2)
    return _trace(values)


def _check_gangs(columns: Columns, values: dict[str, list[Any]]) -> None:
    """Report gangs of absurd size, and segments of no domain."""
    gangs = zip(values["replicas"], values["gpus_per_replica"], strict=True)
    for row, (replicas, each) in enumerate(gangs):
        if replicas and each and replicas * each > MAX_GPUS and columns.sound(row):
            fault = f"{replicas} of {each} GPUs are more than {MAX_GPUS}, write less"
            columns.fault(row, "replicas", fault)
    wishes = zip(values["segment"], values["topology_required"], strict=True)
    for row, (segment, required) in enumerate(wishes):
        if segment and not required and columns.sound(row):
            fault = "is a part of no domain, write the level of the domain as topology_required"
            columns.fault(row, "segment", fault)


def _trace(values: dict[str, list[Any]]) -> Trace:
    """Make a trace of columns in any order of rows."""
    order = np.lexsort((np.array(values["id"]), np.array(values["submitted_s"])))
    sort = itemgetter(*order.tolist()) if len(order) > 1 else tuple
    fields: dict[str, Any] = {}
    for column in COLUMNS:
        cells = values[column.field]
        fields[column.field] = sort(cells) if column.kind is tuple else np.array(cells, column.kind)[order]
    return Trace(**fields)


# -- Parquet -----------------------------------------------------------------------------------------


def _parquet_sheet(path: Path) -> Sheet:
    """Read a Parquet file as if it were text: what a cell may hold is the same in both."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError([f"{path}: {unreadable(error)}"]) from None
    try:
        table = parquet.ParquetFile(pa.BufferReader(raw)).read()
        faults, columns = [], {}
        for k, (header, kind) in enumerate(zip(table.column_names, table.schema.types, strict=True), 1):
            if pa.types.is_nested(kind) or pa.types.is_temporal(kind) or pa.types.is_binary(kind):
                faults.append((1, k, f"{header}: holds {kind}, write text, numbers or truth values"))
            columns[header] = list(map(_text, table.column(k - 1).to_pylist()))
    except (pa.ArrowException, OSError, ValueError) as error:
        why = " ".join(str(error).split())[:100]
        raise refuse(str(path), f"is no Parquet file that can be read ({why}), write it again") from None
    return Sheet(str(path), columns, range(2, table.num_rows + 2), [], lambda _, cell: cell + 1, faults)


def _text(value: Any) -> str:
    """Return a value of Parquet as CSV would hold it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


# -- writing -----------------------------------------------------------------------------------------


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace, whole or not at all, as its name ends: `.csv` or `.parquet`.

    Columns in which no workload says anything are left out.
    """
    if path.suffix not in (".csv", ".parquet"):
        raise InputError([f"{path}: is neither CSV nor Parquet, write a name that ends in .csv or .parquet"])
    said = {column.header: _said(getattr(trace, column.field), column) for column in COLUMNS}
    said = {header: cells for header, cells in said.items() if any(cell is not None for cell in cells)}
    write_atomic(path, _csv(said) if path.suffix == ".csv" else _parquet(said))


def _said(field: Any, column: Column) -> list[Any]:
    """Return the cells of a field, None where it says nothing."""
    values = field if column.kind is tuple else field.tolist()
    plain = _PLAIN.get(column.header)
    said = [None if _unsaid(value, column) else value for value in values]
    return [None if value is None else plain(value) for value in said] if plain else said


def _unsaid(value: Any, column: Column) -> bool:
    """Say whether a value is what an empty cell would mean."""
    return not column.required and (value == column.default or value != value)  # NaN is not itself


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "gpu_types": "|".join,
    "cpus_per_replica": lambda milli: milli / 1000,
}


def _memory(size: int) -> str:
    """Write bytes as `512G`, in the largest unit that leaves no rest."""
    power = 0
    while size and size % 1024 == 0 and power < len(_UNITS):
        size, power = size // 1024, power + 1
    return f"{size}{_UNITS[power - 1] if power else ''}"


def _csv(said: dict[str, list[Any]]) -> str:
    """Return the text of a CSV file."""
    texts = {"resumable": lambda value: str(value).lower(), "memory_per_replica": _memory}
    cells = (
        ["" if value is None else texts.get(header, str)(value) for value in values]
        for header, values in said.items()
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(said)
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue()


def _parquet(said: dict[str, list[Any]]) -> bytes:
    """Return the bytes of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table({header: pa.array(values) for header, values in said.items()}), sink)
    return sink.getvalue().to_pybytes()
