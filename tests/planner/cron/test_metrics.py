"""Every metric is in the runbook, and every metric of the runbook is there."""

from __future__ import annotations

import re
from pathlib import Path

from planner.schema.slurm import SlurmEntry
from tests.planner.cron.town import town

RUNBOOK = (Path(__file__).resolve().parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    """Return what stands under a heading of the runbook."""
    return RUNBOOK.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_runbook_names_the_metrics_that_there_are(tmp_path: Path) -> None:
    here = town(tmp_path)
    here.slurm.submit(1, 8, contract={"min_runtime": "1h"})
    here.rounds(2)
    written = set(re.findall(r"^(gangplan_\w+)", (tmp_path / "metrics.prom").read_text(), re.MULTILINE))
    told = set()
    for row in re.findall(r"^\| (`.*?) \|", section("Metrics"), re.MULTILINE):
        names = re.findall(r"`(\w+)`", row)
        told |= {n if n.startswith("gangplan") else f"gangplan_allocation{n}" for n in names}
    assert told - written == {"gangplan_solve_gap"}, "the greedy rung proves no bound"
    assert written <= told


def test_the_runbook_names_the_keys_that_a_slurm_source_takes() -> None:
    table = section("The site file").split("`run`:")[0]
    told = {
        name
        for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    }
    assert told == set(SlurmEntry.model_fields)
