"""What every policy is asked, and how it answers: a round in arrays, and a board on which it made its moves.

The contract holds under every policy: gangs are whole, nothing is preempted inside its min runtime, victims
make room for allocated work that starts on their nodes, unallocated work evicts nobody, limits hold. Policies
differ in whom they serve. The board enforces what is physical; `solver.check` judges the rest in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from planner.model.site import Site
from planner.simulation.trace import Trace
from solver.board import Board, Parts
from solver.state import Ints, State


@dataclass(frozen=True)
class Round:
    """One question to a policy.

    Attributes
    ----------
    state : State
        The world of the round: work that is pending, running or stopping, and nothing else. `now_s` counts
        from the trace's start. Usage and entitlement are those of the site's lookback window.
    who : int64[W]
        Row in the trace of each workload of `state`; it outlives the round, an index of `state` does not.
    """

    state: State
    who: Ints


@dataclass(frozen=True)
class Promised:
    """A later start that was promised: place and time; `workload` is an index of the round's state."""

    workload: int
    start_s: int
    parts: Parts


@dataclass(frozen=True)
class Verdict:
    """What a policy decides.

    Attributes
    ----------
    board : Board
        `board.starts` start, `board.victims` are preempted, all else stays as it is. Work that may not stay
        (`solver.board.leaving`) is taken off by the engine whatever the policy says.
    promises : tuple of Promised
        Carried into the next round's state.
    moved : tuple of (int, int)
        Promises (by workload) of the round's state that could not be kept as they were, and why: `Moved`.
    in_money : tuple of int or None
        Pending workloads (indices of the state) that wait for a place and not for budget; None where the
        policy does not rank by budget: `planner.simulation.money` tells then.
    solved : str
        Which rung made the plan: `greedy`, or the name of the exact back end.
    solve_s : float, wall seconds of the decision
    """

    board: Board
    promises: tuple[Promised, ...] = ()
    in_money: tuple[int, ...] | None = None
    solved: str = "greedy"
    solve_s: float = 0.0
    moved: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Setting:
    """What a policy may know before the first round.

    Attributes
    ----------
    site : Site
    trace : Trace
        A policy may read users, priorities and requests of work that has been submitted; never run times,
        never the future.
    period_s : int
        Seconds between rounds.
    paths : tuple of str
        Path of each node of the budget tree (`State.budgets`), "" for the root.
    seed : int
    """

    site: Site
    trace: Trace
    period_s: int
    paths: tuple[str, ...]
    seed: int = 0


class Policy(Protocol):
    """A scheduling policy: made once for a simulation from its `Setting`, then asked round by round."""

    def decide(self, round_: Round) -> Verdict:
        """Decide one round."""
        ...


@runtime_checkable
class PlacesArrivals(Protocol):
    """A policy that also decides between rounds, on what has just been submitted."""

    def arrive(self, round_: Round) -> Verdict | None:
        """Decide between rounds on the newest workload alone, the last of `round_.state`; None = no."""
        ...
