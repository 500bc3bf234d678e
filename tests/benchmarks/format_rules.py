"""What makes a site and a snapshot valid input, checked on dictionaries and apart from the planner."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

SITE_KEYS = re.findall(
    r"\w+", "budgets fair_share contract preemption gpu_types solver plan_ahead ledger clusters source"
)
SNAPSHOT_KEYS = re.findall(r"\w+", "time clusters workloads usage entitled history reservations")
NODE_KEYS = re.findall(r"\w+", "name names gpus gpu_type location state cpus memory")
WORKLOAD_KEYS = re.findall(
    r"\w+",
    "id allocation replicas gpus_per_replica cpus_per_replica memory_per_replica min_runtime resumable "
    "submitted priority time_limit gpu_types clusters topology state started placement occupancy",
)
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
UNIT_BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def seconds(text: str) -> int:
    """Return the length of a duration such as `1h30m`."""
    parts = re.findall(r"(\d+)([smhdw])", text)
    assert "".join(a + b for a, b in parts) == text, f"not a duration: {text!r}"
    return sum(int(a) * UNIT_S[b] for a, b in parts)


def when(value: Any) -> datetime:
    """Return a time, which must have an offset."""
    out = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    assert out.tzinfo, f"naive time: {value!r}"
    return out


def size(text: str | None) -> int:
    """Return memory in bytes."""
    if text is None:
        return 0
    hit = re.fullmatch(r"(\d+)([KMGT]?)(iB)?", text)
    assert hit, f"not a memory size: {text!r}"
    return int(hit[1]) * UNIT_BYTES[hit[2]]


def expand(names: str) -> list[str]:
    """Return the names of a hostlist with one bracket at most."""
    hit = re.fullmatch(r"(.*)\[(.*)\]", names)
    if not hit:
        return [names]
    out = []
    for piece in hit[2].split(","):
        low, _, high = piece.partition("-")
        out += [f"{hit[1]}{k:0{len(low)}d}" for k in range(int(low), int(high or low) + 1)]
    return out


def leaves(family: list[dict[str, Any]], path: str = "") -> Iterator[str]:
    """Yield the allocations of a budget tree."""
    for entry in family:
        below = entry.get("children")
        yield from leaves(below, f"{path}{entry['name']}/") if below else [path + entry["name"]]


def limits(family: list[dict[str, Any]], path: str = "") -> Iterator[tuple[str, int]]:
    """Yield every limited node of a budget tree with its limit."""
    for entry in family:
        if entry.get("limit") is not None:
            yield path + entry["name"], entry["limit"]
        yield from limits(entry.get("children") or [], f"{path}{entry['name']}/")


def nodes(snapshot: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return every node by name, with the cluster it is of and its levels by name."""
    out: dict[str, dict[str, Any]] = {}
    for cluster in snapshot["clusters"]:
        for entry in cluster["nodes"]:
            assert set(entry) <= set(NODE_KEYS), entry
            for name in expand(entry.get("names") or entry["name"]):
                assert name not in out, f"{name} twice"
                place = entry.get("location") or []
                assert len(place) <= len(cluster["levels"]), f"{name}: {place}"
                at = {k: tuple(place[: d + 1]) for d, k in enumerate(cluster["levels"][: len(place)])}
                out[name] = {**entry, "cluster": cluster["name"], "at": {**at, "node": (name,)}}
    return out


def broken(site: dict[str, Any], snapshot: dict[str, Any]) -> list[str]:
    """Return every rule of the input that this site and snapshot break."""
    known, fleet = set(leaves(site["budgets"])), nodes(snapshot)
    bad = [f"site: {key}?" for key in site if key not in SITE_KEYS]
    bad += [f"snapshot: {key}?" for key in snapshot if key not in SNAPSHOT_KEYS]
    bad += _budgets(site["budgets"])
    bad += [f"usage of {k}" for k, v in snapshot.get("usage", {}).items() if k not in known or v < 0]
    bad += [f"{name}: gpus" for name, n in fleet.items() if n["gpus"] < 1]
    ids = Counter(w["id"] for w in snapshot["workloads"])
    bad += [f"{key} twice" for key, count in ids.items() if count > 1]
    seconds(snapshot.get("history", "7d"))
    for w in snapshot["workloads"]:
        bad += [f"{w['id']}: {what}" for what in _workload(w, when(snapshot["time"]), fleet)]
    for r in snapshot.get("reservations", []):
        assert set(r) == {"workload", "start_at", "placement"}, r
        when(r["start_at"])
    return bad + _over_capacity(snapshot, fleet)


def _budgets(family: list[dict[str, Any]]) -> list[str]:
    """Return what is wrong with a family of budgets and those below it."""
    bad, names = [], [entry["name"] for entry in family]
    if len(set(names)) < len(names):
        bad.append(f"names {names}")
    weights = [entry["weight"] for entry in family]
    if min(weights) < 0 or max(weights) <= 0:
        bad.append(f"weights {weights}")
    return bad + [x for entry in family if entry.get("children") for x in _budgets(entry["children"])]


def _workload(w: dict[str, Any], now: datetime, fleet: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with one workload."""
    for key in set(w) - set(WORKLOAD_KEYS):
        yield f"{key}?"
    if w["replicas"] < 1 or w["gpus_per_replica"] < 1:
        yield "not a gang"
    min_runtime = seconds(w.get("min_runtime", "0s"))
    if 0 < min_runtime < 300:
        yield "min runtime too short"
    if when(w["submitted"]) > now:
        yield "submitted in the future"
    if seconds(w.get("time_limit", "1s")) < 1 or size(w.get("memory_per_replica")) < 0:
        yield "no time limit or memory"
    if not set(w.get("topology") or {}) <= {"required", "preferred", "segment"}:
        yield "topology?"
    if "segment" in (w.get("topology") or {}) and "required" not in w["topology"]:
        yield "segments of no level"
    if w["state"] == "pending":
        if set(w) & {"started", "placement", "occupancy"}:
            yield "pending work stands nowhere"
        return
    if w["state"] not in ("running", "stopping"):
        yield f"state {w['state']}"
    if not when(w["submitted"]) <= when(w["started"]) <= now:
        yield "times out of order"
    if "time_limit" in w and (now - when(w["started"])).total_seconds() > seconds(w["time_limit"]):
        yield "past its time limit"
    if (
        w.get("occupancy", "allocated") != ("allocated" if min_runtime else "unallocated")
        and "occupancy" in w
    ):
        yield "occupancy is not what its min runtime makes it"
    yield from seat_faults(w, w["placement"], fleet)


def seat_faults(
    w: dict[str, Any], placement: list[dict[str, Any]], fleet: dict[str, dict[str, Any]]
) -> Iterator[str]:
    """Yield what is wrong with where a gang stands, capacity apart."""
    each, parts = w["gpus_per_replica"], {p["node"]: p["gpus"] for p in placement}
    here = {name: fleet[name] for name in parts}
    if len(parts) < len(placement):
        yield "a node twice"
    if sum(parts.values()) != w["replicas"] * each or any(g < 1 or g % each for g in parts.values()):
        yield "not whole"
    if len({(n["cluster"], n.get("gpu_type")) for n in here.values()}) > 1:
        yield "mixes clusters or GPU types"
    if any(w.get("gpu_types") and n.get("gpu_type") not in w["gpu_types"] for n in here.values()):
        yield "wrong GPU type"
    if any(w.get("clusters") and n["cluster"] not in w["clusters"] for n in here.values()):
        yield "wrong cluster"
    wish = w.get("topology") or {}
    if "required" not in wish:
        return
    held: Counter[Any] = Counter()
    for name, gpus in parts.items():
        held[here[name]["at"].get(wish["required"])] += gpus // each
    if None in held:
        yield "no such level there"
    if "segment" not in wish and len(held) > 1:
        yield "spans domains"
    if "segment" in wish and any(count % wish["segment"] for count in held.values()):
        yield "breaks segments"


def _over_capacity(snapshot: dict[str, Any], fleet: dict[str, dict[str, Any]]) -> list[str]:
    """Return the nodes that hold more than they have."""
    used: Counter[tuple[str, str]] = Counter()
    for w in snapshot["workloads"]:
        for p in w.get("placement", []):
            count = p["gpus"] // w["gpus_per_replica"]
            used[p["node"], "gpus"] += p["gpus"]
            used[p["node"], "cpus"] += count * round(1000 * w.get("cpus_per_replica", 0))
            used[p["node"], "memory"] += count * size(w.get("memory_per_replica"))
    has = {(name, "gpus"): n["gpus"] for name, n in fleet.items()}
    has |= {(name, "cpus"): round(1000 * n["cpus"]) for name, n in fleet.items() if n.get("cpus")}
    has |= {(name, "memory"): size(n["memory"]) for name, n in fleet.items() if n.get("memory")}
    return [f"{key}: {amount}" for key, amount in used.items() if amount > has.get(key, math.inf)]


def over_limit(site: dict[str, Any], snapshot: dict[str, Any]) -> list[str]:
    """Return the budgets that hold more than their limit."""
    bad = []
    for path, limit in limits(site["budgets"]):
        held = sum(
            p["gpus"]
            for w in snapshot["workloads"]
            if w["allocation"] == path or w["allocation"].startswith(path + "/")
            for p in w.get("placement", [])
        )
        bad += [f"{path} holds {held} of {limit}"] if held > limit else []
    return bad
