"""Nodes one by one, and room for gangs on them: for worlds small enough to look at every node."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

Seat = list[tuple["Spot", int]]
"""The (node, replicas) of a gang."""

UNCOUNTED = 10**9


@dataclass(eq=False)
class Spot:
    """A node, its place, and what is left on it; CPUs in thousandths, CPUs and memory 0 = not counted."""

    name: str
    cluster: str
    gpu_type: str | None
    gpus: int
    cpus_milli: int
    memory_gib: int
    location: list[str]
    at: dict[str, tuple[str, ...]]
    state: str = "up"
    left: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget what stands here."""
        self.left = [self.gpus, self.cpus_milli or UNCOUNTED, self.memory_gib or UNCOUNTED]

    def accepts(self, w: dict[str, Any]) -> bool:
        """Whether a workload accepts this cluster and GPU type."""
        here = self.cluster in w.get("clusters", [self.cluster])
        return here and self.gpu_type in w.get("gpu_types", [self.gpu_type])

    def slots(self, w: dict[str, Any]) -> int:
        """Replicas of a workload that still fit."""
        return min(have // want for have, want in zip(self.left, wants(w), strict=True) if want)

    def entry(self) -> dict[str, Any]:
        """Return the node as it stands in a snapshot."""
        out: dict[str, Any] = {"name": self.name, "gpus": self.gpus, "location": self.location}
        if self.gpu_type:
            out["gpu_type"] = self.gpu_type
        if self.cpus_milli:
            out |= {"cpus": self.cpus_milli // 1000, "memory": f"{self.memory_gib}G"}
        return {**out, "state": self.state}


def wants(w: dict[str, Any]) -> tuple[int, int, int]:
    """GPUs, thousandths of CPUs and GiB that one replica wants."""
    memory = int(w.get("memory_per_replica", "0G").removesuffix("G"))
    return w["gpus_per_replica"], round(1000 * w.get("cpus_per_replica", 0)), memory


def seat(rng: Random, w: dict[str, Any], spots: list[Spot]) -> Seat | None:
    """Find room for a gang: one cluster and GPU type, its level, its segments; None = there is none."""
    pools: dict[tuple[str, str | None], list[Spot]] = {}
    for spot in spots:
        if spot.accepts(w):
            pools.setdefault((spot.cluster, spot.gpu_type), []).append(spot)
    for pool in rng.sample(list(pools.values()), len(pools)):
        found = _seat_in(rng, w, pool)
        if found:
            return found
    return None


def _seat_in(rng: Random, w: dict[str, Any], pool: list[Spot]) -> Seat | None:
    """Find room in one pool."""
    wish = w.get("topology", {})
    level = wish.get("required")
    domains: dict[tuple[str, ...], list[Spot]] = {}
    for spot in rng.sample(pool, len(pool)):
        if level is None or level in spot.at:
            domains.setdefault(spot.at[level] if level else (), []).append(spot)
    found: Seat = []
    need = w["replicas"]
    unit = wish.get("segment") or need  # what one domain must hold together
    for members in domains.values():
        want = min(need, sum(spot.slots(w) for spot in members)) // unit * unit
        need -= want
        for spot in members:
            part = min(spot.slots(w), want)
            want -= part
            found += [(spot, part)] if part else []
    return None if need else found


def take(w: dict[str, Any], found: Seat) -> None:
    """Take room for a gang."""
    for spot, count in found:
        spot.left = [have - count * want for have, want in zip(spot.left, wants(w), strict=True)]


def placement(w: dict[str, Any], found: Seat) -> list[dict[str, Any]]:
    """Return where a gang stands as it is written in a snapshot."""
    return [{"node": spot.name, "gpus": count * w["gpus_per_replica"]} for spot, count in found]
