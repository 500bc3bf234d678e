"""The preset `ai2`: a lab with 1,024 GPUs that are asked for two to three times over, all the time.

After Ai2's public account of its scheduler ("Impactful scheduling for GPU clusters", 2026): 1,024 GPUs, a
tree of research programs, demand 2 to 3 times the supply at every moment, 18% of the delivered time
unallocated. Ai2 publishes no trace. What the work looks like is in `synth_gangs`, how much people want over
time in `synth_people`, how they react to their queues in `synth_loop`, each with its sources and
assumptions. Here:

- Machines: 128 nodes of 8 H100 with 192 CPUs and 2 TiB, 8 nodes to a leaf, 4 leaves to a block.
- Budgets: 15 allocations of a made-up research program with shares from 2.5 to 22.5%, no limits.
- Wide gangs: 128, 256 and 400 GPUs, 12, 25 and 39% of the cluster; on Kalos 11, 21 and 42% (256, 512 and
  1,024 of 2,416). No gang asks for more than 2.1 times its team's share (assumption).
- GPU time of a team's allocated work by width, up to its widest: `ALLOCATED`; of unallocated work:
  `UNALLOCATED`. Together the lab's time divides nearly as in `benchmarks.instances`, whose mix is that of
  ITP with Kalos' wide gangs over it, but for what a node or less takes: as on ITP, whole nodes take twice
  what smaller gangs do.
- Whose unallocated work is goes by share; debug work, by the square root of the share: 240 workloads on a
  weekday.
- What the lab wants for allocated work: `BUSY`, set so that under the policy `budget-greedy` about 18% of
  the time delivered in a month is left to unallocated work; or `SATURATED`, more than there is at every
  moment. With unallocated work: `BUSY_TOTAL`, `SATURATED_TOTAL`, set so that simulations find 2 to 3 times
  the supply in their queues, which are somewhat longer than those of the fluid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from planner.simulation.trace import UNSAID, Trace
from planner.traces.synth_gangs import (
    DAY,
    GIB,
    PREFERS_BLOCK,
    PREFERS_LEAF,
    REQUIRES_LEAF,
    Gangs,
    Rng,
    allocated,
    debug,
    unallocated,
)
from planner.traces.synth_loop import LOOK_S, STEP_S, WARM_UP_S, Deck, Decks, Play, Wishes
from planner.traces.synth_people import Want, awake, lab_wants, team_parts
from solver.state import Floats, Ints

LEAVES, LEAVES_PER_BLOCK, LEAF_NODES, NODE_GPUS = 16, 4, 8, 8
GPUS = LEAVES * LEAF_NODES * NODE_GPUS

PROGRAM: dict[str, Any] = {
    "language": (
        50,
        {
            "pretraining": (60, {"base": (75, {}), "long-context": (25, {})}),
            "posttraining": (25, {"instruct": (50, {}), "reasoning": (50, {})}),
            "evaluation": (5, {}),
            "data": (10, {}),
        },
    ),
    "vision": (20, {"multimodal": (60, {}), "video": (40, {})}),
    "robotics": (10, {"manipulation": (60, {}), "simulation": (40, {})}),
    "science": (14, {"climate": (40, {}), "chemistry": (30, {}), "biology": (30, {})}),
    "platform": (6, {"efficiency": (50, {}), "infrastructure": (50, {})}),
}
"""Weight and children by name."""

ALLOCATED = {
    1: 0.04, 2: 0.02, 4: 0.045, 6: 0.01, 8: 0.22, 16: 0.045, 32: 0.05, 64: 0.14,
    128: 0.22, 256: 0.36, 400: 0.36,
}  # fmt: skip
"""GPU time of a team by width in GPUs, in parts of any size."""

UNALLOCATED = {1: 0.05, 2: 0.05, 4: 0.10, 8: 0.50, 16: 0.15, 32: 0.15}
"""The same of unallocated work."""

WIDEST_PER_SHARE = 2.1
"""GPUs of a team's widest gang, in parts of its share of all GPUs."""

DEBUG_A_DAY = 240
"""Debug workloads on a weekday."""

BUSY, BUSY_TOTAL = Want(0.89, 0.16, 0.55, 1.25), Want(2.28, 0.08, 2.15, 2.41)
SATURATED, SATURATED_TOTAL = Want(1.75, 0.08, 1.65, 1.85), Want(2.35, 0.08, 2.22, 2.48)
"""Allocated work that the lab wants in the system, and with it all work, by variant."""


def ai2(days: int, seed: int, saturated: bool) -> tuple[Trace, dict[str, Any]]:
    """Return the trace of so many days and the site that it is for, in the form of its file.

    The first days of a longer trace are the shorter trace. The saturated variant draws the same luck.
    """
    share = np.array(list(_shares(PROGRAM, "", 1.0).values()))
    people, luck, *hands = (
        np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(len(share) + 4)
    )
    wants = (SATURATED, SATURATED_TOTAL) if saturated else (BUSY, BUSY_TOTAL)
    wishes = _wishes(people, days, share, *wants)
    gangs, submitted_s = Play(luck, _decks(hands, share), share, GPUS).run(wishes)
    return _trace(gangs, submitted_s), _site()


def _wishes(rng: Rng, days: int, share: Floats, want: Want, want_total: Want) -> Wishes:
    """Draw what people want; each kind of luck has its own stream, so that more days only add to it."""
    time_s = np.arange(-WARM_UP_S, days * DAY, STEP_S)
    lab, total, teams, look, tests = rng.spawn(5)
    at_work = awake(time_s)
    wants = lab_wants(lab, time_s, STEP_S, want)[:, None] * team_parts(teams, len(time_s), STEP_S, share)
    return Wishes(
        teams=GPUS * wants,
        total=GPUS * lab_wants(total, time_s, STEP_S, want_total),
        looks=look.random(wants.shape) < at_work[:, None] * STEP_S / LOOK_S,
        debug=tests.poisson(DEBUG_A_DAY * STEP_S / DAY * at_work / awake(np.arange(0, DAY, STEP_S)).mean()),
    )


def _decks(rngs: list[Rng], share: Floats) -> Decks:
    """Return what will be submitted; each deck has a stream of luck of its own."""
    users = np.ceil(3 + 40 * share).astype(np.int64)

    def of_team(team: int) -> Callable[[Rng, int], Gangs]:
        widest = int(WIDEST_PER_SHARE * share[team] * GPUS)
        return lambda rng, count: allocated(rng, np.full(count, team), users, ALLOCATED, widest)

    def anybody(rng: Rng, count: int) -> Gangs:
        team = rng.choice(len(share), size=count, p=share)
        return unallocated(rng, team, users, UNALLOCATED)

    def tester(rng: Rng, count: int) -> Gangs:
        team = rng.choice(len(share), size=count, p=np.sqrt(share) / np.sqrt(share).sum())
        return debug(rng, team, users)

    teams = [Deck(rngs[v], of_team(v)) for v in range(len(share))]
    return Decks(teams, Deck(rngs[-2], anybody), Deck(rngs[-1], tester))


def _trace(gangs: Gangs, submitted_s: Ints) -> Trace:
    """Give everything its name."""
    paths = list(_shares(PROGRAM, "", 1.0))
    team, user = gangs.team.tolist(), gangs.user.tolist()
    wish = gangs.wish.tolist()
    preferred = {PREFERS_BLOCK: "block", PREFERS_LEAF: "leaf"}
    count = len(team)
    return Trace(
        id=tuple(f"{number:06d}" for number in range(count)),
        allocation=tuple(paths[t] for t in team),
        user=tuple(f"{paths[t].rpartition('/')[2]}-{u + 1}" for t, u in zip(team, user, strict=True)),
        submitted_s=submitted_s,
        replicas=gangs.replicas,
        gpus_per_replica=gangs.each,
        runtime_s=gangs.runtime_s,
        min_runtime_s=gangs.min_runtime_s,
        time_limit_s=np.where(gangs.time_limit_s > 0, gangs.time_limit_s, UNSAID),
        cancelled_after_s=gangs.interest_s,
        resumable=gangs.resumable,
        priority=gangs.priority,
        gpu_types=tuple(("h100",) if typed else () for typed in gangs.typed.tolist()),
        topology_required=tuple("leaf" if w == REQUIRES_LEAF else None for w in wish),
        topology_preferred=tuple(preferred.get(w) for w in wish),
        segment=np.zeros(count, dtype=np.int64),
        cpus_milli_per_replica=gangs.cpus * 1000,
        memory_bytes_per_replica=gangs.memory_gib * GIB,
        gpu_utilization=np.full(count, np.nan),
    )


def _shares(family: dict[str, Any], path: str, share: float) -> dict[str, float]:
    """Return the share of every allocation below `path`."""
    total = sum(weight for weight, _ in family.values())
    out: dict[str, float] = {}
    for name, (weight, children) in family.items():
        part = share * weight / total
        out |= _shares(children, f"{path}{name}/", part) if children else {path + name: part}
    return out


def _site() -> dict[str, Any]:
    """Return budgets and machines in the form of a site file; all else has its default."""
    nodes = []
    for leaf in range(LEAVES):
        first = leaf * LEAF_NODES + 1
        nodes.append(
            {
                "names": f"saturn-[{first:03d}-{first + LEAF_NODES - 1:03d}]",
                "gpus": NODE_GPUS,
                "gpu_type": "h100",
                "cpus": 192,
                "memory": "2048G",
                "location": [f"b{leaf // LEAVES_PER_BLOCK + 1:02d}", f"l{leaf + 1:02d}"],
            }
        )
    cluster = {"name": "saturn", "levels": ["block", "leaf"], "nodes": nodes}
    return {"budgets": _budgets(PROGRAM), "gpu_types": {"h100": {"charge": 1.0}}, "clusters": [cluster]}


def _budgets(family: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a family of the tree in the form of a site file."""
    out = []
    for name, (weight, children) in family.items():
        below = {"children": _budgets(children)} if children else {}
        out.append({"name": name, "weight": weight, **below})
    return out
