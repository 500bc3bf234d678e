"""A funded gang of a quarter of a saturated cluster every twelve hours: `python -m benchmarks.certain`.

Two teams keep the cluster full of small work that is protected as long as it runs, so that nothing can be
interrupted. A third, with a share that pays for it, submits the gang. Every one should start no later than
the longest protection and one round after its submit; rows with 0 reservations show how it is without any.
"""

from __future__ import annotations

import argparse
import io
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import yaml

from benchmarks.text import DAY, HOUR, MINUTE, duration
from planner.simulation.engine import Engine, Options
from planner.simulation.metrics.measure import Measured, measure
from planner.simulation.trace import Trace
from planner.simulation.tracefile import read_trace
from planner.site import parse_site

EVERY_S = 12 * HOUR
GANG_SHARE = 0.25
GANG_RUNS_S = 2 * HOUR
BACKGROUND = 1.2
"""Work of the other teams that is submitted, in clusters."""


@dataclass(frozen=True)
class Bed:
    """One cluster and its work.

    Attributes
    ----------
    nodes : int
        Of 8 GPUs each, in leaves of 8.
    protection_s : int
        Min runtime of all work.
    days : int
    reservations : int
    seed : int
    """

    nodes: int = 32
    protection_s: int = 8 * HOUR
    days: int = 7
    reservations: int = 8
    seed: int = 0

    def site_text(self) -> str:
        """Return the site file."""
        leaves = [
            {
                "names": f"n-[{k + 1:03}-{min(k + 8, self.nodes):03}]",
                "gpus": 8,
                "location": [f"l{k // 8 + 1}"],
            }
            for k in range(0, self.nodes, 8)
        ]
        teams = {"gangs": 40, "one": 30, "two": 30}
        site = {
            "budgets": [{"name": name, "weight": weight} for name, weight in teams.items()],
            "clusters": [{"name": "c", "levels": ["leaf"], "nodes": leaves}],
            "plan_ahead": {"reservations": self.reservations},
        }
        return yaml.safe_dump(site, sort_keys=False)

    def trace(self) -> Trace:
        """Return the work: a gang every twelve hours from the second day on, and small work all the time."""
        out = io.StringIO()
        out.write("id,allocation,user,submitted_s,replicas,gpus_per_replica,runtime_s,min_runtime_s\n")
        gang = int(GANG_SHARE * self.nodes)
        for k, at_s in enumerate(range(DAY, self.days * DAY, EVERY_S)):
            out.write(f"gang-{k},gangs,g,{at_s + 7 * MINUTE},{gang},8,{GANG_RUNS_S},{self.protection_s}\n")
        rng, given_s, number = Random(self.seed), 0.0, 0
        while given_s < BACKGROUND * self.nodes * 8 * self.days * DAY:
            gpus, runs_s = rng.choice((1, 2, 4, 8)), int(rng.choice((0.5, 0.8, 1)) * self.protection_s)
            at_s = 0 if number < 4 * self.nodes else rng.randrange(self.days * DAY)
            team = rng.choice(("one", "two"))
            out.write(f"w{number},{team},u,{at_s},1,{gpus},{runs_s},{self.protection_s}\n")
            given_s, number = given_s + gpus * runs_s, number + 1
        with TemporaryDirectory() as folder:
            path = Path(folder) / "work.csv"
            path.write_text(out.getvalue(), encoding="utf-8")
            return read_trace(path)

    def run(self, policy: str, period_s: int) -> Measured:
        """Simulate it."""
        options = Options(policy, period_s, self.days * DAY, self.seed)
        engine = Engine(parse_site(self.site_text(), "site.yaml"), self.trace(), options)
        engine.run()
        return measure(engine.history())


def gang_waits_s(measured: Measured) -> np.ndarray:
    """Return how long each gang waited, or has waited by the end, int64, seconds."""
    trace = measured.history.trace
    gangs = [i for i, name in enumerate(trace.id) if name.startswith("gang-")]
    waits: np.ndarray = measured.fates.wait_s[gangs]
    return waits


def main() -> int:
    """Print a row for each length of protection."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--nodes", type=int, default=32)
    ap.add_argument("--days", type=int, default=7)
    ap.add_argument("--period", type=int, default=300, metavar="SECONDS")
    ap.add_argument("--policy", nargs="+", default=["budget-greedy", "budget"])
    ap.add_argument("--hours", type=int, nargs="+", default=[8, 1], help="length of all protections")
    ap.add_argument("--reservations", type=int, nargs="+", default=[8, 0])
    ap.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    a = ap.parse_args()
    print("| policy | protections | reservations | seed | gangs | wait p50 | wait max | over the bound |")
    print("|---|---|---|---|---|---|---|---|")
    for policy in a.policy:
        for hours in a.hours:
            for reservations in a.reservations:
                for seed in a.seeds:
                    bed = Bed(a.nodes, hours * HOUR, a.days, reservations, seed)
                    measured = bed.run(policy, a.period)
                    waits = gang_waits_s(measured)
                    over = int((waits > hours * HOUR + a.period).sum())
                    p50, most = (duration(int(x)) for x in (np.median(waits), waits.max()))
                    row = (policy, f"{hours}h", reservations, seed, len(waits), p50, most, over)
                    print(f"| {' | '.join(map(str, row))} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
