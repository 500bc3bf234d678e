"""The small example in a folder of its own, with its plan."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.planner.cli.calling import gangplan

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "two-clusters"


@pytest.fixture(scope="session")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plan the example once."""
    folder = tmp_path_factory.mktemp("example")
    for name in ("site.yaml", "snapshot.yaml"):
        shutil.copy(EXAMPLE / name, folder / name)
    inputs = ("--site", folder / "site.yaml", "--snapshot", folder / "snapshot.yaml")
    assert gangplan("plan", *inputs, "--backend", "greedy", "--out", folder / "plan.json").code == 0
    return folder


@pytest.fixture
def folder(planned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with site.yaml, snapshot.yaml and plan.json that a test may change."""
    for file in planned.iterdir():
        shutil.copy(file, tmp_path / file.name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
