"""Slurm's accounting: what `sacct --parsable2` (or `--parsable`) prints, with its header.

    sacct -a -D -P -o JobID,Account,User,Submit,Start,Elapsed,State,AllocTRES,ReqTRES,NNodes,Timelimit

Steps (`17.batch`) are skipped. With `-D` a requeued job has a row for each attempt: they are one job, and
it was submitted when the first was. A number that Slurm gave out again is another job. Times without a zone
are taken as UTC. Where the column `Comment` was printed and holds the contract, it is read there.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.cells import epoch, name, optional, seconds, utc, whole
from planner.sheet import Columns, Sheet, read_csv
from planner.simulation.trace import UNSAID
from planner.traces.comment import Contract, contract_of
from planner.traces.log import Log
from planner.units import parse_duration

EITHER = (("Elapsed", "ElapsedRaw"), ("AllocTRES", "ReqTRES"))
REQUEUED = ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "RESIZING")
"""States after which the same job may run again."""

BLANKS = ("Unknown", "None", "None assigned", "N/A", "INVALID", "(null)")
NO_LIMIT = ("UNLIMITED", "Partition_Limit")

_GPUS = re.compile(r"(?:^|,)gres/gpu(?::([^=,]+))?=([0-9]{1,7})(?=,|$)")
_CPUS = re.compile(r"(?:^|,)cpu=([0-9]{1,7})")
_MEMORY = re.compile(r"(?:^|,)mem=([0-9]{1,12}(?:\.[0-9]{1,6})?)([KMGTP]?)")


@dataclass(frozen=True)
class Attempt:
    """A row of accounting that is no step.

    Attributes
    ----------
    started_s : int
        0 where it never started.
    tres : str
        What it got, or what it asked for if it got nothing.
    """

    row: int
    job: str
    submitted_s: int
    started_s: int
    elapsed_s: int
    state: str
    tres: str
    asked: str
    nodes: int
    time_limit_s: int


def read(path: Path) -> Log:
    """Read one file; the default label is the account."""
    sheet = _without_steps(read_csv(path, "|"))
    jobs = _jobs(_attempts(sheet))
    last = [attempts[-1] for attempts in jobs]
    labels = {header: [cells[a.row] for a in last] for header, cells in sheet.columns.items()}
    user = labels.get("User", [])
    account = {"account": labels["Account"]} if "Account" in labels else {}
    contracts = [contract_of(comment) for comment in labels.get("Comment", [""] * len(last))]
    return Log(
        _ids([a.job for a in last]),
        [min(a.submitted_s for a in attempts) for attempts in jobs],
        [sum(a.elapsed_s for a in attempts) or None for attempts in jobs],
        [_gpus(a.tres) for a in last],
        labels={**account, "user": user or [""] * len(last), **labels},
        calendar=True,
        nodes=[a.nodes for a in last],
        user=user,
        time_limit_s=[a.time_limit_s for a in last],
        gpu_types=[_types(a.asked) for a in last],
        cpus_milli=[1000 * int(match[1]) if (match := _CPUS.search(a.tres)) else 0 for a in last],
        memory_bytes=[_memory(a.tres) for a in last],
        min_runtime_s=[contract.min_runtime_s for contract in contracts],
        resumable=[contract.resumable for contract in contracts],
        notes=_notes(jobs) | _comment_notes(contracts),
    )


def _without_steps(sheet: Sheet) -> Sheet:
    """Return a sheet without the rows of steps, and without the empty column that `--parsable` prints."""
    rows = [i for i, job in enumerate(sheet.columns.get("JobID", ())) if "." not in job]
    columns = {h: [cells[i] for i in rows] for h, cells in sheet.columns.items() if h}
    lines = [sheet.lines[i] for i in rows]
    return Sheet(sheet.name, columns, lines, sheet.text, sheet.column, sheet.faults)


def _attempts(sheet: Sheet) -> list[Attempt]:
    """Return every row as an attempt; InputError with all that is wrong."""
    columns = Columns(sheet)
    columns.expect(("JobID", "Submit", "State"))
    for either in EITHER:
        if not any(header in sheet.columns for header in either):
            columns.expect(either[:1])
    unsaid = optional(_time, 0, *BLANKS)
    elapsed = "ElapsedRaw" if "ElapsedRaw" in sheet.columns else "Elapsed"
    got, asked = (columns.read(header, str, "") for header in ("AllocTRES", "ReqTRES"))
    rows = zip(
        range(sheet.count),
        columns.read("JobID", name),
        columns.read("Submit", _time),
        columns.read("Start", unsaid, 0),
        columns.read(elapsed, optional(seconds if elapsed == "ElapsedRaw" else _clock, 0, *BLANKS)),
        [state.partition(" ")[0].rstrip("+") for state in sheet.columns.get("State", ())],
        [a if a and a not in BLANKS else b for a, b in zip(got, asked, strict=True)],
        asked,
        columns.read("NNodes", optional(whole(0, 1_000_000), 0, *BLANKS), 0),
        columns.read("Timelimit", optional(_clock, UNSAID, *BLANKS, *NO_LIMIT), UNSAID),
        strict=False,  # a column that is missing has been reported
    )
    columns.finish()
    return [Attempt(*row) for row in rows]


def _time(text: str) -> int:
    """Read a time as sacct prints it, or as it does with SLURM_TIME_FORMAT=%s."""
    return epoch(text) if text.isdigit() else utc(text)


def _clock(text: str) -> int:
    """Read `D-HH:MM:SS`, `HH:MM:SS` or `MM:SS`."""
    return parse_duration(f"00:{text}" if text.count(":") == 1 and "-" not in text else text)


# -- jobs --------------------------------------------------------------------------------------------


def _jobs(attempts: Iterable[Attempt]) -> list[list[Attempt]]:
    """Return the attempts of each job, in the order of the jobs' first rows."""
    rows: defaultdict[str, dict[tuple[int, int], Attempt]] = defaultdict(dict)
    for a in attempts:
        twin = rows[a.job].get((a.submitted_s, a.started_s))
        if twin is None or twin.elapsed_s <= a.elapsed_s:  # the same run, seen again and later
            rows[a.job][a.submitted_s, a.started_s] = a
    return [job for found in rows.values() for job in _runs_of(sorted(found.values(), key=_when))]


def _when(attempt: Attempt) -> tuple[int, int]:
    return attempt.submitted_s, attempt.started_s


def _runs_of(attempts: Sequence[Attempt]) -> Iterator[list[Attempt]]:
    """Cut the attempts under one number where the job before had ended for good."""
    job: list[Attempt] = []
    for attempt in attempts:
        if job and job[-1].state not in REQUEUED:
            yield job
            job = []
        job.append(attempt)
    yield job


def _ids(jobs: Sequence[str]) -> list[str]:
    """Return names for jobs: their numbers, marked where a number comes again."""
    seen: Counter[str] = Counter()
    ids = []
    for job in jobs:
        seen[job] += 1
        ids.append(job if seen[job] == 1 else f"{job}#{seen[job]}")
    return ids


def _notes(jobs: Sequence[Sequence[Attempt]]) -> dict[str, int]:
    """Return what was changed on the way."""
    tests: dict[str, Callable[[Sequence[Attempt]], bool]] = {
        "changed: attempts of a requeued job added up": lambda job: len(job) > 1,
        "changed: still running, its work taken as done": lambda job: job[-1].state == "RUNNING",
        "changed: asks for several GPU types at once, taken as any": lambda job: (
            len({kind for kind, _ in _GPUS.findall(job[-1].asked) if kind}) > 1
        ),
    }
    found = {note: sum(map(test, jobs)) for note, test in tests.items()}
    return {note: count for note, count in found.items() if count}


def _comment_notes(contracts: Sequence[Contract]) -> dict[str, int]:
    """Return how many comments hold something of the contract, and how many something that means nothing."""
    found = {
        "read: contract in the comment": sum(contract.says for contract in contracts),
        "changed: contract in the comment means nothing, drawn": sum(c.faulty for c in contracts),
    }
    return {note: count for note, count in found.items() if count}


# -- trackable resources -----------------------------------------------------------------------------


def _gpus(tres: str) -> int:
    """Return the GPUs in `gres/gpu=16,gres/gpu:h100=16`; the parts by type repeat the sum."""
    found = _GPUS.findall(tres)
    sums = [int(count) for kind, count in found if not kind]
    return sums[0] if sums else sum(int(count) for _, count in found)


def _types(tres: str) -> tuple[str, ...]:
    """Return the GPU type that was asked for, if it is one."""
    kinds = {kind for kind, _ in _GPUS.findall(tres) if kind}
    return tuple(kinds) if len(kinds) == 1 else ()


def _memory(tres: str) -> int:
    """Return the bytes in `mem=512G`."""
    match = _MEMORY.search(tres)
    return int(float(match[1]) * 1024 ** " KMGTP".index(match[2] or " ")) if match else 0
