"""The round at scale: `python -m benchmarks.rounds --nodes 128 --pending 300 --seeds 1 2 3 --naive 120`.

One line for each seeded instance: seconds to build, solve and seat the exact plan, of the whole round in the
process, objective and gap of greedy, HiGHS and CP-SAT; and with --naive SECONDS how long the naive node-level
CP-SAT model (`benchmarks.naive`) takes to come within 2% of the first tier's optimum on the same problem.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass

import numpy as np
import yaml

from benchmarks.instances import instance
from benchmarks.naive import NaiveProblem, solve_naive
from planner.encode import encode
from planner.site import parse_site
from planner.snapshot import parse_snapshot
from solver import backends
from solver.buddy import shapes
from solver.decide import decide, opening
from solver.formulation import formulate
from solver.problem import Problem, problem_of
from solver.shares import WITHIN
from solver.state import SolveParams, State


@dataclass(frozen=True)
class Timed:
    """One measured instance; seconds are wall time."""

    nodes: int
    pending: int
    seed: int
    columns: int
    rows: int
    build_s: float
    solve_s: dict[str, float]
    objective: dict[str, float]
    gap: dict[str, float | None]
    round_s: dict[str, float]
    naive: str


def state_of(nodes: int, pending: int, seed: int, *, cold: bool = False, fresh: bool = False) -> State:
    """Return the state of a seeded instance.

    Cold: nothing runs, as after a maintenance. Fresh: nor has anybody used anything, as on a new site.
    """
    site_data, snapshot_data = instance(nodes, pending, seed)
    if cold or fresh:
        waits = [w for w in snapshot_data["workloads"] if w["state"] == "pending"]
        snapshot_data = {**snapshot_data, "workloads": waits}
    if fresh:
        snapshot_data = {**snapshot_data, "usage": {}}
    site = parse_site(yaml.safe_dump(site_data, sort_keys=False), "site.yaml")
    return encode(site, parse_snapshot(json.dumps(snapshot_data), "snapshot.json", site)).state


def first_tier(state: State) -> Problem:
    """Return the problem of the first exact solve of a round: work within its share."""
    board, pending = opening(state)
    return problem_of(board, WITHIN, pending[board.order.tier[pending] == WITHIN])


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


def measure(
    state: State, size: tuple[int, int, int], names: list[str], limit_s: float, naive_s: float
) -> Timed:
    """Measure one instance; `size` is its nodes, pending and seed."""
    backends.warm(names)
    nodes, pending, seed = size
    began_s = time.monotonic()
    problem = first_tier(state)
    model = formulate(problem).model
    build_s = time.monotonic() - began_s
    rows, columns = model.shape
    solve_s, objective, gap, round_s, proven = {}, {}, {}, {}, float("-inf")
    for name in names:
        if name != "greedy":
            answer = backends.solve(model, name, limit_s, 1e-4)
            solve_s[name] = answer.seconds if answer.status == "optimal" else float("inf")
            proven = max(proven, answer.objective if answer.x is not None else float("-inf"))
        began_s = time.monotonic()
        outcome = decide(state, SolveParams(name, limit_s, 0.001))
        round_s[name] = time.monotonic() - began_s
        objective[name], gap[name] = outcome.report.objective, outcome.report.gap
    said = _naive(problem, proven - model.offset, naive_s) if naive_s else "-"
    return Timed(nodes, pending, seed, columns, rows, build_s, solve_s, objective, gap, round_s, said)


def _naive(problem: Problem, target: float, limit_s: float) -> str:
    result = solve_naive(naive_problem(problem), limit_s, target=target)
    if result.reached_s is not None:
        proved = "never" if result.proved_s is None else f"{result.proved_s:.1f}"
        return f"within 2% after {result.reached_s:.1f}, proven after {proved}"
    return f"not in {limit_s:.0f} ({result.objective / target - 1:+.1%})"


def main() -> int:
    """Print the table."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--nodes", type=int, default=128)
    ap.add_argument("--pending", type=int, default=300)
    ap.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    ap.add_argument("--cold", action="store_true", help="nothing runs, as after a maintenance")
    ap.add_argument("--fresh", action="store_true", help="nor has anybody used anything, as on a new site")
    ap.add_argument("--backends", nargs="+", default=["greedy", "highs", "cp-sat"])
    ap.add_argument("--limit", type=float, default=60.0, help="seconds for each exact solve")
    ap.add_argument("--naive", type=float, default=0.0, help="seconds for the naive model; 0 = leave it out")
    a = ap.parse_args()
    header = ("nodes", "pending", "seed", "columns x rows", "build s", "back end", "tier 1 to 0.01% s")
    header += ("whole round s", "objective", "gap", "naive s")
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for seed in a.seeds:
        size = (a.nodes, a.pending, seed)
        t = measure(state_of(*size, cold=a.cold, fresh=a.fresh), size, a.backends, a.limit, a.naive)
        for name in a.backends:
            solve = f"{t.solve_s[name]:.3f}" if name in t.solve_s else "-"
            found = t.gap[name]
            gap = "-" if found is None else f"{found:.3%}"
            shape = f"{t.columns} x {t.rows}"
            cells = (t.nodes, t.pending, t.seed, shape, f"{t.build_s:.3f}", name, solve)
            cells += (f"{t.round_s[name]:.3f}",)
            cells += (f"{t.objective[name]:.2f}", gap, t.naive if name == "highs" else "-")
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
