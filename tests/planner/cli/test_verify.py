"""`gangplan verify`: exit 0 for a plan that holds, 3 and a line for each broken rule otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.planner.cli.calling import gangplan, refused

VERIFY = ("verify", "--snapshot", "snapshot.yaml", "--plan", "plan.json")


@pytest.mark.parametrize("site", [(), ("--site", "site.yaml")])
def test_a_good_plan_holds(folder: Path, site: tuple[str, ...]):
    called = gangplan(*VERIFY, *site)
    assert (called.code, called.out, called.err) == (0, "the plan holds\n", "")


def test_each_broken_rule_has_its_line(folder: Path):
    plan = json.loads((folder / "plan.json").read_text())
    gone = plan["decisions"].pop(0)["workload"]
    plan["decisions"].append(plan["decisions"][0])
    (folder / "plan.json").write_text(json.dumps(plan))
    lines = refused(gangplan(*VERIFY, "--site", "site.yaml"), code=3)
    assert sorted(lines) == sorted(
        [f"{gone}: no decision", f"{plan['decisions'][0]['workload']}: decided twice"]
    )


def test_a_plan_of_another_snapshot_is_refused(folder: Path):
    text = (folder / "snapshot.yaml").read_text()
    (folder / "snapshot.yaml").write_text(text.replace("12:00:00Z", "12:05:00Z"))
    (line,) = refused(gangplan(*VERIFY), code=3)
    assert "before the snapshot's" in line


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (lambda plan: plan.pop("decisions"), "decisions: is missing"),
        (lambda plan: plan["decisions"][0].update(action="go"), "decisions[0].action"),
        (lambda plan: plan["solver"].update(seconds="fast"), "solver.seconds"),
        (lambda plan: plan.update(color="red"), "color"),
    ],
)
def test_what_is_no_plan_is_wrong_input(folder: Path, damage: Callable[[Any], object], where: str):
    plan = json.loads((folder / "plan.json").read_text())
    damage(plan)
    (folder / "plan.json").write_text(json.dumps(plan))
    assert where in "\n".join(refused(gangplan(*VERIFY)))


def test_what_is_not_json_is_wrong_input(folder: Path):
    (folder / "plan.json").write_text('{"time": "2026-10-09T12:00:00Z", ')
    assert refused(gangplan(*VERIFY))[0].startswith("plan.json:1:")
