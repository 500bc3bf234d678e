"""The Standard Workload Format of the Parallel Workloads Archive, plain or gzipped; processors count as GPUs.

Lines of 18 fields or more, -1 where unknown. Lines that begin with `;` are comments; `UnixStartTime` is
read, and without it, submit times of today's size are epoch seconds. Partial runs (status 2, 3, 4) are left
out: their job has a line of its own.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from planner.cells import number, whole, within
from planner.sheet import Columns, Sheet, read_text, refuse
from planner.simulation.trace import UNSAID
from planner.traces.log import Log
from planner.units import MAX_DURATION_S

FIELDS = (
    "job", "submit", "wait", "run", "processors", "cpu_time", "memory", "processors_asked", "time_asked",
    "memory_asked", "status", "user", "group", "executable", "queue", "partition", "preceding", "think_time",
)  # fmt: skip
"""Names of the fields; further ones are called by their number, from 19."""

EPOCH_FROM_S = 500_000_000
LEAST = -1e12
"""Below -1 stands only what is wrong, and is as good as unknown."""

PARTIAL = (2, 3, 4)

_START = re.compile(r";\s*UnixStartTime:\s*([0-9]{1,12})\b")
_FIELD = re.compile(r"\S+")
_time = within(LEAST, MAX_DURATION_S)
_amount = within(LEAST, 1_000_000)


def read(path: Path) -> Log:
    """Read one log; the default label is the user."""
    sheet, start_s = _sheet(read_text(path), str(path))
    columns = Columns(sheet)
    ids = columns.read("job", whole(0, 10**12))
    submitted_s = columns.read("submit", within(0, 1e11))
    runtime_s = columns.read("run", _time)
    counts = [columns.read(field, _amount) for field in ("processors", "processors_asked")]
    time_asked_s = columns.read("time_asked", _time)
    status = columns.read("status", number)
    columns.unique("job")
    columns.finish()
    epoch = start_s is not None or max(submitted_s) >= EPOCH_FROM_S
    log = Log(
        [str(i) for i in ids],
        [math.floor(s) + (start_s or 0) for s in submitted_s],
        [None if s < 0 else math.ceil(s) for s in runtime_s],
        [int(ran if ran > 0 else max(asked, 0)) for ran, asked in zip(*counts, strict=True)],
        labels={"user": sheet.columns["user"], **sheet.columns},
        calendar=epoch,
        user=["" if user == "-1" else user for user in sheet.columns["user"]],
        time_limit_s=[math.ceil(s) if s >= 1 else UNSAID for s in time_asked_s],
    )
    whole_jobs = [i for i, code in enumerate(status) if code not in PARTIAL]
    return log.select(whole_jobs, "left out: a part of a job that has a line of its own")


def _sheet(text: str, name: str) -> tuple[Sheet, int | None]:
    """Return the jobs as a table, and when the log began in epoch seconds, if it says so."""
    start_s: int | None = None
    rows, begins, faults = [], [], []
    lines = text.split("\n")
    for number_, line in enumerate(lines, 1):
        if line.lstrip().startswith(";"):
            found = _START.match(line.lstrip())
            start_s = int(found[1]) if found else start_s
            continue
        fields = line.split()
        if len(fields) >= len(FIELDS):
            rows.append(fields)
            begins.append(number_)
        elif fields:
            faults.append((number_, 1, f"file: the line holds {len(fields)} fields, write {len(FIELDS)}"))
    if not rows and not faults:
        raise refuse(name, "holds no job, name a file that does")
    width = min(map(len, rows), default=len(FIELDS))
    headers = (*FIELDS, *(str(k) for k in range(len(FIELDS) + 1, width + 1)))
    columns = {header: [row[k] for row in rows] for k, header in enumerate(headers)}
    return Sheet(name, columns, begins, lines, _column, faults), start_s


def _column(line: str, cell: int) -> int:
    """Return the column at which a field begins."""
    starts = [match.start() + 1 for match in _FIELD.finditer(line)]
    return starts[cell] if cell < len(starts) else 1
