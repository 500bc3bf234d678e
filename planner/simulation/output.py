"""The folder of a simulation: `summary.json`, and every table as Parquet and CSV, each file whole or absent.

`summary.json` goes first and comes last: a folder that has one has all files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from planner.atomic import write_atomic, writing
from planner.errors import InputError
from planner.simulation.history import History
from planner.simulation.metrics.measure import Measured, measure
from planner.simulation.metrics.summary import summary
from planner.simulation.tables import COLUMNS, Column, columns, pieces
from planner.strict import read_text

SUMMARY = "summary.json"
SCHEMA = 1
"""Version of the files; it rises when a key or a column changes its meaning or goes."""

SCHEMA_KEY, UNIT_KEY = b"gangplan.schema", b"unit"
TYPES = {"int64": pa.int64(), "float64": pa.float64(), "string": pa.string(), "bool": pa.bool_()}


def write(
    history: History, folder: Path, inputs: Mapping[str, Any] | None = None, *, stopped: bool = False
) -> dict[str, Any]:
    """Write every file of a simulation and return its summary; InputError where one cannot be written.

    Parameters
    ----------
    inputs : mapping or None
        What was simulated (paths, policy, seed, ...); it goes into the summary as it is.
    stopped : bool
        The simulation was not at its end; the summary says so by `stopped_s`, which others do not have.
    """
    measured = measure(history)
    figures = {
        **summary(measured),
        "schema": SCHEMA,
        **({"inputs": dict(inputs)} if inputs else {}),
        **({"stopped_s": history.end_s} if stopped else {}),
    }
    text = json.dumps(figures, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    _make_way(folder)
    for table in COLUMNS:
        _write_table(measured, table, folder)
    write_atomic(folder / SUMMARY, text)
    return figures


def read_summary(folder: Path) -> dict[str, Any]:
    """Return the summary of a simulation; InputError where there is none that this version understands."""
    path = folder / SUMMARY
    if folder.is_dir() and not path.exists():
        raise InputError([f"{path}: is not there, name a folder that a simulation has finished"])
    text = read_text(path)
    try:
        figures = json.loads(text)
    except (ValueError, RecursionError):
        figures = None
    if not isinstance(figures, dict) or "end_s" not in figures:
        raise InputError([f"{path}: is no summary of a simulation, name a folder that a simulation wrote"])
    _check_schema(path, figures.get("schema"))
    return figures


def read_table(folder: Path, table: str) -> pd.DataFrame:
    """Return a table of a simulation; InputError where there is none that this version understands."""
    path = folder / f"{table}.parquet"
    try:
        found = pyarrow.parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or "it is no Parquet file"
        raise InputError([f"{path}: cannot be read ({why}), simulate again"]) from None
    version = (found.schema.metadata or {}).get(SCHEMA_KEY, b"none").decode(errors="replace")
    _check_schema(path, int(version) if version.isdecimal() else version)
    frame: pd.DataFrame = found.to_pandas()
    return frame


def _check_schema(path: Path, version: object) -> None:
    if version != SCHEMA:
        raise InputError([f"{path}: is of version {version}, this is {SCHEMA}: simulate again"])


def _make_way(folder: Path) -> None:
    """Make the folder, and take away the summary of an older simulation: its tables are about to go."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SUMMARY).unlink(missing_ok=True)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError(
            [f"{folder}: cannot be written to ({why}), name a folder that you may write to"]
        ) from None


def _write_table(measured: Measured, table: str, folder: Path) -> None:
    """Write one table, piece by piece, into both of its files."""
    schema = _schema(columns(measured, table))
    with ExitStack() as stack:
        parquet = stack.enter_context(writing(folder / f"{table}.parquet"))
        text = stack.enter_context(writing(folder / f"{table}.csv"))
        writers: list[Any] = []
        for frame in pieces(measured, table):
            piece = pa.Table.from_pandas(frame, schema, preserve_index=False)
            if not writers:
                writers = [
                    stack.enter_context(
                        pyarrow.parquet.ParquetWriter(parquet, piece.schema, compression="zstd")
                    ),
                    stack.enter_context(pyarrow.csv.CSVWriter(text, piece.schema)),
                ]
            for writer in writers:
                writer.write_table(piece)


def _schema(named: dict[str, Column]) -> pa.Schema:
    """Return the columns as Arrow has them, with units and version."""
    fields = [pa.field(name, TYPES[c.type], metadata={UNIT_KEY: c.unit}) for name, c in named.items()]
    return pa.schema(fields, metadata={SCHEMA_KEY: str(SCHEMA)})
