"""Rounds on real logs: every plan holds, decides on everybody, and says how good it is proven to be."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from benchmarks.stress import outside
from planner.model.plan import Plan
from planner.planfile import plan_to_dict
from planner.verify import verify
from tests.planner.worlds import World
from tests.realdata import SHARED, Cut, cerit, needs_logs, openb

pytestmark = needs_logs

CHECKER = SHARED / "verify_plan.py"
TIME_LIMIT = {"solver": {"time_limit": "3s"}}
"""Enough for CERIT to the last per mille; openb is cut by the clock."""

CUTS: dict[str, Callable[[], Cut]] = {
    "cerit, early": lambda: cerit(0.3),
    "cerit, middle": lambda: cerit(0.5),
    "cerit, late": lambda: cerit(0.8),
    "openb, type constraints": lambda: openb(4500, 0.85, "gpuspec33"),
    "openb, no constraints": lambda: openb(6000, 0.9, "default"),
}


@dataclass(frozen=True)
class Round:
    """A planned cut and the wall time of its round, reading the files included."""

    world: World
    plan: Plan
    seconds: float


@pytest.fixture(scope="module", params=CUTS)
def planned(request: pytest.FixtureRequest) -> Round:
    """Plan one cut."""
    cut = CUTS[request.param]()
    world = World({**cut.site, **TIME_LIMIT}, cut.snapshot)
    began_s = time.monotonic()
    plan = world.plan("auto")
    return Round(world, plan, time.monotonic() - began_s)


def test_the_plan_holds(planned: Round):
    assert verify(planned.world.snapshot, planned.plan, planned.world.site) == []


@pytest.mark.skipif(not CHECKER.is_file(), reason="the outside checker is not here")
def test_the_plan_holds_by_the_outside_checker(planned: Round):
    data = json.loads(json.dumps(plan_to_dict(planned.plan)))
    assert outside(CHECKER)(planned.world.site_data, planned.world.snapshot_data, data) == []


def test_everybody_has_a_decision(planned: Round):
    ids = sorted(w["id"] for w in planned.world.snapshot_data["workloads"])
    assert [d.workload for d in planned.plan.decisions] == ids
    assert any(d.action == "start" for d in planned.plan.decisions)


def test_the_plan_says_how_good_it_is(planned: Round, capsys: pytest.CaptureFixture[str]):
    s = planned.plan.solver
    assert s.status == "optimal" or s.gap is not None or s.notes
    assert s.gap is None or s.gap >= 0
    waits = sum(d.action == "wait" for d in planned.plan.decisions)
    gap = "no bound" if s.gap is None else f"gap {s.gap:.2%}"
    with capsys.disabled():
        line = f"{len(planned.plan.decisions)} workloads, {waits} wait: {s.backend}, {s.status}, {gap}"
        sys.stdout.write(f"\n  {line}, whole round {planned.seconds:.1f} s ")
