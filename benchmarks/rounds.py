"""The round at scale: `python -m benchmarks.rounds`, or one size: `--nodes 128 --pending 300 --seeds 1 2 3`.

For each seeded instance and back end a process of its own plans one whole round from arrays to a checked
plan, and tells the seconds of its steps, objective, gap and peak memory. Up to 128 nodes also how long the
naive node-level CP-SAT model (`benchmarks.naive`) takes to come within 2% of the first tier's optimum, and
how long the back ends take to prove that optimum to 0.01%. The standard table takes about six minutes.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import numpy as np
import yaml

from benchmarks.instances import SHAPES, instance
from benchmarks.naive import NaiveProblem, solve_naive
from planner.encode import encode
from planner.site import parse_site
from planner.snapshot import parse_snapshot
from solver import backends, decide, exact
from solver.buddy import shapes
from solver.formulation import formulate
from solver.problem import Problem, problem_of
from solver.shares import WITHIN
from solver.state import SolveParams, State

STANDARD = (
    (16, 30, "leaves"), (128, 300, "leaves"), (1280, 3000, "leaves"), (12_800, 10_000, "leaves"),
    (2000, 3000, "one-leaf"), (12_800, 10_000, "small-leaves"), (12_800, 10_000, "clusters"),
)  # fmt: skip
"""Nodes, pending workloads and shape of the standard table."""

MOST_WITNESSED = 2000
"""Nodes beyond which the standard table leaves out CP-SAT, which would only use up its time."""

MOST_NAIVE = 128
"""Nodes beyond which the naive model is not even built."""

GAP = 0.001
PROVEN = 1e-4

STEPS = {
    "greedy": ((decide, "greedy"),),
    "build": tuple(
        (exact, name)
        for name in ("problem_of", "places_problem", "formulate", "assemble", "formulate_places")
    ),
    "solve": ((backends, "solve"),),
    "seat": ((exact, "seat"),),
    "polish": ((decide, "polish"),),
    "check": ((decide, "check"),),
}
"""What is counted as which step of a round: functions by the module that calls them."""


@dataclass(frozen=True)
class Case:
    """One instance: its size, seed and shape. Cold: nothing runs. Fresh: nor has anybody used anything."""

    nodes: int
    pending: int
    seed: int
    shape: str = "leaves"
    cold: bool = False
    fresh: bool = False


@dataclass
class Round:
    """One measured round; seconds are wall time, memory is MB of this process and of its largest child."""

    columns: int
    rows: int
    step_s: dict[str, float]
    round_s: float
    status: str
    objective: float
    gap: float | None
    peak_mb: tuple[int, int]


@dataclass
class _Stopwatch:
    """Adds up the seconds of some functions, by step."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEPS, 0.0))

    def timed(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a watch around it; what another step calls counts for both."""

        def watched(*args: Any, **more: Any) -> Any:
            began_s = time.monotonic()
            try:
                return function(*args, **more)
            finally:
                self.seconds[step] += time.monotonic() - began_s

        return watched

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch all steps."""
        with ExitStack() as stack:
            for step, places in STEPS.items():
                for module, name in places:
                    watched = self.timed(step, getattr(module, name))
                    stack.enter_context(patch.object(module, name, watched))
            yield


def state_of(
    nodes: int, pending: int, seed: int, *, shape: str = "leaves", cold: bool = False, fresh: bool = False
) -> State:
    """Return the state of a seeded instance.

    Cold: nothing runs, as after a maintenance. Fresh: nor has anybody used anything, as on a new site.
    """
    site_data, snapshot_data = instance(nodes, pending, seed, shape)
    if cold or fresh:
        waits = [w for w in snapshot_data["workloads"] if w["state"] == "pending"]
        snapshot_data = {**snapshot_data, "workloads": waits}
    if fresh:
        snapshot_data = {**snapshot_data, "usage": {}}
    site = parse_site(yaml.safe_dump(site_data, sort_keys=False), "site.yaml")
    return encode(site, parse_snapshot(json.dumps(snapshot_data), "snapshot.json", site)).state


def _state(case: Case) -> State:
    size = (case.nodes, case.pending, case.seed)
    return state_of(*size, shape=case.shape, cold=case.cold, fresh=case.fresh)


def first_tier(state: State) -> Problem:
    """Return the problem of the first exact solve of a round: work within its share."""
    board, pending = decide.opening(state)
    return problem_of(board, WITHIN, pending[board.order.tier[pending] == WITHIN])


def measure(case: Case, backend: str, limit_s: float) -> Round:
    """Plan one round with one back end."""
    state = _state(case)
    rows, columns = formulate(first_tier(state)).model.shape
    backends.warm([backend])
    watch = _Stopwatch()
    began_s = time.monotonic()
    with watch.running():
        report = decide.decide(state, SolveParams(backend, limit_s, GAP)).report
    round_s = time.monotonic() - began_s
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10  # bytes there, KiB here
    memory = (peaks[0] // scale, peaks[1] // scale)
    return Round(columns, rows, watch.seconds, round_s, report.status, report.objective, report.gap, memory)


def measure_naive(
    case: Case, names: list[str], limit_s: float, naive_s: float
) -> tuple[dict[str, float], str]:
    """Return the seconds in which each back end proves the first tier, and what the naive model does."""
    problem = first_tier(_state(case))
    model = formulate(problem).model
    backends.warm(names)
    solve_s, proven = {}, float("-inf")
    for name in names:
        answer = backends.solve(model, name, limit_s, PROVEN)
        solve_s[name] = answer.seconds if answer.status == "optimal" else float("inf")
        proven = max(proven, answer.objective)
    target = proven - model.offset
    result = solve_naive(naive_problem(problem), naive_s, target=target)
    if result.reached_s is None:
        return solve_s, f"not in {naive_s:.0f} ({result.objective / target - 1:+.1%})"
    proved = "never" if result.proved_s is None else f"{result.proved_s:.1f}"
    return solve_s, f"within 2% after {result.reached_s:.1f}, proven after {proved}"


def naive_problem(problem: Problem) -> NaiveProblem:
    """Return the same question node by node; it leaves out CPUs, memory and bands, which only helps it."""
    board, js = problem.board, problem.starters()
    n = board.state.nodes
    size, pieces, _, _, segment, required = shapes(board.state, js)
    bound = (required >= 0) & (segment == pieces)
    levels = np.vstack((n.domain, n.pool[None, :]))
    v = problem.victims
    turn = np.argsort(v.part, kind="stable")
    ptr = np.concatenate(([0], np.cumsum(np.bincount(v.part, minlength=v.count))))
    same = v.tier == problem.tier
    return NaiveProblem(
        free=np.maximum(board.free_gpus, 0),
        size=size,
        replicas=pieces,
        value=problem.worth[js],
        eligible=np.array([board.eligible(int(j)) for j in js], dtype=bool).reshape(len(js), n.count),
        domain=levels,
        level=np.where(bound, required, len(levels) - 1),
        part_ptr=ptr.astype(np.int64),
        part_node=v.node[turn],
        part_gpus=v.part_gpus[turn],
        keep_value=np.where(same, v.worth, 0.0) + v.restart,
    )


def _apart(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a fresh process, so that its peak memory is its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def _cells(case: Case, backend: str, r: Round) -> list[str]:
    gap = "-" if r.gap is None else f"{r.gap:.3%}"
    steps = [f"{r.step_s[step]:.2f}" for step in STEPS]
    peak = f"{r.peak_mb[0]} + {r.peak_mb[1]}"
    start = [str(case.nodes), str(case.pending), case.shape, str(case.seed)]
    start += [f"{r.columns} x {r.rows}", backend]
    return [*start, *steps, f"{r.round_s:.2f}", f"{r.objective:.2f}", gap, r.status, peak]


def _arguments() -> argparse.Namespace:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--nodes", type=int, help="default: the standard table, 16 to 12,800 nodes")
    ap.add_argument("--pending", type=int, default=300)
    ap.add_argument("--seeds", type=int, nargs="+", default=[1])
    ap.add_argument("--shape", choices=SHAPES, default="leaves")
    ap.add_argument("--cold", action="store_true", help="nothing runs, as after a maintenance")
    ap.add_argument("--fresh", action="store_true", help="nor has anybody used anything, as on a new site")
    ap.add_argument("--backends", nargs="+", default=["greedy", "highs", "cp-sat"])
    ap.add_argument("--limit", type=float, default=60.0, help="seconds for the exact solves of a round")
    ap.add_argument("--naive", type=float, default=60.0, help="seconds for the naive model; 0 = leave it out")
    return ap.parse_args()


def _print(cells: list[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> int:
    """Print the table."""
    a = _arguments()
    header = ["nodes", "pending", "shape", "seed", "columns x rows", "back end"]
    header += [*(f"{step} s" for step in STEPS), "whole round s", "objective", "gap", "status", "peak MB"]
    header += ["tier 1 to 0.01% s", "naive s"] if a.naive else []
    _print(header)
    print("|" + "---|" * len(header))
    for nodes, pending, shape in STANDARD if a.nodes is None else ((a.nodes, a.pending, a.shape),):
        names = [n for n in a.backends if a.nodes or n != "cp-sat" or nodes <= MOST_WITNESSED]
        for seed in a.seeds:
            _print_case(Case(nodes, pending, seed, shape, a.cold, a.fresh), names, a.limit, a.naive)
    return 0


def _print_case(case: Case, names: list[str], limit_s: float, naive_s: float) -> None:
    solve_s, naive = {}, "-"
    if naive_s and case.nodes <= MOST_NAIVE:
        exact_names = [name for name in names if name != "greedy"]
        solve_s, naive = _apart(measure_naive, case, exact_names, limit_s, naive_s)
    for name in names:
        cells = _cells(case, name, _apart(measure, case, name, limit_s))
        if naive_s:
            cells += [f"{solve_s[name]:.3f}" if name in solve_s else "-"]
            cells += [naive if name == "highs" else "-"]
        _print(cells)


if __name__ == "__main__":
    sys.exit(main())
