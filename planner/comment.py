"""The contract as it travels in the comment of a job: `{"min_runtime": "4h", "resumable": true}`.

People write comments for other ends too: what does not begin as a JSON object says nothing of the contract.
In one that does, whatever means nothing is told, and counts as not said.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pydantic import ValidationError

from planner.model.workload import Topology
from planner.schema.base import Entry
from planner.schema.snapshot import TopologyEntry
from planner.schema.types import Duration, Name, Priority
from planner.schema.wording import place_of, reword
from planner.strict import key_path

LONGEST = 4096
"""Characters of a comment that is looked at; Slurm takes 1,023 bytes."""

MOST_FAULTS = 5
"""Faults of one comment that are told."""


class CommentEntry(Entry):
    """What of a comment is the contract's."""

    min_runtime: Duration | None = None
    """How long it is protected once it runs; 0s = unallocated."""
    resumable: bool | None = None
    """Keeps its progress when it is preempted."""
    allocation: Name | None = None
    """Who pays."""
    priority: Priority | None = None
    """Sorts inside its allocation only."""
    topology: TopologyEntry | None = None
    """Where it may or would like to stand."""


@dataclass(frozen=True)
class Said:
    """What was said of the contract; None where nothing was.

    Attributes
    ----------
    min_runtime_s : int or None, seconds
    faults : tuple of str
        One line for each of the first keys that are not known, or whose value means nothing.
    """

    min_runtime_s: int | None = None
    resumable: bool | None = None
    allocation: str | None = None
    priority: int | None = None
    topology: Topology | None = None
    faults: tuple[str, ...] = ()


def said_in(comment: str) -> Said:
    """Return what a comment says of the contract."""
    said, faults = _object(comment)
    while True:
        try:
            entry = CommentEntry.model_validate(said)
            break
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                place = place_of(detail)
                faults.append(f"{key_path(place)}: {reword(detail, CommentEntry)}")
                said.pop(str(place[0]), None)
    wish = entry.topology
    if wish and wish.segment is not None and wish.required is None:
        faults.append("topology.segment: is a part of no domain, write `required` beside it")
        wish = None
    topology = Topology(wish.required, wish.preferred, wish.segment) if wish else None
    told = tuple(faults[:MOST_FAULTS])
    return Said(entry.min_runtime, entry.resumable, entry.allocation, entry.priority, topology, told)


def _object(comment: str) -> tuple[dict[str, object], list[str]]:
    """Return the JSON object that a comment is, and what is wrong with one that begins as such."""
    if not comment.lstrip().startswith("{"):
        return {}, []
    if len(comment) > LONGEST:
        return {}, [f"is longer than {LONGEST} characters, write less"]
    try:
        said: dict[str, object] = json.loads(comment)
    except (ValueError, RecursionError):
        return {}, ["is not JSON, check the quotes, commas and brackets"]
    return said, []
