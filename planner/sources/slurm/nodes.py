"""Slurm's nodes: GPUs, CPUs, memory, health, place in the topology, and reservations on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.errors import InputError
from planner.hostlist import fold
from planner.model.cluster import Cluster, NodeHealth
from planner.sources.slurm.encoding import fields, gpus_of, nodes_of, number, text, words

MIB = 1 << 20

GONE = frozenset({"DOWN", "ERROR", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "FUTURE"})
LEAVING = frozenset({"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "REBOOT", "REBOOT_REQUESTED"})
SHAKY = frozenset({"NOT_RESPONDING", "NO_RESPOND", "REBOOT_ISSUED"})
LATER = frozenset({"UNKNOWN", "POWERING_UP", "POWER_UP"})
"""Not there yet, as all nodes are for a moment after slurmctld was restarted or reconfigured: no fault."""

MARK = "gangplan: "
"""Begins the reason of every drain that is ours."""

LEVELS = ("spine", "block", "leaf")
"""Names of switch levels, outermost first, where the site gives none."""


@dataclass(frozen=True)
class SlurmNode:
    """A node as Slurm describes it.

    Attributes
    ----------
    cpus : int
        Those that jobs may use.
    threads : int
        CPUs of a core: Slurm gives out whole cores.
    gpus_used : int
        What Slurm counts as given out; 0 where it does not say.
    """

    name: str
    gpus: int
    gpu_type: str | None
    cpus: int
    threads: int
    memory_bytes: int
    health: NodeHealth
    shaky: bool
    later: bool
    reason: str
    partitions: tuple[str, ...]
    mixed: bool
    gpus_used: int = 0


def read_nodes(data: Mapping[str, Any]) -> list[SlurmNode]:
    """Return the nodes in what `sinfo --json` or `scontrol show node --json` printed, by name."""
    return sorted((_node(n) for n in data.get("nodes", []) if text(n.get("name"))), key=lambda n: n.name)


def _node(raw: Mapping[str, Any]) -> SlurmNode:
    state = words(raw.get("state")) | words(raw.get("state_flags"))
    gpus = gpus_of(text(raw.get("gres")))
    kind, many = max(gpus.items(), key=lambda g: (g[1], g[0]), default=("", 0))
    cpus = number(raw.get("effective_cpus")) or number(raw.get("cpus")) or 0
    memory_mib = (number(raw.get("real_memory")) or 0) - (number(raw.get("specialized_memory")) or 0)
    health: NodeHealth = "down" if state & GONE else "draining" if state & LEAVING else "up"
    partitions = raw.get("partitions") or []
    return SlurmNode(
        name=text(raw.get("name")),
        gpus=many,
        gpu_type=kind or None,
        cpus=cpus,
        threads=max(number(raw.get("threads")) or 1, 1),
        memory_bytes=max(memory_mib, 0) * MIB,
        health=health,
        shaky=bool(state & SHAKY) and health == "up",
        later=bool(state & LATER) and health == "up",
        reason=text(raw.get("reason")),
        partitions=tuple(partitions) if isinstance(partitions, list) else tuple(text(partitions).split(",")),
        mixed=sum(1 for count in gpus.values() if count) > 1,
        gpus_used=gpus_of(text(raw.get("gres_used")))[kind],
    )


# -- topology ----------------------------------------------------------------------------------------


def read_topology(printed: str) -> list[dict[str, tuple[str, ...]]]:
    """Return the switches of each level with their nodes, leaves first, from `scontrol show topology`."""
    levels: dict[int, dict[str, tuple[str, ...]]] = {}
    for line in printed.splitlines():
        said = fields(line)
        name = said.get("SwitchName") or said.get("BlockName")
        if name and said.get("Nodes"):
            levels.setdefault(int(said.get("Level", "0")), {})[name] = nodes_of(said["Nodes"])
    return [levels[level] for level in sorted(levels)]


def locate(
    switches: Sequence[Mapping[str, tuple[str, ...]]],
    names: Sequence[str],
    inventory: Iterable[Cluster],
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the names of the levels, outermost first, and the switches above each node in that order.

    Where Slurm knows no topology the site's own inventory takes its place. InputError where the site names
    more levels than there are.
    """
    if not switches:
        known = list(inventory)
        levels = known[0].levels if known else ()
        return levels, {n.name: n.location for c in known for n in c.nodes}
    if len(names) > len(switches):
        there = f"{len(names)} levels, and Slurm has {len(switches)}"
        raise InputError([f"source.levels: names {there}, name the innermost last and leave the rest out"])
    levels = tuple(names) or LEVELS[-len(switches) :]
    above = list(reversed(switches[: len(levels)]))
    place: dict[str, list[str]] = {}
    for depth, domains in enumerate(above):
        for domain, nodes in domains.items():
            for node in nodes:
                here = place.setdefault(node, [])
                if len(here) == depth:
                    here.append(domain)
    return levels, {node: tuple(domains) for node, domains in place.items()}


# -- reservations ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reserved:
    """A reservation in Slurm: nodes that are kept from other work for a time (epoch seconds)."""

    name: str
    begin_s: int
    end_s: int
    nodes: tuple[str, ...]
    maintenance: bool


def read_reservations(printed: str) -> list[Reserved]:
    """Return the reservations of whole nodes that `scontrol -o show reservation` printed."""
    found = []
    for line in printed.splitlines():
        said = fields(line)
        begin, end = said.get("StartTime", ""), said.get("EndTime", "")
        if begin.isdigit() and end.isdigit():
            flags = said.get("Flags", "").split(",")
            nodes = nodes_of(said.get("Nodes", ""))
            found.append(Reserved(said["ReservationName"], int(begin), int(end), nodes, "MAINT" in flags))
    return found


# -- partitions --------------------------------------------------------------------------------------


def islands(partitions: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Return the cluster of each partition: partitions that share nodes are one, named after its widest.

    A gang never leaves its cluster, so partitions without a common node must not be one.
    """
    owner: dict[str, str] = {}
    for partition in sorted(partitions, key=lambda p: (-len(partitions[p]), p)):
        touching = [p for p in owner if partitions[p] & partitions[partition]]
        home = owner[touching[0]] if touching else partition
        for other in [p for p, at in owner.items() if at in {owner[t] for t in touching}]:
            owner[other] = home
        owner[partition] = home
    return owner


def names(nodes: Iterable[str]) -> str:
    """Return nodes as people read them."""
    return fold(sorted(nodes))
