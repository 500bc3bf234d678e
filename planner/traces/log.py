"""What a log of another system says of its jobs, before it is a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import itemgetter
from pathlib import Path
from typing import Any

from planner.simulation.trace import UNSAID

BLANKS = ("None", "none", "null", "Unknown", "NaN", "nan", "NA")
"""What logs write for nothing."""


@dataclass(frozen=True)
class Log:
    """Jobs of a log, in its order; J rows in every list.

    Attributes
    ----------
    id : list of str
    submitted_s : list of int
        Epoch seconds where `calendar`, else seconds from the log's second 0.
    runtime_s : list of int or None
        Seconds of work, all attempts together; None where it never ran.
    gpus : list of int
        Of the whole job.
    labels : dict of str to list of str
        What an allocation can be made of: columns by name, the first by default.
    calendar : bool
    nodes : list of int
        On how many nodes it ran, evenly; 0 where the log does not say. Empty: it says so nowhere; so do
        `user`, `time_limit_s` (`UNSAID`), `gpu_types`, and `cpus_milli` and `memory_bytes` of the whole job.
    min_runtime_s : list of int, resumable : list of bool or None
        The contract, where the log says something of it; `UNSAID` and None where it does not.
    notes : dict of str to int
        What was left out or changed on the way, and how often.
    """

    id: list[str]
    submitted_s: list[int]
    runtime_s: list[int | None]
    gpus: list[int]
    labels: dict[str, list[str]]
    calendar: bool
    nodes: list[int] = field(default_factory=list)
    user: list[str] = field(default_factory=list)
    time_limit_s: list[int] = field(default_factory=list)
    gpu_types: list[tuple[str, ...]] = field(default_factory=list)
    cpus_milli: list[int] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    min_runtime_s: list[int] = field(default_factory=list)
    resumable: list[bool | None] = field(default_factory=list)
    notes: Mapping[str, int] = field(default_factory=dict)

    def column(self, name: str) -> list[Any]:
        """Return a column, of defaults where the log says nothing."""
        return getattr(self, name) or [_UNSAID.get(name, 0)] * len(self.id)

    def select(self, rows: Sequence[int], why: str = "left out") -> Log:
        """Return the log with these rows, in this order; `why` the others are not among them."""
        gone = len(self.id) - len(rows)
        notes = {**self.notes, why: gone} if gone else self.notes
        picked = {f.name: _pick(getattr(self, f.name), rows) for f in fields(self) if f.name not in _OTHER}
        labels = {name: _pick(cells, rows) for name, cells in self.labels.items()}
        return Log(**picked, labels=labels, calendar=self.calendar, notes=notes)

    def usable(self) -> Log:
        """Return the jobs that ran, on GPUs."""
        ran = [i for i, runtime_s in enumerate(self.runtime_s) if runtime_s is not None]
        log = self.select(ran, "left out: no run on record")
        return log.select([i for i, gpus in enumerate(log.gpus) if gpus > 0], "left out: no GPU")


_OTHER = ("labels", "calendar", "notes")
_UNSAID: dict[str, Any] = {
    "user": "",
    "time_limit_s": UNSAID,
    "gpu_types": (),
    "min_runtime_s": UNSAID,
    "resumable": None,
}


def _pick(cells: list[Any], rows: Sequence[int]) -> list[Any]:
    """Return the cells of some rows; no cells remain none."""
    if not cells or not rows:
        return []
    return list(itemgetter(*rows)(cells)) if len(rows) > 1 else [cells[rows[0]]]


def join(logs: Sequence[Log]) -> Log:
    """Return several logs as one; labels are those that all of them have."""
    if len(logs) == 1:
        return logs[0]
    names = [f.name for f in fields(Log) if f.name not in _OTHER]
    columns = {name: _chain(log.column(name) for log in logs) for name in names}
    labels = {
        name: _chain(log.labels[name] for log in logs)
        for name in logs[0].labels
        if all(name in log.labels for log in logs)
    }
    notes: Counter[str] = Counter()
    for log in logs:
        notes.update(log.notes)
    return Log(**columns, labels=labels, calendar=logs[0].calendar, notes=dict(notes))


def _chain(lists: Iterable[list[Any]]) -> list[Any]:
    """Return lists one after another."""
    return [cell for cells in lists for cell in cells]


def stem(path: Path) -> str:
    """Return the name of a file without folders and endings."""
    return path.name.partition(".")[0]
