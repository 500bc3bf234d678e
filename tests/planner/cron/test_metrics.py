"""Every metric is in the runbook, and every metric of the runbook is there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from planner.cron import metrics
from planner.cron.loop import run_once
from planner.errors import SourceError
from planner.schema.slurm import SlurmEntry
from tests.planner.cron.town import Town, town
from tests.planner.worlds import NOW_S, world

SUCCESS = "gangplan_last_success_time_seconds"

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


def told(text: str) -> dict[str, float]:
    """Return the metrics without labels that a text holds."""
    samples = (s for family in text_string_to_metric_families(text) for s in family.samples)
    return {s.name: s.value for s in samples if not s.labels}


class Away:
    """A source that does not answer."""

    name = "slurm"

    def observe(self) -> None:
        """Fail."""
        raise SourceError("away")


def fail(here: Town) -> dict[str, float]:
    """Do a round whose source is away; return its metrics."""
    with pytest.raises(SourceError):
        run_once(here.site, Away())  # type: ignore[arg-type]
    return told((here.home / "metrics.prom").read_text())


def test_rounds_that_fail_keep_the_time_of_the_last_success(tmp_path: Path) -> None:
    here = town(tmp_path)
    here.round()
    good = told((tmp_path / "metrics.prom").read_text())
    assert good[SUCCESS] == good["gangplan_round_time_seconds"] > 0
    for _ in range(2):
        bad = fail(here)
        assert (bad[SUCCESS], bad["gangplan_round_exit_code"]) == (good[SUCCESS], 4)


@pytest.mark.parametrize("before", [None, b"", b"\xff", b"gangplan_last_success_time_seconds x\n"])
def test_a_success_that_no_metrics_tell_of_is_absent(tmp_path: Path, before: bytes | None) -> None:
    if before is not None:
        (tmp_path / "metrics.prom").write_bytes(before)
    assert SUCCESS not in fail(town(tmp_path))


@pytest.mark.parametrize(
    ("asked", "backend", "status", "fell"),
    [
        ("auto", "greedy", "greedy", 1),
        ("highs", "greedy", "feasible", 1),
        ("auto", "greedy", "optimal", 0),
        ("auto", "highs", "feasible", 0),
        ("greedy", "greedy", "greedy", 0),
    ],
)
def test_a_fallback_is_a_greedy_plan_unproven_where_a_solver_was_asked_for(
    asked: str, backend: str, status: str, fell: int
) -> None:
    place = world(workloads=[{"id": "w"}])
    plan = place.plan()
    made = replace(plan, solver=replace(plan.solver, backend=backend, status=status))
    text = generate_latest(metrics.of_round(made, place.snapshot, asked, NOW_S, 1.5, 0)).decode()
    assert told(text)["gangplan_fallback"] == fell
    assert f'gangplan_plan_by{{backend="{backend}",status="{status}"}} 1.0' in text
