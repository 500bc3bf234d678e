"""Trace files: what is written comes back, and what is damaged is refused with the line of the damage."""

from __future__ import annotations

import csv
import gzip
import io
import random
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from planner.errors import InputError
from planner.simulation.trace import UNSAID
from planner.simulation.tracefile import COLUMNS, read_trace, write_trace
from tests.planner.damage import mutations, parsed_or_refused
from tests.planner.faults import assert_lines, refusal
from tests.planner.simulation.traces import same, trace, traces

HEADER = [column.header for column in COLUMNS]
GOOD = [
    "id,allocation,submitted_s,replicas,gpus_per_replica,runtime_s,min_runtime_s,resumable,gpu_types",
    "a1,lab/a,0,2,8,3600,900,true,h100|b200",
    "a2,lab/b,60,1,4,7200.0,,false,",
    "a3,lab/a,60,4,8,0,0,yes,h100",
]


def put(folder: Path, *lines: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def replaced(header: str, value: str, line: int = 2) -> tuple[list[str], int]:
    """Return the good lines with one cell changed, and the column at which that cell begins."""
    cells = GOOD[line].split(",")
    k = GOOD[0].split(",").index(header)
    column = sum(len(cell) + 1 for cell in cells[:k]) + 1
    cells[k] = value
    return [*GOOD[:line], ",".join(cells), *GOOD[line + 1 :]], column


# -- what comes back ---------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@settings(max_examples=60)
@given(traces())
def test_a_trace_that_was_written_is_read_as_it_was(tmp_path_factory, suffix, drawn):
    path = tmp_path_factory.getbasetemp() / f"identity.{suffix}"
    write_trace(drawn, path)
    assert same(read_trace(path), drawn)


@settings(max_examples=40)
@given(traces(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_in_a_file_does_not_matter(tmp_path_factory, drawn, rng: random.Random):
    path = tmp_path_factory.getbasetemp() / "order.csv"
    write_trace(drawn, path)
    header, *rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
    rng.shuffle(rows)
    ks = list(range(len(header)))
    rng.shuffle(ks)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[row[k] for k in ks] for row in (header, *rows)])
    assert same(read_trace(path), drawn)


def test_a_good_file_is_what_it_says(tmp_path):
    read = read_trace(put(tmp_path, *GOOD))
    rows = [
        {"id": "a1", "allocation": "lab/a", "replicas": 2, "min_runtime_s": 900,
         "gpu_types": ("h100", "b200")},
        {"id": "a2", "allocation": "lab/b", "submitted_s": 60, "gpus_per_replica": 4, "runtime_s": 7200,
         "resumable": False},
        {"id": "a3", "allocation": "lab/a", "submitted_s": 60, "replicas": 4, "runtime_s": 0,
         "min_runtime_s": 0, "gpu_types": ("h100",)},
    ]  # fmt: skip
    assert same(read, trace(rows))


def test_absent_columns_and_empty_cells_mean_the_same(tmp_path):
    required = {"id": "w", "allocation": "a", "submitted_s": 5, "replicas": 1, "gpus_per_replica": 8,
                "runtime_s": 60}  # fmt: skip
    short = put(tmp_path, ",".join(required), ",".join(map(str, required.values())))
    full = put(tmp_path, ",".join(HEADER), ",".join(str(required.get(h, "")) for h in HEADER), name="f.csv")
    assert same(read_trace(short), read_trace(full))
    assert read_trace(short).min_runtime_s.tolist() == [UNSAID]


def test_columns_that_say_nothing_are_not_written(tmp_path):
    write_trace(trace([{"priority": 3}]), tmp_path / "t.csv")
    header = (tmp_path / "t.csv").read_text().splitlines()[0].split(",")
    assert header == [c.header for c in COLUMNS if c.required or c.header == "priority"]


@pytest.mark.parametrize(
    ("text", "memory_bytes", "short"),
    [("512G", 512 << 30, "512G"), ("2TiB", 2 << 40, "2T"), ("1025", 1025, "1025"), ("0.5G", 1 << 29, "512M")],
)
def test_memory_is_read_as_in_a_snapshot_and_written_short(tmp_path, text, memory_bytes, short):
    path = put(tmp_path, f"{GOOD[0]},memory_per_replica", f"{GOOD[1]},{text}")
    read = read_trace(path)
    assert read.memory_bytes_per_replica.tolist() == [memory_bytes]
    write_trace(read, path)
    assert path.read_text().splitlines()[1].rpartition(",")[2] == short


def test_a_gzipped_file_is_read(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(("\n".join(GOOD) + "\n").encode()))
    assert same(read_trace(path), read_trace(put(tmp_path, *GOOD)))


def test_a_parquet_file_of_another_program_is_read(tmp_path):
    """With floats for whole numbers, null and a dictionary for names."""
    table = pa.table(
        {
            "id": pa.array([1, 2], type=pa.int32()),
            "allocation": pa.array(["a", "a"]).dictionary_encode(),
            "submitted_s": pa.array([0.0, 60.0]),
            "replicas": pa.array([1, 2], type=pa.uint8()),
            "gpus_per_replica": pa.array([8, 8]),
            "runtime_s": pa.array([60, 60]),
            "time_limit_s": pa.array([None, 90.0]),
            "user": pa.nulls(2),
            "memory_per_replica": pa.array([1 << 40, None]),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    read = read_trace(tmp_path / "t.parquet")
    expected = [
        {"id": "1", "runtime_s": 60, "memory_bytes_per_replica": 1 << 40},
        {"id": "2", "submitted_s": 60, "replicas": 2, "runtime_s": 60, "time_limit_s": 90},
    ]
    assert same(read, trace(expected))


# -- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "value", "said"),
    [
        ("id", "", "is empty"),
        ("id", " a", "blanks"),
        ("id", "a1", "stands in line 2 already"),
        ("id", "x" * 256, "is not a name"),
        ("allocation", "", "is empty"),
        ("submitted_s", "nan", "is not a number"),
        ("submitted_s", "-60", "is negative"),
        ("submitted_s", "2026-10-09", "is not a number"),
        ("runtime_s", "59.5", "is not whole"),
        ("runtime_s", "", "is empty"),
        ("runtime_s", "1h", "is not a number"),
        ("runtime_s", "9" * 12, "is too large"),
        ("runtime_s", "1" + "0" * 400, "is not a number"),
        ("replicas", "0", "is too small"),
        ("replicas", "1000001", "is too large"),
        ("replicas", "500000", "500000 of 4 GPUs are more than 1000000"),
        ("gpus_per_replica", "0.5", "is not whole"),
        ("min_runtime_s", "-1", "is negative"),
        ("resumable", "maybe", "write true or false"),
        ("gpu_types", "h100||b200", "is empty"),
        ("gpu_types", "h100| ", "is not a name"),
    ],
)
def test_a_damaged_cell_is_refused_with_its_place(tmp_path, header, value, said):
    lines, column = replaced(header, value)
    path = put(tmp_path, *lines)
    (message,) = refusal(read_trace, path)
    assert message.startswith(f"{path}:3:{column}: {header}: ")
    assert said in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("header", "value", "said"),
    [
        ("time_limit_s", "0", "too small"),
        ("segment", "4", "write the level of the domain as topology_required"),
        ("cancelled_after_s", "-1", "is negative"),
        ("priority", "9999999999", "is too large"),
        ("cpus_per_replica", "0.0001", "more than three decimals"),
        ("cpus_per_replica", "-1", "out of bounds"),
        ("memory_per_replica", "lots", "is not a memory size"),
        ("gpu_utilization", "85", "write a number from 0 to 1"),
        ("gpu_utilization", "nan", "is not a number"),
    ],
)
def test_a_damaged_optional_cell_is_refused_with_its_place(tmp_path, header, value, said):
    path = put(tmp_path, f"{GOOD[0]},{header}", f"{GOOD[1]},", f"{GOOD[2]},{value}")
    (message,) = refusal(read_trace, path)
    assert message.startswith(f"{path}:3:{len(GOOD[2]) + 2}: {header}: ")
    assert said in message


def test_all_damage_is_told_at_once(tmp_path):
    lines = [GOOD[0], GOOD[1].replace("900", "x"), GOOD[2].replace("60", "-1"), "a1,b", GOOD[3]]
    messages = refusal(read_trace, put(tmp_path, *lines))
    assert [m.split(":")[1] for m in messages] == ["2", "3", "4"]


def test_missing_and_unknown_columns_are_told_together(tmp_path):
    path = put(tmp_path, GOOD[0].replace("replicas,", "replica,").replace("allocation", "team"), *GOOD[1:])
    messages = refusal(read_trace, path)
    assert messages[0].startswith(f"{path}:1:1: allocation, replicas: not in the header, add it")
    assert any('"replica" is not a column, write replicas' in m for m in messages)
    assert any(m.startswith(f"{path}:1:4: team: ") for m in messages)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_file_without_workloads_is_refused(tmp_path, name):
    if name == "t.csv":
        put(tmp_path, GOOD[0])
    else:
        parquet.write_table(pa.table({h: pa.nulls(0) for h in GOOD[0].split(",")}), tmp_path / name)
    assert "holds no workload" in refusal(read_trace, tmp_path / name)[0]


def test_a_damaged_cell_of_parquet_is_refused_with_row_and_column_counted_as_in_csv(tmp_path):
    write_trace(trace([{"id": "v"}, {"id": "w"}]), tmp_path / "t.parquet")
    table = parquet.read_table(tmp_path / "t.parquet")
    k = table.column_names.index("runtime_s")
    table = table.set_column(k, "runtime_s", pa.array([60.0, np.nan]))
    parquet.write_table(table, tmp_path / "t.parquet")
    (message,) = refusal(read_trace, tmp_path / "t.parquet")
    assert message.startswith(f"{tmp_path / 't.parquet'}:3:{k + 1}: runtime_s: ")


def test_parquet_columns_of_lists_or_times_are_refused(tmp_path):
    write_trace(trace([{}]), tmp_path / "t.parquet")
    table = parquet.read_table(tmp_path / "t.parquet")
    table = table.append_column("gpu_types", pa.array([["h100"]]))
    table = table.set_column(2, "submitted_s", pa.array([0], type=pa.timestamp("s")))
    parquet.write_table(table, tmp_path / "t.parquet")
    messages = refusal(read_trace, tmp_path / "t.parquet")
    assert sum("write text, numbers or truth values" in m for m in messages) == 2


def test_a_name_that_is_neither_csv_nor_parquet_is_not_written(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.csv or \.parquet"):
        write_trace(trace([{}]), tmp_path / "t.txt")
    assert not list(tmp_path.iterdir())


@settings(max_examples=300)
@given(mutations("\n".join(GOOD) + "\n"))
def test_a_file_with_damage_is_read_or_refused_in_the_agreed_form(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "damage.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    parsed_or_refused(read_trace, path)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.parquet"])
@settings(max_examples=200)
@given(st.data())
def test_a_binary_file_with_damage_is_read_or_refused_in_the_agreed_form(tmp_path_factory, name, data):
    path = tmp_path_factory.getbasetemp() / name
    raw = bytearray(binary(path))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path.write_bytes(bytes(raw))
    try:
        read_trace(path)
    except InputError as error:
        assert_lines(error.messages)


@cache
def binary(path: Path) -> bytes:
    """Return the good file, gzipped or as Parquet."""
    if path.suffix == ".gz":
        return gzip.compress(("\n".join(GOOD) + "\n").encode(), mtime=0)
    write_trace(read_trace(put(path.parent, *GOOD, name="good.csv")), path)
    return path.read_bytes()
