"""The contract of a job: from its comment, else from the site's rules, else from its account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from planner.comment import said_in
from planner.model.workload import Topology
from planner.schema.slurm import RuleEntry, SlurmEntry
from planner.sources.slurm.jobs import Job

Value = TypeVar("Value")


@dataclass(frozen=True)
class JobContract:
    """What a job asked for; `min_runtime_s` None = the site's default.

    `faults`: what its comment says that means nothing.
    """

    allocation: str
    min_runtime_s: int | None
    resumable: bool
    priority: int
    topology: Topology
    faults: tuple[str, ...] = ()


def contract_of(job: Job, settings: SlurmEntry) -> JobContract:
    """Return the contract of a job; one that nobody may requeue is not resumable."""
    said = said_in(job.comment)
    rules = [rule for rule in settings.rules if _fits(rule, job)]
    named = said.allocation if settings.allocation == "comment" else None
    wish = _first(None, [rule.topology for rule in rules])
    topology = Topology(wish.required, wish.preferred, wish.segment) if wish else Topology()
    resumable = _first(said.resumable, [rule.resumable for rule in rules])
    return JobContract(
        _first(named, [rule.allocation for rule in rules]) or job.account or "(none)",
        _first(said.min_runtime_s, [rule.min_runtime for rule in rules]),
        job.requeues and resumable is not False,
        _first(said.priority, [rule.priority for rule in rules]) or 0,
        said.topology or topology,
        said.faults,
    )


def _fits(rule: RuleEntry, job: Job) -> bool:
    """Whether a rule speaks of a job."""
    return (
        rule.account in (None, job.account)
        and rule.qos in (None, job.qos)
        and rule.partition in (None, *job.partition.split(","))
    )


def _first(said: Value | None, rules: Sequence[Value | None]) -> Value | None:
    """Return what was said, or what the first rule says that says anything."""
    return next((value for value in (said, *rules) if value is not None), None)
