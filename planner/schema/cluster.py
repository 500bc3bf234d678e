"""Clusters and nodes as site files and snapshots write them."""

from __future__ import annotations

from functools import cached_property

from pydantic import ConfigDict, Field

from planner.model.cluster import NodeHealth
from planner.schema.base import Entry
from planner.schema.types import Count, Cpus, Hostlist, Memory, Name, NodeName


class NodeEntry(Entry):
    """Nodes that are alike: one by `name`, or many by `names`."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["name"]}, {"required": ["names"]}]})

    name: NodeName | None = None
    """The name of one node."""
    names: Hostlist | None = None
    """The names of many nodes as a hostlist: `saturn-[001-064]`."""
    gpus: Count = Field(examples=[8])
    """GPUs of each node."""
    gpu_type: Name | None = None
    """What the GPUs are; workloads ask for types by these names."""
    location: list[Name] = Field(default=[])
    """Names of the domains that the node is in, outermost level first."""
    state: NodeHealth = "up"
    """`up`, `draining` (finish what is protected, start nothing) or `down` (nothing runs)."""
    cpus: Cpus = 0
    """CPUs of each node; 0 = not counted."""
    memory: Memory = 0
    """Memory of each node, such as `2TiB`; 0 = not counted."""

    @property
    def count(self) -> int:
        """How many nodes the entry stands for."""
        return 1 if self.names is None else len(self.names)

    @cached_property
    def all_names(self) -> tuple[str, ...]:
        """Every node that the entry stands for."""
        return tuple(self.names or ((self.name,) if self.name else ()))


class ClusterEntry(Entry):
    """Nodes under one topology."""

    name: Name = Field(examples=["saturn"])
    """The name of the cluster."""
    levels: list[Name] = Field(default=[])
    """Topology levels, outermost first; the node itself is not one of them."""
    nodes: list[NodeEntry] = Field(examples=['[{names: "n[1-4]", gpus: 8}]'])
    """The inventory."""
