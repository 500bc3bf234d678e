"""Under every policy a wait is for placement while the budget order has the workload in the money."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from benchmarks.random_snapshots import random_case
from planner.encode import encode
from planner.simulation.metrics.measure import measure
from planner.simulation.money import LOOK_EVERY_S, Looks, in_the_money
from planner.simulation.policies import POLICIES
from planner.simulation.tables import workloads
from planner.simulation.world import World
from planner.site import parse_site
from planner.snapshot import parse_snapshot
from solver.decide import decide
from solver.feasible import Reject, rejections
from solver.state import SolveParams, Status
from tests.planner.simulation.small import HOUR, run, site, trace

BASELINES = sorted(POLICIES.keys() - {"budget", "budget-greedy"})


@pytest.mark.parametrize("seed", range(0, 120, 3))
def test_who_is_in_the_money_is_whom_a_round_of_plan_would_say(seed: int):
    site_data, snapshot_data = random_case(seed)
    of = parse_site(yaml.safe_dump(site_data, sort_keys=False), "site.yaml")
    snapshot = parse_snapshot(json.dumps(snapshot_data), "snapshot.json", of)
    names, never = encode(of, snapshot).names, rejections(encode(of, snapshot).state) != Reject.NO
    can = tuple(w for w in snapshot.workloads if not never[names.index[w.id]])
    state = encode(of, replace(snapshot, workloads=can, reservations=())).state  # as simulations have it
    order = decide(state, SolveParams("greedy")).order
    waits = (state.workloads.status == Status.PENDING) & order.in_money
    assert in_the_money(state).tolist() == np.flatnonzero(waits).tolist()


def waits(policy: str, *rows: dict) -> dict[str, tuple[int, int, int]]:
    """Return wait, budget wait and placement wait of each workload on one node of two equal allocations."""
    frame = workloads(measure(run(site(1), trace(*rows), policy=policy, end_s=9 * HOUR)))
    columns = (frame[name].tolist() for name in ("wait_s", "budget_wait_s", "placement_wait_s"))
    return dict(zip(frame["id"], zip(*columns, strict=True), strict=True))


@pytest.mark.parametrize("policy", sorted(set(BASELINES) - {"monopoly"}))  # there a node is one team's
def test_who_had_nothing_and_waits_for_a_protected_run_waits_for_placement(policy: str):
    first = {"allocation": "a", "runtime_s": 4 * HOUR, "min_runtime_s": 4 * HOUR}
    second = {"allocation": "b", "submitted_s": HOUR, "min_runtime_s": HOUR, "gpus_per_replica": 4}
    wait_s, budget_s, placement_s = waits(policy, first, second)["w1"]
    assert wait_s >= 3 * HOUR
    assert budget_s <= LOOK_EVERY_S
    assert placement_s == wait_s - budget_s


@pytest.mark.parametrize("policy", BASELINES)
def test_who_stands_behind_more_than_there_is_waits_for_budget(policy: str):
    rich = [{"allocation": "a", "min_runtime_s": 4 * HOUR, "runtime_s": 4 * HOUR} for _ in range(2)]
    poor = {"allocation": "a", "submitted_s": 60, "min_runtime_s": HOUR}
    wait_s, budget_s, placement_s = waits(policy, *rich, poor)["w2"]
    assert wait_s == budget_s + placement_s
    assert budget_s >= 3 * HOUR


@pytest.mark.parametrize("policy", BASELINES)
def test_unallocated_work_is_never_in_the_money(policy: str):
    rows = [{"allocation": "a", "min_runtime_s": 0, "runtime_s": 3 * HOUR} for _ in range(3)]
    assert all(placement_s == 0 for _, _, placement_s in waits(policy, *rows).values())


def test_looks_are_not_more_frequent_than_they_say():
    world, looks = World(site(1), trace({}), 60), Looks()
    seen = [s for s in range(0, 2 * LOOK_EVERY_S + 1, 60) if looks.at(world.round_at(s).state) is not None]
    assert seen == [0, LOOK_EVERY_S, 2 * LOOK_EVERY_S]
