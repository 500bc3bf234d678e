"""The keys of a site file's `source` where its type is `slurm`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.schema.base import Entry
from planner.schema.snapshot import TopologyEntry
from planner.schema.types import Duration, Name, Priority, ShortDuration


class RuleEntry(Entry):
    """What jobs of an account, QOS or partition get where their comment does not say."""

    account: Name | None = None
    """Jobs of this account; null = of any."""
    qos: Name | None = None
    """Jobs of this QOS; null = of any."""
    partition: Name | None = None
    """Jobs of this partition; null = of any."""
    allocation: Name | None = None
    """Who pays for them."""
    min_runtime: Duration | None = None
    """How long they are protected; 0s = unallocated."""
    resumable: bool | None = None
    """Whether they keep their progress when they are preempted."""
    priority: Priority | None = None
    """Sorts inside their allocation only."""
    topology: TopologyEntry | None = None
    """Where they may or would like to stand."""


class SlurmEntry(Entry):
    """Where `run` reads and applies: a Slurm cluster."""

    type: Literal["slurm"]
    """This source."""
    levels: list[Name] = Field(default=[])
    """Names for the switch levels, outermost first; default: spine, block, leaf."""
    partitions: list[Name] = Field(default=[])
    """Partitions that gangplan plans; by default all."""
    allocation: Literal["comment", "account"] = "comment"
    """Whether a job's comment may say who pays, or its account alone does."""
    rules: list[RuleEntry] = Field(default=[])
    """What jobs get where their comment does not say; the first rule that fits and says it counts."""
    conf: Name | None = None
    """Path of slurm.conf; by default what `SLURM_CONF` names, or Slurm's own."""
    bin: Name | None = None
    """Folder of Slurm's commands; by default they are looked up on the PATH."""
    start_timeout: ShortDuration = Field(default="10s", validate_default=True)
    """How long a job may take to start on its free nodes before it is held again."""
    command_timeout: ShortDuration = Field(default="30s", validate_default=True)
    """How long one command of Slurm may take."""
    accounting: bool = True
    """Whether ends of runs are also read from `sacct`, where Slurm keeps accounts."""
