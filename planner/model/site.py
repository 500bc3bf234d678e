"""What a site has chosen: its budgets and the rules of its contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from planner.model.budget import Budget
from planner.model.cluster import Cluster

Order = Literal["budget", "fair_tree", "leaf"]


@dataclass(frozen=True)
class Lookback:
    """The window that fair share looks back on; `half_life_s` None = a plain window."""

    window_s: int = 604_800
    type: Literal["sliding", "tumbling"] = "sliding"
    half_life_s: int | None = None


@dataclass(frozen=True)
class FairShare:
    """How candidates are ordered and priced; fields as in the site file."""

    order: Order = "budget"
    lookback: Lookback = field(default_factory=Lookback)
    band: float = 0.05
    carry_overdraft: bool = False
    commitment_s: int = 3600
    worth_s: int = 28_800


@dataclass(frozen=True)
class DebugRule:
    """What counts as a debug workload, and the share of GPUs it may take ahead of the order."""

    max_min_runtime_s: int = 900
    max_gpus: int = 16
    lane: Fraction = Fraction(4, 100)


@dataclass(frozen=True)
class Contract:
    """Bounds on what a workload may declare, in seconds."""

    max_min_runtime_s: int = 28_800
    min_min_runtime_s: int = 300
    default_min_runtime_s: int = 0
    debug: DebugRule = field(default_factory=DebugRule)
    largest_min_cluster_share: Fraction = Fraction(1, 8)


@dataclass(frozen=True)
class Preemption:
    """What preempting costs, and an optional brake on it."""

    restart_cost_s: int = 600
    max_gpus_per_round: int | None = None


@dataclass(frozen=True)
class Solver:
    """Back end, wall-clock limit and relative gap of the exact solve."""

    backend: str = "auto"
    time_limit_s: float = 20.0
    gap: float = 0.001


@dataclass(frozen=True)
class PlanAhead:
    """How far ahead and for how many gangs starts are promised (0 = off), and how dear holds are."""

    horizon_s: int = 28_800
    reservations: int = 8
    hold_cost: float = 1.0


@dataclass(frozen=True)
class Run:
    """How `gangplan run` goes about its rounds; fields as in the site file, commands as argument lists."""

    state: str = "/var/lib/gangplan"
    metrics: str | None = None
    pages: str | None = None
    max_age_s: int = 120
    health_command: tuple[str, ...] = ()
    health_timeout_s: int = 30
    settle_s: int = 300
    on_empty: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """A whole site file.

    Attributes
    ----------
    charges : dict of str to Fraction
        Budget units per GPU-hour of each named GPU type; any other type costs 1.
    source : dict or None
        How `run` reads and applies, as written; its own module checks it.
    """

    budgets: tuple[Budget, ...]
    fair_share: FairShare = field(default_factory=FairShare)
    contract: Contract = field(default_factory=Contract)
    preemption: Preemption = field(default_factory=Preemption)
    charges: dict[str, Fraction] = field(default_factory=dict)
    solver: Solver = field(default_factory=Solver)
    plan_ahead: PlanAhead = field(default_factory=PlanAhead)
    ledger: str | None = None
    clusters: tuple[Cluster, ...] = ()
    source: dict[str, Any] | None = None
    run: Run = field(default_factory=Run)
