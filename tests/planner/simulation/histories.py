"""Histories for tests: a small site, traces in arrays, and histories told event by event."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from planner.simulation.history import Effort, Event, Events, History, Samples
from planner.simulation.trace import UNSAID, Trace
from planner.simulation.world import World
from planner.site import parse_site
from solver.state import NodeState, Spread
from tests.planner.simulation.small import trace

SITE = """
budgets:
  - name: lab
    weight: 3
    children: [{name: a, weight: 1}, {name: b, weight: 2}]
  - {name: c, weight: 0.7}
  - {name: free, weight: 0}
contract:
  max_min_runtime: 1h
  min_min_runtime: 1s
  debug: {max_min_runtime: 15m, max_gpus: 4, lane: 0%}
  largest: {min_cluster_share: 0.25}
preemption: {restart_cost: 5m}
clusters:
  - name: east
    levels: [leaf]
    nodes:
      - {names: "e[1-2]", gpus: 8, gpu_type: h100, location: [l1]}
      - {names: "e[3-4]", gpus: 8, gpu_type: h100, location: [l2]}
  - {name: west, levels: [], nodes: [{names: "w[1-2]", gpus: 3, gpu_type: b200}]}
"""


def random_trace(luck: random.Random, end_s: int, count: int) -> Trace:
    """Return work of all kinds: whole, broken and impossible gangs, short, long and cancelled ones."""
    kinds: dict[str, tuple[Any, ...]] = {
        "allocation": ("lab/a", "lab/b", "lab/b", "c", "free", "nobody"),
        "replicas": (1, 1, 2, 3, 4),
        "gpus_per_replica": (1, 2, 4, 8, 8, 16),
        "runtime_s": (0, 1, 200, 1000, 3000, 3600, 7200),
        "min_runtime_s": (0, 0, 300, 900, 3600, 9999, UNSAID),
        "time_limit_s": (UNSAID, UNSAID, 500, 5000),
        "cancelled_after_s": (UNSAID, UNSAID, UNSAID, 1, 2500),
        "resumable": (True, True, False),
        "gpu_types": ((), (), ("h100",), ("b200", "h100")),
        "topology_required": (None, None, "leaf"),
        "gpu_utilization": (float("nan"), 0.25, 1.0),
    }
    submits = (lambda: 0, lambda: 60 * luck.randrange(150), lambda: luck.randrange(end_s + 500))
    rows = [{name: luck.choice(values) for name, values in kinds.items()} for _ in range(count)]
    return trace(*({**row, "submitted_s": luck.choice(submits)()} for row in rows))


def scene(
    jobs: dict[str, dict[str, Any]],
    events: list[tuple[int, str, Event, dict[str, int]]],
    *,
    end_s: int,
    site: str = SITE,
    placement_wait_s: dict[str, int] | None = None,
    promises: list[tuple[int, str, int]] | None = None,
    outages: list[tuple[int, str, NodeState]] | None = None,
    samples: list[tuple[int, ...]] | None = None,
    solve_s: tuple[float, ...] = (),
) -> History:
    """Return a history told in names.

    Parameters
    ----------
    jobs : by id, how a workload differs from one of 8 GPUs and an hour, all of it protected, of `lab/a`
    events : time, id, event, and where it stands or stood; nothing is lost
    promises : made when, for whom, for when; all on 8 GPUs of `e1`
    samples : time, free, down, stranded; the largest gang is what is free
    """
    parsed = parse_site(site, "site.yaml")
    work = trace(*({"id": key, "allocation": "lab/a", **said} for key, said in jobs.items()))
    world = World(parsed, work, 60)
    inventory, terms = world.inventory(), world.terms()
    row = {key: i for i, key in enumerate(work.id)}
    node = {name: n for n, name in enumerate(inventory.node_names)}
    promised = _columns([(t, row[key], s) for t, key, s in promises or ()], 3)
    changes = _columns([(t, node[name], int(state)) for t, name, state in outages or ()], 3)
    looks = _columns(samples or [], 4)
    happened = [(t, row[key], int(what)) for t, key, what, _ in events]
    time_s, who, what = _columns(happened, 3)
    places = [[(node[name], g, 1) for name, g in place.items()] for _, _, _, place in events]
    waits = placement_wait_s or {}
    levels = len(inventory.levels) + 2
    return History(
        site=parsed,
        trace=work,
        inventory=inventory,
        terms=terms,
        policy="told",
        end_s=end_s,
        events=Events(time_s, who, what, terms.allocated[who], Spread.of(places), np.zeros_like(who)),
        samples=Samples(looks[0], looks[1], looks[2], np.stack([looks[1]] * levels, axis=1), looks[3]),
        placement_wait_s=np.array([waits.get(key, 0) for key in work.id], dtype=np.int64),
        node_time_s=changes[0],
        node=changes[1],
        node_state=changes[2],
        promised_at_s=promised[0],
        promised=promised[1],
        promised_start_s=promised[2],
        promised_placement=Spread.of([[(0, 8, 1)] for _ in promised[0]]),
        effort=Effort(len(solve_s), np.array(solve_s), 0, 0, 1.5),
    )


def _columns(rows: list[tuple[int, ...]], width: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(-1, width).T
