"""Quotas of virtual clusters: what each was given, on one day or day by day, as weights of budgets.

Two forms are read. Helios (`cluster_gpu_number.csv`): a row a day with `date`, the GPUs of each virtual
cluster, and `total`. Philly's, from the Helios repository: two columns, virtual cluster and number of nodes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planner.atomic import write_atomic
from planner.cells import name, utc, whole
from planner.errors import InputError
from planner.sheet import Columns, Sheet, read_csv

TOTAL = "total"

_amount = whole(0, 1_000_000)


@dataclass(frozen=True)
class Quota:
    """Who was given how much, day by day.

    Attributes
    ----------
    day_s : tuple of int
        Epoch seconds at which each row begins to hold; one row at 0 where the file has no days.
    weights : tuple of dict of str to int
    """

    day_s: tuple[int, ...]
    weights: tuple[dict[str, int], ...]

    def at(self, time_s: int) -> dict[str, int]:
        """Return what holds at a time; before the first day, what holds on it."""
        before = [w for day_s, w in zip(self.day_s, self.weights, strict=True) if day_s <= time_s]
        return (before or self.weights[:1])[-1]

    def changes(self, begin_s: int, end_s: int) -> Iterator[tuple[int, str, int]]:
        """Yield second from `begin_s`, allocation and weight: all at the begin, then what changes."""
        standing: dict[str, int] = {}
        for time_s in (begin_s, *(t for t in self.day_s if begin_s < t < end_s)):
            now = self.at(time_s)
            yield from ((time_s - begin_s, n, w) for n, w in now.items() if standing.get(n) != w)
            standing = now


def is_quota(path: Path) -> bool:
    """Say whether a CSV file is a table of quotas by day."""
    headers = list(read_csv(path).columns)
    return headers[0] == "date" and TOTAL in headers


def read_quota(path: Path) -> Quota:
    """Read a file of quotas; InputError with what is wrong with it."""
    sheet = read_csv(path)
    headers = list(sheet.columns)
    if not sheet.count or not (headers[0] == "date" or len(headers) == 2):
        fault = "is no table of quotas, write the columns date, one for each name, total; or name, nodes"
        raise InputError([f"{path}:1:1: file: {fault}"])
    return _by_day(sheet) if headers[0] == "date" else _one_day(sheet)


def write_changes(path: Path, quota: Quota, begin_s: int, days: int | None) -> int:
    """Write the weights over time as CSV, and return the number of its rows."""
    end_s = quota.day_s[-1] + 1 if days is None else begin_s + days * 86_400
    rows = list(quota.changes(begin_s, end_s))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("time_s", "allocation", "weight"))
    writer.writerows(rows)
    write_atomic(path, text.getvalue())
    return len(rows)


def _by_day(sheet: Sheet) -> Quota:
    """Read a row a day."""
    columns = Columns(sheet)
    days = columns.read("date", lambda text: utc(f"{text} 00:00"))
    clusters = [header for header in sheet.columns if header not in ("date", TOTAL)]
    cells = [columns.read(header, _amount) for header in clusters]
    columns.unique("date")
    columns.finish()
    rows = sorted(zip(days, zip(*cells, strict=True), strict=True))
    return Quota(
        tuple(day for day, _ in rows), tuple(dict(zip(clusters, row, strict=True)) for _, row in rows)
    )


def _one_day(sheet: Sheet) -> Quota:
    """Read names and numbers."""
    columns = Columns(sheet)
    first, second = sheet.columns
    weights = dict(zip(columns.read(first, name), columns.read(second, _amount), strict=True))
    columns.unique(first)
    columns.finish()
    return Quota((0,), (weights,))
