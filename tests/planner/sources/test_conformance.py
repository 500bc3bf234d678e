"""Every source keeps the laws of the interface; the one on paper shows that they ask for nothing of Slurm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.model.site import Site
from planner.model.workload import Workload
from planner.schema.slurm import SlurmEntry
from planner.sources.base import Source
from planner.sources.catalog import source_of
from planner.sources.slurm.source import SlurmSource
from tests.planner.sources.conformance import Bed, Conformance
from tests.planner.sources.paper import Paper
from tests.planner.sources.slurm.fake import FakeSlurm


@dataclass
class FakeBed:
    """Slurm as the tests have it."""

    slurm: FakeSlurm
    source: Source

    def submit(self, nodes: int = 1, gpus: int = 8) -> str:
        return self.slurm.submit(nodes, gpus)

    def finish(self, workload: str) -> None:
        self.slurm.finish(workload)

    def loosen(self, workload: str) -> None:
        self.slurm.loosen(workload)

    def fill(self) -> None:
        for _ in range(8):
            self.slurm.loosen(self.slurm.submit())

    def wait(self, seconds: float) -> None:
        self.slurm.sleep(seconds)


@dataclass
class PaperBed:
    """A cluster on paper."""

    source: Paper

    def submit(self, nodes: int = 1, gpus: int = 8) -> str:
        name = f"w{len(self.source.held)}"
        self.source.workloads[name] = Workload(name, "a", nodes, gpus, self.source.now_s, "pending")
        self.source.held[name] = True
        return name

    def finish(self, workload: str) -> None:
        self.source.end(workload)

    def loosen(self, workload: str) -> None:
        self.source.held[workload] = False

    def fill(self) -> None:
        """Nothing starts by itself on paper."""

    def wait(self, seconds: float) -> None:
        self.source.now_s += int(seconds)


class TestSlurm(Conformance):
    """The source `slurm`, on a Slurm that is made up."""

    @pytest.fixture
    def bed(self, tmp_path: Path) -> Bed:
        slurm = FakeSlurm(tmp_path / "slurm.json")
        settings = SlurmEntry(type="slurm")
        return FakeBed(slurm, SlurmSource(Site(()), settings, slurm, slurm.clock, slurm.sleep))


class TestPaper(Conformance):
    """The smallest source that there can be."""

    @pytest.fixture
    def bed(self) -> Bed:
        return PaperBed(Paper())


@pytest.mark.parametrize("source", [None, {"type": "lsf"}])
def test_a_site_without_a_source_that_is_known_is_told_which_there_are(source: dict[str, str] | None) -> None:
    with pytest.raises(InputError, match=r"source.type: .* write one of slurm"):
        source_of(Site((), source=source))
