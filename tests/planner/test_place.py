"""The hot path keeps every rule that the plan keeps, and answers like a round where it can."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from benchmarks.random_snapshots import random_case
from planner.encode import encode
from planner.errors import InputError
from planner.model.workload import Placement, Topology, Workload
from planner.place import Standing, after
from planner.round import plan_round
from planner.site import parse_site
from planner.snapshot import parse_snapshot
from solver.check import check
from solver.plan import Decisions
from solver.state import Action, Spread, Status

HOUR_S = 3600


def world(seed: int):
    site_data, snapshot_data = random_case(seed)
    site = parse_site(yaml.safe_dump(site_data, sort_keys=False), "site.yaml")
    return site, parse_snapshot(json.dumps(snapshot_data), "snapshot.json", site)


def new(snapshot, rng, allocations) -> Workload:
    """Return a random newcomer."""
    return Workload(
        id="~new",
        allocation=str(rng.choice(allocations)),
        replicas=int(rng.integers(1, 4)),
        gpus_per_replica=int(rng.choice([1, 1, 2, 3, 4, 8])),
        submitted_s=snapshot.time_s,
        state="pending",
        min_runtime_s=int(rng.choice([0, 600, HOUR_S, 8 * HOUR_S])),
        topology=Topology(required=str(rng.choice(["node", "leaf"])) if rng.random() < 0.2 else None),
    )


def broken(site, snapshot, workload, result) -> list[str]:
    """Return the rules that placing breaks in the world as the plan leaves it."""
    encoded = encode(site, replace(snapshot, workloads=(*snapshot.workloads, workload)))
    state, index = encoded.state, encoded.names.index
    w = state.workloads
    action = np.where(w.status == Status.RUNNING, Action.KEEP, Action.WAIT)
    action[w.status == Status.STOPPING] = Action.PREEMPT
    starts = [[] for _ in range(w.count)]
    j = index[workload.id]
    action[j] = {"start": Action.START, "wait": Action.WAIT, "reject": Action.REJECT}[result.decision.action]
    each = workload.gpus_per_replica
    if result.decision.action == "start":
        node = encoded.names.node_index
        starts[j] = [(node[p.node], p.gpus, p.gpus // each) for p in result.decision.placement]
    victims = {index[d.workload]: [j] for d in result.preempted}
    action[list(victims)] = Action.PREEMPT
    p = state.promises
    decisions = Decisions(action, Spread.of(starts), victims, p.workload, p.start_s, p.placement)
    ignored = {"reject"}  # what else waits is not decided on here
    return [str(b) for b in check(state, decisions, set(p.workload.tolist())) if b.rule not in ignored]


@pytest.mark.parametrize("seed", range(120))
def test_placing_beside_a_standing_plan_breaks_no_rule(seed):
    site, snapshot = world(seed)
    snapshot = replace(snapshot, reservations=())
    plan = plan_round(site, snapshot, "greedy")
    standing = Standing(site, snapshot, plan)
    left = after(snapshot, plan)
    rng = np.random.default_rng(seed)
    healthy = {n.name for c in left.clusters for n in c.nodes if n.state == "up"}
    runs = tuple(
        w for w in left.workloads if w.state == "pending" or all(p.node in healthy for p in w.placement)
    )
    for _ in range(3):
        workload = new(snapshot, rng, sorted(standing.shares))
        result = standing.place(workload)
        if runs == left.workloads:
            assert broken(site, left, workload, result) == []
        else:  # what still stands on sick nodes is the next round's to decide
            assert result.decision.action in {"start", "wait", "reject"}


def test_a_promised_node_takes_only_what_ends_before_the_promise():
    site = parse_site("budgets: [{name: a}, {name: b}]", "site.yaml")
    data = {
        "time": "2026-10-09T12:00:00Z",
        "clusters": [{"name": "k", "levels": [], "nodes": [{"names": "n[1-2]", "gpus": 8}]}],
        "workloads": [
            {"id": "r", "allocation": "a", "replicas": 1, "gpus_per_replica": 8, "min_runtime": "2h",
             "state": "running", "submitted": "2026-10-09T11:00:00Z", "started": "2026-10-09T11:00:00Z",
             "placement": [{"node": "n1", "gpus": 8}]},
            {"id": "g", "allocation": "b", "replicas": 2, "gpus_per_replica": 8, "min_runtime": "4h",
             "state": "pending", "submitted": "2026-10-09T11:00:00Z"},
        ],
        "history": "7d",
        "reservations": [{"workload": "g", "start_at": "2026-10-09T13:00:00Z",
                          "placement": [{"node": "n1", "gpus": 8}, {"node": "n2", "gpus": 8}]}],
    }  # fmt: skip
    snapshot = parse_snapshot(json.dumps(data), "snapshot.json", site)
    standing = Standing(site, snapshot, plan_round(site, snapshot, "greedy"))
    ask = Workload("new", "a", 1, 8, snapshot.time_s, "pending", min_runtime_s=HOUR_S)
    assert standing.place(ask).decision.placement == (Placement("n2", 8),)
    assert standing.place(replace(ask, min_runtime_s=HOUR_S + 1)).decision.action == "wait"
    assert standing.place(replace(ask, min_runtime_s=0)).decision.action == "start"


def test_placing_twice_gives_the_same_answer():
    site, snapshot = world(7)
    standing = Standing(site, snapshot, plan_round(site, snapshot, "greedy"))
    ask = Workload("new", sorted(standing.shares)[0], 1, 1, snapshot.time_s, "pending", min_runtime_s=600)
    assert standing.place(ask) == standing.place(ask)


def test_a_plan_of_another_snapshot_is_refused():
    site, snapshot = world(3)
    plan = replace(plan_round(site, snapshot, "greedy"), decisions=())
    with pytest.raises(InputError, match="does not decide on"):
        Standing(site, snapshot, plan)


def test_a_known_id_is_refused():
    site, snapshot = world(3)
    standing = Standing(site, snapshot, plan_round(site, snapshot, "greedy"))
    with pytest.raises(InputError, match="already"):
        standing.place(replace(snapshot.workloads[0], state="pending", started_s=None, placement=()))
