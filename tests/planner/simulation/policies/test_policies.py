"""What holds under every baseline: the contract, on random worlds, round after round."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.simulation.policies import POLICIES, make
from planner.simulation.policies.base import PlacesArrivals, Round
from planner.simulation.policies.monopoly import owners
from solver.board import leaving
from solver.check import check
from solver.rules.world import apply
from solver.state import Spread, State, Status, Workloads
from tests.planner.simulation.policies.rounds import after, decide, everybody, plan_of, setting_of
from tests.solver.factories import node, pending, promise, renumbered, running, state, stopping
from tests.solver.worlds import place

BASELINES = sorted(POLICIES.keys() - {"budget", "budget-greedy"})

SHARES = {"t/a": 0.4, "t/b": 0.3, "c": 0.2, "free": 0.1}

OUR_OWN = {"share", "promise_moved"}
"""Rules of our own order, to which a baseline need not keep."""

every_baseline = pytest.mark.parametrize("name", BASELINES)

terms = {
    "leaf_budget": st.sampled_from(list(SHARES)),
    "min_runtime_h": st.sampled_from([0, 0, 0.5, 1, 4]),
    "cpus": st.sampled_from([0, 0, 1]),
    "memory_gib": st.sampled_from([0, 0, 2]),
    "priority": st.integers(-2, 3),
    "time_limit_h": st.sampled_from([None, 0.25, 2, 30]),
}

waiting = st.builds(
    pending,
    gpus=st.sampled_from([1, 2, 4, 8]),
    replicas=st.integers(1, 4),
    required=st.sampled_from([None, None, "leaf", "node"]),
    segment=st.sampled_from([0, 0, 1, 2]),
    gpu_types=st.sampled_from([None, None, ("h100",)]),
    submitted_h_ago=st.sampled_from([0, 1, 5, 9]),
    **terms,
).filter(lambda w: not w.segment or w.replicas % w.segment == 0)


@st.composite
def machines(draw) -> list:
    """Draw nodes of one or two clusters, most of them up."""
    return [
        node(
            gpus=draw(st.sampled_from([4, 8])),
            cluster=draw(st.sampled_from(["c1", "c1", "c2"])),
            gpu_type=draw(st.sampled_from(["h100", "h100", "b200"])),
            state=draw(st.sampled_from(["up", "up", "up", "up", "draining", "down"])),
            cpus=draw(st.sampled_from([0, 8])),
            memory_gib=draw(st.sampled_from([0, 16])),
            **draw(st.sampled_from([{"leaf": "l1"}, {"leaf": "l2"}, {}])),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]


@st.composite
def standing(draw, nodes, free) -> list:
    """Draw a run on what is free in one pool, and take it."""
    gpus = draw(st.sampled_from([1, 2, 4]))
    rest = {name: draw(value) for name, value in terms.items()}
    cpus, memory = rest["cpus"], rest["memory_gib"]
    pools: dict = {}
    for i, (g, c, m) in enumerate(free):
        if g >= gpus and c >= cpus and m >= memory:
            pools.setdefault((nodes[i].cluster, nodes[i].gpu_type), []).append(i)
    if not pools:
        return []
    at = draw(st.sampled_from(list(pools.values())))[: draw(st.integers(1, 2))]
    for i in at:
        g, c, m = free[i]
        free[i] = (g - gpus, c - cpus, m - memory)
    kind = draw(st.sampled_from([running, running, running, stopping]))
    return [kind(gpus, at, started_h_ago=draw(st.sampled_from([0.1, 0.75, 2])), **rest)]


@st.composite
def worlds(draw, memory=True) -> State:
    """Draw a world with running, stopping and waiting work, limits and a brake."""
    nodes = draw(machines())
    free = [(n.gpus, n.cpus or 99, n.memory_gib or 99) for n in nodes]
    there = [w for _ in range(draw(st.integers(0, 6))) for w in draw(standing(nodes, free))]
    queue = draw(st.lists(waiting, max_size=8))
    if not memory:
        there, queue = ([replace(w, memory_gib=0) for w in many] for many in (there, queue))
    old = [promise(len(there), 1, [0])] if queue and draw(st.booleans()) else []
    return state(
        nodes=nodes,
        workloads=there + queue,
        shares=SHARES,
        limits={"t": draw(st.sampled_from([4, 8, 16]))} if draw(st.booleans()) else {},
        levels=["leaf"],
        promises=old,
        max_preempted_gpus=draw(st.sampled_from([-1, -1, 4])),
    )


def broken(world: State, verdict) -> list:
    return [b for b in check(world, plan_of(world, verdict)) if b.rule not in OUR_OWN]


def outcome(world: State, verdict, who) -> tuple:
    """Return a verdict by row of the trace."""
    board = verdict.board
    starts = {int(who[j]): sorted(parts) for j, parts in board.starts.items()}
    return starts, sorted(int(who[r]) for r in board.victims)


@every_baseline
@settings(max_examples=50)
@given(worlds(), st.lists(st.sampled_from([60, 600, 7200]), min_size=1, max_size=3))
def test_every_verdict_keeps_the_contract_round_after_round(name, world, steps):
    policy = make(name, setting_of(world, SHARES))
    for seconds in steps:
        verdict = decide(policy, world)
        assert broken(world, verdict) == []
        gone = set(np.flatnonzero((world.workloads.status == Status.RUNNING) & ~verdict.board.standing))
        assert gone == set(verdict.board.victims) | set(leaving(world).tolist())
        world = after(world, verdict, seconds)


@every_baseline
@settings(max_examples=15)
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_workloads_in_the_state_decides_nothing_and_memory_follows_them(name, world, chance):
    here, there = (make(name, setting_of(world, SHARES)) for _ in range(2))
    for _ in range(2):
        verdict = decide(here, world)
        who = everybody(world)
        chance.shuffle(who)
        mixed = reordered(world, who)
        other = there.decide(Round(mixed, who))
        assert outcome(mixed, other, who) == outcome(world, verdict, everybody(world))
        world = after(world, verdict, 700)


@every_baseline
@settings(max_examples=15)
@given(st.lists(waiting, min_size=1, max_size=10), st.permutations(range(6)))
def test_renaming_equal_nodes_changes_who_starts_in_nothing(name, queue, order):
    nodes = [node(8, leaf="l1", cpus=8, memory_gib=16) for _ in range(6)]
    world = state(nodes=nodes, workloads=queue, shares=SHARES, levels=["leaf"])
    shuffled = renumbered(world, order)
    started = [sorted(decide(make(name, setting_of(w, SHARES)), w).board.starts) for w in (world, shuffled)]
    assert started[0] == started[1]


@pytest.mark.parametrize("name", sorted(set(BASELINES) - {"slurm-fair-tree"}))  # it holds nodes for others
@settings(max_examples=40)
@given(worlds(memory=False))
def test_no_gpu_idles_that_waiting_work_fits_within_its_caps(name, world):
    verdict = decide(make(name, setting_of(world, SHARES)), world)
    there, w, limit = apply(world, plan_of(world, verdict)), world.workloads, world.budgets.limit_gpus
    held = {v: int(gpus) for v, gpus in enumerate(there.held)}
    free = (there.size - there.load)[:2].T.tolist()
    for j in np.flatnonzero((w.status == Status.PENDING) & ~verdict.board.standing).tolist():
        path, gpus = world.budgets.path(int(w.leaf[j])), int(w.gpus[j])
        capped = any(0 <= limit[v] < max(held[v] + gpus, int(there.before[v])) for v in path)
        mine = np.full(len(free), name != "monopoly") | (owners(world) == w.leaf[j])
        left = [room if own else (0, 0) for room, own in zip(free, mine, strict=True)]
        assert capped or place(world, left, j) is None


@every_baseline
def test_a_policy_goes_on_from_a_pickle(name):
    world = state(
        nodes=[node(8)],
        workloads=[running(4, [0], min_runtime_h=1), *(pending(4, min_runtime_h=1) for _ in range(3))],
    )
    policy = make(name, setting_of(world))
    world = after(world, decide(policy, world), 900)
    twin = pickle.loads(pickle.dumps(policy))
    assert outcome(world, decide(twin, world), everybody(world)) == outcome(
        world, decide(policy, world), everybody(world)
    )


@every_baseline
def test_a_baseline_decides_in_rounds_only(name):
    world = state(nodes=[node(8)], workloads=[pending(8, min_runtime_h=1)])
    assert not isinstance(make(name, setting_of(world)), PlacesArrivals)


@every_baseline
def test_nothing_waits_and_nothing_runs_and_nothing_is_decided(name):
    world = state(nodes=[node(8, state="down")], workloads=[])
    verdict = decide(make(name, setting_of(world)), world)
    assert (verdict.board.starts, verdict.board.victims, verdict.promises) == ({}, {}, ())


def test_an_unknown_policy_is_refused_with_the_names_of_all():
    world = state(nodes=[node(8)])
    with pytest.raises(InputError) as error:
        make("fair", setting_of(world))
    assert all(name in str(error.value) for name in POLICIES)
    assert "fair is not a policy" in str(error.value)


def reordered(world: State, js) -> State:
    """Return the world with workload `js[i]` as its i-th, and the rest left out."""
    w, p = world.workloads, world.workloads.placement
    parts = [
        list(zip(p.node[part].tolist(), p.gpus[part].tolist(), p.replicas[part].tolist(), strict=True))
        for part in (p.part(int(j)) for j in js)
    ]
    columns = {f.name: getattr(w, f.name)[js] for f in fields(Workloads) if f.name != "placement"}
    none = np.zeros(0, dtype=np.int64)
    bare = replace(world.promises, workload=none, start_s=none, placement=Spread.of([]))
    return replace(world, workloads=Workloads(**columns, placement=Spread.of(parts)), promises=bare)
