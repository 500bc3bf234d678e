"""Small worlds, written short: what a test does not care about has a default, the rest is as in the files.

Everything goes through the files' own readers, so that a test sees what a user would. It is noon; a workload
has one replica of 8 GPUs and a min runtime of an hour; one that is `on` nodes has run for three hours, so
that nothing protects it any more; a budget's weight is 1 and nothing was used in the last 7 days.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import yaml

from benchmarks.text import HOUR, iso, seconds
from planner.encode import Encoded, encode
from planner.hostlist import expand
from planner.model.plan import Decision, Plan
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.planfile import plan_to_dict
from planner.round import plan_round
from planner.site import parse_site
from planner.snapshot import parse_snapshot

NOW_S = int(datetime(2026, 10, 9, 12, tzinfo=UTC).timestamp())
NOW = iso(NOW_S)
WEEK_H = 168


@dataclass(frozen=True)
class World:
    """A site and a snapshot, as dictionaries and as the planner reads them."""

    site_data: dict[str, Any]
    snapshot_data: dict[str, Any]

    @property
    def site(self) -> Site:
        """The site as it is read."""
        return parse_site(yaml.safe_dump(self.site_data, sort_keys=False), "site.yaml")

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot as it is read."""
        return parse_snapshot(json.dumps(self.snapshot_data), "snapshot.json", self.site)

    def encoded(self) -> Encoded:
        """Return the world in arrays."""
        return encode(self.site, self.snapshot)

    def plan(self, backend: str = "greedy") -> Plan:
        """Plan one round."""
        return plan_round(self.site, self.snapshot, backend)

    def shuffled(self, seed: int) -> World:
        """Return the same world with its lists in another order."""
        rng = Random(seed)
        data = json.loads(json.dumps(self.snapshot_data))
        for family in (data["clusters"], data["workloads"], *(c["nodes"] for c in data["clusters"])):
            rng.shuffle(family)
        for entry in data["workloads"]:
            rng.shuffle(entry.get("placement", []))
        for key in ("usage", "entitled"):
            if key in data:
                data[key] = dict(rng.sample(list(data[key].items()), len(data[key])))
        rng.shuffle(data.get("reservations", []))
        return World(self.site_data, data)


def world(
    budgets: Mapping[str, Any] | list[dict[str, Any]] | None = None,
    nodes: Any = "n[1-4]",
    workloads: Iterable[Mapping[str, Any]] = (),
    *,
    ratios: Mapping[str, float] | None = None,
    clusters: list[dict[str, Any]] | None = None,
    levels: Iterable[str] = (),
    site: Mapping[str, Any] | None = None,
    **snapshot: Any,
) -> World:
    """Write a world.

    Parameters
    ----------
    budgets : weights by name, or the family as a site file holds it; default: `a` and `b`
    nodes : a hostlist of nodes of 8 GPUs, or entries as in a file; of the one cluster `k`
    workloads : see `job`
    ratios : use over today's entitlement of an allocation, in place of `usage`
    clusters, levels, site, **snapshot : further keys, as in the files
    """
    family = _family(budgets or {"a": 1, "b": 1})
    entries = [{"names": nodes}] if isinstance(nodes, str) else list(nodes)
    found = clusters or [{"name": "k", "levels": list(levels), "nodes": entries}]
    found = [{**c, "nodes": [{"gpus": 8, **n} for n in c["nodes"]]} for c in found]
    data = {"time": NOW, "clusters": found, "history": "7d"}
    data["workloads"] = [w for entry in workloads for w in job(**entry)]
    if ratios is not None:
        data["usage"] = _usage(family, found, ratios, seconds(snapshot.get("history", "7d")) / HOUR)
    quiet = {"plan_ahead": {"reservations": 0}}  # what is promised tells no other reason to wait
    return World({"budgets": family, **quiet, **(site or {})}, {**data, **snapshot})


def job(
    id: str,
    on: str | list[str] = (),
    *,
    gpus: int = 8,
    copies: int = 1,
    ran: str = "3h",
    waited: str = "1h",
    **more: Any,
) -> list[dict[str, Any]]:
    """Write one workload, or many: `{i}` in the id counts the copies.

    Parameters
    ----------
    on : hostlist or list of nodes
        Where it runs, since `ran`. Each replica takes the next node, each copy goes on where the last one
        ended, and the list begins again; without `replicas` one gang has all of them.
    gpus : of each replica
    waited : since its submit, until now or until it began
    """
    nodes = expand(on) if isinstance(on, str) else list(on)
    replicas = more.pop("replicas", len(nodes) if nodes and copies == 1 else 1)
    out = []
    for i in range(copies):
        w = {"id": id.format(i=i), "allocation": "a", "replicas": replicas, "gpus_per_replica": gpus}
        w |= {"min_runtime": "1h", "state": "pending", "submitted": iso(NOW_S - seconds(waited))}
        if nodes:
            began_s = NOW_S - seconds(ran)
            seats = Counter(nodes[(i * replicas + k) % len(nodes)] for k in range(replicas))
            w |= {"state": "running", "started": iso(began_s), "submitted": iso(began_s - seconds(waited))}
            w["placement"] = [{"node": n, "gpus": k * gpus} for n, k in seats.items()]
        out.append(w | more)
    return out


def by_id(plan: Plan) -> dict[str, Decision]:
    """Return the decisions of a plan by workload."""
    return {d.workload: d for d in plan.decisions}


def plan_data(plan: Plan) -> dict[str, Any]:
    """Return a plan as its file holds it, less the time that the solver took."""
    data: dict[str, Any] = json.loads(json.dumps(plan_to_dict(plan)))
    del data["solver"]["seconds"]
    return data


def _family(budgets: Mapping[str, Any] | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(budgets, list):
        return budgets
    return [{"name": name, "weight": weight} for name, weight in budgets.items()]


def _usage(
    family: list[dict[str, Any]], clusters: list[dict[str, Any]], ratios: Mapping[str, float], hours: float
) -> dict[str, float]:
    up = [n for c in clusters for n in c["nodes"] if n.get("state") != "down"]
    gpus = sum(n["gpus"] * (len(expand(n["names"])) if "names" in n else 1) for n in up)
    return {path: ratios[path] * share * gpus * hours for path, share in _shares(family) if path in ratios}


def _shares(family: list[dict[str, Any]], share: float = 1.0, above: str = "") -> list[tuple[str, float]]:
    total, out = sum(b.get("weight", 1) for b in family), []
    for b in family:
        path, part = above + b["name"], share * b.get("weight", 1) / total
        out += _shares(b["children"], part, path + "/") if b.get("children") else [(path, part)]
    return out
