"""The folder of a simulation: complete or without a summary, and the same in CSV as in Parquet."""

from __future__ import annotations

import csv
import json
import os

import pandas as pd
import pyarrow.parquet
import pytest
from hypothesis import given, settings

from planner.errors import InputError
from planner.simulation import output
from planner.simulation.history import Event
from planner.simulation.output import SCHEMA, read_summary, read_table, write
from planner.simulation.tables import COLUMNS
from planner.site import parse_site
from tests.planner.simulation.histories import SITE, scene
from tests.planner.simulation.toy import TOYS

ODD = ["a,b", 'say "hi"', "=1+1", "two\nlines", "back\rslash\\", "é|:", " blank", "NA", "007", "1e5"]
FILES = {"summary.json", *(f"{table}.{kind}" for table in COLUMNS for kind in ("csv", "parquet"))}


@pytest.fixture(scope="module", autouse=True)
def _no_crash_to_survive():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def text(value):
    """Return a cell of a frame as the CSV has it."""
    if value is pd.NA or value != value:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def small():
    events = [(0, "w", Event.SUBMIT, {}), (5, "w", Event.START, {"e1": 8})]
    return scene({"w": {}}, events, end_s=100, samples=[(0, 38, 0, 0)], promises=[(0, "w", 4)])


@settings(max_examples=15)
@given(toy=TOYS)
def test_csv_and_parquet_hold_the_same(tmp_path_factory, toy):
    folder = tmp_path_factory.mktemp("toy")
    write(toy.history, folder)
    for table in COLUMNS:
        frame = read_table(folder, table)
        found = rows(folder / f"{table}.csv")
        assert len(found) == len(frame)
        for name in frame:
            told = [row[name] for row in found]
            if frame[name].dtype == "float64":
                told, wanted = [float(cell or "nan") for cell in told], frame[name].tolist()
                assert told == pytest.approx(wanted, rel=0, abs=0, nan_ok=True), (table, name)
            else:
                assert told == [text(value) for value in frame[name].tolist()], (table, name)


def test_odd_ids_survive_both_files(tmp_path):
    events = [(0, key, Event.SUBMIT, {}) for key in sorted(ODD)]
    write(scene({key: {} for key in ODD}, events, end_s=9), tmp_path)
    for table, column in (("workloads", "id"), ("events", "workload")):
        assert [row[column] for row in rows(tmp_path / f"{table}.csv")] == sorted(ODD)
        assert read_table(tmp_path, table)[column].tolist() == sorted(ODD)


@pytest.mark.parametrize("name", ["n|1", "n:1"])
def test_node_names_that_would_not_survive_a_list_of_places_are_refused_with_the_site(name):
    with pytest.raises(InputError, match=r"site\.yaml:\d+:\d+: .*holds one of"):
        parse_site(SITE.replace('names: "w[1-2]"', f'name: "{name}"'), "site.yaml")


def test_the_folder_holds_every_table_twice_and_the_summary(tmp_path):
    figures = write(small(), tmp_path / "new" / "folder", {"policy": "budget", "seed": 3})
    assert {p.name for p in (tmp_path / "new" / "folder").iterdir()} == FILES
    assert read_summary(tmp_path / "new" / "folder") == figures
    assert figures["inputs"] == {"policy": "budget", "seed": 3}


def test_without_workloads_every_file_is_still_there_with_its_columns(tmp_path):
    write(scene({}, [], end_s=0), tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == FILES
    for table, named in COLUMNS.items():
        assert (tmp_path / f"{table}.csv").read_text().count(",") >= len(named) - 1
        assert read_table(tmp_path, table).columns[0] == next(iter(named))


def test_parquet_says_units_and_version(tmp_path):
    write(small(), tmp_path)
    schema = pyarrow.parquet.read_schema(tmp_path / "allocations.parquet")
    assert schema.metadata[b"gangplan.schema"] == str(SCHEMA).encode()
    assert schema.field("owed").metadata[b"unit"] == b"GPU-hours"


@pytest.mark.parametrize("table", COLUMNS)
def test_an_interruption_leaves_whole_old_tables_and_no_summary(tmp_path, monkeypatch, table):
    write(small(), tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def stop(measured, name):
        yield from output_pieces(measured, name)
        if name == table:
            raise KeyboardInterrupt

    output_pieces = output.pieces
    monkeypatch.setattr(output, "pieces", stop)
    other = scene({"v": {}}, [(0, "v", Event.SUBMIT, {})], end_s=50, samples=[(0, 1, 2, 3), (1, 1, 2, 3)])
    with pytest.raises(KeyboardInterrupt):
        write(other, tmp_path)
    after = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert after.keys() == before.keys() - {"summary.json"}
    kept = [f"{name}.csv" for name in list(COLUMNS)[list(COLUMNS).index(table) :]]
    assert all(after[name] == before[name] for name in kept)
    with pytest.raises(InputError, match="a simulation has finished"):
        read_summary(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="out: cannot be written to"):
        write(small(), tmp_path / "file" / "out")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("{", "is no summary"),
        ("[1]", "is no summary"),
        ("{}", "is no summary"),
        ("[" * 100_000, "is no summary"),
        ('{"end_s": 1}', f"is of version None, this is {SCHEMA}"),
        ('{"end_s": 1, "schema": 99}', "is of version 99"),
    ],
)
def test_a_file_that_is_no_summary_of_this_version_is_refused(tmp_path, content, fault):
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(InputError, match=fault) as caught:
        read_summary(tmp_path)
    assert str(tmp_path / "summary.json") in str(caught.value)


def test_a_folder_without_a_simulation_is_refused(tmp_path):
    for read in (read_summary, lambda folder: read_table(folder, "events")):
        for folder in (tmp_path, tmp_path / "nowhere"):
            with pytest.raises(InputError, match=str(folder)):
                read(folder)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"time_s,workload\n"])
def test_a_file_that_is_no_table_is_refused(tmp_path, content):
    (tmp_path / "events.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"events\.parquet: cannot be read"):
        read_table(tmp_path, "events")


def test_a_table_of_somebody_else_is_refused(tmp_path):
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "events.parquet")
    with pytest.raises(InputError, match="is of version none"):
        read_table(tmp_path, "events")


def test_the_summary_is_strict_json_in_the_order_of_the_interface(tmp_path):
    write(scene({}, [], end_s=0), tmp_path)

    def refuse(constant):
        raise AssertionError(constant)

    found = json.loads((tmp_path / "summary.json").read_text(), parse_constant=refuse)
    assert list(found)[:2] == ["end_s", "availability"]
    assert found["availability"] is None


def test_what_is_no_strict_json_is_not_written_and_costs_nothing(tmp_path):
    write(small(), tmp_path)
    before = (tmp_path / "summary.json").read_text()
    with pytest.raises(ValueError, match="JSON"):
        write(small(), tmp_path, {"gap": float("nan")})
    assert (tmp_path / "summary.json").read_text() == before
