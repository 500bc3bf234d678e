"""The round with plan-ahead and without: `python -m benchmarks.ahead --sizes 128/300 --seeds 1 2 3`.

For each seeded instance (`benchmarks.instances`): CPU and wall seconds of the whole round, those of the
promises among them, the larger model of promises, and what plans are worth with what they promise.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from benchmarks.rounds import state_of
from solver import backends, decide, foresee
from solver.booking import book
from solver.holds import worth
from solver.outlook import Outlook
from solver.state import SolveParams, State

LIMIT_S = 20.0
GAP = 0.001


@dataclass
class Seen:
    """What a round was seen to do.

    Attributes
    ----------
    cpu_s, wall_s : float
        Of this process and its children.
    ahead_s : float
        Wall seconds of the promises.
    shapes : list of (int, int)
        Rows and columns of each model of promises.
    """

    cpu_s: float = 0.0
    wall_s: float = 0.0
    ahead_s: float = 0.0
    shapes: list[tuple[int, int]] = field(default_factory=list)

    def round(self, state: State, backend: str) -> decide.Outcome:
        """Decide a round and watch."""
        inner = decide.foresee

        def watched(*args: Any) -> Any:
            began_s = time.monotonic()
            try:
                return inner(*args)
            finally:
                self.ahead_s += time.monotonic() - began_s

        def booked(outlook: Outlook) -> Any:
            model, columns = book(outlook)
            self.shapes.append(model.matrix.shape)
            return model, columns

        before, began_s = os.times(), time.monotonic()
        with patch.object(decide, "foresee", watched), patch.object(foresee, "book", booked):
            outcome = decide.decide(state, SolveParams(backend, LIMIT_S, GAP))
        self.wall_s = time.monotonic() - began_s
        self.cpu_s = sum(b - a for a, b in zip(before[:4], os.times()[:4], strict=True))
        return outcome


def rows(nodes: int, pending: int, seed: int, backend: str) -> list[str]:
    """Return a line for plan-ahead off, on, and for the greedy rung alone."""
    state = state_of(nodes, pending, seed)
    off = replace(state, policy=replace(state.policy, reservations=0))
    out = []
    for name, of, back in (("off", off, backend), ("on", state, backend), ("greedy", state, "greedy")):
        seen = Seen()
        outcome = seen.round(of, back)
        report = outcome.report
        gap = "-" if report.gap is None else f"{report.gap:.3%}"
        most = max(seen.shapes, default=(0, 0))
        cells = (
            nodes, pending, seed, back, name,
            f"{seen.cpu_s:.1f}", f"{seen.wall_s:.1f}", f"{seen.ahead_s:.1f}",
            f"{most[1]} x {most[0]}" if seen.shapes else "-", len(outcome.board.settled()),
            f"{sum(worth(outcome.board)[:2]):.0f}", f"{report.objective:.0f}", gap, report.backend,
        )  # fmt: skip
        out.append(f"| {' | '.join(map(str, cells))} |")
    return out


def main() -> int:
    """Print the table."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--sizes", nargs="+", default=["128/300", "1280/3000"], metavar="NODES/PENDING")
    ap.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    ap.add_argument("--backend", default="highs")
    a = ap.parse_args()
    head = ("nodes", "pending", "seed", "back end", "plan-ahead", "CPU s", "wall s", "promises s")
    head += ("columns x rows", "promised", "worth", "objective", "gap", "made by")
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    backends.warm([a.backend])
    for size in a.sizes:
        nodes, pending = map(int, size.split("/"))
        for seed in a.seeds:
            print("\n".join(rows(nodes, pending, seed, a.backend)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
