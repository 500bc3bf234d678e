"""Ways to falsify a plan, on its dictionary; each changes something, or says that it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

from benchmarks.text import iso

Data = dict[str, Any]
Tamper = Callable[[Random, Data, Data], bool]
"""Takes chance, the snapshot and the plan that it changes; False where there is nothing to change."""


def _pick(rng: Random, plan: Data, *actions: str) -> Data | None:
    found = [d for d in plan["decisions"] if d["action"] in actions]
    return rng.choice(found) if found else None


def _nodes(snapshot: Data) -> list[str]:
    return [n["name"] for c in snapshot["clusters"] for n in c["nodes"]]


def _later(text: str, seconds: int) -> str:
    return iso(int(datetime.fromisoformat(text).timestamp()) + seconds)


def move_a_start(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Let one part of a start stand on some other node."""
    d = _pick(rng, plan, "start")
    if d:
        part = rng.choice(d["placement"])
        others = [n for n in _nodes(snapshot) if n != part["node"]]
        part["node"] = rng.choice(others or ["nowhere"])
    return bool(d)


def break_a_gang(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Leave out a part of a start."""
    d = _pick(rng, plan, "start")
    if d:
        d["placement"].pop(rng.randrange(len(d["placement"])))
    return bool(d)


def swell_a_start(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Let a start take a GPU more on one node."""
    d = _pick(rng, plan, "start")
    if d:
        rng.choice(d["placement"])["gpus"] += 1
    return bool(d)


def drop_a_decision(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Forget a workload."""
    if plan["decisions"]:
        plan["decisions"].pop(rng.randrange(len(plan["decisions"])))
        return True
    return False


def decide_twice(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Repeat a decision."""
    if plan["decisions"]:
        plan["decisions"].append(json.loads(json.dumps(rng.choice(plan["decisions"]))))
        return True
    return False


def start_what_waits(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Start something that waits or is rejected, on some node."""
    d = _pick(rng, plan, "wait", "reject")
    if d:
        w = next(w for w in snapshot["workloads"] if w["id"] == d["workload"])
        part = {"node": rng.choice(_nodes(snapshot)), "gpus": w["replicas"] * w["gpus_per_replica"]}
        d |= {"action": "start", "placement": [part], "protected_until": _later(plan["time"], 3600)}
    return bool(d)


def preempt_what_is_kept(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Preempt something that may stay, for somebody who starts or for nobody."""
    d, gainer = _pick(rng, plan, "keep"), _pick(rng, plan, "start")
    if d:
        d |= {"action": "preempt", "for": [gainer["workload"]] if gainer else []}
    return bool(d)


def keep_what_is_preempted(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Keep something that makes room."""
    d = _pick(rng, plan, "preempt")
    if d:
        d["action"] = "keep"
    return bool(d)


def reject_what_waits(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Reject something that could run one day."""
    d = _pick(rng, plan, "wait")
    if d:
        d["action"] = "reject"
    return bool(d)


def silence(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Take away a reason."""
    d = _pick(rng, plan, "wait", "preempt", "reject")
    if d:
        d["reason"]["text"] = " "
    return bool(d)


def protect_otherwise(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Protect a start for another time than its contract says."""
    starts = [d for d in plan["decisions"] if d["action"] == "start" and d["protected_until"]]
    if starts:
        d = rng.choice(starts)
        d["protected_until"] = _later(d["protected_until"], rng.choice((-120, 120, 7200)))
    return bool(starts)


def swap_occupancy(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Call a start what it is not."""
    d = _pick(rng, plan, "start")
    if d:
        d["occupancy"] = {"allocated": "unallocated", "unallocated": "allocated"}[d["occupancy"]]
    return bool(d)


def move_a_promise(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Promise another time, or another place."""
    if plan["reservations"]:
        r = rng.choice(plan["reservations"])
        if rng.random() < 0.5:
            r["start_at"] = _later(r["start_at"], rng.choice((-86_400, -3600, 3600)))
        else:
            rng.choice(r["placement"])["node"] = rng.choice(_nodes(snapshot))
        return True
    return False


def forget_a_promise(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Let a promise fall."""
    if plan["reservations"]:
        plan["reservations"].pop(rng.randrange(len(plan["reservations"])))
        return True
    return False


def promise_nowhere(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Promise a start without a place."""
    if plan["reservations"]:
        rng.choice(plan["reservations"])["placement"] = []
        return True
    return False


def promise_what_starts(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Promise a later start to something that starts, runs or is rejected."""
    d = _pick(rng, plan, "start", "keep")
    if d:
        promise = {"workload": d["workload"], "start_at": _later(plan["time"], 3600)}
        plan["reservations"].append(promise | {"placement": d["placement"]})
    return bool(d)


def blame_another(rng: Random, snapshot: Data, plan: Data) -> bool:
    """Name another one for whom a victim makes room."""
    victims = [d for d in plan["decisions"] if d["action"] == "preempt" and d.get("for")]
    if victims:
        others = [d["workload"] for d in plan["decisions"]] + ["nobody"]
        rng.choice(victims)["for"] = [rng.choice(others)]
    return bool(victims)


ALL: tuple[Tamper, ...] = (
    move_a_start,
    break_a_gang,
    swell_a_start,
    drop_a_decision,
    decide_twice,
    start_what_waits,
    preempt_what_is_kept,
    keep_what_is_preempted,
    reject_what_waits,
    silence,
    protect_otherwise,
    swap_occupancy,
    move_a_promise,
    forget_a_promise,
    promise_nowhere,
    promise_what_starts,
    blame_another,
)
