"""How true forecasts and promises are: `python -m benchmarks.forecasts SITE TRACE --days 6 --period 300`.

Every `--every` of simulated time the forecasts of that round are written down, the first that each workload
gets. A forecast is certain if nobody better funded comes: so how often is the start later, and by how much?
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.text import DAY, HOUR, duration
from planner.simulation.engine import Engine, Options
from planner.simulation.metrics.measure import measure
from planner.simulation.metrics.waits import promise_errors_s, promise_fates
from planner.simulation.policies.base import Round, Verdict
from planner.simulation.policies.budget import BudgetGreedy
from planner.simulation.tracefile import read_trace
from planner.site import load_site
from solver.forecast import forecasts


class Noting:
    """A policy whose forecasts are written down now and then.

    Attributes
    ----------
    first : dict of int to int
        Forecast start by row of the trace, of what has no promise.
    """

    def __init__(self, inner: BudgetGreedy, every_s: int) -> None:
        self.inner, self.every_s, self.next_s = inner, every_s, 0
        self.first: dict[int, int] = {}

    def decide(self, round_: Round) -> Verdict:
        """Decide as the policy does; write down the forecasts if it is time."""
        verdict = self.inner.decide(round_)
        if round_.state.now_s >= self.next_s:
            self.next_s = round_.state.now_s + self.every_s
            found = forecasts(verdict.board)
            found[verdict.board.settled()] = -1
            for i in np.flatnonzero(found >= 0).tolist():
                self.first.setdefault(int(round_.who[i]), int(found[i]))
        return verdict

    def arrive(self, round_: Round) -> Verdict | None:
        """Place the newest as the policy does."""
        return self.inner.arrive(round_)


def main() -> int:
    """Print what became of forecasts and promises."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("site", type=Path)
    ap.add_argument("trace", type=Path)
    ap.add_argument("--policy", choices=("budget-greedy", "budget"), default="budget-greedy")
    ap.add_argument("--days", type=int, default=6)
    ap.add_argument("--period", type=int, default=300, metavar="SECONDS")
    ap.add_argument("--every", type=int, default=HOUR, metavar="SECONDS")
    a = ap.parse_args()
    options = Options(a.policy, a.period, a.days * DAY)
    engine = Engine(load_site(a.site), read_trace(a.trace), options)
    assert isinstance(engine.policy, BudgetGreedy)
    engine.policy = noting = Noting(engine.policy, a.every)
    engine.run()
    m = measure(engine.history())
    rows = np.array(sorted(noting.first), dtype=np.int64)
    forecast_s = np.array([noting.first[r] for r in rows.tolist()], dtype=np.int64)
    started = m.fates.starts[rows] > 0
    late_s = (m.fates.first_start_s[rows] - forecast_s)[started]
    print(f"forecasts: {len(rows)}, of which {int(started.sum())} have started by the end")
    print(f"no later than forecast, to the round: {np.mean(late_s < a.period):.1%}")
    for q in (10, 50, 90, 99):
        error_s = int(np.percentile(late_s, q))
        print(f"start less forecast, percentile {q}: {'-' if error_s < 0 else ''}{duration(abs(error_s))}")
    kept, by_node, otherwise = promise_fates(m.history, m.runs, m.fates)
    early = promise_errors_s(m.history, m.runs, m.fates)
    print(f"promises kept {kept}, late for a node {by_node}, late otherwise {otherwise}")
    print(f"promise less start, percentile 90: {duration(int(np.percentile(early, 90)))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
