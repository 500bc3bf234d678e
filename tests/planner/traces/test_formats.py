"""Every format: what its small log says is read, and a damaged one is refused with a place."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings

from planner.errors import InputError
from planner.scan import place
from planner.simulation.tracefile import read_trace, write_trace
from planner.traces.convert import Wishes, convert
from planner.traces.formats import FORMATS, read_log
from planner.traces.log import Log
from tests.planner.damage import mutations
from tests.planner.faults import assert_lines, refusal
from tests.planner.simulation.traces import same
from tests.planner.traces.logs import LOGS, put

FILES = [(form, name, text) for form, files in LOGS.items() for name, text in files.items()]
IDS = [f"{form}-{name}" for form, name, _ in FILES]


def test_every_format_has_a_log_here():
    assert set(LOGS) == set(FORMATS)


@pytest.mark.parametrize(("form", "name", "text"), FILES, ids=IDS)
def test_a_gzipped_log_is_the_same(tmp_path, form, name, text):
    plain = put(tmp_path, name, text)
    zipped = tmp_path / f"{name}.gz"
    zipped.write_bytes(gzip.compress(text.encode()))
    assert read_log(form, [plain]) == read_log(form, [zipped])


@pytest.mark.parametrize(("form", "name", "text"), FILES, ids=IDS)
def test_every_job_is_in_the_trace_or_in_the_notes(tmp_path, form, name, text):
    log = read_log(form, [put(tmp_path, name, text)])
    found = convert(log, Wishes())
    left = [times for note, times in found.notes.items() if note not in log.notes and "left out" in note]
    assert found.trace.count + sum(left) == len(log.id)
    assert found.trace.count > 0


@pytest.mark.parametrize(("form", "name", "text"), FILES, ids=IDS)
def test_a_log_with_damage_is_refused_in_the_agreed_form_or_becomes_a_trace(
    tmp_path_factory, form, name, text
):
    @settings(max_examples=80)
    @given(mutations(text))
    def check(damaged):
        path = put(tmp_path_factory.getbasetemp(), name, damaged)
        try:
            log = read_log(form, [path])
        except InputError as error:
            assert_lines(error.messages)
            return
        try:
            made = convert(log, Wishes()).trace
        except InputError:
            return  # nothing is left of it
        write_trace(made, out)
        assert same(read_trace(out), made)

    out = tmp_path_factory.getbasetemp() / "made.csv"
    check()


CELLS = [
    ("philly", "philly.csv", "2017-10-02 10:00:00", "yesterday", "timestamp"),
    ("philly", "philly.csv", "90.0", "-90.0", "duration"),
    ("philly", "philly.csv", "16,", "1.5,", "num_gpus"),
    ("itp", "cluster09.csv", "j-2", "j-1", "job_id"),
    ("itp", "cluster09.csv", "30000", "soon", "duration"),
    ("kalos", "kalos.csv", "30.5", "x", "duration_s"),
    ("kalos", "trace_kalos.csv", "2023-05-17 20:00:00+08:00", "today", "submit_time"),
    ("openb", "pods.csv", "16384", "16G", "memory_mib"),
    ("openb", "pods.csv", "120.0", "-120", "scheduled_time"),
    ("helios", "log.csv", "86400", "1 day", "duration"),
    ("swf", "log.swf", "100  16", "ten  16", "run"),
    ("sacct", "sacct.txt", "1-02:00:00|COMPLETED|billing", "a day|COMPLETED|billing", "Elapsed"),
    ("sacct", "sacct.txt", "2026-10-01T10:00:00|Unknown", "soon|Unknown", "Submit"),
]


@pytest.mark.parametrize(("form", "name", "old", "new", "column"), CELLS)
def test_a_damaged_cell_is_refused_with_its_place(tmp_path, form, name, old, new, column):
    text = LOGS[form][name]
    at = text.index(old)
    path = put(tmp_path, name, text[:at] + new + text[at + len(old) :])
    (message,) = refusal(read_log, form, [path])
    line, start = place(text, at)
    assert message.startswith(f"{path}:{line}:{start}: {column}: ")


MISSING = [
    ("philly", "philly.csv", "num_gpus"),
    ("itp", "cluster09.csv", "duration"),
    ("kalos", "kalos.csv", "gpu_num"),
    ("kalos", "trace_kalos.csv", "submit_time"),
    ("openb", "pods.csv", "scheduled_time"),
    ("helios", "log.csv", "start_time"),
    ("sacct", "sacct.txt", "Submit"),
    ("sacct", "sacct.txt", "Elapsed"),
]


@pytest.mark.parametrize(("form", "name", "column"), MISSING)
def test_a_missing_column_is_told_by_name(tmp_path, form, name, column):
    text = LOGS[form][name]
    header, rest = text.split("\n", 1)
    path = put(tmp_path, name, f"{header.replace(column, 'other')}\n{rest}")
    assert any(
        m.startswith(f"{path}:1:1: {column}: not in the header") for m in refusal(read_log, form, [path])
    )


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_the_log_of_another_format_is_refused(tmp_path, form):
    text = "a,b\n1,2\n"
    messages = refusal(read_log, form, [put(tmp_path, "t.csv", text)])
    assert all(":1:1: " in m or form == "swf" for m in messages)


def test_files_of_a_log_are_one_log_and_the_same_job_twice_is_refused(tmp_path):
    a = put(tmp_path, "east.csv", LOGS["itp"]["cluster09.csv"])
    b = put(tmp_path, "west.csv", LOGS["itp"]["cluster09.csv"].replace("j-", "k-"))
    trace = convert(read_log("itp", [a, b]), Wishes()).trace
    assert trace.count == 6
    assert sorted(set(zip(trace.id, trace.allocation, strict=True))) == [
        *((f"j-{i}", "east") for i in (1, 2, 3)),
        *((f"k-{i}", "west") for i in (1, 2, 3)),
    ]
    log = read_log("itp", [a, a])
    assert isinstance(log, Log)
    with pytest.raises(Exception, match="stands in two of the files"):
        convert(log, Wishes())


def test_labels_of_joined_files_are_those_that_all_have(tmp_path: Path):
    a = put(tmp_path, "a.csv", "job_id,submission_time,duration,num_gpu,team\nj,0,60,1,red\n")
    b = put(tmp_path, "b.csv", "job_id,submission_time,duration,num_gpu\nk,0,60,1\n")
    assert set(read_log("itp", [a, b]).labels) == {
        "cluster", "job_id", "submission_time", "duration", "num_gpu"
    }  # fmt: skip
