"""What if it were submitted now: the same round with it, also with shorter min runtimes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.text import HOUR, iso
from planner.errors import InputError
from planner.model.workload import Workload
from planner.round import plan_round
from planner.whatif import what_if
from tests.planner.worlds import NOW_S, World, by_id, world

MINUTE = 60


def asking(min_runtime_s: int | None, **other) -> Workload:
    """Write a workload that is not submitted yet."""
    asks = {"id": "new", "allocation": "b", "replicas": 1, "gpus_per_replica": 8, "submitted_s": NOW_S}
    return Workload(**asks, state="pending", min_runtime_s=min_runtime_s, **other)


@pytest.fixture
def held() -> World:
    """Write a world whose only free node is promised from an hour on."""
    placement = [{"node": n, "gpus": 8} for n in ("n1", "n2")]
    return world(
        nodes="n[1-2]",
        workloads=[
            {"id": "safe", "on": "n2", "ran": "1h", "min_runtime": "2h", "allocation": "b"},
            {"id": "big", "replicas": 2, "min_runtime": "4h"},
        ],
        reservations=[{"workload": "big", "start_at": iso(NOW_S + HOUR), "placement": placement}],
        site={"contract": {"default_min_runtime": "1h"}},
    )


@pytest.mark.parametrize(
    ("asked_s", "tried_s"),
    [
        (8 * HOUR, [8 * HOUR, 4 * HOUR, HOUR, 15 * MINUTE, 0]),
        (4 * HOUR, [4 * HOUR, HOUR, 15 * MINUTE, 0]),
        (10 * MINUTE, [10 * MINUTE, 0]),
        (0, [0]),
        (None, [HOUR, 15 * MINUTE, 0]),
    ],
)
def test_its_own_min_runtime_comes_first_and_then_the_shorter_ones(held, asked_s, tried_s):
    trials = what_if(held.site, held.snapshot, asking(asked_s))
    assert [t.min_runtime_s for t in trials] == tried_s


@pytest.mark.parametrize(
    ("contract", "asks", "tried_s"),
    [
        ({"min_min_runtime": "1h"}, {}, [4 * HOUR, HOUR, 0]),
        ({"min_min_runtime": "2h", "default_min_runtime": "2h"}, {}, [4 * HOUR, 2 * HOUR, 0]),
        ({"max_min_runtime": "2h"}, {}, [2 * HOUR, HOUR, 15 * MINUTE, 0]),
        ({}, {"time_limit_s": 30 * MINUTE}, [30 * MINUTE, 15 * MINUTE, 0]),
        ({}, {"allocation": "free"}, [0]),
    ],
)
def test_what_the_contract_makes_of_a_min_runtime_is_tried_once(held, contract, asks, tried_s):
    held.site_data["contract"].update(contract)
    held.site_data["budgets"].append({"name": "free", "weight": 0})
    trials = what_if(held.site, held.snapshot, replace(asking(4 * HOUR), **asks))
    assert [t.min_runtime_s for t in trials] == tried_s


def test_a_min_runtime_that_ends_before_a_promise_starts_where_a_longer_one_waits(held):
    trials = {t.min_runtime_s: t.decision for t in what_if(held.site, held.snapshot, asking(4 * HOUR))}
    assert trials[4 * HOUR].action == "wait"
    assert (trials[HOUR].action, trials[HOUR].occupancy) == ("start", "allocated")
    assert (trials[0].action, trials[0].occupancy) == ("start", "unallocated")


def test_the_answer_is_what_the_round_decides_once_it_is_submitted(held):
    (first, *_) = what_if(held.site, held.snapshot, asking(HOUR))
    data = held.snapshot_data | {"workloads": held.snapshot_data["workloads"] + submitted("1h")}
    submitted_world = World(held.site_data, data)
    plan = plan_round(submitted_world.site, submitted_world.snapshot)
    assert by_id(plan)["new"] == first.decision


def submitted(min_runtime: str) -> list[dict]:
    """Write the same workload in the form of a snapshot."""
    asks = {"id": "new", "allocation": "b", "waited": "0s", "min_runtime": min_runtime}
    return world(workloads=[asks]).snapshot_data["workloads"]


@pytest.mark.parametrize("taken", ["safe", "big"])
def test_an_id_that_the_snapshot_has_is_refused_whether_it_runs_or_waits(held, taken):
    with pytest.raises(InputError, match=f"^{taken}: is in the snapshot already"):
        what_if(held.site, held.snapshot, replace(asking(HOUR), id=taken))


def test_an_impossible_one_is_rejected_with_the_reason(held):
    trials = what_if(held.site, held.snapshot, asking(HOUR, gpu_types=("mi300",)))
    assert {(t.decision.action, t.decision.reason.code) for t in trials} == {("reject", "NoSuchPool")}


def test_the_snapshot_is_left_as_it_was(held):
    before = held.snapshot
    what_if(held.site, before, asking(HOUR))
    assert before == held.snapshot
