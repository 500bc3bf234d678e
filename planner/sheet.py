"""Tables of text with the place of every cell, and their columns turned into values, all faults at once."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from planner.errors import InputError
from planner.rights import unreadable
from planner.scan import ScanError, check_characters, place
from planner.schema.wording import one_of
from planner.words import printable, shown

Value = TypeVar("Value")

MAX_BYTES = 1 << 30
MAX_FAULTS = 50
"""Faults that are told; more than that have few causes."""

_CELL = re.compile(r'"(?:[^"]|"")*"|[^,]*')
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"


@dataclass(frozen=True)
class Sheet:
    """A table of text as it stands in a file; R rows.

    Attributes
    ----------
    name : str
        What messages call the file.
    columns : dict of str to list of str[R]
        By header, in the order of the file.
    lines : sequence of int[R]
        The line at which each row begins; for a file without lines, that of the same table as CSV.
    text : list of str
        The lines of the file, empty where it has none.
    column : callable
        Returns the column, from 1, at which the k-th cell of a line begins.
    faults : list of (line, column, text)
        What is wrong with the table itself; rows that are no rows are left out of the columns.
    """

    name: str
    columns: dict[str, list[str]]
    lines: Sequence[int]
    text: list[str]
    column: Callable[[str, int], int]
    faults: list[tuple[int, int, str]]

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.lines)

    def locate(self, row: int, cell: int) -> tuple[int, int]:
        """Return line and column of a cell; -1 is the row of the header."""
        line = self.lines[row] if row >= 0 else 1
        raw = self.text[line - 1] if line <= len(self.text) else ""
        return line, self.column(raw, cell)


class Columns:
    """Turns the columns of a sheet into values, and collects what is wrong until `finish` raises it."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self._order = {header: k for k, header in enumerate(sheet.columns)}
        self._bad: set[int] = set()
        self._found: list[tuple[int, str, str]] = []
        self._table = list(sheet.faults)

    def expect(self, required: Iterable[str], known: Iterable[str] | None = None) -> None:
        """Report columns that are missing and, where `known` is given, columns that are not among them."""
        missing = ", ".join(header for header in required if header not in self._order)
        if missing:
            self._table.append((1, 1, f"{missing}: not in the header, add it"))
        words = None if known is None else list(known)
        for k, header in enumerate(self._order):
            if words is not None and header not in words:
                fault = f"{printable(header[:80])}: {one_of(header, words, 'a column')}"
                self._table.append((*self.sheet.locate(-1, k), fault))

    def read(self, header: str, read: Callable[[str], Value], default: Value | None = None) -> list[Value]:
        """Return the values of a column, the default for each row where the sheet has no such column.

        A cell that `read` refuses is reported, and its value is None: `sound` tells such rows.
        """
        cells = self.sheet.columns.get(header)
        if cells is None:
            return [default] * self.sheet.count  # type: ignore[list-item]
        known: dict[str, Value] = {}
        wrong: dict[str, str] = {}
        for cell in dict.fromkeys(cells):
            try:
                known[cell] = read(cell)
            except ValueError as fault:
                wrong[cell] = str(fault)
        if wrong:
            for row, cell in enumerate(cells):
                if cell in wrong:
                    self.fault(row, header, wrong[cell])
            known |= dict.fromkeys(wrong, None)  # type: ignore[arg-type]
        return [known[cell] for cell in cells]

    def fault(self, row: int, header: str, text: str) -> None:
        """Report what is wrong with a cell."""
        self._bad.add(row)
        self._found.append((row, header, text))

    def sound(self, row: int) -> bool:
        """Say whether nothing in a row has been found wrong so far."""
        return row not in self._bad

    def unique(self, header: str) -> None:
        """Report cells of a column that stood there before."""
        first: dict[str, int] = {}
        for row, cell in enumerate(self.sheet.columns.get(header, ())):
            before = first.setdefault(cell, row)
            if before != row and cell:
                fault = f"{shown(cell)} stands in line {self.sheet.lines[before]} already, write another"
                self.fault(row, header, fault)

    def finish(self) -> None:
        """Raise what was found, in the order of the file; do nothing if there is nothing."""
        count = len(self._found) + len(self._table)
        if not count:
            return
        self._found.sort(key=lambda found: (found[0], self._order.get(found[1], 0)))
        told = [
            (*self.sheet.locate(row, self._order.get(header, 0)), f"{printable(header[:80])}: {text}")
            for row, header, text in self._found[:MAX_FAULTS]
        ]
        told = sorted(self._table + told)[:MAX_FAULTS]
        lines = [f"{self.sheet.name}:{line}:{column}: {text}" for line, column, text in told]
        if count > len(told):
            line, column, _ = told[-1]
            rest = f"file: {count - len(told)} more faults from here on, mend these first"
            lines.append(f"{self.sheet.name}:{line}:{column}: {rest}")
        raise InputError(lines)


# -- reading -----------------------------------------------------------------------------------------


def refuse(name: str, fault: str, line: int = 1, column: int = 1) -> InputError:
    """Return the error that a file as a whole is wrong."""
    return InputError([f"{name}:{line}:{column}: file: {fault}"])


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, gzipped or not; InputError where there is none."""
    name = str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if raw[:2] == _GZIP:
            raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(MAX_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise refuse(name, f"is no whole gzip file ({error}), make it again") from None
    except (OSError, ValueError) as error:
        raise InputError([f"{name}: {unreadable(error)}"]) from None
    if len(raw) > MAX_BYTES:
        raise refuse(name, "is larger than 1 GiB, write less")
    if raw[: len(_PARQUET)] == _PARQUET:
        raise refuse(name, "is a Parquet file, give it a name that ends in .parquet")
    try:
        text = raw.decode("utf-8-sig")
        check_characters(text)
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        fault = f"is not UTF-8 text (byte 0x{raw[error.start]:02x}), save it as UTF-8"
        raise refuse(name, fault, *place(before, len(before))) from None
    except ScanError as error:
        raise refuse(name, error.fault, error.line, error.column) from None
    return text


def read_csv(path: Path, delimiter: str = ",") -> Sheet:
    """Read a CSV file; InputError where nothing can be made of it.

    Quotes mean something only where the delimiter is a comma.
    """
    return csv_sheet(read_text(path), str(path), delimiter)


def csv_sheet(text: str, name: str, delimiter: str = ",") -> Sheet:
    """Read CSV text; `name` is what error messages call it."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[-1]:
        lines.pop()
    if not lines or not lines[0]:
        raise refuse(name, "is empty or begins with an empty line, write a header first")
    if delimiter == "," and '"' in text:
        return _of_rows(name, *_unquoted(name, lines), lines, _csv_column)
    begins, column = range(1, len(lines) + 1), _Split(delimiter)
    width = lines[0].count(delimiter) + 1
    if any(line.count(delimiter) != width - 1 for line in lines):
        return _of_rows(name, [line.split(delimiter) for line in lines], begins, lines, column)
    cells = delimiter.join(lines).split(delimiter)  # one cut through all: a tenth of the time of many
    columns = {cells[k]: cells[k + width :: width] for k in range(width)}
    return Sheet(name, columns, begins[1:], lines, column, _twins(cells[:width]))


def _unquoted(name: str, lines: list[str]) -> tuple[list[list[str]], list[int]]:
    """Return the rows of a file with quotes, and the line at which each begins."""
    reader = csv.reader((f"{line}\n" for line in lines), strict=True)
    rows, begins = [], [1]
    try:
        for row in reader:
            rows.append(row)
            begins.append(reader.line_num + 1)
    except csv.Error as error:
        raise refuse(name, f"is not CSV ({error}), check the quotes here", begins[-1]) from None
    return rows, begins[:-1]


def _of_rows(
    name: str,
    rows: list[list[str]],
    begins: Sequence[int],
    lines: list[str],
    column: Callable[[str, int], int],
) -> Sheet:
    """Make a sheet of rows; those of another length than the header are faults, and left out."""
    header, faults = rows[0], _twins(rows[0])
    kept = []
    for i, (row, begin) in enumerate(zip(rows, begins, strict=True)):
        if len(row) == len(header):
            kept.append(i)
        else:
            held = f"{len(row)} cells" if any(row) else "nothing"
            faults.append((begin, 1, f"file: the line holds {held}, write {len(header)} as in the header"))
    cells = map(list, zip(*(rows[i] for i in kept[1:]), strict=True)) if kept[1:] else [[] for _ in header]
    columns = dict(zip(header, cells, strict=True))
    return Sheet(name, columns, [begins[i] for i in kept[1:]], lines, column, faults)


def _twins(header: list[str]) -> list[tuple[int, int, str]]:
    """Return the fault of a header that names a column twice."""
    twice = next((h for k, h in enumerate(header) if h in header[:k]), None)
    fault = f"file: two columns are called {shown(twice)}, leave one out"
    return [] if twice is None else [(1, 1, fault)]


def _csv_column(line: str, cell: int) -> int:
    """Return the column at which a cell of a line with commas begins."""
    at = 0
    for _ in range(cell):
        found = _CELL.match(line, at)
        at = found.end() + 1 if found else at + 1
    return at + 1


@dataclass(frozen=True)
class _Split:
    """Finds the cells of a line with a plain delimiter."""

    delimiter: str

    def __call__(self, line: str, cell: int) -> int:
        return sum(len(part) + 1 for part in line.split(self.delimiter)[:cell]) + 1
