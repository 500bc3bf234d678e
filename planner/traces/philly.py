"""Microsoft Philly: the published `cluster_job_log` (JSON), and the flat CSV form made for Pollux.

JSON: a list of jobs with jobid, vc, user, submitted_time and attempts; an attempt has start_time, end_time
and detail, a list of machines (ip) with the GPUs used. CSV: timestamp, duration (seconds, all attempts),
num_gpus, cluster (the virtual cluster). Times have no zone; they are taken as UTC.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from planner.cells import begun_seconds, name, utc, whole
from planner.errors import InputError
from planner.scan import JsonPlaces, Loc
from planner.sheet import MAX_FAULTS, Columns, Sheet, csv_sheet, read_text, refuse
from planner.strict import key_path
from planner.traces.log import BLANKS, Log, stem
from planner.words import shown

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def read(path: Path) -> Log:
    """Read one file of either form; the default label is the virtual cluster."""
    text = read_text(path)
    if text.lstrip()[:1] == "[":
        return _Jobs(text, str(path)).log()
    return _flat(csv_sheet(text, str(path)), stem(path))


def _flat(sheet: Sheet, prefix: str) -> Log:
    """Read the CSV form; its jobs have no names, so their rows are numbered."""
    columns = Columns(sheet)
    columns.expect(COLUMNS)
    submitted_s = columns.read("timestamp", utc)
    runtime_s = columns.read("duration", begun_seconds)
    gpus = columns.read("num_gpus", whole(0, 1_000_000))
    columns.finish()
    ids = [f"{prefix}-{row:06d}" for row in range(1, sheet.count + 1)]
    labels = {"vc": sheet.columns["cluster"], **sheet.columns}
    return Log(ids, submitted_s, [*runtime_s], gpus, labels, calendar=True)


class _Jobs:
    """The JSON form under examination, and what is wrong with it."""

    def __init__(self, text: str, file: str) -> None:
        self.file, self.text = file, text
        self.faults: list[tuple[Loc, str]] = []
        self.notes: Counter[str] = Counter()

    def log(self) -> Log:
        """Return the log; InputError with what is wrong."""
        jobs = [self._job(entry, i) for i, entry in enumerate(self._entries())]
        if self.faults:
            places = JsonPlaces(self.text)
            told = [(*places.locate(loc), loc, text) for loc, text in self.faults[:MAX_FAULTS]]
            lines = [f"{self.file}:{a}:{b}: {key_path(loc)}: {text}" for a, b, loc, text in told]
            raise InputError(lines)
        columns: list[list[Any]] = [list(column) for column in zip(*jobs, strict=True)]
        ids, vcs, users, submitted_s, runtime_s, gpus, nodes = columns
        labels = {"vc": vcs, "user": users}
        return Log(ids, submitted_s, runtime_s, gpus, labels, True, nodes=nodes, user=users, notes=self.notes)

    def _entries(self) -> list[Any]:
        """Return the jobs as JSON has them."""
        try:
            data = json.loads(self.text)
        except json.JSONDecodeError as error:
            fault = f"is not JSON ({error.msg}), check the quotes, commas and brackets here"
            raise refuse(self.file, fault, error.lineno, error.colno) from None
        except (RecursionError, ValueError) as error:
            raise refuse(self.file, f"is not JSON to reckon with ({error}), write a list of jobs") from None
        if not data:
            raise refuse(self.file, "holds no job, name a file that does")
        return list(data)

    def _job(self, entry: Any, i: int) -> tuple[Any, ...]:
        """Return id, virtual cluster, user, submit, run time, GPUs and nodes of a job."""
        if not isinstance(entry, dict):
            self._fault((i,), entry, "a job: a mapping with jobid, vc, submitted_time and attempts")
            return (None,) * 7
        texts = [self._text(entry, key, (i, key)) for key in ("jobid", "vc", "user")]
        submitted_s = self._time(entry.get("submitted_time"), (i, "submitted_time"))
        if submitted_s is None:
            self._fault((i, "submitted_time"), entry.get("submitted_time"), "a time")
        runs, shapes = [], [(0, 0)]
        for k, attempt in enumerate(self._list(entry, "attempts", (i, "attempts"))):
            loc = (i, "attempts", k)
            if not isinstance(attempt, dict):
                self._fault(loc, attempt, "an attempt: a mapping with start_time, end_time and detail")
                continue
            began_s, ended_s = (self._time(attempt.get(x), (*loc, x)) for x in ("start_time", "end_time"))
            if began_s is None or ended_s is None or ended_s < began_s:
                self.notes["left out: an attempt without a start or an end"] += 1
                continue
            runs.append(ended_s - began_s)
            shapes.append(self._shape(attempt, loc))
        return (*texts, submitted_s, sum(runs) if runs else None, *max(shapes))

    def _shape(self, attempt: dict[str, Any], loc: Loc) -> tuple[int, int]:
        """Return GPUs and nodes of an attempt."""
        counts = []
        for m, machine in enumerate(self._list(attempt, "detail", (*loc, "detail"))):
            here = (*loc, "detail", m)
            if isinstance(machine, dict):
                counts.append(len(self._list(machine, "gpus", (*here, "gpus"))))
            else:
                self._fault(here, machine, "a machine: a mapping with ip and gpus")
        even = len(set(counts)) == 1
        return sum(counts), len(counts) if even else 0

    def _text(self, entry: dict[str, Any], key: str, loc: Loc) -> str:
        """Return a name; only the user may be unknown."""
        value = entry.get(key)
        if key == "user" and (value is None or value in BLANKS):
            return ""
        try:
            return name(value if isinstance(value, str) else "")
        except ValueError:
            self._fault(loc, value, "a name")
            return ""

    def _time(self, value: Any, loc: Loc) -> int | None:
        """Return a time in epoch seconds, None where there is none."""
        if value is None or value == "" or value in BLANKS:
            return None
        try:
            return utc(value if isinstance(value, str) else "")
        except ValueError:
            self._fault(loc, value, "a time such as 2017-10-07 01:11:39")
            return 0

    def _list(self, entry: dict[str, Any], key: str, loc: Loc) -> list[Any]:
        """Return a list, empty where there is none."""
        value = entry.get(key)
        if value is not None and not isinstance(value, list):
            self._fault(loc, value, "a list")
        return value if isinstance(value, list) else []

    def _fault(self, loc: Loc, value: Any, like: str) -> None:
        """Report a value that is not what the format has there."""
        self.faults.append((loc, f"{shown(value)} is not what a Philly log holds here, write {like}"))
