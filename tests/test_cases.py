"""Small worlds and what must be decided in them; many are faults that users of other schedulers reported.

The scenarios of the repository stand in `tests/planner/scenarios`, in the words of `tests.planner.worlds`.
Each is planned by greedy and by HiGHS, must hold by every checker there is, and decide the same for any order
of the input. `expect` holds expressions over the functions of `Decided`.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.stress import outside
from planner.model.plan import Decision, Plan, ShareRow
from planner.verify import verify
from tests.planner.cli.calling import gangplan
from tests.planner.worlds import World, by_id, plan_data, world
from tests.realdata import SHARED

SCENARIOS = sorted((Path(__file__).parent / "planner" / "scenarios").glob("*.yaml"))
CASES = sorted(
    p for p in (SHARED / "cases").glob("*.yaml") if "\ntrace:" not in p.read_text(encoding="utf-8")
)
CHECKER = SHARED / "verify_plan.py"


class Text(yaml.SafeLoader):
    """YAML whose times stay text, and in which only `true` and `false` are truth values."""


Text.yaml_implicit_resolvers = {
    first: [
        (tag, form)
        for tag, form in resolvers
        if not tag.endswith("timestamp") and (first in "tTfF" or not tag.endswith("bool"))
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True)
class Decided:
    """A plan, made easy to ask; ids come as sets, times as hours from now, places as GPUs by node."""

    world: World
    plan: Plan

    def one(self, workload: str) -> Decision:
        return by_id(self.plan)[workload]

    def _ids(self, action: str, allocation: str | None) -> set[str]:
        states = {w["id"]: w["state"] for w in self.world.snapshot_data["workloads"]}
        return {
            d.workload
            for d in self.plan.decisions
            if d.action == action and allocation in (None, d.allocation) and states[d.workload] != "stopping"
        }

    def starts(self, allocation: str | None = None) -> set[str]:
        return self._ids("start", allocation)

    def preempted(self, allocation: str | None = None) -> set[str]:
        return self._ids("preempt", allocation)

    def rejects(self) -> set[str]:
        return self._ids("reject", None)

    def lane(self) -> set[str]:
        return {d.workload for d in self.plan.decisions if d.reason.code == "StartInDebugLane"}

    def action(self, workload: str) -> str:
        return self.one(workload).action

    def code(self, workload: str) -> str:
        return self.one(workload).reason.code

    def reason(self, workload: str) -> str:
        return self.one(workload).reason.text

    def gpus(self, workload: str) -> dict[str, int]:
        return {p.node: p.gpus for p in self.one(workload).placement}

    def nodes(self, workload: str) -> set[str]:
        return set(self.gpus(workload))

    def domains(self, workload: str, level: str) -> Counter[tuple[str, ...]]:
        where = {
            n.name: (c.name, *n.location[: c.levels.index(level) + 1])
            for c in self.world.snapshot.clusters
            for n in c.nodes
            if level in c.levels
        }
        found: Counter[tuple[str, ...]] = Counter()
        for node, gpus in self.gpus(workload).items():
            found[where[node]] += gpus
        return found

    def _hours(self, time_s: int | None) -> float | None:
        return None if time_s is None else (time_s - self.plan.time_s) / 3600

    def expected_hours(self, workload: str) -> float | None:
        return self._hours(self.one(workload).expected_start_s)

    def protected_hours(self, workload: str) -> float | None:
        return self._hours(self.one(workload).protected_until_s)

    def empty_hours(self, node: str) -> float | None:
        return self._hours(next(n.empty_at_s for n in self.plan.nodes if n.node == node))

    def promised_nodes(self, workload: str) -> set[str]:
        return {p.node for r in self.plan.reservations if r.workload == workload for p in r.placement}

    def share(self, allocation: str) -> ShareRow:
        return next(row for row in self.plan.shares if row.allocation == allocation)

    def free(self) -> int:
        return int(self.plan.fragmentation["free_gpus"])

    def unmet(self, expectations: Iterable[str]) -> list[str]:
        """Return the expectations that the plan does not meet."""
        words = {name: getattr(self, name) for name in dir(self) if not name.startswith("_")}
        words["warnings"] = " | ".join(self.plan.warnings)
        return [text for text in expectations if not eval(text, words)]


def load(path: Path) -> dict[str, Any]:
    """Read a scenario."""
    scenario: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Text)
    assert scenario.keys() <= {"claim", "world", "expect", "shuffles"}
    return scenario


@pytest.mark.parametrize("backend", ["greedy", "highs"])
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.stem)
def test_scenario(path: Path, backend: str):
    scenario = load(path)
    w = world(**scenario["world"])
    plan = w.plan(backend)
    assert Decided(w, plan).unmet(scenario["expect"]) == [], scenario["claim"]
    assert verify(w.snapshot, plan, w.site) == []
    if CHECKER.is_file():
        assert outside(CHECKER)(w.site_data, w.snapshot_data, plan_data(plan)) == []
    for seed in range(scenario.get("shuffles", 1)):
        assert plan_data(w.shuffled(seed).plan(backend)) == plan_data(plan), f"shuffle {seed}"


def test_every_scenario_makes_a_claim_of_its_own():
    claims = [load(path)["claim"] for path in SCENARIOS]
    assert len(claims) == len(set(claims)) > 25


@pytest.mark.skipif(not CASES, reason="the outside cases are not here: set GANGPLAN_SHARED")
@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_outside_case(path: Path, tmp_path: Path):
    runner = module_of(SHARED / "cases" / "run.py")
    runner.call = in_this_process
    case = yaml.load(path.read_text(encoding="utf-8"), runner.Loader)
    assert runner.plan_case([], case, tmp_path) == [], case["name"]


def module_of(path: Path) -> Any:
    """Load a Python file that is not part of the repository."""
    spec = importlib.util.spec_from_file_location(f"outside_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_this_process(command: list[str], args: list[Any], seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Stand in for the runner's way to call gangplan: without a process for each of its many rounds."""
    called = gangplan(*map(str, args))
    return subprocess.CompletedProcess(command, called.code, called.out, called.err)
