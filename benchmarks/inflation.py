"""Priority inflation under the old policy, day by day: `python -m benchmarks.inflation --out DIR --days 14`.

Runs `ai2-priority` on a synthetic scenario of `benchmarks.scenarios`. Prints at the end of each day how much
of the allocated work that runs (by GPUs) and that waits (by workloads) was submitted as URGENT, how much is
by now, after its users raised it, and how many of those who wait have been raised at all.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.scenarios import SITE, prepare, trace_of
from benchmarks.text import DAY
from planner.simulation.engine import Engine, Options
from planner.simulation.policies.ai2_priority import LOW, URGENT, Ai2Priority
from planner.simulation.tracefile import read_trace
from planner.simulation.world import Phase
from planner.site import load_site
from solver.state import Bools, Ints


def shares(engine: Engine) -> dict[str, float]:
    """Return the share of URGENT work and of raised work, as the table shows it."""
    policy, world = cast(Ai2Priority, engine.policy), engine.world
    asked = np.clip(engine.trace.priority, LOW, URGENT)
    urgent, inflated = asked == URGENT, asked + policy.raised >= URGENT
    phase, gpus = world.phase[world.position], world.jobs.gpus[world.position]
    allocated = world.jobs.allocated[world.position]
    runs, waits = (gpus * (allocated & (phase == Phase.RUNNING)), allocated & (phase == Phase.PENDING))
    return {
        "runs, submitted URGENT": _share(urgent, runs),
        "runs, URGENT now": _share(inflated, runs),
        "waits, submitted URGENT": _share(urgent, waits),
        "waits, URGENT now": _share(inflated, waits),
        "waits, raised": _share(policy.raised > 0, waits),
    }


def _share(which: Bools, weight: Ints | Bools) -> float:
    return float((which * weight).sum() / max(weight.sum(), 1))


def main() -> int:
    """Print the table."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=Path, required=True, help="folder for inputs")
    ap.add_argument("--scenario", choices=("ai2", "saturated"), default="ai2")
    ap.add_argument("--days", type=int, default=14)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    home = prepare(a.scenario, a.out, a.days, (a.seed,), None)
    options = Options("ai2-priority", 60, a.days * DAY, a.seed)
    engine = Engine(load_site(home / SITE), read_trace(trace_of(home, a.seed)), options)
    for day in range(1, a.days + 1):
        engine.run(day * DAY)
        row = shares(engine)
        if day == 1:
            print(f"| day | {' | '.join(row)} |\n|{'---|' * (len(row) + 1)}")
        print(f"| {day} | {' | '.join(f'{share:.0%}' for share in row.values())} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
