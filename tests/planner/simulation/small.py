"""Small sites and traces for tests of the simulator, and what its events say."""

from __future__ import annotations

from typing import Any

import numpy as np
import yaml

from planner.model.site import Site
from planner.simulation.engine import Engine, Options, Outages
from planner.simulation.history import Event, History
from planner.simulation.trace import UNSAID, Trace
from planner.site import parse_site
from solver.state import NodeState

HOUR = 3600


def site(nodes: int = 4, budgets: dict[str, int] | None = None, **more: Any) -> Site:
    """Return a site of nodes n1, n2, ... of 8 GPUs, two to a leaf, and allocations by weight."""
    shares = budgets or {"a": 1, "b": 1}
    inventory = [
        {"name": f"n{i + 1}", "gpus": 8, "gpu_type": "h100", "location": [f"l{i // 2}"]} for i in range(nodes)
    ]
    data = {
        "budgets": [{"name": name, "weight": weight} for name, weight in shares.items()],
        "clusters": [{"name": "c", "levels": ["leaf"], "nodes": inventory}],
        **more,
    }
    return parse_site(yaml.safe_dump(data), "site.yaml")


def trace(*rows: dict[str, Any]) -> Trace:
    """Return a trace of workloads `w0`, `w1`, ... in the order given; what a row does not say is usual."""
    usual = {
        "allocation": "a",
        "user": "",
        "submitted_s": 0,
        "replicas": 1,
        "gpus_per_replica": 8,
        "runtime_s": HOUR,
        "min_runtime_s": HOUR,
        "time_limit_s": UNSAID,
        "cancelled_after_s": UNSAID,
        "resumable": True,
        "priority": 0,
        "gpu_types": (),
        "topology_required": None,
        "topology_preferred": None,
        "segment": 0,
        "cpus_milli_per_replica": 0,
        "memory_bytes_per_replica": 0,
        "gpu_utilization": np.nan,
    }
    full = [{"id": f"w{i}", **usual, **row} for i, row in enumerate(rows)]
    full.sort(key=lambda row: (row["submitted_s"], row["id"]))
    columns: dict[str, Any] = {}
    for name in ("id", *usual):
        values = [row[name] for row in full]
        numeric = isinstance(usual.get(name), (int, float)) and not isinstance(usual.get(name), bool)
        if name == "resumable":
            columns[name] = np.array(values, dtype=bool)
        elif name == "gpu_utilization":
            columns[name] = np.array(values, dtype=np.float64)
        else:
            columns[name] = np.array(values, dtype=np.int64) if numeric else tuple(values)
    return Trace(**columns)


def outages(of: Site, *changes: tuple[int, str, str]) -> Outages:
    """Return changes of health: (time, node, state)."""
    names = [n.name for c in of.clusters for n in c.nodes]
    return Outages(
        tuple(t for t, _, _ in changes),
        tuple(names.index(n) for _, n, _ in changes),
        tuple(int(NodeState[s.upper()]) for _, _, s in changes),
    )


def run(of: Site, work: Trace, events: Outages | None = None, **options: Any) -> History:
    """Simulate to the end; `budget-greedy` unless a policy is named."""
    engine = Engine(of, work, Options(**{"policy": "budget-greedy", **options}), events)
    engine.run()
    return engine.history()


def happened(history: History, workload: str | None = None) -> list[tuple[int, str, str]]:
    """Return what happened: (time, workload, event)."""
    e = history.events
    rows = zip(e.time_s.tolist(), e.workload.tolist(), e.event.tolist(), strict=True)
    said = [(t, history.trace.id[w], Event(k).name.lower()) for t, w, k in rows]
    return [x for x in said if workload is None or x[1] == workload]
