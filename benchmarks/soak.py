"""A soak: rounds on a real Slurm testbed under random submissions, cancellations and node failures.

    GANGPLAN_TESTBED=../shared/slurm/testbed.sh python -m benchmarks.soak --minutes 45 --period 5 --seed 1

At the end every attempt that `sacct` knows must stand in the ledger with the same start, end and GPUs, to
within a second, and nothing else, but for attempts that slurmctld's log knows and sacct has lost (it writes
over a record where a job is requeued while its node is dead): these are counted. Every plan on the way must
pass `gangplan verify`, no round may have been refused by the planner's own check, and no run preempted inside
its min runtime.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from planner.planfile import parse_plan
from planner.site import load_site
from planner.snapshot import parse_snapshot
from planner.verify import verify
from tests.endtoend.bed import SCRIPT, Bed

SITE = """
budgets:
  - name: lab
    children:
      - {{name: nlp, weight: 50}}
      - {{name: vision, weight: 30}}
      - {{name: robotics, weight: 20}}
contract: {{min_min_runtime: 5s, max_min_runtime: 2m}}
preemption: {{restart_cost: 5s}}
fair_share: {{commitment: 30s, lookback: {{window: 1h}}}}
solver: {{time_limit: 5s}}
ledger: sqlite:///{home}/ledger.db
source: {{type: slurm, levels: [block, leaf], conf: {conf}}}
run: {{state: {home}/state, metrics: {home}/gangplan.prom, health: {{settle: 20s}}}}
"""

GANGS = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (8, 8))
"""Nodes and GPUs of each."""

WEIGHTS = (4, 3, 3, 6, 4, 2, 1)
ACCOUNTS = ("nlp", "vision", "robotics")
REFUSED = 3
"""Exit code of a round whose plan broke a rule."""


@dataclass
class Soak:
    """A cluster under load, and what was found wrong."""

    bed: Bed
    home: Path
    dice: random.Random
    min_runtime_s: dict[str, int] = field(default_factory=dict)
    out: dict[str, tuple[str, float]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    last_plan: str = ""

    def submit(self) -> None:
        """Submit a random gang."""
        nodes, gpus = self.dice.choices(GANGS, WEIGHTS)[0]
        protected_s = self.dice.choice((0, 10, 20, 40, 60))
        runs_s = round(self.dice.expovariate(1 / 60), 1) + 1
        contract = {"min_runtime": f"{protected_s}s", "resumable": self.dice.random() < 0.7}
        options = [f"-N{nodes}", f"--gpus-per-node={gpus}", "-t", "30"]
        job = self.bed.submit(runs_s, *options, account=self.dice.choice(ACCOUNTS), **contract)
        self.min_runtime_s[job] = protected_s
        self.counts["submitted"] += 1

    def cancel(self) -> None:
        """Cancel a random job."""
        alive = [i for i, j in self.bed.jobs().items() if j["job_state"] in ("PENDING", "RUNNING")]
        if alive:
            self.bed.call("scancel", self.dice.choice(alive), check=False)
            self.counts["cancelled"] += 1

    def hurt(self) -> None:
        """Kill, drain or take down a node."""
        names = {f"node{i:03d}" for i in range(1, self.bed.nodes + 1)} - self.out.keys()
        node, how = self.dice.choice(sorted(names)), self.dice.choice(("kill", "drain", "down"))
        if how == "kill":
            self.bed.kill_node(node)
        else:
            state = {"drain": "DRAIN", "down": "DOWN"}[how]
            self.bed.call("scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=soak")
        self.out[node] = (how, time.monotonic() + self.dice.uniform(20, 60))
        self.counts[how] += 1

    def heal(self) -> None:
        """Bring back nodes whose time has come."""
        for node, (how, until) in list(self.out.items()):
            if time.monotonic() < until:
                continue
            if how == "kill":
                self.bed.revive_node(node)
            else:
                self.bed.call("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
            del self.out[node]

    def check_plan(self) -> None:
        """Verify the newest plan, if it is a new one."""
        state = self.home / "state"
        snapshot, plan = state / "snapshot.json", state / "plan.json"
        if not plan.exists() or not snapshot.exists():
            return
        texts = snapshot.read_text(), plan.read_text()
        pair = [json.loads(t) for t in texts]
        if texts[1] == self.last_plan or pair[0]["time"] != pair[1]["time"]:
            return
        self.last_plan = texts[1]
        self.counts["plans verified"] += 1
        site = load_site(self.home / "site.yaml")
        faults = verify(parse_snapshot(texts[0], "s.json", site), parse_plan(texts[1], "p.json"), site)
        self.broken += [f"plan of {pair[1]['time']}: {fault}" for fault in faults]


def gangplan(*args: object) -> subprocess.CompletedProcess[str]:
    """Call gangplan in a process of its own."""
    command = [sys.executable, "-c", "from planner.cli import main; main()", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def attempts(bed: Bed, since: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Return end and GPUs of each attempt in Slurm's accounts that held anything, by job and start."""
    found = {}
    for r in bed.records(since):
        t = r["time"]
        gpus = sum(x["count"] or 0 for x in r["tres"]["allocated"] if x["name"] == "gpu")
        if 0 < (t["start"] or 0) < (t["end"] or 0) and gpus:
            found[str(r["job_id"]), t["start"]] = (t["end"], gpus)
    return found


def charged(home: Path) -> dict[tuple[str, int], tuple[int, int]]:
    """Return end and GPUs of each run in the ledger, by workload and start."""
    times = ["--from", "2026-01-01T00:00:00Z", "--to", "2099-01-01T00:00:00Z"]
    text = gangplan("ledger", "export", "--ledger", f"sqlite:///{home}/ledger.db", *times).stdout
    rows = csv.DictReader(text.splitlines())
    return {
        (r["workload"], int(r["started_s"])): (int(r["end_s"]), int(r["gpus"]))
        for r in rows
        if r["begin_s"] != r["end_s"]
    }


def differences(bed: Bed, home: Path, since: str) -> list[str]:
    """Return where the ledger and Slurm's accounts differ by more than a second."""
    ours, theirs = charged(home), attempts(bed, since)
    began = allocated(bed)
    strange = {k for k in ours.keys() - theirs.keys() if not any(abs(s - k[1]) <= 2 for s in began[k[0]])}
    lines = [f"{k}: not in the ledger, {theirs[k]}" for k in theirs.keys() - ours.keys()]
    lines += [f"{k}: not in the accounts, {ours[k]}" for k in strange]
    lost = ours.keys() - theirs.keys() - strange
    print(f"{len(lost)} attempts that slurmctld allocated and sacct has lost: {sorted(lost)}")
    for k in ours.keys() & theirs.keys():
        (end_s, gpus), (their_end_s, their_gpus) = ours[k], theirs[k]
        if abs(end_s - their_end_s) > 1 or gpus != their_gpus:
            lines.append(f"{k}: ledger {ours[k]}, accounts {theirs[k]}")
    print(f"{len(ours & theirs.keys())} attempts in both, {len(ours)} in the ledger, {len(theirs)} in sacct")
    return lines


def allocated(bed: Bed) -> dict[str, list[float]]:
    """Return when slurmctld says that it started each job."""
    found = defaultdict[str, list[float]](list)
    for line in (bed.home / "log" / "slurmctld.log").read_text().splitlines():
        match = re.match(r"\[(\S+)\] sched.*(?:Allocate|Started) JobId=(\d+) ", line)
        if match:
            found[match[2]].append(datetime.fromisoformat(match[1]).astimezone().timestamp())
    return found


def early(bed: Bed, since: str, min_runtime_s: dict[str, int]) -> list[str]:
    """Return the runs that were requeued by a plan inside their min runtime."""
    out = []
    for r in bed.records(since):
        lasted_s = (r["time"]["end"] or 0) - (r["time"]["start"] or 0)
        asked_s = min_runtime_s.get(str(r["job_id"]), 0)
        if r["state"]["current"] == "REQUEUED" and 0 < lasted_s < asked_s - 1:
            out.append(f"{r['job_id']}: requeued after {lasted_s} s of {asked_s} s, on {r['nodes']}")
    return out


def main() -> None:
    """Run the soak and print what it found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--period", default="5s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--home", type=Path, default=Path("/tmp/gangplan-soak"))
    parser.add_argument("--port", type=int, default=16800)
    args = parser.parse_args()
    home: Path = args.home
    home.mkdir(parents=True, exist_ok=True)
    bed = Bed(Path(os.environ[SCRIPT]).resolve(), home / "bed", 16, accounts=True, port=args.port)
    bed.down()
    bed.up()
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    (home / "site.yaml").write_text(SITE.format(home=home, conf=bed.conf))
    bed.close_gate(gangplan("slurm", "gate", "--site", home / "site.yaml", "--lua").stdout)
    soak = Soak(bed, home, random.Random(args.seed))
    log = (home / "run.log").open("w")
    command = [sys.executable, "-c", "from planner.cli import main; main()", "run"]
    rounds = subprocess.Popen(
        [*command, "--site", str(home / "site.yaml"), "--period", args.period], stderr=log
    )
    until = time.monotonic() + 60 * args.minutes
    hurt_at = time.monotonic() + 60
    while time.monotonic() < until and rounds.poll() is None:
        soak.submit()
        if soak.dice.random() < 0.15:
            soak.cancel()
        if time.monotonic() > hurt_at:
            soak.hurt()
            hurt_at = time.monotonic() + soak.dice.uniform(45, 120)
        soak.heal()
        soak.check_plan()
        time.sleep(soak.dice.expovariate(1 / 3))
    wrong = finish(soak, rounds, since)
    log.close()
    bed.down()
    sys.exit(bool(wrong))


def finish(soak: Soak, rounds: subprocess.Popen[bytes], since: str) -> list[str]:
    """Let everything end, compare, print the result and return what is wrong."""
    died = rounds.poll()
    for node, (how, _) in list(soak.out.items()):
        soak.out[node] = (how, 0)
    soak.heal()
    soak.bed.call("scancel", "-u", "root", check=False)
    time.sleep(20)
    rounds.send_signal(signal.SIGTERM)
    rounds.wait(60)
    last = gangplan("run", "--site", soak.home / "site.yaml")
    wrong = [*soak.broken, *differences(soak.bed, soak.home, since)]
    wrong += early(soak.bed, since, soak.min_runtime_s)
    wrong += [f"the rounds ended by themselves, {died}"] if died is not None else []
    wrong += [f"the last round failed: {last.stderr}"] if last.returncode else []
    told = [json.loads(line) for line in _lines(soak.home / "run.log")]
    refused = [t for t in told if t["event"] == "round failed" and t["exit_code"] == REFUSED]
    wrong += [f"the round of {t['time']} was refused: {t['fault']}" for t in refused]
    events = Counter[str](t["event"] for t in told)
    print("events:", json.dumps(dict(sorted(events.items()))))
    print("done to the cluster:", json.dumps(dict(sorted(soak.counts.items()))))
    states: Counter[Any] = Counter(r["state"]["current"] for r in soak.bed.records(since))
    print("records in sacct:", json.dumps(dict(sorted(states.items()))))
    for line in wrong:
        print("WRONG", line)
    print("soak:", "failed" if wrong else "passed")
    return wrong


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.startswith("{")]


if __name__ == "__main__":
    main()
