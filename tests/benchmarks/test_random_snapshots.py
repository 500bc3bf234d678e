"""Random worlds are valid input, repeatable, and varied enough to be worth a stress test."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from benchmarks.random_snapshots import random_case
from tests.benchmarks.format_rules import broken, leaves, nodes, over_limit, seat_faults, seconds, when

SEEDS = range(200)
Case = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Many worlds."""
    return [random_case(seed) for seed in SEEDS]


def workloads(cases: list[Case]) -> list[dict[str, Any]]:
    """All workloads of all worlds."""
    return [w for _, snapshot in cases for w in snapshot["workloads"]]


def test_worlds_obey_the_format(cases: list[Case]):
    assert {seed: broken(*case) for seed, case in zip(SEEDS, cases, strict=True) if broken(*case)} == {}


def test_worlds_are_small(cases: list[Case]):
    assert all(1 <= len(nodes(snapshot)) <= 24 for _, snapshot in cases)
    assert max(len(nodes(snapshot)) for _, snapshot in cases) >= 20
    assert {len(snapshot["workloads"]) for _, snapshot in cases} == {0, 3, 10, 25, 60}


def test_the_same_seed_gives_the_same_world(cases: list[Case]):
    assert [random_case(seed) for seed in SEEDS] == cases


def test_every_state_order_and_history_occurs(cases: list[Case]):
    assert {w["state"] for w in workloads(cases)} == {"pending", "running", "stopping"}
    assert {n["state"] for _, s in cases for n in nodes(s).values()} == {"up", "draining", "down"}
    assert {site["fair_share"]["order"] for site, _ in cases} == {"budget", "fair_tree", "leaf"}
    assert {s.get("history") for _, s in cases} == {"7d", "3d", "1h", "1m", None}
    assert any("entitled" in s for _, s in cases)


def test_every_topology_occurs(cases: list[Case]):
    clusters = [c for _, s in cases for c in s["clusters"]]
    assert {len(c["levels"]) for c in clusters} == {0, 1, 2, 3}
    assert {len(s["clusters"]) for _, s in cases} == {1, 2, 3}
    everywhere = [n for c in clusters for n in c["nodes"]]
    assert {n["gpus"] for n in everywhere} == {1, 2, 4, 6, 8, 10, 16}
    assert {n.get("gpu_type") for n in everywhere} == {"h100", "b200", "a6000", None}
    assert {"cpus" in n for n in everywhere} == {True, False}
    mixed = [
        c for c in clusters if any(len({n["gpus"] for n in leaf}) > 1 for leaf in by_location(c).values())
    ]
    assert len(mixed) > 10


def by_location(cluster: dict[str, Any]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """Nodes of each innermost domain."""
    out: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for n in cluster["nodes"]:
        out.setdefault(tuple(n["location"]), []).append(n)
    return out


def test_every_wish_runs_somewhere_and_waits_somewhere(cases: list[Case]):
    for state in ("pending", "running"):
        here = [w for w in workloads(cases) if w["state"] == state]
        wishes = Counter(tuple(sorted(w.get("topology", {}))) for w in here)
        assert set(wishes) == {(), ("preferred",), ("required",), ("required", "segment")}
        assert {"gpu_types" in w for w in here} == {"clusters" in w for w in here} == {True, False}
    running = [w for w in workloads(cases) if w["state"] == "running"]
    assert sum(len(w["placement"]) > 1 for w in running) > 50


def test_impossible_and_unusual_work_waits_too(cases: list[Case]):
    pending = [w for w in workloads(cases) if w["state"] == "pending"]
    assert any(w["allocation"] == "nobody/knows" for w in pending)
    assert any(w.get("gpu_types") == ["abacus"] for w in pending)
    assert any(w["replicas"] == 500 for w in pending)
    assert any(8 % w["gpus_per_replica"] for w in pending if w["gpus_per_replica"] < 8)
    short = [w for w in pending if seconds(w.get("time_limit", "9d")) < seconds(w.get("min_runtime", "0s"))]
    assert len(short) > 20


def test_who_has_no_weight_asks_for_unallocated_work_only(cases: list[Case]):
    found = 0
    for site, snapshot in cases:
        for w in snapshot["workloads"]:
            if weightless(site["budgets"], w["allocation"]):
                found += 1
                assert w.get("min_runtime", "0s") == "0s"
    assert found > 20


def weightless(family: list[dict[str, Any]], path: str) -> bool:
    """Whether a budget on this path has weight 0."""
    name, _, rest = path.partition("/")
    here = next((b for b in family if b["name"] == name), None)
    return here is not None and (here["weight"] == 0 or weightless(here.get("children", []), rest))


def test_few_limits_are_below_what_is_held(cases: list[Case]):
    lowered = sum(bool(over_limit(*case)) for case in cases)
    limited = sum("limit" in str(site["budgets"]) for site, _ in cases)
    assert 0 < lowered < limited / 5


def test_most_promises_are_whole_on_healthy_nodes_and_some_are_stale(cases: list[Case]):
    kinds = Counter(promise_kind(site, s, r) for site, s in cases for r in s["reservations"])
    assert kinds["good"] > 3 * kinds["stale"] > 0


def promise_kind(site: dict[str, Any], snapshot: dict[str, Any], promise: dict[str, Any]) -> str:
    """`good` = for a pending workload of a known allocation, whole, on nodes that are up, not long due."""
    fleet = nodes(snapshot)
    w = {w["id"]: w for w in snapshot["workloads"]}.get(promise["workload"])
    if w is None or w["state"] != "pending" or w["allocation"] not in leaves(site["budgets"]):
        return "stale"
    late = when(promise["start_at"]) < when(snapshot["time"]) - timedelta(minutes=1)
    sick = any(fleet[p["node"]]["state"] != "up" for p in promise["placement"])
    return "stale" if late or sick or any(seat_faults(w, promise["placement"], fleet)) else "good"


def test_no_workload_is_promised_twice(cases: list[Case]):
    for _, snapshot in cases:
        promised = [r["workload"] for r in snapshot["reservations"]]
        assert len(promised) == len(set(promised))


def test_promises_leave_room_for_what_is_protected_then(cases: list[Case]):
    seen = 0
    for site, snapshot in cases:
        good = [r for r in snapshot["reservations"] if promise_kind(site, snapshot, r) == "good"]
        for promise in good:
            seen += 1
            held = Counter({p["node"]: p["gpus"] for p in promise["placement"]})
            for w in snapshot["workloads"]:
                if "started" in w and protected_at(w, when(promise["start_at"])):
                    held.update({p["node"]: p["gpus"] for p in w["placement"]})
            assert all(held[name] <= n["gpus"] for name, n in nodes(snapshot).items())
    assert seen > 30


def protected_at(w: dict[str, Any], moment: Any) -> bool:
    """Whether a running workload is still protected then."""
    least = min(seconds(w.get("min_runtime", "0s")), seconds(w.get("time_limit", "9d")), 8 * 3600)
    return w["state"] == "running" and when(w["started"]) + timedelta(seconds=least) > moment
