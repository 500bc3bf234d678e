"""Small random worlds that are valid input: for stress tests and for hypothesis.

A world has 1 to 24 nodes and 0 to 60 workloads, and something of everything: ragged topologies of 0 to 3
levels, mixed nodes, sick nodes, work in every state, wishes that can never come true, limits (some lowered
below what is held), promises (some stale). What runs stands where it may; nothing is over capacity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

from benchmarks.spots import Spot, placement, seat, take
from benchmarks.text import DAY, HOUR, MINUTE, duration, iso, seconds

NOW_S = int(datetime(2026, 10, 9, 12, 0, tzinfo=UTC).timestamp())
LEVELS: tuple[tuple[str, ...], ...] = ((), ("leaf",), ("rack",), ("block", "leaf"), ("zone", "block", "leaf"))
TYPES: tuple[str | None, ...] = ("h100", "b200", "a6000")
SIZES = ((1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 8, 12, 16), (1, 1, 1, 2, 4, 8), (1, 1, 2, 3))
MIN_RUNTIMES_S = (
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    HOUR,
    90 * MINUTE,
    2 * HOUR,
    4 * HOUR,
    8 * HOUR,
    12 * HOUR,
)
LONGEST_PROTECTION_S = 8 * HOUR


@dataclass(frozen=True)
class Leaf:
    """An allocation with its share and the limited budgets above it."""

    path: str
    share: float
    limited: tuple[str, ...]


def random_case(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a site and a snapshot in the form of their files; the same seed gives the same world."""
    rng = Random(seed)
    clusters, spots = _clusters(rng)
    budgets: list[dict[str, Any]] = _family(rng, depth=rng.randint(1, 3))
    leaves = list(_leaves(budgets))
    workloads = _workloads(rng, spots, clusters, leaves, budgets)
    for _, budget in _limited(budgets):
        if rng.random() < 0.1:
            budget["limit"] = max(1, budget["limit"] // 4)  # lowered: evicts nobody, starts nothing
    healthy = rng.random() < 0.5
    for spot in spots:
        spot.state = "up" if healthy else rng.choices(("up", "draining", "down"), (80, 12, 8))[0]
    site = {"budgets": budgets, **_choices(rng)}
    snapshot = {
        "time": iso(NOW_S),
        "clusters": [{**c, "nodes": [s.entry() for s in spots if s.cluster == c["name"]]} for c in clusters],
        "workloads": workloads,
        **_history(rng, spots, leaves),
        "reservations": _promises(rng, spots, workloads, {leaf.path: leaf for leaf in leaves}),
    }
    return site, snapshot


# --- what there is ---


def _clusters(rng: Random) -> tuple[list[dict[str, Any]], list[Spot]]:
    """Draw 1 to 3 clusters and their nodes."""
    clusters, spots = [], []
    count = rng.choices((1, 2, 3), (6, 3, 1))[0]
    for name in ("saturn", "jupiter", "mars")[:count]:
        levels = rng.choice(LEVELS)
        clusters.append({"name": name, "levels": list(levels)})
        spots += _nodes(rng, name, levels, rng.randint(1, rng.choice((3, 8, 24)) // count))
    return clusters, spots


def _nodes(rng: Random, cluster: str, levels: tuple[str, ...], count: int) -> list[Spot]:
    """Draw the nodes of one cluster in ragged domains, of mixed sizes and types or all alike."""
    types = rng.choice(((None,), TYPES[:1], TYPES[:1], TYPES[:2], TYPES))
    sizes = rng.choice(((8,), (4,), (8, 8, 4), (1, 2), (6, 8), (10,), (16, 8), (1, 2, 4, 6, 8, 10, 16)))
    counted = rng.random() < 0.5
    place, out = [0] * len(levels), []
    for number in range(count):
        if number and levels and rng.random() < 0.4:
            depth = rng.randrange(len(levels))  # this node opens a new domain here and at all levels below
            place = [k + (d >= depth) for d, k in enumerate(place)]
        location = [f"{level}{k}" for level, k in zip(levels, place, strict=True)]
        if rng.random() < 0.02:
            location = location[:-1]  # its innermost switch is not known
        name, gpus = f"{cluster}-{number + 1}", rng.choice(sizes)
        at = {level: (cluster, *location[: d + 1]) for d, level in enumerate(levels[: len(location)])}
        cpus_milli, memory_gib = (gpus * 8000, gpus * 64) if counted else (0, 0)
        at["node"] = (cluster, name)
        out.append(Spot(name, cluster, rng.choice(types), gpus, cpus_milli, memory_gib, location, at))
    return out


def _family(rng: Random, depth: int) -> list[dict[str, Any]]:
    """Draw a family of budgets and those below it."""
    out = []
    for letter in "abcd"[: rng.randint(1, 4)]:
        entry: dict[str, Any] = {"name": letter, "weight": rng.choice((1, 1, 2, 2.5, 5, 50))}
        if rng.random() < 0.12:
            entry["limit"] = rng.choice((4, 8, 16, 24, 64))
        if depth > 1 and rng.random() < 0.6:
            entry["children"] = _family(rng, depth - 1)
        out.append(entry)
    if len(out) > 1 and rng.random() < 0.08:
        out[-1]["weight"] = 0
    return out


def _leaves(
    family: list[dict[str, Any]], path: str = "", share: float = 1.0, limited: tuple[str, ...] = ()
) -> Iterator[Leaf]:
    """Yield the allocations below a family."""
    total = sum(entry["weight"] for entry in family)
    for entry in family:
        here, part = path + entry["name"], share * entry["weight"] / total
        above = (*limited, here) if "limit" in entry else limited
        if "children" in entry:
            yield from _leaves(entry["children"], here + "/", part, above)
        else:
            yield Leaf(here, part, above)


def _limited(family: list[dict[str, Any]], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the budgets with a limit, by path."""
    for entry in family:
        if "limit" in entry:
            yield path + entry["name"], entry
        yield from _limited(entry.get("children", []), f"{path}{entry['name']}/")


def _choices(rng: Random) -> dict[str, Any]:
    """Draw what the site has chosen; often nothing but the defaults."""
    out: dict[str, Any] = {"fair_share": {"order": rng.choice(("budget", "budget", "fair_tree", "leaf"))}}
    if rng.random() < 0.2:
        out["fair_share"] |= {"band": rng.choice((0.0, 0.05, 0.3)), "carry_overdraft": rng.random() < 0.5}
    if rng.random() < 0.5:
        out["contract"] = {
            "debug": {"lane": rng.choice(("0%", "4%", "20%")), "max_gpus": rng.choice((2, 8, 16))}
        }
    if rng.random() < 0.15:
        out["preemption"] = {"restart_cost": "30m", "max_gpus_per_round": rng.choice((2, 16))}
    if rng.random() < 0.4:
        out["gpu_types"] = {"h100": {"charge": 1.0}, "b200": {"charge": 2.0}}
    if rng.random() < 0.2:
        out["plan_ahead"] = {"reservations": rng.choice((0, 1, 8))}
    return out


def _history(rng: Random, spots: list[Spot], leaves: list[Leaf]) -> dict[str, Any]:
    """Draw use, history and sometimes entitlements."""
    history = rng.choices(("7d", "3d", "1h", "1m", None), (70, 12, 8, 4, 6))[0]
    hours = {"7d": 168, "3d": 72, "1h": 1, "1m": 1 / 60, None: 168}[history]
    due = {leaf.path: leaf.share * hours * sum(s.gpus for s in spots) for leaf in leaves}
    out: dict[str, Any] = {"usage": {}} if history is None else {"history": history, "usage": {}}
    for path, units in due.items():
        if units and rng.random() < 0.85:
            out["usage"][path] = round(units * rng.choice((0.0, 0.5, 1.0, rng.uniform(0, 2), 3.0)), 2)
    if rng.random() < 0.15:
        out["entitled"] = {path: round(units * rng.uniform(0.5, 1.2), 2) for path, units in due.items()}
    return out


# --- who asks for what ---


def _workloads(
    rng: Random,
    spots: list[Spot],
    clusters: list[dict[str, Any]],
    leaves: list[Leaf],
    budgets: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Draw workloads; those that find room may run or stop, the others wait."""
    levels = [level for c in clusters for level in c["levels"]] + ["node"]
    room = {path: budget["limit"] for path, budget in _limited(budgets)}
    sizes = rng.choice(SIZES)
    count, busy = rng.choice((0, 3, 10, 25, 60)), rng.uniform(0.1, 0.95)
    out = []
    for number in rng.sample(range(100, 1000), count):
        leaf = rng.choice(leaves)
        w = _ask(rng, f"w{number}", leaf, sizes, levels, [c["name"] for c in clusters])
        gpus = w["replicas"] * w["gpus_per_replica"]
        fits = all(gpus <= room[path] for path in leaf.limited)
        found = seat(rng, w, spots) if fits and rng.random() < busy else None
        if found:
            take(w, found)
            for path in leaf.limited:
                room[path] -= gpus
            _run(rng, w, placement(w, found))
        else:
            _wait(rng, w)
        out.append(w)
    return out


def _ask(
    rng: Random, key: str, leaf: Leaf, sizes: tuple[int, ...], levels: list[str], clusters: list[str]
) -> dict[str, Any]:
    """Draw what a workload asks for; every optional key is missing at times."""
    each = rng.choice(sizes)
    w: dict[str, Any] = {"id": key, "allocation": leaf.path, "gpus_per_replica": each}
    w["replicas"] = rng.choice((1, 1, 1, 1, 1, 1, 2, 2, 3, 4, 5, 6, 8))
    charged = leaf.share > 0 and rng.random() < 0.75
    if charged or rng.random() < 0.7:
        w["min_runtime"] = duration(rng.choice(MIN_RUNTIMES_S)) if charged else "0s"
    optional = {
        "resumable": (0.7, rng.random() < 0.6),
        "priority": (0.2, rng.randint(-2, 2)),
        "time_limit": (0.25, duration(rng.choice((2 * MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, 2 * DAY)))),
        "cpus_per_replica": (0.3, rng.choice((0.5, 2, 8 * each, 12 * each))),
        "memory_per_replica": (0.3, f"{rng.choice((1, 32 * each, 64 * each, 100 * each))}G"),
        "gpu_types": (0.2, rng.sample(TYPES, rng.randint(1, 2))),
        "clusters": (0.15, rng.sample(clusters, rng.randint(1, len(clusters)))),
        "topology": (0.35, _wish(rng, levels, w["replicas"])),
    }
    return w | {name: value for name, (odds, value) in optional.items() if rng.random() < odds}


def _wish(rng: Random, levels: list[str], replicas: int) -> dict[str, Any]:
    """Draw a topology wish, some of them with segments, few of them impossible."""
    level = rng.choice(levels) if rng.random() < 0.97 else "moon"
    if rng.random() < 0.35:
        return {"preferred": level}
    out: dict[str, Any] = {"required": level}
    if rng.random() < 0.3:
        out["segment"] = rng.choice([k for k in range(1, replicas + 1) if replicas % k == 0 or k == 2])
    return out


def _run(rng: Random, w: dict[str, Any], where: list[dict[str, Any]]) -> None:
    """Make a workload run (or stop) where it has found room."""
    age = int(math.exp(rng.uniform(math.log(10), math.log(2 * DAY))))
    if "time_limit" in w and age >= seconds(w["time_limit"]):
        del w["time_limit"]
    w["started"] = iso(NOW_S - age)
    w["submitted"] = iso(NOW_S - age - rng.choice((0, 60, rng.randint(0, DAY))))
    w["state"] = "stopping" if rng.random() < 0.08 else "running"
    w["placement"] = where
    if rng.random() < 0.5:
        w["occupancy"] = "allocated" if _charged(w) else "unallocated"


def _wait(rng: Random, w: dict[str, Any]) -> None:
    """Make a workload wait; some of those that wait can never run."""
    w["submitted"] = iso(NOW_S - rng.choice((0, rng.randint(0, HOUR), rng.randint(0, 3 * DAY))))
    w["state"] = "pending"
    if rng.random() < 0.06:
        w |= rng.choice(
            (
                {"allocation": "nobody/knows"},
                {"gpu_types": ["abacus"]},
                {"replicas": 500},
                {"gpus_per_replica": 64},
            )
        )


# --- what was promised ---


def _promises(
    rng: Random, spots: list[Spot], workloads: list[dict[str, Any]], leaves: dict[str, Leaf]
) -> list[dict[str, Any]]:
    """Draw promises that can be kept by what is protected, due or later, and a few that are stale."""
    if rng.random() < 0.6:
        return []
    start = NOW_S + rng.choice((-30, 0, rng.randint(60, 8 * HOUR), rng.randint(60, 8 * HOUR)))
    for spot in spots:
        spot.clear()
    by_name = {spot.name: spot for spot in spots}
    for w in workloads:
        held = w["state"] == "stopping" or (w["state"] == "running" and _protected_until_s(w) > start)
        if held:
            take(w, [(by_name[p["node"]], p["gpus"] // w["gpus_per_replica"]) for p in w["placement"]])
    healthy = [spot for spot in spots if spot.state == "up"]
    hopeful = [w for w in workloads if w["state"] == "pending" and _charged(w)]
    hopeful = [w for w in hopeful if w["allocation"] in leaves and not leaves[w["allocation"]].limited]
    out = []
    for w in rng.sample(hopeful, min(len(hopeful), rng.randint(1, 3))):
        found = seat(rng, w, healthy)
        if found:
            take(w, found)
            out.append({"workload": w["id"], "start_at": iso(start), "placement": placement(w, found)})
    others = [w for w in workloads if w["id"] not in {r["workload"] for r in out}]
    return out + ([_stale(rng, spots, others)] if others and rng.random() < 0.2 else [])


def _stale(rng: Random, spots: list[Spot], workloads: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a promise that the world has overtaken: gone, started, long due, or on too little."""
    w = rng.choice(workloads)
    part = {"node": rng.choice(spots).name, "gpus": w["gpus_per_replica"]}
    key, start = rng.choice((("gone", NOW_S + HOUR), (w["id"], NOW_S - 2 * HOUR), (w["id"], NOW_S + HOUR)))
    return {"workload": key, "start_at": iso(start), "placement": [part]}


def _charged(w: dict[str, Any]) -> bool:
    """Whether a workload is allocated."""
    return bool(w.get("min_runtime", "0s") != "0s")


def _protected_until_s(w: dict[str, Any]) -> int:
    """Return when the protection of a running workload ends, at the latest."""
    least = min(
        seconds(w.get("min_runtime", "0s")), LONGEST_PROTECTION_S, seconds(w.get("time_limit", "365d"))
    )
    return int(datetime.fromisoformat(w["started"]).timestamp()) + least
