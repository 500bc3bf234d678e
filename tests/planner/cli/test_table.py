"""Tables are aligned, whole, and safe to pipe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cli.table import table

CELL = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=30)


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=1, max_size=8)
    )
)
def test_every_cell_is_whole_and_stands_in_its_column(rows: list[list[str]]):
    header = [f"H{k}" for k in range(len(rows[0]))]
    lines = table(header, rows).splitlines()
    assert [line.split() for line in lines] == [header, *rows]
    starts, left = [], 0
    for column in zip(header, *rows, strict=True):
        starts.append((left, left + max(map(len, column))))
        left = starts[-1][1] + 2
    for line, row in zip(lines, [header, *rows], strict=True):
        assert [line[a:b].strip() for a, b in starts] == row


@given(st.lists(st.lists(CELL, min_size=3, max_size=3), max_size=5))
def test_no_line_ends_in_a_blank(rows: list[list[str]]):
    assert all(line == line.rstrip() for line in table(("A", "B", "C"), rows).splitlines())


def test_columns_of_numbers_stand_to_the_right():
    assert table(("NAME", "SHARE", "N"), [("a", "5.00%", 7), ("bb", "12.50%", 1234)]).splitlines() == [
        "NAME   SHARE     N",
        "a      5.00%     7",
        "bb    12.50%  1234",
    ]


@pytest.mark.parametrize("nothing", [None, ""])
def test_an_empty_cell_shows_a_dash(nothing: object):
    assert table(("A", "B"), [(nothing, 0)]).splitlines()[1].split() == ["-", "0"]


def test_a_table_without_rows_is_its_header():
    assert table(("A", "B"), []) == "A  B"
