"""Tables are read only where they have all columns, of their kinds, and are of one simulation."""

from __future__ import annotations

import json
import shutil
from itertools import permutations

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from planner.errors import InputError
from planner.reports.frames.compared import FIGURES, Compared
from planner.reports.frames.tables import checked, checked_summary
from planner.reports.pages.compare import MAIN
from planner.simulation.output import SCHEMA_KEY
from planner.simulation.tables import COLUMNS
from tests.planner.reports.folders import played


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(played(0)[1].folder, tmp_path / "c")


def changed(folder, table, **columns):
    """Write columns of a table anew, and keep what the file says of itself."""
    path = folder / f"{table}.parquet"
    found = pyarrow.parquet.read_table(path)
    new = pa.Table.from_pandas(found.to_pandas().assign(**columns), preserve_index=False)
    pyarrow.parquet.write_table(
        new.replace_schema_metadata({SCHEMA_KEY: found.schema.metadata[SCHEMA_KEY]}), path
    )


def faults_of(read, *args):
    with pytest.raises(InputError) as caught:
        read(*args)
    return caught.value.messages


@pytest.mark.parametrize("n", range(4))
def test_every_table_that_a_simulation_wrote_is_read(n):
    for table in COLUMNS:
        assert set(checked(played(n)[1].folder, table)) >= {c for c in COLUMNS[table] if "<" not in c}


@pytest.mark.parametrize(("table", "other"), list(permutations(COLUMNS, 2)))
def test_another_table_in_the_place_of_one_is_named_with_a_column_that_it_lacks(folder, table, other):
    shutil.copy(folder / f"{other}.parquet", folder / f"{table}.parquet")
    (fault,) = faults_of(checked, folder, table)
    assert fault.startswith(f"{folder / table}.parquet: is not the table {table}, as it has no column ")
    assert fault.endswith(", simulate again")


@pytest.mark.parametrize("table", COLUMNS)
def test_a_missing_table_is_called_missing(folder, table):
    (folder / f"{table}.parquet").unlink()
    assert faults_of(checked, folder, table) == [f"{folder / table}.parquet: is not there, simulate again"]


@pytest.mark.parametrize(
    ("table", "column", "value", "kind"),
    [
        ("events", "time_s", "soon", "whole numbers"),
        ("events", "time_s", 0.5, "whole numbers"),
        ("workloads", "gpus", None, "whole numbers"),
        ("workloads", "largest", "yes", "true or false"),
        ("workloads", "id", 7, "text"),
        ("allocations", "owed", "much", "numbers"),
    ],
)
def test_a_column_of_another_kind_is_named(folder, table, column, value, kind):
    changed(folder, table, **{column: value})
    assert f"column {column}: is not all {kind}" in faults_of(checked, folder, table)[0]


@pytest.mark.parametrize(
    ("table", "column", "value", "other"),
    [
        ("events", "workload", "stranger", "workloads"),
        ("events", "nodes", "stranger:8", "nodes"),
        ("promises", "workload", "stranger", "workloads"),
        ("outages", "node", "stranger", "nodes"),
        ("allocations", "allocation", "stranger", "shares"),
        ("allocations", "hour", 999_999, "hours"),
    ],
)
def test_a_table_of_another_simulation_is_refused(folder, table, column, value, other):
    path = folder / f"{table}.parquet"
    found = pyarrow.parquet.read_table(path)
    row = {n: (0 if pd.api.types.is_numeric_dtype(t.to_pandas_dtype()) else "") for n, t in
           zip(found.schema.names, found.schema.types, strict=True)}  # fmt: skip
    table_of_one = pa.Table.from_pylist([{**row, column: value}], schema=found.schema)
    pyarrow.parquet.write_table(table_of_one, path)
    told = f"column {column}: names {str(value).partition(':')[0]}, which is not in {other}.parquet"
    assert any(told in fault for fault in faults_of(checked, folder, table))


def test_a_placement_that_is_none_is_refused(folder):
    changed(folder, "events", nodes="n1")
    assert "column nodes: is not all name:gpus" in faults_of(checked, folder, "events")[0]


@pytest.mark.parametrize("end_s", ["<script>", None, True, -1, 1.5, 10**30, []])
def test_an_end_that_is_no_number_of_seconds_is_refused(folder, end_s):
    path = folder / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "end_s": end_s}))
    assert "summary.json: end_s: " in faults_of(checked_summary, folder)[0]


def test_another_table_in_the_place_of_a_comparison_is_refused(folder):
    shutil.copy(folder / "workloads.parquet", folder / "compare.parquet")
    faults = faults_of(lambda: Compared(folder).rows)
    assert "is not the table compare, as it has no column case" in faults[0]


def test_the_figures_that_a_comparison_must_have_are_those_that_its_page_shows():
    assert [name for name, _ in MAIN.values()] == list(FIGURES)
