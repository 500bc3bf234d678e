"""The source `slurm` keeps the laws of the interface on a real Slurm too.

They run where GANGPLAN_TESTBED names the testbed script (`.ci/run` does so), and take about two minutes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from planner.site import load_site
from planner.sources.base import Source
from planner.sources.catalog import source_of
from tests.endtoend.bed import SCRIPT, Bed, cluster, wait_for
from tests.planner.cli.calling import gangplan
from tests.planner.sources.conformance import Conformance

pytestmark = pytest.mark.skipif(SCRIPT not in os.environ, reason="no testbed script is named")

NODES = 8


@dataclass
class RealBed:
    """Slurm itself."""

    slurm: Bed
    source: Source
    home: Path

    def submit(self, nodes: int = 1, gpus: int = 8) -> str:
        line = f"until [ -e {self.home}/$SLURM_JOB_ID ]; do sleep 0.1; done"
        options = (f"-N{nodes}", f"--gpus-per-node={gpus}", "-A", "nlp", "-o", "/dev/null")
        return self.slurm.call("sbatch", "--parsable", *options, f"--wrap={line}").strip()

    def finish(self, workload: str) -> None:
        (self.home / workload).touch()
        wait_for(lambda: workload not in self.alive())

    def loosen(self, workload: str) -> None:
        self.slurm.call("scontrol", "release", workload)

    def fill(self) -> None:
        """Let Slurm itself start one job a node."""
        jobs = [self.submit() for _ in range(NODES)]
        for job in jobs:
            self.loosen(job)
        wait_for(lambda: all(self.alive()[job] == "RUNNING" for job in jobs))

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def alive(self) -> dict[str, str]:
        """Return the states of the jobs that have not ended."""
        over = ("COMPLETED", "CANCELLED")
        return {i: j["job_state"] for i, j in self.slurm.jobs().items() if j["job_state"] not in over}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Bed]:
    """Bring a cluster up, and take it down."""
    with cluster(NODES, accounts=True) as made:
        yield made


class TestSlurm(Conformance):
    """The laws, on a cluster that every test finds empty."""

    @pytest.fixture
    def bed(self, slurm: Bed, tmp_path: Path) -> Iterator[RealBed]:
        site = tmp_path / "site.yaml"
        site.write_text(f"budgets: [{{name: nlp, weight: 1}}]\nsource: {{type: slurm, conf: {slurm.conf}}}\n")
        slurm.close_gate(gangplan("slurm", "gate", "--site", site, "--lua").out)
        made = RealBed(slurm, source_of(load_site(site)), tmp_path)
        yield made
        slurm.call("scancel", "-u", "root", check=False)
        wait_for(lambda: not made.alive())
