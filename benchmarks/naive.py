"""The reference that gangplan is measured against: one CP-SAT variable for each workload and node.

It is the model anyone would write first, and it is exact for what it covers: which pending gangs start, on
which nodes, and which interruptible gangs keep running, for the greatest total value.

    max   sum_j value[j] start[j] + sum_r keep_value[r] keep[r]
    s.t.  sum_n x[j,n] = replicas[j] start[j]                   gang j: whole or not at all
          sum_j size[j] x[j,n] <= free[n] + sum_r g[r,n] (1 - keep[r])   node n
          sum_{n in d} x[j,n] = replicas[j] in[j,d]             gang j with a level, its domain d
          sum_d in[j,d] = start[j]                              gang j with a level

Symbols: J pending gangs, N nodes, R running gangs that may be preempted, L levels.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

RESOLUTION = 2**40
"""What all values together are scaled to: CP-SAT counts in integers."""

CLOSE = 0.02


@dataclass(frozen=True)
class NaiveProblem:
    """A round as the naive model sees it: GPUs only, everything protected already taken off.

    Attributes
    ----------
    free : int64[N], GPUs
        Free now on each node, not counting what a preemption would free; 0 on nodes that may start nothing.
    size, replicas : int64[J]
        GPUs of a piece, and how many of them a gang needs.
    value : float64[J]
        Of the whole gang, if it starts.
    eligible : bool[J, N]
        Nodes that a piece may use: GPU type, cluster, health.
    domain : int64[L, N]
        Number of the domain of each node at each level, -1 where it has none. Anything that partitions
        the nodes is a level: leaves, blocks, and the pools of one GPU type in one cluster, which no gang
        ever mixes; where a leaf is mixed, leaf and pool together.
    level : int64[J]
        Row of `domain` of which the gang must use one single domain; -1 = any nodes.
    part_ptr : int64[R+1]
    part_node, part_gpus : int64[M]
        Running gang r holds `part_gpus[k]` GPUs on `part_node[k]` for k in part_ptr[r]:part_ptr[r+1].
    keep_value : float64[R]
        Of a running gang, if it keeps running.
    """

    free: Ints
    size: Ints
    replicas: Ints
    value: Floats
    eligible: Bools
    domain: Ints
    level: Ints
    part_ptr: Ints
    part_node: Ints
    part_gpus: Ints
    keep_value: Floats

    def __post_init__(self) -> None:
        j, n = self.eligible.shape
        lengths = (len(self.size), len(self.replicas), len(self.value), len(self.level))
        if lengths != (j, j, j, j) or len(self.free) != n or self.domain.shape[1] != n:
            raise ValueError("arrays of pending gangs and nodes must agree in length")
        if len(self.part_ptr) != len(self.keep_value) + 1 or len(self.part_node) != len(self.part_gpus):
            raise ValueError("arrays of running gangs must agree in length")

    @property
    def ceiling(self) -> Ints:
        """GPUs of each node when every interruptible gang is gone, int64[N]."""
        held = np.bincount(self.part_node, weights=self.part_gpus, minlength=len(self.free))
        return self.free + held.astype(np.int64)


class NaiveResult(NamedTuple):
    """What the solver found in its time.

    Attributes
    ----------
    objective : float
        Of the best plan found; -inf where none was found.
    bound : float
        No plan is worth more.
    seconds : float
        Wall time of building and solving.
    trajectory : list of (float, float)
        Seconds from the start of building, and objective, of each better plan.
    reached_s : float or None
        When a plan within 2% of the target was first found; None = never, or no target.
    proved_s : float or None
        When the solver itself knew its plan to be within 2% of its bound.
    """

    objective: float
    bound: float
    seconds: float
    trajectory: list[tuple[float, float]]
    reached_s: float | None
    proved_s: float | None


class _Watch(cp_model.CpSolverSolutionCallback):
    """Notes when each better plan was found."""

    def __init__(self, began: float, scale: float) -> None:
        super().__init__()
        self._began, self._scale = began, scale
        self.trajectory: list[tuple[float, float]] = []
        self.bound = math.inf
        self.proved_s: float | None = None

    def on_solution_callback(self) -> None:
        """Note one plan; the solver calls this."""
        now = time.perf_counter() - self._began
        self.trajectory.append((now, self.objective_value / self._scale))
        self._compare()

    def on_bound(self, bound: float) -> None:
        """Note a better bound; the solver calls this."""
        self.bound = min(self.bound, bound / self._scale)
        self._compare()

    def _compare(self) -> None:
        """Note when the best plan is first proven to be within 2% of the best bound."""
        if self.proved_s is None and self.trajectory:
            best = self.trajectory[-1][1]
            if self.bound - best <= CLOSE * abs(self.bound):
                self.proved_s = time.perf_counter() - self._began


def solve_naive(
    problem: NaiveProblem, time_limit_s: float, workers: int = 2, target: float | None = None
) -> NaiveResult:
    """Solve the naive model; building it counts as its time, but not against its limit.

    Parameters
    ----------
    problem : NaiveProblem
    time_limit_s : float, seconds
        For the solver alone.
    workers : int
        Threads of CP-SAT.
    target : float, optional
        An objective to compare with, such as gangplan's own.
    """
    began = time.perf_counter()
    total = float(np.abs(problem.value).sum() + np.abs(problem.keep_value).sum())
    scale = RESOLUTION / max(total, 1e-9)
    model = _build(problem, scale)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit_s
    solver.parameters.num_workers = workers
    watch = _Watch(began, scale)
    solver.best_bound_callback = watch.on_bound
    status = solver.solve(model, watch)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    reached = None if target is None else _reached_s(watch.trajectory, target)
    return NaiveResult(
        objective=solver.objective_value / scale if found else -math.inf,
        bound=solver.best_objective_bound / scale if found else total,  # it says 0 where it knows nothing
        seconds=time.perf_counter() - began,
        trajectory=watch.trajectory,
        reached_s=reached,
        proved_s=watch.proved_s or (time.perf_counter() - began if status == cp_model.OPTIMAL else None),
    )


def _reached_s(trajectory: list[tuple[float, float]], target: float) -> float | None:
    """Return when the trajectory first came within 2% of the target."""
    enough = target - CLOSE * abs(target)
    return next((seconds for seconds, objective in trajectory if objective >= enough), None)


def _build(problem: NaiveProblem, scale: float) -> cp_model.CpModel:
    """Write the model down."""
    model = cp_model.CpModel()
    keep = [model.new_bool_var(f"keep[{r}]") for r in range(len(problem.keep_value))]
    start = [model.new_bool_var(f"start[{j}]") for j in range(len(problem.value))]
    on_node: list[list[cp_model.LinearExprT]] = [[] for _ in problem.free]
    for r, kept in enumerate(keep):
        for k in range(problem.part_ptr[r], problem.part_ptr[r + 1]):
            on_node[problem.part_node[k]].append(int(problem.part_gpus[k]) * kept)
    for j in range(len(start)):
        pieces = _add_gang(model, problem, j, start[j])
        for n, x in pieces.items():
            on_node[n].append(int(problem.size[j]) * x)
    for n, ceiling in enumerate(problem.ceiling.tolist()):
        if on_node[n]:
            model.add(cp_model.LinearExpr.sum(on_node[n]) <= ceiling)
    worth = np.concatenate([problem.value, problem.keep_value]) * scale
    model.maximize(cp_model.LinearExpr.weighted_sum(start + keep, [round(v) for v in worth.tolist()]))
    return model


def _add_gang(
    model: cp_model.CpModel, problem: NaiveProblem, j: int, start: cp_model.IntVar
) -> dict[int, cp_model.IntVar]:
    """Add gang `j`: its pieces on every node that can hold one, whole, and in one domain of its level."""
    size, want, level = (int(a[j]) for a in (problem.size, problem.replicas, problem.level))
    room = np.minimum(problem.ceiling // size, want) * problem.eligible[j]
    if level >= 0:
        room = room * (problem.domain[level] >= 0)
    x = {n: model.new_int_var(0, int(room[n]), f"x[{j},{n}]") for n in np.flatnonzero(room).tolist()}
    model.add(cp_model.LinearExpr.sum(list(x.values())) == want * start)
    if level < 0:
        return x
    members: dict[int, list[cp_model.IntVar]] = {}
    for n, piece in x.items():
        members.setdefault(int(problem.domain[level, n]), []).append(piece)
    chosen = []
    for d, pieces in members.items():
        here = model.new_bool_var(f"in[{j},{d}]")
        model.add(cp_model.LinearExpr.sum(pieces) == want * here)
        chosen.append(here)
    model.add(cp_model.LinearExpr.sum(chosen) == start)
    return x
