"""A site file for a trace: budgets with weights, and an inventory of nodes that are alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from planner.atomic import writing
from planner.traces.fillin import draws
from planner.yamltext import Dumper, to_yaml

NODES_PER_LEAF = 8
DECIMALS = 3


def site_data(weights: Mapping[str, float], cluster: str, nodes: int, gpus_per_node: int) -> dict[str, Any]:
    """Return a site as plain data: one budget for each allocation, leaves of eight nodes."""
    budgets = [{"name": name, "weight": _weight(weight)} for name, weight in weights.items()]
    return {"budgets": budgets, "clusters": [_cluster(cluster, nodes, gpus_per_node)]}


def perturbed(weights: Mapping[str, float], factor: float, seed: int) -> dict[str, float]:
    """Return weights times 1/(1 + factor) to 1 + factor, drawn by name: demand and share then differ."""
    drawn = draws(seed, "weight", list(weights))
    moves = (1 + factor) ** (2 * drawn - 1)
    return {name: weight * move for (name, weight), move in zip(weights.items(), moves.tolist(), strict=True)}


@contextmanager
def site_beside(path: Path, data: Mapping[str, Any], comments: Iterable[str]) -> Iterator[None]:
    """Write a site file, headed by comments that say how it came about, beside the trace that it is for.

    The block writes the trace: it is not entered where the site cannot be written, and the site appears only
    when it has ended without an error.
    """
    head = "".join(f"# {line}\n" for line in comments)
    body = to_yaml(dict(data), _Dumper, default_flow_style=None, width=110)
    with writing(path) as file:
        file.write((head + body).encode())
        yield


class _Dumper(Dumper):
    """Writes mappings of scalars on one line."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        node = super().represent_mapping(tag, mapping, flow_style)
        node.flow_style = all(isinstance(value, yaml.ScalarNode) for _, value in node.value)
        return node


def _weight(weight: float) -> float:
    """Return a weight as people write it; what is small stays above 0."""
    short = max(round(weight, DECIMALS), 10.0**-DECIMALS) if weight else 0.0
    return int(short) if short == int(short) else short


def _cluster(name: str, nodes: int, gpus_per_node: int) -> dict[str, Any]:
    """Return nodes under leaves of eight."""
    width, leaves = len(str(nodes)), -(-nodes // NODES_PER_LEAF)
    entries = []
    for leaf in range(leaves):
        first, last = leaf * NODES_PER_LEAF + 1, min((leaf + 1) * NODES_PER_LEAF, nodes)
        names = f"{name}-[{first:0{width}}-{last:0{width}}]"
        where = [f"l{leaf + 1:0{len(str(leaves))}}"]
        entries.append({"names": names, "gpus": gpus_per_node, "location": where})
    return {"name": name, "levels": ["leaf"], "nodes": entries}
