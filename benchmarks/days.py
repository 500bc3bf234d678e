"""What a simulated day costs, day by day: `python -m benchmarks.days --site S --trace T --policy P`.

Processor seconds, the memory that the process holds at the end of the day, and how many wait then. A
simulation whose memory grows would show it here.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import psutil

from benchmarks.text import DAY
from planner.simulation.engine import Engine, Options
from planner.simulation.policies import POLICIES
from planner.simulation.tracefile import read_trace
from planner.simulation.world import Phase
from planner.site import load_site
from planner.units import parse_duration

MIB = 2**20


def main() -> int:
    """Simulate, and print a row for every so many days."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--site", type=Path, required=True)
    ap.add_argument("--trace", type=Path, required=True)
    ap.add_argument("--policy", choices=POLICIES, default="budget-greedy")
    ap.add_argument("--days", type=int, default=30)
    ap.add_argument("--step", type=int, default=5, help="days of a row")
    ap.add_argument("--period", default="60s")
    a = ap.parse_args()
    options = Options(a.policy, parse_duration(a.period), a.days * DAY)
    engine = Engine(load_site(a.site), read_trace(a.trace), options)
    print("| until day | rounds | processor s a day | MiB held | waiting |\n|---|---|---|---|---|")
    rounds = 0
    for day in range(a.step, a.days + 1, a.step):
        began_s = time.process_time()
        engine.run(day * DAY)
        cost_s = (time.process_time() - began_s) / a.step
        done, rounds = len(engine.solve_s) - rounds, len(engine.solve_s)
        waiting = int(np.count_nonzero(engine.world.phase == Phase.PENDING))
        held = psutil.Process().memory_info().rss / MIB
        print(f"| {day} | {done} | {cost_s:.2f} | {held:.0f} | {waiting} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
