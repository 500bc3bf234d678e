"""What a round decides, in arrays: the product of `decide`, the food of `check` and of `planner.encode`."""

from __future__ import annotations

from dataclasses import dataclass, field

from solver.state import Ints, Spread


@dataclass(frozen=True)
class Decisions:
    """One decision for every workload, with placements, victims and promises.

    Attributes
    ----------
    action : int64[W], `Action`
    placement : Spread over W
        Where each START stands; empty for everything else.
    victims_for : dict of int to list of int
        For each preempted workload that made room for somebody: the workloads it made room for, best first.
    promised : Ints[R]
        Workloads with a reservation after this round.
    promised_start_s : Ints[R], epoch seconds
    promised_placement : Spread over R
    """

    action: Ints
    placement: Spread
    victims_for: dict[int, list[int]]
    promised: Ints
    promised_start_s: Ints
    promised_placement: Spread


@dataclass(frozen=True)
class SolverReport:
    """Which rung made the plan, and how good it is proven to be.

    Attributes
    ----------
    backend : str
    status : str
        `optimal` (within the gap), `feasible` (cut by the clock), `greedy` (no exact answer was used).
    objective, bound : float, GPU-hours at price 1
    gap : float or None
        (bound - objective) / bound; None where nothing bounds the plan.
    seconds : float
        Wall time of the whole decision.
    promised : float, GPU-hours at price 1
        Worth of the promises that outlive the round; no part of the objective.
    notes : list of str
        What went wrong on the way, one sentence each; empty on a good day.
    """

    backend: str
    status: str
    objective: float
    bound: float | None
    gap: float | None
    seconds: float
    promised: float = 0.0
    notes: list[str] = field(default_factory=list)
