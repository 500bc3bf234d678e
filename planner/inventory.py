"""Clusters as they are written, searched for contradictions and turned into nodes."""

from __future__ import annotations

from planner.model.cluster import Cluster, Node
from planner.scan import Loc
from planner.schema.cluster import ClusterEntry, NodeEntry
from planner.strict import Document, key_path

RESERVED_LEVELS = ("node", "cluster")
MAX_LEVELS = 32
"""Different levels of all clusters together; each costs a number for every node."""


MAX_NODES = 100_000
"""Nodes of an inventory: a few hostlists name more in one line than anybody has."""


def check_clusters(document: Document, clusters: list[ClusterEntry]) -> bool:
    """Report what cannot be together in an inventory; nodes are unique over all clusters.

    Returns False where it is too large to be written out node by node.
    """
    seen: dict[str, Loc] = {}
    named: dict[str, int] = {}
    levels: set[str] = set()
    count = 0
    for c, cluster in enumerate(clusters):
        loc: Loc = ("clusters", c)
        if cluster.name in named:
            twin = key_path(document.holes.original(("clusters", named[cluster.name])))
            fault = f'"{cluster.name}" is the name of {twin} too, rename one'
            document.contradiction((*loc, "name"), fault)
        named.setdefault(cluster.name, c)
        check_levels(document, cluster.levels, (*loc, "levels"))
        levels.update(cluster.levels)
        if len(levels) > MAX_LEVELS:
            fault = f"brings the levels of all clusters to {len(levels)}, write at most {MAX_LEVELS}"
            document.contradiction((*loc, "levels"), fault)
            return False
        for n, entry in enumerate(cluster.nodes):
            count += entry.count
            if count > MAX_NODES:
                fault = f"brings the inventory to {count} nodes, write at most {MAX_NODES}"
                document.contradiction((*loc, "nodes", n), fault)
                return False
            _check_node(document, cluster, entry, (*loc, "nodes", n))
            _check_unique(document, entry, (*loc, "nodes", n), seen)
    return True


def check_levels(document: Document, levels: list[str], loc: Loc) -> None:
    """Report levels that share a name, among them or with those that every cluster has."""
    seen: set[str] = set()
    for i, level in enumerate(levels):
        place = (*loc, i)
        if level in RESERVED_LEVELS:
            fault = f'"{level}" is a level of every cluster already, leave it out'
            document.contradiction(place, fault)
        elif level in seen:
            document.contradiction(place, f'"{level}" is named twice, name each level once')
        seen.add(level)


def _check_node(document: Document, cluster: ClusterEntry, entry: NodeEntry, loc: Loc) -> None:
    """Report an entry that does not say which nodes it means, or says more places than there are levels."""
    if (entry.name is None) == (entry.names is None):
        both = "has both `name` and `names`" if entry.name else "has neither `name` nor `names`"
        fix = "write `name: n1` for one node or `names: n[1-4]` for many"
        document.contradiction(loc, f"{both}, {fix}")
    depth = len(cluster.levels)
    if len(entry.location) > depth:
        known = f" ({', '.join(cluster.levels)})" if depth else ""
        fault = f"names {len(entry.location)} domains where the cluster has {depth} levels{known}"
        levels = (*loc[:2], "levels")
        document.contradiction((*loc, "location"), f"{fault}, write one name per level", levels)


def _check_unique(document: Document, entry: NodeEntry, loc: Loc, seen: dict[str, Loc]) -> None:
    """Report nodes that stand in the inventory twice."""
    key = "names" if entry.name is None else "name"
    twice = [name for name in entry.all_names if seen.setdefault(name, loc) != loc]
    if len(set(entry.all_names)) < len(entry.all_names):
        document.contradiction((*loc, key), "names a node twice, name each node once")
    if twice:
        where = key_path(document.holes.original(seen[twice[0]]))
        more = f" and {len(twice) - 1} more" if len(twice) > 1 else ""
        fault = f'"{twice[0]}"{more} stands in {where} already, name each node once'
        document.contradiction((*loc, key), fault)


def to_cluster(entry: ClusterEntry) -> Cluster:
    """Write out the hostlists of a cluster."""
    nodes = tuple(
        Node(name, e.gpus, e.gpu_type, tuple(e.location), e.state, e.cpus, e.memory)
        for e in entry.nodes
        for name in e.all_names
    )
    return Cluster(entry.name, tuple(entry.levels), nodes)
