"""Clusters and their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NodeHealth = Literal["up", "draining", "down"]


@dataclass(frozen=True)
class Node:
    """One machine.

    Attributes
    ----------
    gpus : int, GPUs
    gpu_type : str or None
    location : tuple of str
        Names of its domains, outermost level first; may be shorter than the cluster's levels.
    state : str
        `up`, `draining` (finish what is protected, start nothing) or `down` (nothing runs).
    cpus_milli : int, thousandths of a CPU
        0 = CPUs are not counted on this node.
    memory_bytes : int, bytes
        0 = memory is not counted on this node.
    """

    name: str
    gpus: int
    gpu_type: str | None = None
    location: tuple[str, ...] = ()
    state: NodeHealth = "up"
    cpus_milli: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True)
class Cluster:
    """Nodes under one topology; `levels` are named outermost first, the node itself not counted."""

    name: str
    levels: tuple[str, ...]
    nodes: tuple[Node, ...]
