"""A moment of a simulation as a snapshot, put together from its tables.

What the tables do not say (CPUs, memory, accepted GPU types, segments, promises of earlier rounds) is taken
as not asked for. `gangplan snapshot --at` runs the trace again and leaves nothing out.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

from planner.model.budget import Budget
from planner.model.cluster import Cluster, Node, NodeHealth
from planner.model.site import Contract, Site
from planner.model.snapshot import Snapshot
from planner.model.workload import Occupancy, Placement, Topology, Workload
from planner.reports.frames.books import WINDOW_S
from planner.reports.frames.simulated import Simulated
from planner.simulation.cut import ORIGIN_S

JOB = [
    "allocation", "replicas", "gpus_per_replica", "min_runtime_s", "resumable", "topology_required",
    "topology_preferred", "submitted_s",
]  # fmt: skip
"""Columns of a workload that its events do not tell."""


def simulated_site(found: Simulated) -> Site:
    """Return a site with the tree of a simulation: its shares, and a contract that lets every run stand."""
    shares = {path: Fraction(share).limit_denominator(10**9) for path, share in found.shares.items()}
    longest_s = int(found.workloads["min_runtime_s"].max()) if len(found.workloads) else 0
    return Site(_tree(shares), contract=Contract(max_min_runtime_s=max(longest_s, 1), min_min_runtime_s=1))


def _tree(shares: dict[str, Fraction], above: str = "") -> tuple[Budget, ...]:
    """Return the budgets below a path, each weighted by the share of all its allocations."""
    tops = dict.fromkeys(above + path[len(above) :].partition("/")[0] for path in shares)
    out = []
    for top in tops:
        inside = {path: share for path, share in shares.items() if path == top or path.startswith(f"{top}/")}
        below = () if top in shares else _tree(inside, f"{top}/")
        out.append(Budget(top, sum(inside.values(), Fraction(0)), children=below))
    return tuple(out)


def most_waited_for_s(found: Simulated) -> int:
    """Return the sample at which the largest workloads waited for most GPUs; the end where there are none."""
    jobs = found.workloads
    jobs = jobs[jobs["largest"] & (jobs["state"] != "refused")]
    times_s = found.cluster["time_s"]
    if jobs.empty or times_s.empty:
        return found.end_s
    until_s = jobs["first_start_s"].fillna(jobs["end_s"]).fillna(found.end_s).astype("int64")
    waits = [int(jobs["gpus"][(jobs["submitted_s"] <= t) & (until_s > t)].sum()) for t in times_s.tolist()]
    return int(times_s.iloc[max(range(len(waits)), key=waits.__getitem__)])


def snapshot_at(found: Simulated, at_s: int) -> Snapshot:
    """Return the world after all that happened up to and in second `at_s` of the trace."""
    events = found.events[found.events["time_s"] <= at_s]
    last = events.drop_duplicates("workload", keep="last").set_index("workload")
    jobs = found.workloads[found.workloads["state"] != "refused"].set_index("id")
    jobs = jobs[JOB]
    alive = last[last["event"].isin(["submit", "start", "preempt"])].join(jobs, how="inner")
    rows = cast("list[dict[str, Any]]", alive.reset_index().to_dict("records"))
    window_h = WINDOW_S // 3600
    hours = found.allocations[found.allocations["hour"] < at_s // 3600]
    hours = hours[hours["hour"] >= at_s // 3600 - window_h]
    usage = hours.groupby("allocation")["delivered_allocated"].sum()
    return Snapshot(
        time_s=ORIGIN_S + at_s,
        clusters=_clusters(found, at_s),
        workloads=tuple(_workload(row) for row in rows),
        usage={str(a): Fraction(x).limit_denominator(10**6) for a, x in usage.items()},
        history_s=min(max(at_s, 1), WINDOW_S),
    )


def _clusters(found: Simulated, at_s: int) -> tuple[Cluster, ...]:
    changes = found.outages[found.outages["time_s"] <= at_s].drop_duplicates("node", keep="last")
    health = dict(zip(changes["node"], changes["state"], strict=True))
    out = []
    for (name, levels), nodes in found.nodes.groupby(["cluster", "levels"], sort=False):
        members = tuple(
            Node(
                str(n.node),
                int(cast("int", n.gpus)),
                str(n.gpu_type) or None,
                tuple(p for p in str(n.location).split("/") if p),
                cast("NodeHealth", health.get(n.node, "up")),
            )
            for n in nodes.itertuples()
        )
        out.append(Cluster(str(name), tuple(p for p in str(levels).split("/") if p), members))
    return tuple(out)


def _workload(row: dict[str, Any]) -> Workload:
    """Return a workload as it stands; what was preempted waits again."""
    runs = row["event"] == "start"
    parts = [p.rpartition(":") for p in row["nodes"].split("|")] if runs else []
    return Workload(
        id=row["workload"],
        allocation=row["allocation"],
        replicas=int(row["replicas"]),
        gpus_per_replica=int(row["gpus_per_replica"]),
        submitted_s=ORIGIN_S + int(row["submitted_s"]),
        state="running" if runs else "pending",
        min_runtime_s=int(row["min_runtime_s"]),
        resumable=bool(row["resumable"]),
        topology=Topology(row["topology_required"] or None, row["topology_preferred"] or None),
        started_s=ORIGIN_S + int(row["time_s"]) if runs else None,
        placement=tuple(Placement(node, int(gpus)) for node, _, gpus in parts),
        occupancy=cast("Occupancy", row["occupancy"]) if runs else None,
    )
