"""CSV files: what goes out comes back, every bad line has its place, and nothing is half imported."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings

from planner.errors import InputError
from planner.ledger.csvfile import HEADER, MAX_LINE, MAX_NAME, export_csv, import_csv
from planner.ledger.demand import known_hours
from planner.ledger.hourly import occupied
from planner.ledger.store import Ledger
from tests.planner.ledger.histories import END_S, HOUR, emptied, histories, hourly_rows, interval, record

GOOD = "slurm,17,0,language/pretraining,allocated,saturn,h100,8,0,3600,ended"


def written(tmp_path: Path, *lines: str, header: str = ",".join(HEADER)) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text("\n".join((header, *lines)) + "\n", encoding="utf-8")
    return path


def total(ledger: Ledger) -> int:
    with ledger.read() as connection:
        return sum(occupied(connection, 0, END_S).values())


def faults(ledger: Ledger, path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        import_csv(ledger, path)
    return caught.value.messages


@settings(max_examples=30)
@given(said=histories)
def test_what_is_exported_and_imported_elsewhere_is_the_same_to_the_byte(shared, tmp_path_factory, said):
    record(emptied(shared), *said)
    lines = "".join(export_csv(shared, 0, END_S + 1))
    with shared.read() as connection:
        before = hourly_rows(connection)
    path = tmp_path_factory.mktemp("csv") / "runs.csv"
    path.write_text(lines, encoding="utf-8")
    emptied(shared)
    import_csv(shared, path)
    assert "".join(export_csv(shared, 0, END_S + 1)) == lines
    with shared.read() as connection:
        assert hourly_rows(connection) == before


def test_names_with_commas_quotes_and_other_scripts_come_back(ledger, tmp_path):
    record(ledger, interval('a "b", c', allocation="команда/日本"))
    lines = "".join(export_csv(ledger, 0, END_S))
    path = tmp_path / "runs.csv"
    path.write_text(lines, encoding="utf-8")
    emptied(ledger)
    import_csv(ledger, path)
    assert "".join(export_csv(ledger, 0, END_S)) == lines
    assert total(ledger) == 8 * HOUR


def test_a_file_imported_twice_is_charged_once(ledger, tmp_path):
    path = written(tmp_path, GOOD)
    assert import_csv(ledger, path).new == 1
    assert import_csv(ledger, path).known == 1
    assert total(ledger) == 8 * HOUR


def test_a_file_from_a_spreadsheet_is_read(sqlite_ledger, tmp_path):
    """With a byte order mark and lines that end as on Windows."""
    path = tmp_path / "runs.csv"
    path.write_bytes(("\ufeff" + ",".join(HEADER) + "\r\n" + GOOD + "\r\n").encode())
    assert import_csv(sqlite_ledger, path).new == 1


def test_an_export_holds_whole_runs_that_touch_the_time(ledger):
    record(ledger, interval("v", 0, 100), interval("w", 50, 200), interval("x", 200, 300))
    lines = list(export_csv(ledger, 100, 200))
    assert [line.split(",")[1] for line in lines[1:]] == ["w"]
    assert lines[1].split(",")[8:10] == ["50", "200"]


@pytest.mark.parametrize(
    ("cells", "bad", "said"),
    [
        ({"source": ""}, "source", "source: "),
        ({"workload": " 17"}, "workload", "workload: "),
        ({"workload": "x" * 256}, "workload", "workload: "),
        ({"occupancy": "free"}, "occupancy", "occupancy: "),
        ({"gpus": "0"}, "gpus", "gpus: "),
        ({"gpus": "8.0"}, "gpus", "gpus: "),
        ({"end_s": "-1"}, "end_s", "end_s: "),
        ({"end_s": "1e3"}, "end_s", "end_s: "),
        ({"end_s": "9" * 20}, "end_s", "end_s: "),
        ({"end_s": "9" * 5000}, "end_s", "end_s: "),
        ({"state": "done"}, "state", "state: "),
        ({"started_s": "1"}, "begin_s", "begin_s: 0 is before started_s"),
        ({"begin_s": "3601"}, "end_s", "end_s: 3600 is before begin_s"),
        ({"end_s": "999999999"}, "end_s", "end_s: 999999999 is more than ten years"),
        ({"workload": '"a, ""b"""', "state": "x"}, "state", "state: "),
        ({"state": "ended,more"}, "source", "file: the line holds 12 cells"),
        ({"workload": '"17'}, "source", "file: the line holds quotes or line ends that do not match"),
    ],
)
def test_a_bad_line_is_reported_with_its_place_and_nothing_is_imported(
    sqlite_ledger, tmp_path, cells, bad, said
):
    raw = [cells.get(name, good) for name, good in zip(HEADER, GOOD.split(","), strict=True)]
    path = written(tmp_path, GOOD, ",".join(raw))
    column = sum(len(cell) + 1 for cell in raw[: HEADER.index(bad)]) + 1
    (message,) = faults(sqlite_ledger, path)
    assert message.startswith(f"{path}:3:{column}: {said}")
    assert len(message) < 400
    assert total(sqlite_ledger) == 0


def test_an_empty_line_is_a_bad_line(sqlite_ledger, tmp_path):
    (message,) = faults(sqlite_ledger, written(tmp_path, "", GOOD))
    assert ":2:1: file: the line holds 0 cells" in message


def test_every_bad_line_is_reported(ledger, tmp_path):
    bad = GOOD.replace("ended", "x").replace("h100,8", "h100,-8")
    path = written(tmp_path, bad, GOOD, bad)
    gpus, state = bad.index("-8") + 1, bad.rindex("x") + 1
    expected = [f":{line}:{column}" for line in (2, 4) for column in (gpus, state)]
    assert [m.split(": ")[0].removeprefix(str(path)) for m in faults(ledger, path)] == expected
    assert total(ledger) == 0


def test_of_very_many_bad_lines_the_first_are_reported(sqlite_ledger, tmp_path):
    path = written(tmp_path, *["x"] * 1000)
    assert len(faults(sqlite_ledger, path)) == 201


@pytest.mark.parametrize("text", ["", "id,begin,end\n", ",".join(HEADER[::-1]) + "\n"])
def test_a_file_without_the_header_is_refused(sqlite_ledger, tmp_path, text):
    path = tmp_path / "runs.csv"
    path.write_text(text)
    assert faults(sqlite_ledger, path)[0].startswith(f"{path}:1:1: ")


def test_a_file_that_cannot_be_read_is_refused(sqlite_ledger, tmp_path):
    assert "cannot be read" in faults(sqlite_ledger, tmp_path / "none.csv")[0]
    path = tmp_path / "runs.csv"
    path.write_bytes(",".join(HEADER).encode() + b"\n\xff\n")
    assert "not UTF-8" in faults(sqlite_ledger, path)[0]


@pytest.mark.parametrize("raw", [b"a\xff", "\u00e9,\u00e9".encode() + b"\xff", b"\xe2\x82", b"a\x00\xff"])
def test_what_is_not_utf8_is_refused_with_its_place_and_nothing_is_imported(sqlite_ledger, tmp_path, raw):
    path = tmp_path / "runs.csv"
    path.write_bytes(f"{','.join(HEADER)}\n{GOOD}\n".encode() + raw + f"\n{GOOD}\n".encode())
    column = len(raw.decode(errors="ignore")) + 1
    assert faults(sqlite_ledger, path)[-1].startswith(f"{path}:3:{column}: file: is not UTF-8")
    assert total(sqlite_ledger) == 0


def test_a_line_without_end_is_refused_and_not_read_to_its_end(sqlite_ledger, tmp_path):
    path = tmp_path / "runs.csv"
    for text in ("x" * 50_000_000, ",".join(HEADER) + "\n" + '"' * 50_000_000):
        path.write_text(text)
        begin = time.process_time()
        messages = faults(sqlite_ledger, path)
        assert time.process_time() - begin < 1
        assert len(messages) == 1
        assert f"longer than {MAX_LINE} bytes" in messages[0]


def test_names_of_full_length_in_any_script_are_no_long_line(sqlite_ledger, tmp_path):
    names = ["\U0001f986" * MAX_NAME] * 4
    source, workload, allocation, cluster = names
    line = f"{source},{workload},0,{allocation},allocated,{cluster},{names[0]},8,0,3600,ended"
    assert import_csv(sqlite_ledger, written(tmp_path, line)).new == 1


def test_runs_of_more_hours_than_a_file_may_hold_are_refused_in_seconds(sqlite_ledger, tmp_path):
    decade_s = 3_600 * 86_400
    lines = [f"slurm,{i},0,a,allocated,saturn,h100,8,{i},{i + decade_s},ended" for i in range(2000)]
    begin = time.process_time()
    (message,) = faults(sqlite_ledger, written(tmp_path, *lines))
    assert time.process_time() - begin < 10
    assert "hours, write fewer into one file" in message
    assert total(sqlite_ledger) == 0


def test_an_import_knows_the_part_of_each_hour_in_which_something_ran(ledger, tmp_path):
    early = GOOD.replace("0,3600,ended", "600,1800,ended")
    late = GOOD.replace("17,0", "18,7200").replace("0,3600,ended", "7300,10800,ended")
    import_csv(ledger, written(tmp_path, early, late))
    with ledger.read() as connection:
        found = [(h.first_s, h.last_s, h.observed_s) for h in known_hours(connection, 0, END_S)]
    assert found == [(600, 1800, 0), (7300, 10800, 0)]


def test_a_partial_import_and_a_correction_know_no_hours(ledger, tmp_path):
    import_csv(ledger, written(tmp_path, GOOD), whole=False)
    import_csv(ledger, written(tmp_path, GOOD.replace("3600", "7200")))
    assert total(ledger) == 8 * 2 * HOUR
    with ledger.read() as connection:
        assert known_hours(connection, 0, END_S) == []
