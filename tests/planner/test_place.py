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
from planner.model.plan import ActionName, Decision, Plan, Reason, SolverSummary
from planner.model.snapshot import Reservation
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


# -- plans that cannot be carried out ----------------------------------------------------------------

SITE = parse_site("budgets: [{name: a}, {name: b}]", "site.yaml")
SCENE = """
time: 2026-10-09T12:00:00Z
clusters: [{name: k, levels: [], nodes: [{names: 'n[1-2]', gpus: 8, cpus: 64, memory: 512G}]}]
workloads:
- {id: gang, allocation: a, replicas: 2, gpus_per_replica: 4, cpus_per_replica: 8, memory_per_replica: 64G,
   min_runtime: 2h, submitted: 2026-10-09T11:00:00Z, state: pending}
- {id: cpus, allocation: a, replicas: 2, gpus_per_replica: 0, cpus_per_replica: 20, min_runtime: 2h,
   submitted: 2026-10-09T11:00:00Z, state: pending}
- {id: late, allocation: b, replicas: 2, gpus_per_replica: 8, min_runtime: 2h,
   submitted: 2026-10-09T11:30:00Z, state: pending}
- {id: runs, allocation: b, replicas: 1, gpus_per_replica: 4, cpus_per_replica: 48, memory_per_replica: 384G,
   min_runtime: 4h, submitted: 2026-10-09T11:00:00Z, started: 2026-10-09T11:00:00Z, state: running,
   placement: [{node: n1, gpus: 4}]}
"""
SNAPSHOT = parse_snapshot(SCENE, "snapshot.yaml", SITE)


def places(*parts: tuple[str, int]) -> tuple[Placement, ...]:
    return tuple(Placement(*part) for part in parts)


def decision(workload: str, action: ActionName, *parts: tuple[str, int], made_for: str = "") -> Decision:
    reason = Reason("Because", "of a test")
    victims_for = (made_for,) if made_for else ()
    return Decision(workload, action, reason, "", 0, placement=places(*parts), victims_for=victims_for)


def a_plan(*others: Decision, promises: tuple[Reservation, ...] | None = None) -> Plan:
    """Return a good plan of the scene, but for other decisions and promises in the place of its own."""
    changed = {d.workload: d for d in others}
    good = (
        decision("gang", "start", ("n1", 4), ("n2", 4)),
        decision("cpus", "start", ("n2", 0), ("n2", 0)),
        decision("late", "wait"),
        decision("runs", "keep", ("n1", 4)),
    )
    own = tuple(changed.pop(d.workload, d) for d in good)
    summary = SolverSummary("greedy", "feasible", 0.0, None, None, 0.0)
    kept = (promise(),) if promises is None else promises
    return Plan(SNAPSHOT.time_s, summary, (*own, *changed.values()), kept, (), (), {}, ())


def promise(workload: str = "late", *parts: tuple[str, int]) -> Reservation:
    return Reservation(workload, SNAPSHOT.time_s + 4 * HOUR_S, places(*(parts or (("n1", 8), ("n2", 8)))))


def test_a_plan_is_carried_out_as_it_stands():
    left = after(SNAPSHOT, a_plan())
    assert {w.id for w in left.workloads if w.state == "running"} == {"gang", "cpus", "runs"}
    assert next(w for w in left.workloads if w.id == "gang").placement == places(("n1", 4), ("n2", 4))
    ask = Workload("new", "a", 1, 4, SNAPSHOT.time_s, "pending", min_runtime_s=600)
    assert Standing(SITE, SNAPSHOT, a_plan()).place(ask).decision.placement == places(("n2", 4))


def test_what_runs_by_now_runs_where_the_snapshot_says():
    elsewhere = decision("runs", "start", ("n2", 4))
    left = after(SNAPSHOT, a_plan(elsewhere))
    assert left.workloads[-1] == SNAPSHOT.workloads[-1]


WRONG = {
    "a start on an unknown node": (
        a_plan(decision("gang", "start", ("n2", 4), ("x", 4))),
        ["gang: unknown node x"],
    ),
    "a promise on an unknown node": (
        a_plan(promises=(promise("late", ("n1", 8), ("x", 8)),)),
        ["late: unknown node x"],
    ),
    "a promise to a stranger": (
        a_plan(promises=(promise("alien"),)),
        ["alien: promised a start, and not in the snapshot"],
    ),
    "two promises": (a_plan(promises=(promise(), promise())), ["late: promised a start twice"]),
    "half a promise": (a_plan(promises=(promise("late", ("n1", 8)),)), ["late: 1 of 2 replicas placed"]),
    "a decision on a stranger": (a_plan(decision("alien", "wait")), ["alien: not in the snapshot"]),
    "two decisions": (
        replace(a_plan(), decisions=(*a_plan().decisions, decision("late", "reject"))),
        ["late: decided twice"],
    ),
    "no decisions": (
        replace(a_plan(), decisions=()),
        [f"{w}: no decision" for w in ("cpus", "gang", "late", "runs")],
    ),
    "a victim for a stranger": (
        a_plan(decision("runs", "preempt", made_for="alien")),
        ["runs: makes room for alien, which is not in the snapshot"],
    ),
    "half a gang": (a_plan(decision("gang", "start", ("n2", 4))), ["gang: 1 of 2 replicas placed"]),
    "a start nowhere": (a_plan(decision("cpus", "start")), ["cpus: 0 of 2 replicas placed"]),
    "half replicas": (
        a_plan(decision("gang", "start", ("n2", 6), ("n1", 2))),
        [f"gang: {g} GPUs on {n} are no whole replicas of 4" for g, n in ((6, "n2"), (2, "n1"))],
    ),
    "fewer GPUs than none": (
        a_plan(decision("gang", "start", ("n2", 12), ("n1", -4))),
        ["gang: -4 GPUs on n1 are no whole replicas of 4"],
    ),
    "GPUs for who asks for none": (
        a_plan(decision("cpus", "start", ("n2", 0), ("n2", 1))),
        ["cpus: 1 GPUs on n2 for replicas without GPUs"],
    ),
    "a node too full": (a_plan(decision("gang", "start", ("n1", 8))), ["n1: 12 of 8 GPUs given out"]),
    "a node with too few CPUs": (
        a_plan(decision("cpus", "start", ("n1", 0), ("n2", 0))),
        ["n1: 76 of 64 CPUs given out"],
    ),
}


@pytest.mark.parametrize(("plan", "faults"), WRONG.values(), ids=list(WRONG))
def test_a_plan_that_cannot_be_carried_out_is_refused(plan: Plan, faults: list[str]):
    with pytest.raises(InputError) as refused:
        Standing(SITE, SNAPSHOT, plan)
    assert refused.value.messages == [
        f"the plan of 2026-10-09T12:00:00Z: {fault}, plan this snapshot first" for fault in faults
    ]


def test_a_node_with_too_little_memory_is_refused():
    big = replace(SNAPSHOT.workloads[0], memory_bytes_per_replica=256 << 30)
    snapshot = replace(SNAPSHOT, workloads=(big, *SNAPSHOT.workloads[1:]))
    with pytest.raises(InputError, match="n1: 640 of 512 GiB of memory given out"):
        after(snapshot, a_plan())


def test_a_known_id_is_refused():
    site, snapshot = world(3)
    standing = Standing(site, snapshot, plan_round(site, snapshot, "greedy"))
    with pytest.raises(InputError, match="already"):
        standing.place(replace(snapshot.workloads[0], state="pending", started_s=None, placement=()))
