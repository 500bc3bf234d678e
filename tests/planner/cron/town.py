"""A small site on a made-up Slurm, with a ledger of its own, for tests of rounds."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.cron.cycle import Done
from planner.cron.loop import run_once
from planner.ledger.csvfile import export_csv
from planner.ledger.rounds import standing_promises
from planner.ledger.store import Ledger, open_ledger
from planner.model.site import Site
from planner.model.snapshot import Reservation
from planner.schema.slurm import SlurmEntry
from planner.site import parse_site
from planner.sources.slurm.source import SlurmSource
from tests.planner.sources.slurm.fake import FakeSlurm

SITE = """
budgets: [{{name: nlp, weight: 50}}, {{name: vision, weight: 50}}]
contract: {{min_min_runtime: 1s}}
preemption: {{restart_cost: 1s}}
solver: {{backend: greedy}}
ledger: {ledger}
source: {{type: slurm, levels: [block, leaf]}}
run: {{state: {home}/state, metrics: {home}/metrics.prom, {more}}}
"""


@dataclass
class Town:
    """A cluster, its site, and who reads its ledger."""

    home: Path
    slurm: FakeSlurm
    site: Site

    def source(self) -> SlurmSource:
        """Return the source as a new process makes it."""
        settings = SlurmEntry.model_validate(self.site.source)
        return SlurmSource(self.site, settings, self.slurm, self.slurm.clock, self.slurm.sleep)

    def round(self) -> Done:
        """Do one round."""
        return run_once(self.site, self.source())

    def rounds(self, many: int, every_s: float = 5) -> None:
        """Do some rounds, and let time pass after each; an open connection spares SQLite its clearing up."""
        with self.ledger.engine.connect():
            for _ in range(many):
                self.round()
                self.slurm.sleep(every_s)

    @property
    def ledger(self) -> Ledger:
        """The site's ledger."""
        assert self.site.ledger is not None
        return open_ledger(self.site.ledger, create=self.site.ledger.startswith("sqlite"))

    def charged(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return end and GPUs of each run in the ledger, by workload and start."""
        rows = csv.DictReader(export_csv(self.ledger, 0, 2**40))
        return {(r["workload"], int(r["started_s"])): (int(r["end_s"]), int(r["gpus"])) for r in rows}

    def kinds(self) -> dict[str, str]:
        """Return what each workload is charged as."""
        return {r["workload"]: r["occupancy"] for r in csv.DictReader(export_csv(self.ledger, 0, 2**40))}

    def accounted(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the same from Slurm's own accounts, of attempts that have ended and lasted."""
        return {
            (str(r["id"]), r["start"]): (r["end"], r["gpus"])
            for r in self.slurm.records()
            if r["end"] > r["start"] and r["gpus"]
        }

    def promises(self) -> tuple[Reservation, ...]:
        """Return the promises that stand."""
        with self.ledger.read() as connection:
            return standing_promises(connection)

    def left(self, name: str) -> Any:
        """Return a file of the state folder."""
        return json.loads((self.home / "state" / name).read_text())


def town(home: Path, ledger: str | None = None, nodes: int = 8, more: str = "max_age: 2m") -> Town:
    """Build a town in a folder; `more`: further keys of `run`."""
    url = ledger or f"sqlite:///{home}/ledger.db"
    site = parse_site(SITE.format(home=home, ledger=url, more=more), "site.yaml")
    return Town(home, FakeSlurm(home / "slurm.json", nodes), site)
