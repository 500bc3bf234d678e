"""The site file: budgets and the rules of the contract."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from planner.model.site import Order
from planner.schema.base import Entry
from planner.schema.cluster import ClusterEntry
from planner.schema.types import (
    BudgetName,
    Charge,
    Command,
    Count,
    Duration,
    LedgerUrl,
    MetricsFile,
    Name,
    Percent,
    PositiveDuration,
    Ratio,
    ShareOfOne,
    ShortDuration,
    Weight,
    WindowDuration,
)

BackendName = Literal[
    "auto", "cp-sat", "highs", "cbc", "gurobi", "cplex", "xpress", "copt", "scip", "glpk", "mosek", "greedy"
]


class BudgetEntry(Entry):
    """A node of the budget tree; without children it is an allocation."""

    name: BudgetName = Field(examples=["language"])
    """One part of the path that names an allocation."""
    weight: Weight = Field(default=1, validate_default=True)
    """Relative to its siblings; 0 = unallocated only."""
    limit: Count | None = None
    """Hard cap on the GPUs that the subtree holds at once, allocated and unallocated."""
    accounts: list[Name] = Field(default=[])
    """Names in the source system that charge here; by default the path and its last part."""
    children: list[BudgetEntry] = Field(default=[])
    """The budgets that share this one."""


class LookbackEntry(Entry):
    """The time that fair share looks back on."""

    window: WindowDuration = Field(default="7d", validate_default=True)
    """Length of the window, at most 366d."""
    type: Literal["sliding", "tumbling"] = "sliding"
    """`sliding` moves with time, `tumbling` begins anew at each multiple of its length."""
    half_life: PositiveDuration | None = None
    """Older use counts half after this long; null = a plain window."""


class FairShareEntry(Entry):
    """How candidates are ordered."""

    order: Order = "budget"
    """`budget`: what is owed by leaf, then the surplus by tree. `fair_tree`: level by level. `leaf`."""
    lookback: LookbackEntry = Field(default={}, validate_default=True)
    """The window."""
    band: Ratio = Field(default=0.05, validate_default=True)
    """Running work counts as within its share up to 1 + band."""
    commitment: PositiveDuration = Field(default="1h", validate_default=True)
    """Use that a turn in the order adds to a ratio in advance."""
    worth: PositiveDuration = Field(default="8h", validate_default=True)
    """Use that a GPU given out is worth against the cost of a restart: the larger, the sooner work yields."""
    carry_overdraft: bool = False
    """Use beyond entitlement that leaves the window counts until it is paid."""


class DebugEntry(Entry):
    """What counts as a debug workload."""

    max_min_runtime: PositiveDuration = Field(default="15m", validate_default=True)
    """The longest min runtime."""
    max_gpus: Count = 16
    """The most GPUs."""
    lane: Percent = Field(default="4%", validate_default=True)
    """Share of the GPUs that debug workloads may take ahead of the order; 0% = off."""


class LargestEntry(Entry):
    """What reports call the largest workloads."""

    min_cluster_share: ShareOfOne = Field(default=0.125, validate_default=True)
    """Share of the cluster from which on a workload is one of the largest."""


class ContractEntry(Entry):
    """Bounds on what a workload may declare."""

    max_min_runtime: PositiveDuration = Field(default="8h", validate_default=True)
    """Longer min runtimes are cut to this, with a warning."""
    min_min_runtime: Duration = Field(default="5m", validate_default=True)
    """Shorter min runtimes (not 0s) are raised to this, with a warning."""
    default_min_runtime: Duration = Field(default="0s", validate_default=True)
    """What a workload gets that says nothing; 0s = unallocated."""
    debug: DebugEntry = Field(default={}, validate_default=True)
    """Debug workloads and their lane."""
    largest: LargestEntry = Field(default={}, validate_default=True)
    """The largest workloads."""


class PreemptionEntry(Entry):
    """What preempting costs."""

    restart_cost: Duration = Field(default="10m", validate_default=True)
    """Work that a resumable workload loses when it is preempted, per GPU held."""
    max_gpus_per_round: Count | None = None
    """A brake on the GPUs preempted in one round; null = none."""


class GpuTypeEntry(Entry):
    """What one GPU type costs."""

    charge: Charge = Field(default=1, validate_default=True)
    """Budget units per GPU-hour."""


class SolverEntry(Entry):
    """How hard a round tries."""

    backend: BackendName = "auto"
    """Which solver; `greedy` = none."""
    time_limit: ShortDuration = Field(default="20s", validate_default=True)
    """For all exact solves of a round together."""
    gap: Percent = Field(default="0.1%", validate_default=True)
    """Relative gap at which an answer counts as optimal."""


class PlanAheadEntry(Entry):
    """Promised later starts."""

    horizon: PositiveDuration = Field(default="8h", validate_default=True)
    """How far ahead starts are promised."""
    reservations: Count = 8
    """How many gangs may hold a promise; 0 = off."""
    hold_cost: Ratio = Field(default=1.0, validate_default=True)
    """Weight of the cost of holding nodes: 1 = the price at the cut-off of the money, 0 = holds are free."""


class SourceEntry(Entry):
    """Where `run` reads and applies; each source checks its own keys."""

    model_config = ConfigDict(extra="allow")

    type: Name = Field(examples=["slurm"])
    """Which source."""


class HealthEntry(Entry):
    """Who else knows which nodes are unhealthy."""

    command: Command = Field(default=[])
    """Program and arguments; each line it prints is a node, and after a blank why it is unhealthy."""
    timeout: ShortDuration = Field(default="30s", validate_default=True)
    """How long the command may take."""
    settle: Duration = Field(default="5m", validate_default=True)
    """How long a node must have been healthy before anything starts on it again."""


class RunEntry(Entry):
    """How `gangplan run` goes about its rounds."""

    state: Name = "/var/lib/gangplan"
    """Folder for the lock, the newest plan and the snapshot it was made from."""
    metrics: MetricsFile | None = None
    """File for metrics in Prometheus' text format, its name ends in `.prom`; null = none."""
    pages: Name | None = None
    """Folder for the static site; null = none."""
    max_age: ShortDuration = Field(default="2m", validate_default=True)
    """A plan whose snapshot is older than this when it is to be applied is dropped."""
    health: HealthEntry = Field(default={}, validate_default=True)
    """Unhealthy nodes that the source does not know of."""
    on_empty: Command = Field(default=[])
    """Program and arguments called, with node and reason appended, when a draining node has become empty."""


class SiteEntry(Entry):
    """A whole site file."""

    budgets: list[BudgetEntry] = Field(examples=["[{name: language, weight: 50}]"])
    """The tree; weights are relative to siblings."""
    fair_share: FairShareEntry = Field(default={}, validate_default=True)
    """How candidates are ordered."""
    contract: ContractEntry = Field(default={}, validate_default=True)
    """Bounds on what a workload may declare."""
    preemption: PreemptionEntry = Field(default={}, validate_default=True)
    """What preempting costs."""
    gpu_types: dict[Name, GpuTypeEntry] = Field(default={})
    """Charges by GPU type; a type that is not named costs 1."""
    solver: SolverEntry = Field(default={}, validate_default=True)
    """How hard a round tries."""
    plan_ahead: PlanAheadEntry = Field(default={}, validate_default=True)
    """Promised later starts."""
    ledger: LedgerUrl | None = None
    """SQLAlchemy URL of an SQLite file or a PostgreSQL database; PostgreSQL where several hosts plan."""
    clusters: list[ClusterEntry] = Field(default=[])
    """An inventory, for simulations and for sources that cannot report topology."""
    source: SourceEntry | None = None
    """Where `run` reads and applies; null for use with files only."""
    run: RunEntry = Field(default={}, validate_default=True)
    """How `run` goes about its rounds."""

    @property
    def source_as_written(self) -> dict[str, Any] | None:
        """The source with all its keys."""
        return None if self.source is None else self.source.model_dump()
