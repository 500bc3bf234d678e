"""What the buddy rows overstate off the divisor chain: `python -m benchmarks.overstatement`.

Each instance is one leaf with random holes and more gangs than fit. The model of a tier (solver.formulation,
HiGHS) decides by domains, the naive model (benchmarks.naive, CP-SAT) node by node. The overstatement is how
much more worth the first believes it can start; the shortfall is how much less than the second the plan of
the exact rung, seated, starts in the end.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from benchmarks.naive import NaiveProblem, solve_naive
from solver import backends, buddy
from solver.board import Board
from solver.exact import exact
from solver.formulation import formulate
from solver.linear import LinearModel, Solution
from solver.polish import polish
from solver.problem import Problem, problem_of
from solver.shares import rank
from solver.state import (
    FOREVER_S,
    MICRO,
    Budgets,
    Level,
    Nodes,
    Policy,
    Promises,
    Spread,
    State,
    Status,
    Workloads,
)

Ints = npt.NDArray[np.int64]

NOW_S = 1_800_000_000
HOUR_S = 3600
LIMIT_S = 20.0
SAME = 1e-6


@dataclass(frozen=True)
class Family:
    """Instances of one kind: the nodes of a leaf, and the sizes and replicas that gangs are drawn from."""

    name: str
    node_gpus: tuple[int, ...]
    sizes: tuple[int, ...]
    replicas: tuple[int, ...] = (1, 1, 2, 3)
    demand: float = 1.5


CHAIN = (1, 2, 4, 8)
USUAL = (*(CHAIN * 4), 3, 5, 6, 6, 7)
"""Mostly powers of two, as in the ITP and Kalos traces."""

FAMILIES = (
    Family("nodes of 8, sizes 1, 2, 4, 8", (8,) * 8, CHAIN),
    Family("nodes of 8, mostly 1, 2, 4, 8", (8,) * 8, USUAL),
    Family("nodes of 8, sizes 1 to 8 alike", (8,) * 8, tuple(range(1, 9))),
    Family("nodes of 8, sizes 3, 5, 6, 7", (8,) * 8, (3, 5, 6, 7)),
    Family("nodes of 80 and 48, sizes 1 to 64 alike", (80,) * 4 + (48,) * 4, tuple(range(1, 65))),
)


@dataclass(frozen=True)
class Measured:
    """What one instance is worth: by the model, by the plan made of it, and at best, node by node.

    `proven` tells whether the best is.
    """

    model: float
    plan: float
    best: float
    proven: bool

    @property
    def overstatement(self) -> float:
        """How much more the model believes, relative to what fits."""
        return self.model / self.best - 1 if self.best > 0 else 0.0

    @property
    def shortfall(self) -> float:
        """How much less the plan is worth, relative to what fits."""
        return 1 - self.plan / self.best if self.best > 0 else 0.0


def measure(family: Family, seed: int) -> Measured:
    """Draw one instance and solve it both ways."""
    rng = np.random.default_rng([seed, len(family.sizes), max(family.node_gpus)])
    board = _board(family, rng)
    js = board.order.sequence
    problem = problem_of(board, 0, js)
    answer = _highs(formulate(problem).model, LIMIT_S, 0.0)
    plan, _ = exact(board, js, _highs, time.monotonic() + LIMIT_S, SAME)
    naive = solve_naive(_node_by_node(problem), LIMIT_S, workers=1)
    proven = naive.bound - naive.objective <= SAME * max(1.0, naive.objective)
    return Measured(answer.objective, polish(plan, js, js[:0]).objective()[0], naive.objective, proven)


def _highs(model: LinearModel, time_limit_s: float, gap: float, start: object = None) -> Solution:
    return backends.solve(model, "highs", time_limit_s, gap, isolated=False)


def _state(family: Family, rng: np.random.Generator) -> State:
    """Draw the holes and the queue: one running gang fills each node up to its hole."""
    node_gpus = np.array(family.node_gpus, dtype=np.int64)
    held = rng.integers(0, node_gpus + 1)
    size, replicas = _queue(family, rng, int((node_gpus - held).sum()))
    busy = np.flatnonzero(held)
    parts = [[(int(n), int(held[n]), 1)] for n in busy] + [[] for _ in size]
    return State(
        now_s=NOW_S,
        nodes=_nodes(node_gpus),
        workloads=_workloads(
            np.concatenate((held[busy], size)),
            np.concatenate((np.ones(len(busy), dtype=np.int64), replicas)),
            Spread.of(parts),
        ),
        budgets=_budgets(),
        promises=Promises(_zeros(0), _zeros(0), Spread.of([])),
        policy=Policy(charge_micro=np.array([MICRO])),
    )


def _queue(family: Family, rng: np.random.Generator, free_gpus: int) -> tuple[Ints, Ints]:
    """Draw gangs until they ask for `demand` times what is free."""
    gangs: list[tuple[int, int]] = []
    while sum(size * k for size, k in gangs) <= family.demand * free_gpus:
        gangs.append((int(rng.choice(family.sizes)), int(rng.choice(family.replicas))))
    size, replicas = np.array(gangs, dtype=np.int64).T
    return size, replicas


def _zeros(count: int) -> Ints:
    return np.zeros(count, dtype=np.int64)


def _nodes(gpus: Ints) -> Nodes:
    none = _zeros(len(gpus))
    return Nodes(gpus, none, none, none, none, none[None, :], _zeros(1), _zeros(1))


def _workloads(size: Ints, replicas: Ints, placement: Spread) -> Workloads:
    count = len(size)
    runs = np.diff(placement.ptr) > 0
    zeros, ones = _zeros(count), np.ones(count, dtype=np.int64)
    return Workloads(
        leaf=ones,
        replicas=replicas,
        gpus_per_replica=size,
        cpus_milli=zeros,
        memory_bytes=zeros,
        allocated=np.ones(count, dtype=bool),
        min_runtime_s=HOUR_S * ones,
        time_limit_s=FOREVER_S * ones,
        resumable=np.ones(count, dtype=bool),
        submitted_s=NOW_S - HOUR_S * ones,
        started_s=np.where(runs, NOW_S, 0),
        protected_until_s=np.where(runs, NOW_S + HOUR_S, 0),
        priority=zeros,
        status=np.where(runs, int(Status.RUNNING), int(Status.PENDING)),
        required=np.full(count, int(Level.NONE)),
        preferred=np.full(count, int(Level.NONE)),
        segment=zeros,
        pool_ok=np.ones((count, 1), dtype=bool),
        debug=np.zeros(count, dtype=bool),
        placement=placement,
    )


def _budgets() -> Budgets:
    """Return a tree of one leaf that is owed everything."""
    return Budgets(
        parent=np.array([-1, 0]),
        is_leaf=np.array([False, True]),
        usage=_zeros(2),
        entitled=np.full(2, MICRO * HOUR_S * 10**6),
        share_ppb=np.full(2, 10**9),
        limit_gpus=np.full(2, -1),
    )


def _board(family: Family, rng: np.random.Generator) -> Board:
    """Draw an instance, with random prices that fall along the order."""
    state = _state(family, rng)
    w = state.workloads
    order = rank(state, np.flatnonzero(w.status == Status.PENDING), np.ones(w.count, dtype=bool))
    price = np.zeros(w.count)
    price[order.sequence] = np.sort(rng.uniform(0.5, 1.5, len(order.sequence)))[::-1]
    return Board(state, replace(order, price=price))


def _node_by_node(problem: Problem) -> NaiveProblem:
    w = problem.board.state.workloads
    js = problem.starters()
    none, n = _zeros(0), problem.board.state.nodes
    return NaiveProblem(
        free=problem.board.free_gpus,
        size=w.gpus_per_replica[js],
        replicas=w.replicas[js],
        value=problem.worth[js],
        eligible=np.ones((len(js), n.count), dtype=bool),
        domain=n.domain,
        level=np.full(len(js), -1),
        part_ptr=_zeros(1),
        part_node=none,
        part_gpus=none,
        keep_value=np.zeros(0),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure every family and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.overstatement")
    parser.add_argument("--instances", type=int, default=300, help="of each family (300)")
    parser.add_argument("--seed", type=int, default=0, help="of the first instance (0)")
    parser.add_argument(
        "--fractions", type=int, default=buddy.FRACTIONS, help="slots of a size over 1 to this"
    )
    arguments = parser.parse_args(argv)
    buddy.FRACTIONS = arguments.fractions
    print(f"{arguments.instances} instances of each family, seeds from {arguments.seed}")
    print("| family | exact | mean overstatement | p95 | worst | mean shortfall | worst | not proven |")
    print("|---|---|---|---|---|---|---|---|")
    for family in FAMILIES:
        seeds = range(arguments.seed, arguments.seed + arguments.instances)
        found = [measure(family, seed) for seed in seeds]
        over, short = (np.array([getattr(m, x) for m in found]) for x in ("overstatement", "shortfall"))
        cells = [family.name, f"{(over <= SAME).sum()} of {len(found)}"]
        cells += [f"{x:.2%}" for x in (over.mean(), np.quantile(over, 0.95), over.max())]
        cells += [f"{x:.2%}" for x in (short.mean(), short.max())]
        print("|", " | ".join([*cells, str(sum(not m.proven for m in found))]), "|", flush=True)


if __name__ == "__main__":
    main()
