"""Occupancy as CSV: one statement a line, all of a file or nothing of it."""

from __future__ import annotations

import csv
import io
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from planner.errors import InputError
from planner.ledger.demand import Coverage
from planner.ledger.intervals import FIELDS, Counts, Interval, Recorder, statements
from planner.ledger.schema import HOUR_S
from planner.ledger.store import Ledger
from planner.rights import unreadable
from planner.units import MAX_TIME_S
from planner.words import shown

HEADER = tuple("state" if name == "running" else name for name in FIELDS)
"""The columns; times are epoch seconds, `state` is `running` or `ended`."""

STATES = {"running": True, "ended": False}
MAX_FAULTS = 200
MAX_GPUS = 1_000_000
MAX_RUN_S = 3_660 * 86_400
"""Ten years; longer is a slip of the pen."""

MAX_HOURS, HOURS_A_LINE = 500_000, 100
"""Hours that the runs of one file last, all together: so many, and so many more for each line.

Each is a row to keep; without a bound a few lines of ten years would fill memory and database.
"""

MAX_NAME = 255
MAX_LINE = 16_384
"""Bytes of a line; names of full length in any script fit."""

_CELL = re.compile(r'"(?:[^"]|"")*"|[^,]*')


def import_csv(ledger: Ledger, path: Path, whole: bool = True) -> Counts:
    """Import a file in one transaction; InputError with every bad line of it, and then nothing is kept.

    With `whole`, the hours that its new intervals touch are known from then on.
    """
    faults: list[str] = []
    with ledger.write() as connection:
        counts = _recorded(connection, _read(path, faults), whole)
        if faults:
            raise InputError(faults)
    return counts


def import_statements(ledger: Ledger, said: Iterable[Interval]) -> Counts:
    """Import statements that are no file; the hours that new ones touch are known from then on."""
    with ledger.write() as connection:
        return _recorded(connection, said, whole=True)


def _recorded(connection: Connection, said: Iterable[Interval], whole: bool) -> Counts:
    recorder = Recorder(connection)
    new = recorder.record(said)
    if whole:
        coverage = Coverage()
        coverage.touch(new)
        coverage.flush(connection)
    else:
        for _ in new:
            pass
    recorder.finish()
    return recorder.counts


def export_csv(ledger: Ledger, begin_s: int, end_s: int) -> Iterator[str]:
    """Yield the lines of a file: what is held true of the time from `begin_s` to `end_s`, runs uncut."""
    yield ",".join(HEADER) + "\n"
    with ledger.read() as connection:
        for interval in statements(connection, begin_s, end_s):
            cells = [getattr(interval, name) for name in FIELDS]
            cells[-1] = "running" if interval.running else "ended"
            yield _line(cells)


def _line(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


# -- reading -----------------------------------------------------------------------------------------


def _read(path: Path, faults: list[str]) -> Iterator[Interval]:
    """Yield the intervals of a file; what is wrong goes to `faults`, and nothing is yielded after that."""
    header, hours = list(HEADER), 0
    for number, line in _lines(path, faults):
        if number == 1 and _cells(line) != header:
            fault = f"the first line is not the header, write {','.join(header)}"
            faults.append(f"{path}:1:1: file: {fault}")
            return
        interval = _interval(line, f"{path}:{number}", faults) if number > 1 else None
        if len(faults) >= MAX_FAULTS:
            faults.append(f"{path}:{number}:1: file: the rest is not looked at, mend these first")
            return
        if interval is None:
            continue
        hours += (interval.end_s - interval.begin_s) // HOUR_S
        if hours > MAX_HOURS + HOURS_A_LINE * number:
            fault = f"the runs up to here last {hours} hours, write fewer into one file"
            faults.append(f"{path}:{number}:1: file: {fault}")
            return
        if not faults:
            yield interval


def _lines(path: Path, faults: list[str]) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line, at least of one; end at one that is no line of text."""
    try:
        with path.open("rb") as file:
            number, raw = 1, file.readline(MAX_LINE + 1).removeprefix(BOM_UTF8)
            while raw or number == 1:
                if len(raw) > MAX_LINE:
                    fault = f"the line is longer than {MAX_LINE} bytes, write one statement a line"
                    faults.append(f"{path}:{number}:1: file: {fault}")
                    return
                yield number, raw.decode()
                number, raw = number + 1, file.readline(MAX_LINE + 1)
    except OSError as error:
        raise InputError([f"{path}: {unreadable(error)}"]) from None
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode()) + 1
        fault = f"is not UTF-8 text (byte 0x{raw[error.start]:02x}), save it as UTF-8"
        faults.append(f"{path}:{number}:{column}: file: {fault}")


def _cells(line: str) -> list[str] | None:
    """Return the cells of a line; None where its quotes do not match."""
    try:
        return next(csv.reader([line.rstrip("\r\n")], strict=True), [])
    except csv.Error:
        return None


def _interval(line: str, where: str, faults: list[str]) -> Interval | None:
    """Return what a line says; report every cell that is wrong."""
    cells = _cells(line)
    if cells is None or len(cells) != len(HEADER):
        found = "quotes or line ends that do not match" if cells is None else f"{len(cells)} cells"
        faults.append(f"{where}:1: file: the line holds {found}, write {len(HEADER)} cells as in the header")
        return None
    values: list[Any] = []
    before = len(faults)
    for i, (cell, read) in enumerate(zip(cells, READERS, strict=True)):
        try:
            values.append(read(cell))
        except ValueError as fault:
            faults.append(f"{where}:{_column(line, i)}: {HEADER[i]}: {fault}")
    if len(faults) > before:
        return None
    interval = Interval(*values)
    for name, why in _contradictions(interval):
        faults.append(f"{where}:{_column(line, HEADER.index(name))}: {name}: {why}")
    return interval if len(faults) == before else None


def _column(line: str, cell: int) -> int:
    """Return the column, from 1, at which a cell begins."""
    at = 0
    for _ in range(cell):
        found = _CELL.match(line, at)
        at = found.end() + 1 if found else at + 1
    return at + 1


def _contradictions(interval: Interval) -> Iterator[tuple[str, str]]:
    """Yield cell and fault where the times of an interval do not go together."""
    if interval.begin_s < interval.started_s:
        yield "begin_s", f"{interval.begin_s} is before started_s, write at least {interval.started_s}"
    if interval.end_s < interval.begin_s:
        yield "end_s", f"{interval.end_s} is before begin_s, write at least {interval.begin_s}"
    elif interval.end_s - interval.begin_s > MAX_RUN_S:
        yield "end_s", f"{interval.end_s} is more than ten years after begin_s, write the true end"


def _name(text: str) -> str:
    """Take a name as site files and snapshots hold it."""
    if not text or len(text) > MAX_NAME or not text.isprintable() or text.strip() != text:
        fix = f"write 1 to {MAX_NAME} characters without blanks around them"
        raise ValueError(f"{shown(text)} is not a name, {fix}")
    return text


def _gpu_type(text: str) -> str:
    """Take a name, or nothing where nodes have no type."""
    return _name(text) if text else text


def _whole(low: int, high: int, noun: str) -> Callable[[str], int]:
    """Return a reader of whole numbers within bounds."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):
            raise ValueError(f"{shown(text)} is not {noun}, write a whole number from {low} to {high}")
        return int(text)

    return read


def _one_of(*names: str) -> Callable[[str], str]:
    """Return a reader of a few words."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"{shown(text)} is unknown, write {' or '.join(names)}")
        return text

    return read


def _state(text: str) -> bool:
    """Take whether a run was seen running or has ended."""
    return STATES[_one_of(*STATES)(text)]


_TIME = _whole(0, MAX_TIME_S, "a time in epoch seconds")
READERS: tuple[Callable[[str], Any], ...] = (
    _name, _name, _TIME, _name, _one_of("allocated", "unallocated"), _name, _gpu_type,
    _whole(1, MAX_GPUS, "a number of GPUs"), _TIME, _TIME, _state,
)  # fmt: skip
"""How each column is read."""
