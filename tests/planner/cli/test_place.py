"""`gangplan place`: a new workload beside a standing plan, and a plan that cannot stand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.planner.cli.calling import gangplan, refused

PLACE = ("place", "--site", "site.yaml", "--snapshot", "snapshot.yaml", "--plan", "plan.json")
NEW = "{id: new, allocation: language/pretraining, replicas: 1, gpus_per_replica: 1, min_runtime: 15m}"


@pytest.fixture
def newcomer(folder: Path) -> tuple[str, ...]:
    """Write a new workload beside the example; return the command that places it."""
    (folder / "new.yaml").write_text(NEW)
    return (*PLACE, "--workload", "new.yaml")


def test_a_new_workload_gets_a_decision(newcomer: tuple[str, ...]):
    called = gangplan(*newcomer, "-o", "json")
    assert (called.code, called.err) == (0, "")
    first = json.loads(called.out)["decisions"][0]
    assert first["workload"] == "new"
    assert first["action"] in ("start", "wait")


def start_on(plan: Any, node: str) -> None:
    """Let the first part of the first start stand on another node."""
    next(d for d in plan["decisions"] if d["action"] == "start")["placement"][0]["node"] = node


def promise_to(plan: Any, workload: str) -> None:
    """Promise a start."""
    place = [{"node": "saturn-001", "gpus": 8}]
    promise = {"workload": workload, "start_at": "2026-10-10T00:00:00Z", "placement": place}
    plan["reservations"].append(promise)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda plan: start_on(plan, "nowhere"), "unknown node nowhere"),
        (lambda plan: promise_to(plan, "alien"), "alien: promised a start, and not in the snapshot"),
        (lambda plan: plan["decisions"].append(plan["decisions"][0]), "decided twice"),
        (lambda plan: plan["decisions"].clear(), "no decision"),
        (lambda plan: plan["decisions"][0].update(gpus=-1), "decisions[0].gpus"),
    ],
)
def test_a_plan_that_cannot_stand_is_wrong_input(
    folder: Path, newcomer: tuple[str, ...], damage: Callable[[Any], object], said: str
):
    plan = json.loads((folder / "plan.json").read_text())
    damage(plan)
    (folder / "plan.json").write_text(json.dumps(plan))
    faults = refused(gangplan(*newcomer))
    assert said in "\n".join(faults)
    assert all(fault.startswith("plan.json") for fault in faults)


def test_a_plan_that_breaks_a_rule_is_not_carried_on(folder: Path, newcomer: tuple[str, ...]):
    plan = json.loads((folder / "plan.json").read_text())
    kept = next(d for d in plan["decisions"] if d["action"] == "keep" and d.get("protected_until"))
    kept |= {"action": "preempt", "protected_until": None}
    (folder / "plan.json").write_text(json.dumps(plan))
    called = gangplan(*newcomer)
    assert (called.code, called.out) == (3, "")
    assert f"plan.json: {kept['workload']}: protected: preempted" in called.err
