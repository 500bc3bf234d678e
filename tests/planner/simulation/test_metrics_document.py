"""docs/metrics.md names every figure and every column, with its unit."""

from __future__ import annotations

import re

import pytest

from planner.simulation.output import write
from planner.simulation.tables import COLUMNS
from tests.planner.simulation.histories import scene
from tests.test_docs import read, section, tables

DOCUMENT = "metrics.md"


def first_cells(text: str) -> dict[str, list[str]]:
    """Return the rows of the one table of a text, by each name in backticks in their first cells."""
    (table,) = tables(text)
    return {name: row for row in table for name in re.findall(r"`([^`]+)`", row[0])}


def test_every_figure_of_a_summary_is_explained_in_its_order(tmp_path):
    figures = write(scene({}, [], end_s=0), tmp_path, {"policy": "budget"}, stopped=True)
    assert list(first_cells(section(read(DOCUMENT), "## The figures of summary.json"))) == list(figures)


@pytest.mark.parametrize("table", COLUMNS)
def test_every_column_is_listed_in_its_order_with_its_unit(table):
    rows = first_cells(section(read(DOCUMENT), f"### {table}"))
    assert list(rows) == list(COLUMNS[table])
    assert {name: row[1] for name, row in rows.items()} == {n: c.unit for n, c in COLUMNS[table].items()}


def test_every_table_has_a_section_and_no_other_has_one():
    files = read(DOCUMENT).partition("## The files")[2]
    assert re.findall(r"^### (\w+)$", files, re.MULTILINE) == list(COLUMNS)
