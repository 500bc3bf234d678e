"""Tables: every cell has its place, every line that is no row is told, and nothing unreadable passes."""

from __future__ import annotations

import csv
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cells import seconds
from planner.errors import InputError
from planner.sheet import MAX_FAULTS, Columns, csv_sheet, read_csv, read_text
from tests.planner.faults import assert_lines, refusal

CELLS = st.text(st.sampled_from('ab1,"\n ü|'), max_size=5)


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    width = draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=5))
    return [[f"c{k}" for k in range(width)], *(row for row in rows if any(row))]


def written(rows: list[list[str]], quoting: int = csv.QUOTE_MINIMAL) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows(rows)
    return text.getvalue()


@given(tables(), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_a_table_comes_back_and_every_cell_is_where_it_is_said_to_be(rows, quoting):
    text = written(rows, quoting)
    sheet = csv_sheet(text, "t.csv")
    assert [list(sheet.columns), *map(list, zip(*sheet.columns.values(), strict=True))] == rows
    lines = text.split("\n")
    for i, row in enumerate(rows[1:]):
        if any("\n" in cell for cell in row):
            continue  # such a row has a line, its cells only the line's columns
        for k, cell in enumerate(row):
            line, column = sheet.locate(i, k)
            quoted = '"' + cell.replace('"', '""') + '"'
            assert lines[line - 1][column - 1 :].startswith((quoted, cell))


@given(tables())
def test_quotes_that_are_not_needed_change_nothing(rows):
    bare = csv_sheet(written(rows), "t.csv")
    quoted = csv_sheet(written(rows, csv.QUOTE_ALL), "t.csv")
    assert (bare.columns, list(bare.lines)) == (quoted.columns, list(quoted.lines))


@pytest.mark.parametrize("mark", ["\n", "\r\n", "\r"])
def test_lines_may_end_as_on_any_system_and_the_last_ones_may_be_empty(mark):
    sheet = csv_sheet(mark.join(["a,b", "1,2", "3,4", "", ""]), "t.csv")
    assert sheet.columns == {"a": ["1", "3"], "b": ["2", "4"]}
    assert list(sheet.lines) == [2, 3]


@pytest.mark.parametrize("quoted", [False, True])
def test_lines_of_another_length_are_told_and_the_others_are_read(quoted):
    text = "a,b\n1,2\n3\n4,5,6\n\n7,8\n"
    sheet = csv_sheet(text.replace("1", '"1"') if quoted else text, "t.csv")
    assert sheet.columns == {"a": ["1", "7"], "b": ["2", "8"]}
    assert list(sheet.lines) == [2, 6]
    messages = refusal(Columns(sheet).finish)
    assert [m.split(":")[1] for m in messages] == ["3", "4", "5"]
    assert ["1 cells" in messages[0], "3 cells" in messages[1], "nothing" in messages[2]] == [True] * 3


def test_a_delimiter_other_than_a_comma_knows_no_quotes():
    sheet = csv_sheet('a|b\n"1|2\n', "t.txt", "|")
    assert sheet.columns == {"a": ['"1'], "b": ["2"]}
    assert sheet.locate(0, 1) == (2, 4)


@pytest.mark.parametrize("text", ["", "\n", "\n1,2\n", "\ufeff"])
def test_an_empty_file_is_refused(text):
    (message,) = refusal(csv_sheet, text.removeprefix("\ufeff"), "t.csv")
    assert "write a header first" in message


@pytest.mark.parametrize("text", ['a,b\n1,"2\n', 'a,b\n1,"2"3\n', 'a,b\n"' + "x" * 200_000 + '",1\n'])
def test_quotes_that_do_not_match_are_refused_with_their_line(text):
    (message,) = refusal(csv_sheet, text, "t.csv")
    assert message.startswith("t.csv:2:1: file: is not CSV")


def test_a_header_that_names_a_column_twice_is_refused():
    assert 'two columns are called "a"' in refusal(Columns(csv_sheet("a,b,a\n1,2,3\n", "t.csv")).finish)[0]


def test_a_byte_order_mark_and_gzip_are_read_whatever_the_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(gzip.compress("\ufeffa,b\n1,ü\n".encode()))
    assert read_csv(path).columns == {"a": ["1"], "b": ["ü"]}


@pytest.mark.parametrize(
    ("content", "place", "said"),
    [
        (b"a,b\n1,\xff\n", "2:3", "not UTF-8 text (byte 0xff)"),
        ("a,b\nü,".encode() + b"\xc3\n", "2:3", "not UTF-8 text (byte 0xc3)"),
        (b"a,b\n1,\0\n", "2:3", "U+0000"),
        (gzip.compress(b"a,b\n" * 100, mtime=0)[:-9], "1:1", "no whole gzip file"),
        (b"\x1f\x8bnonsense", "1:1", "no whole gzip file"),
        (b"PAR1 and so on", "1:1", "give it a name that ends in .parquet"),
    ],
)
def test_what_is_no_text_is_refused_with_its_place(tmp_path, content, place, said):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    (message,) = refusal(read_text, path)
    assert message.startswith(f"{path}:{place}: file: ")
    assert said in message


def test_what_cannot_be_read_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(InputError, match="cannot be read"):
            read_text(path)


def test_all_faults_are_told_in_the_order_of_the_file():
    columns = Columns(csv_sheet("a,b,x\n1,-1,\n-2,3,\n-3,-4,\n", "t.csv"))
    columns.read("b", seconds)
    columns.read("a", seconds)
    columns.expect(["a", "c"], ["a", "b", "c"])
    messages = refusal(columns.finish)
    assert [m.split(": ")[:2] for m in messages] == [
        ["t.csv:1:1", "c"],
        ["t.csv:1:5", "x"],
        ["t.csv:2:3", "b"],
        ["t.csv:3:1", "a"],
        ["t.csv:4:1", "a"],
        ["t.csv:4:4", "b"],
    ]


def test_an_unknown_column_is_told_with_the_nearest_known_one():
    columns = Columns(csv_sheet("gpu_typs\n\n", "t.csv"))
    columns.expect([], ["gpus", "gpu_types"])
    assert '"gpu_typs" is not a column, write gpu_types' in refusal(columns.finish)[0]


def test_of_very_many_faults_the_first_are_told_and_the_rest_are_counted():
    columns = Columns(csv_sheet("a\n" + "x\n" * 1000, "t.csv"))
    columns.read("a", seconds)
    messages = refusal(columns.finish)
    assert len(messages) == MAX_FAULTS + 1
    assert f"{1000 - MAX_FAULTS} more faults" in messages[-1]


def test_a_cell_that_stood_there_before_is_told_with_the_line_of_the_first():
    columns = Columns(csv_sheet("a,b\nx,1\ny,1\nx,2\nx,2\n", "t.csv"))
    columns.unique("a")
    messages = refusal(columns.finish)
    assert [m.split(":")[1] for m in messages] == ["4", "5"]
    assert all("in line 2 already" in m for m in messages)
    assert not columns.sound(2)
    assert columns.sound(1)


def test_an_absent_column_is_its_default():
    assert Columns(csv_sheet("a\n1\n2\n", "t.csv")).read("b", seconds, -1) == [-1, -1]


@given(st.binary(max_size=60))
def test_bytes_are_a_table_or_refused_in_the_agreed_form(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "nonsense.csv"
    path.write_bytes(content)
    try:
        Columns(read_csv(path)).finish()
    except InputError as error:
        assert_lines(error.messages)
