"""The preset `ai2` is what it says: its demand, its mix, its teams; the same whenever it is drawn again."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml

from planner.model.budget import leaf_shares
from planner.model.site import Site
from planner.simulation.trace import Trace
from planner.simulation.tracefile import read_trace, write_trace
from planner.simulation.world import World
from planner.site import parse_site
from planner.traces.synth import synth
from planner.traces.synth_loop import EFFICIENCY, STEP_S, Fluid
from tests.planner.simulation.traces import same

GPUS = 1024
DAYS = 30
SEEDS = (1, 3)


@cache
def month(seed: int, saturated: bool) -> tuple[Trace, Site]:
    trace, site = synth("ai2", DAYS, seed, saturated)
    return trace, parse_site(yaml.safe_dump(site), "site.yaml")


@cache
def asked_for(seed: int, saturated: bool) -> np.ndarray:
    """Return what was running and waiting by hour and team (the last: unallocated), in parts of all GPUs.

    The fluid is given what the trace holds but for debug work, and nobody watches the queues any more.
    """
    trace, site = month(seed, saturated)
    shares = {path: float(share) for path, share in leaf_shares(site.budgets).items()}
    number = {path: k for k, path in enumerate(shares)}
    team = [
        number[a] if m else len(number) for a, m in zip(trace.allocation, trace.min_runtime_s, strict=True)
    ]
    until_s = trace.submitted_s + trace.cancelled_after_s
    rows = np.column_stack([team, gpus_of(trace), trace.runtime_s, until_s, np.arange(trace.count)])
    rows = rows[~is_debug(trace)]
    step = trace.submitted_s[rows[:, -1]] // STEP_S
    fluid = Fluid(np.array(list(shares.values())), EFFICIENCY * GPUS)
    held = []
    for k in range(DAYS * 86_400 // STEP_S):
        fluid.leave(k * STEP_S)
        fluid.enter([tuple(row) for row in rows[step == k].tolist()])
        held.append(fluid.held())
        fluid.serve()
    return np.array(held).reshape(DAYS * 24, -1, len(shares) + 1).mean(axis=1) / GPUS


def gpus_of(trace: Trace) -> np.ndarray:
    return trace.replicas * trace.gpus_per_replica


def is_debug(trace: Trace) -> np.ndarray:
    short = (trace.min_runtime_s > 0) & (trace.min_runtime_s <= 900)
    return short & (gpus_of(trace) <= 16)


def gpu_time(trace: Trace) -> np.ndarray:
    """Return GPU-hours that each workload takes if it never waits."""
    return (
        trace.replicas * trace.gpus_per_replica * np.minimum(trace.runtime_s, trace.cancelled_after_s) / 3600
    )


@pytest.mark.parametrize("saturated", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_demand_is_two_to_three_times_the_supply_at_nearly_every_hour(seed: int, saturated: bool):
    demand = asked_for(seed, saturated).sum(axis=1)
    assert ((demand >= 2) & (demand <= 3)).mean() >= 0.99
    assert demand.min() > 1.9
    assert demand.max() < 3.1


@pytest.mark.parametrize("seed", SEEDS)
def test_saturated_allocated_work_alone_asks_for_more_than_there_is_at_every_hour(seed: int):
    assert asked_for(seed, True)[:, :-1].sum(axis=1).min() > 1


@pytest.mark.parametrize("seed", SEEDS)
def test_else_allocated_work_leaves_something_at_many_hours_and_asks_for_too_much_at_others(seed: int):
    allocated = asked_for(seed, False)[:, :-1].sum(axis=1)
    assert (allocated < 0.9).mean() > 0.25
    assert (allocated > 1).mean() > 0.25


@pytest.mark.parametrize("saturated", [False, True])
def test_every_team_is_over_its_share_at_some_times_and_under_it_at_others(saturated: bool):
    _, site = month(1, saturated)
    share = np.array([float(s) for s in leaf_shares(site.budgets).values()])
    over = asked_for(1, saturated)[:, :-1] > share
    assert (over.mean(axis=0) > 0.1).all()
    assert (over.mean(axis=0) < 0.97).all()


@pytest.mark.parametrize("saturated", [False, True])
def test_gpu_time_divides_by_width_nearly_as_in_the_benchmarks(saturated: bool):
    trace, _ = month(1, saturated)
    gpus, hours = gpus_of(trace), gpu_time(trace)
    paid = trace.min_runtime_s > 0
    total = hours[paid].sum() / 0.82  # unallocated work takes what is left, 18%
    wide, leaf, broad = gpus >= 128, gpus == 64, np.isin(gpus, (16, 32))
    assert 0.17 < hours[paid & wide].sum() / total < 0.35
    assert 0.09 < hours[paid & leaf].sum() / total < 0.22
    assert 0.05 < hours[paid & broad].sum() / total < 0.15
    assert gpus[~paid].max() == 32


def test_the_widest_gangs_ask_for_two_fifths_of_the_cluster_and_half_run_for_minutes():
    trace, _ = month(1, False)
    gpus = gpus_of(trace)
    wide = gpus >= GPUS // 8
    assert 0.38 * GPUS < gpus.max() <= 0.40 * GPUS
    assert wide.sum() > 150
    assert 0.4 < (trace.runtime_s[wide] <= 900).mean() < 0.65


def test_debug_work_is_a_sixth_of_the_workloads_and_next_to_nothing_of_the_time():
    trace, _ = month(1, False)
    short = is_debug(trace)
    assert 0.1 < short.mean() < 0.35
    assert trace.runtime_s[short].max() <= 900
    assert gpu_time(trace)[short].sum() < 0.01 * gpu_time(trace).sum()


def test_a_month_is_ten_to_forty_thousand_workloads_in_their_order():
    for saturated in (False, True):
        trace, _ = month(1, saturated)
        assert 10_000 <= trace.count <= 40_000
        assert (np.diff(trace.submitted_s) >= 0).all()
        assert list(trace.id) == sorted(set(trace.id))
        assert trace.submitted_s.max() < DAYS * 86_400


def test_the_site_can_run_all_of_it():
    trace, site = month(1, False)
    assert sum(node.gpus for cluster in site.clusters for node in cluster.nodes) == GPUS
    assert len(leaf_shares(site.budgets)) == 15
    terms = World(site, trace, 60).terms()
    assert not terms.refused.any()
    assert (terms.leaf >= 0).all()
    assert (terms.min_runtime_s == trace.min_runtime_s).all()  # the contract cuts and raises nothing


def test_every_allocation_has_several_users():
    trace, _ = month(1, False)
    users: dict[str, set[str]] = {}
    for path, user in zip(trace.allocation, trace.user, strict=True):
        users.setdefault(path, set()).add(user)
    assert len(users) == 15
    assert min(map(len, users.values())) >= 4
    assert sum(map(len, users.values())) == len(set(trace.user))


def test_wishes_for_priority_reach_from_low_to_urgent():
    trace, _ = month(1, False)
    assert np.unique(trace.priority).tolist() == [-1, 0, 1, 2]


def test_a_trace_outlives_its_file(tmp_path: Path):
    trace, _ = synth("ai2", 2, 3)
    write_trace(trace, tmp_path / "trace.csv")
    assert same(read_trace(tmp_path / "trace.csv"), trace)


def test_more_days_only_add_work():
    short, _ = synth("ai2", 2, 4)
    long, _ = synth("ai2", 3, 4)
    assert long.count > short.count
    first = {name: getattr(long, name)[: short.count] for name in vars(long)}
    assert same(Trace(**first), short)


def test_other_seeds_and_the_saturated_variant_are_other_work():
    traces = [synth("ai2", 1, 1)[0], synth("ai2", 1, 2)[0], synth("ai2", 1, 1, saturated=True)[0]]
    assert len({trace.runtime_s.tobytes() for trace in traces}) == 3
    paid = [trace.min_runtime_s != 0 for trace in traces]
    work = [float(gpu_time(trace)[mine].sum()) for trace, mine in zip(traces, paid, strict=True)]
    assert work[2] > work[0]


def test_what_is_drawn_does_not_depend_on_the_hash_seed():
    code = (
        "import hashlib, pickle; from planner.traces.synth import synth; "
        "print(hashlib.sha256(pickle.dumps(synth('ai2', 1, 5))).hexdigest())"
    )
    digests = set()
    for hash_seed in ("1", "2"):
        env = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
        digests.add(done.stdout)
    assert len(digests) == 1
