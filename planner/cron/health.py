"""Which nodes may take work: what the source says, what the site's own check says, and what has settled.

A node that comes and goes would take a gang down each time. So one that was unwell rests until it has been
well for `run.health.settle`: what runs there goes on, nothing new starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from planner.ledger.memory import NodeMemory
from planner.model.cluster import Cluster, Node
from planner.model.workload import Workload
from planner.sources.base import World


@dataclass(frozen=True)
class Health:
    """What a round does about nodes.

    Attributes
    ----------
    clusters : tuple of Cluster
        The inventory as the planner is to see it.
    drain : dict of str to str
        Nodes to take out of service, and why.
    resume : tuple of str
        Nodes to bring back.
    empty : dict of str to str
        Draining nodes with nothing on them whose repair has not been called for, and why they drain.
    unwell : dict of str to NodeMemory
    settled : tuple of str
        Nodes to be forgotten: well for long enough.
    """

    clusters: tuple[Cluster, ...]
    drain: Mapping[str, str]
    resume: tuple[str, ...]
    empty: Mapping[str, str]
    unwell: Mapping[str, NodeMemory]
    settled: tuple[str, ...]


def judge(world: World, sick: Mapping[str, str], memory: Mapping[str, NodeMemory], settle_s: int) -> Health:
    """Judge every node of a world.

    Parameters
    ----------
    sick : nodes that the site's own check calls unhealthy, and why
    """
    nodes = {n.name: n for c in world.clusters for n in c.nodes}
    unwell: dict[str, NodeMemory] = {}
    settled, resume = [], []
    for name in sorted(nodes.keys() | memory.keys()):
        facts, known = world.nodes.get(name), memory.get(name)
        repairing = known is not None and known.repairing
        if name in sick or (facts is not None and facts.failing):
            unwell[name] = NodeMemory(world.time_s, repairing)
        elif known is None:
            if facts is not None and facts.ours:  # drained by us, and the ledger is new
                unwell[name] = NodeMemory(world.time_s)
        elif world.time_s - known.unwell_s < settle_s and facts is not None:
            unwell[name] = known
        elif facts is not None and facts.ours:
            resume.append(name)
            settled.append(name)
        elif name in nodes and nodes[name].state == "draining" and not _only_kept(world, name):
            unwell[name] = known  # an operator drains it: keep in mind that its repair was called for
        else:
            settled.append(name)
    drain = {n: why for n, why in sick.items() if n in nodes and nodes[n].state == "up"}
    resting = {n for n in unwell if n in nodes and nodes[n].state == "up"} - drain.keys()
    resting |= {n for n, f in world.nodes.items() if f.kept and n in nodes and nodes[n].state == "up"}
    clusters = _as_planned(world, drain, resting)
    return Health(clusters, drain, tuple(resume), _empty(world, nodes, drain, memory), unwell, tuple(settled))


def _only_kept(world: World, name: str) -> bool:
    """Whether a node drains for a reservation alone."""
    return world.nodes[name].kept and not world.nodes[name].ours


def _empty(
    world: World, nodes: Mapping[str, Node], drain: Mapping[str, str], memory: Mapping[str, NodeMemory]
) -> dict[str, str]:
    """Return the draining nodes whose repair is to be called for."""
    out = {}
    for name, facts in sorted(world.nodes.items()):
        leaving = name in drain or (nodes[name].state == "draining" and not _only_kept(world, name))
        called = name in memory and memory[name].repairing
        if leaving and not facts.busy and not called:
            out[name] = drain.get(name, facts.reason)
    return out


def _as_planned(world: World, drain: Collection[str], resting: set[str]) -> tuple[Cluster, ...]:
    """Return the inventory in which nodes that drain do so, and resting ones have nothing to give."""
    gpus, cpus, memory = _held(world.workloads)

    def seen(node: Node) -> Node:
        name = node.name
        if name in drain:
            return replace(node, state="draining")
        if name not in resting:
            return node
        if not world.nodes[name].busy:
            return replace(node, state="draining")
        return replace(
            node,
            gpus=min(node.gpus, gpus[name]),
            cpus_milli=max(min(node.cpus_milli, cpus[name]), 1) if node.cpus_milli else 0,
            memory_bytes=max(min(node.memory_bytes, memory[name]), 1) if node.memory_bytes else 0,
        )

    return tuple(replace(c, nodes=tuple(map(seen, c.nodes))) for c in world.clusters)


def _held(workloads: tuple[Workload, ...]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return the GPUs, thousandths of CPUs and bytes that workloads hold on each node."""
    gpus, cpus, memory = Counter[str](), Counter[str](), Counter[str]()
    for w in workloads:
        for part in w.placement:
            replicas = part.gpus // w.gpus_per_replica if w.gpus_per_replica else 1
            gpus[part.node] += part.gpus
            cpus[part.node] += replicas * w.cpus_milli_per_replica
            memory[part.node] += replicas * w.memory_bytes_per_replica
    return gpus, cpus, memory
