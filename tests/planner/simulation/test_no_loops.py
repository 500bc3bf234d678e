"""Preemption does not go round in circles: over a thousand rounds of work that never ends, on sites without
anything that damps it, no GPU changes hands by eviction twice within the min runtime of who took it first.

docs/contract.md says why. Here every GPU is followed by itself: a start that evicts takes the GPUs of its
victims first, which makes the most of evictions.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import inf
from random import Random
from typing import Any

import numpy as np
import pytest

from planner.model.site import Site
from planner.simulation.engine import Engine, Options, Outages
from planner.simulation.history import Event, History
from planner.simulation.policies.base import Round, Verdict
from planner.simulation.trace import UNSAID, Trace
from solver.check import check
from solver.plan import Decisions
from solver.state import NodeState, Spread
from tests.planner.simulation.policies.rounds import plan_of
from tests.planner.simulation.small import outages, site, trace

MINUTE, HOUR = 60, 3600
SEEDS = range(16)
ROUNDS = 1000
SPAN_S = 8 * HOUR
PERIOD_S = 5 * MINUTE

Gpu = tuple[int, int]
"""Node, and number on it."""


class Watched:
    """A policy whose every round is judged by the solver's own checker."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.rounds, self.broken = inner, 0, list[str]()

    def decide(self, round_: Round) -> Verdict:
        verdict = self.inner.decide(round_)
        who = {p.workload for p in verdict.promises} | set(round_.state.promises.workload.tolist())
        self.rounds += 1
        self.broken += [
            f"{round_.state.now_s} s: {b.rule}: {b.detail}"
            for b in check(round_.state, decisions(round_, verdict), who)
        ]
        return verdict

    def arrive(self, round_: Round) -> Verdict | None:
        return self.inner.arrive(round_)


def decisions(round_: Round, verdict: Verdict) -> Decisions:
    """Return a verdict, with its promises, as the plan that the checker judges."""
    each = round_.state.workloads.gpus_per_replica
    promises = sorted(verdict.promises, key=lambda p: p.workload)
    places = [[(n, k * int(each[p.workload]), k) for n, k in sorted(p.parts)] for p in promises]
    return replace(
        plan_of(round_.state, verdict),
        promised=np.array([p.workload for p in promises], dtype=np.int64),
        promised_start_s=np.array([p.start_s for p in promises], dtype=np.int64),
        promised_placement=Spread.of(places),
    )


@dataclass(frozen=True)
class World:
    """A simulation that is over, and who watched its rounds."""

    policy: Watched
    history: History


def restless_site(rng: Random) -> Site:
    """Return a small site on which ratios move fast, and where evicting costs next to nothing."""
    weights = {name: rng.randint(1, 4) for name in "abcd"[: rng.randint(2, 4)]}
    return site(
        rng.randint(1, 6),
        weights,
        fair_share={
            "order": rng.choice(["budget", "fair_tree", "leaf"]),
            "band": rng.choice([0, 0.05]),
            "lookback": {"window": rng.choice(["1h", "6h", "7d"])},
        },
        preemption={"restart_cost": rng.choice(["0s", "0s", "10m"])},
        contract={"debug": {"max_gpus": 4, "lane": rng.choice(["0%", "20%"])}},
        plan_ahead={"reservations": rng.choice([0, 8])},
    )


def endless_work(rng: Random, of: Site) -> Trace:
    """Return more work than fits, most of which runs on until somebody stops it."""
    gpus = 8 * sum(len(c.nodes) for c in of.clusters)
    rows, asked = list[dict[str, Any]](), 0
    while asked < 4 * gpus:
        replicas, each = rng.choice([1, 1, 1, 2, 2, 3]), rng.choice([1, 2, 4, 8, 8])
        rows.append(
            {
                "allocation": rng.choice(of.budgets).path,
                "replicas": replicas,
                "gpus_per_replica": each,
                "submitted_s": rng.choice([0, rng.randrange(SPAN_S // 2)]),
                "runtime_s": rng.choice([100 * HOUR, 100 * HOUR, rng.randrange(1, 2 * HOUR)]),
                "min_runtime_s": rng.choice([0, 5 * MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR]),
                "time_limit_s": rng.choice([UNSAID, UNSAID, UNSAID, 3 * MINUTE, HOUR]),
                "resumable": rng.random() < 0.7,
                "topology_required": rng.choice([None, None, "leaf"]),
            }
        )
        asked += replicas * each
    return trace(*rows)


def failures(rng: Random, of: Site) -> Outages:
    """Return a node that fails and comes back, in every third world."""
    if rng.random() > 1 / 3:
        return Outages()
    begin_s = rng.randrange(SPAN_S // 2) // PERIOD_S * PERIOD_S + 1  # between rounds
    return outages(of, (begin_s, "n1", rng.choice(["down", "draining"])), (begin_s + HOUR, "n1", "up"))


@cache
def world(seed: int) -> World:
    """Simulate a random small world under the policy `budget-greedy`."""
    rng = Random(seed)
    of = restless_site(rng)
    work, events = endless_work(rng, of), failures(rng, of)
    engine = Engine(of, work, Options("budget-greedy", PERIOD_S, SPAN_S), events)
    engine.policy = watched = Watched(engine.policy)
    engine.run()
    return World(watched, engine.history())


# -- who takes which GPU -----------------------------------------------------------------------------


@dataclass
class Taking:
    """A GPU taken by eviction: when, under what protection, and when that run ended by itself, if it did."""

    time_s: int
    min_runtime_s: int
    ended_s: float = inf

    def open_to(self, other: Taking) -> bool:
        """Tell whether the contract lets somebody take this GPU again by then."""
        return other.time_s >= min(self.time_s + self.min_runtime_s, self.ended_s)


def takings(history: History) -> dict[Gpu, list[Taking]]:
    """Return when each GPU was taken by eviction."""
    e = history.events
    free = {n: list(range(gpus)) for n, gpus in enumerate(history.inventory.nodes.gpus.tolist())}
    failed_s = set(history.node_time_s[history.node_state == NodeState.DOWN].tolist())
    held: dict[int, tuple[list[Gpu], list[Taking]]] = {}
    lost_s: dict[Gpu, int] = {}  # when each GPU was last lost by eviction
    out: defaultdict[Gpu, list[Taking]] = defaultdict(list)
    for i, (now_s, j, event) in enumerate(zip(e.time_s.tolist(), e.workload.tolist(), e.event, strict=True)):
        if event == Event.START:
            part = e.placement.part(i)
            mine = list[Gpu]()
            for n, gpus in zip(e.placement.node[part].tolist(), e.placement.gpus[part].tolist(), strict=True):
                free[n].sort(key=lambda g, n=n: lost_s.get((n, g)) != now_s)
                mine += [(n, free[n].pop(0)) for _ in range(gpus)]
            taken = [gpu for gpu in mine if lost_s.get(gpu) == now_s]
            held[j] = mine, [Taking(now_s, int(history.terms.min_runtime_s[j])) for _ in taken]
            for gpu, taking in zip(taken, held[j][1], strict=True):
                out[gpu].append(taking)
        elif j in held:
            mine, taken_by_it = held.pop(j)
            evicted = event == Event.PREEMPT and now_s not in failed_s
            for n, g in mine:
                free[n].append(g)
            lost_s |= dict.fromkeys(mine if evicted else (), now_s)
            for taking in taken_by_it if not evicted else ():
                taking.ended_s = now_s
    return dict(out)


# -- claims ------------------------------------------------------------------------------------------


def test_these_worlds_are_as_restless_as_it_takes():
    evictions = [len(times) for seed in SEEDS for times in takings(world(seed).history).values()]
    assert sum(world(seed).policy.rounds for seed in SEEDS) >= ROUNDS
    assert sum(evictions) > 1000
    assert max(evictions) > 20


@pytest.mark.parametrize("seed", SEEDS)
def test_no_gpu_is_evicted_from_again_before_its_taker_had_its_min_runtime(seed: int):
    for gpu, times in takings(world(seed).history).items():
        early = [(one, two) for one, two in pairwise(times) if not one.open_to(two)]
        assert early == [], gpu


@pytest.mark.parametrize("seed", SEEDS)
def test_no_rule_is_broken_in_any_round(seed: int):
    assert world(seed).policy.broken == []
