"""The gate: what Slurm must be told so that no job starts before gangplan places it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

LUA = "job_submit.lua"

_PLANNERS = re.compile(r"^local PLANNERS = \{.*?\}", re.MULTILINE)


@dataclass(frozen=True)
class Setting:
    """A line of slurm.conf that rounds rely on.

    Attributes
    ----------
    line : str
        What to write; several settings may share it.
    fits : callable
        Whether a value, as `scontrol show config` prints it, will do.
    why : str
    must : bool
        Without it rounds are not safe; else they only know less.
    """

    key: str
    line: str
    fits: Callable[[str], bool]
    why: str
    must: bool = True


def _has(word: str) -> Callable[[str], bool]:
    return lambda value: word in value.lower().replace("/", ",").split(",")


def _is(word: str) -> Callable[[str], bool]:
    return lambda value: value.lower() == word


SETTINGS = (
    Setting("JobSubmitPlugins", "JobSubmitPlugins=lua", _has("lua"), "holds every job until it is placed"),
    Setting("PreemptMode", "PreemptMode=OFF", _is("off"), "gangplan preempts, Slurm must not"),
    Setting(
        "PreemptType", "PreemptType=preempt/none", _is("preempt/none"), "gangplan preempts, Slurm must not"
    ),
    Setting("JobRequeue", "JobRequeue=1", _is("1"), "a preempted job must come back, not be cancelled"),
    Setting("SelectType", "SelectType=select/cons_tres", _has("cons_tres"), "gives out single GPUs"),
    Setting("GresTypes", "GresTypes=gpu", _has("gpu"), "GPUs are what is planned"),
    Setting(
        "SchedulerType",
        "SchedulerType=sched/backfill",
        _has("backfill"),
        "a job that cannot start blocks no other",
    ),
    Setting(
        "ReturnToService",
        "ReturnToService=1",
        lambda value: value in ("0", "1"),
        "a node that an operator took down must not come back by itself",
    ),
    Setting(
        "TopologyPlugin",
        "TopologyPlugin=topology/tree",
        lambda value: bool(value) and "none" not in value and "default" not in value,
        "else the site file's `clusters` must say where nodes are",
        must=False,
    ),
    Setting(
        "AccountingStorageType",
        "AccountingStorageType=accounting_storage/slurmdbd",
        _has("slurmdbd"),
        "exact ends of runs, and history; without it the ledger is right to one period",
        must=False,
    ),
    Setting(
        "AccountingStorageTRES",
        "AccountingStorageTRES=gres/gpu",
        lambda value: "gres/gpu" in value,
        "accounts must count GPUs; name each type too: gres/gpu:h100",
        must=False,
    ),
    Setting(
        "AccountingStoreFlags",
        "AccountingStoreFlags=job_comment",
        _has("job_comment"),
        "history tells the contract of past jobs",
        must=False,
    ),
)


def gate_lua(planners: Iterable[int] = (0,), partitions: Iterable[str] = ()) -> str:
    """Return job_submit.lua for user ids that may place jobs, and the partitions that are planned."""
    text = files("planner.sources.slurm").joinpath(LUA).read_text(encoding="utf-8")
    ids = ", ".join(f"[{uid}] = true" for uid in sorted({0, *planners}))
    quoted = ", ".join(f'["{_plain(name)}"] = true' for name in sorted(partitions))
    return text.replace("@PLANNERS@", ids).replace("@PARTITIONS@", quoted)


def conf_lines() -> str:
    """Return the lines of slurm.conf, each with why."""
    width = max(len(s.line) for s in SETTINGS)
    return "\n".join(f"{s.line.ljust(width)}  # {s.why}" for s in SETTINGS)


def missing(config: Mapping[str, str], lua: str) -> tuple[list[str], list[str]]:
    """Return what a set-up lacks, and what it could know more by; each line says what to write.

    `config` is what `scontrol show config` prints, `lua` what the gate should be.
    """
    faults: dict[bool, list[str]] = {True: [], False: []}
    for s in SETTINGS:
        value = config.get(s.key, "")
        if not s.fits(value):
            faults[s.must].append(f"{s.key} is {value or 'not set'}, write {s.line}: {s.why}")
    path = Path(config.get("SLURM_CONF", "/etc/slurm/slurm.conf")).parent / LUA
    try:
        there = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        faults[True].append(
            f"{path} cannot be read ({error.strerror}), write what `gangplan slurm gate` prints"
        )
    else:
        if there.strip() != lua.strip():
            faults[True].append(f"{path} {_other(there, lua)}")
    return faults[True], faults[False]


def _other(there: str, lua: str) -> str:
    """Return in what a gate is another than it should be."""
    made, wanted = _PLANNERS.search(there), _PLANNERS.search(lua)
    if made and wanted and there.replace(made[0], wanted[0]).strip() == lua.strip():
        ids, asked = (", ".join(re.findall(r"\d+", found[0])) for found in (made, wanted))
        return f"was made for user ids {ids}, and this checks for {asked}: write it anew, or give its --uid"
    return "is not the gate of this site, write what `gangplan slurm gate` prints"


def _plain(name: str) -> str:
    """Return a partition's name without what would end a string in Lua."""
    return "".join(c for c in name if c.isalnum() or c in "-_.")
