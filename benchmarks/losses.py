"""Who loses what preemptions throw away, and for whom: `python -m benchmarks.losses CASE`, of a simulation.

GPU-hours held and lost, and preemptions, of work that can and that cannot be resumed; the workload that lost
the most; what would be lost if every preemption cost one restart; and what starts on nodes that others had to
leave took and cost, promised starts apart. A run that made way counts for the promised start, if there is
one, that took a node of its in the same second.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from benchmarks.text import HOUR
from planner.units import parse_duration

FOR = ("a promised start", "another start", "nobody who started on its nodes")


def losses(case: Path) -> tuple[pd.DataFrame, pd.Series]:
    """Return the sums by whether work is resumable, and the row of the workload that lost the most."""
    work = pd.read_parquet(case / "workloads.parquet").set_index("id")
    columns = ["delivered_gpu_s", "lost_gpu_s", "preemptions"]
    return work.groupby("resumable")[columns].sum(), work.loc[work["lost_gpu_s"].idxmax()]


def causes(case: Path) -> pd.DataFrame:
    """Return for whom runs made way: starts, their GPUs, the GPUs that made way and GPU-seconds lost."""
    events = pd.read_parquet(case / "events.parquet")
    met = pd.read_parquet(case / "promises.parquet").dropna(subset="actual_start_s")
    promised = set(zip(met["workload"], met["actual_start_s"].astype(int), strict=True))
    went = _by_node(events[events["event"] == "preempt"])
    came = _by_node(events[events["event"] == "start"])
    came["why"] = [0 if key in promised else 1 for key in zip(came["workload"], came["time_s"], strict=True)]
    both = went.merge(came, on=["time_s", "node"], how="left", suffixes=("", "_for"))
    both["why"] = both["why"].fillna(2).astype(int)
    victims = both.groupby(["time_s", "workload"]).agg(
        why=("why", "min"), gpus=("gpus", "first"), lost_gpu_s=("lost_gpu_s", "first")
    )
    starts = both.dropna(subset="workload_for").drop_duplicates(["time_s", "workload_for"])
    out = victims.groupby("why").agg(evicted_gpus=("gpus", "sum"), lost_gpu_s=("lost_gpu_s", "sum"))
    out = out.join(starts.groupby("why").agg(starts=("gpus_for", "size"), gpus=("gpus_for", "sum")))
    return out.fillna(0).rename(index=dict(enumerate(FOR)))


def between_evictions_s(case: Path) -> float:
    """Return for how long a GPU is held on average between two preemptions of whoever holds it, seconds."""
    events = pd.read_parquet(case / "events.parquet")
    evicted_gpus = events.loc[events["event"] == "preempt", "gpus"].sum()
    held_gpu_s = pd.read_parquet(case / "workloads.parquet")["delivered_gpu_s"].sum()
    return float(held_gpu_s / evicted_gpus) if evicted_gpus else float("inf")


def _by_node(events: pd.DataFrame) -> pd.DataFrame:
    """Return events of runs with a row for each node that the run held."""
    rows = events.assign(node=events["nodes"].str.split("|")).explode("node")
    return rows.assign(node=rows["node"].str.rpartition(":")[0])


def main() -> int:
    """Print the tables."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("case", type=Path, help="folder that simulate or compare wrote")
    ap.add_argument("--restart-cost", default="10m", help="`preemption.restart_cost` of its site file")
    a = ap.parse_args()
    sums, most = losses(a.case)
    print("| resumable | held GPU-hours | lost GPU-hours | preemptions |\n|---|---|---|---|")
    for resumable, row in sums.iterrows():
        held, lost = row["delivered_gpu_s"] / HOUR, row["lost_gpu_s"] / HOUR
        print(f"| {'yes' if resumable else 'no'} | {held:,.0f} | {lost:,.0f} | {row['preemptions']:,} |")
    lost, times = most["lost_gpu_s"] / HOUR, most["preemptions"]
    print(f"\n{most.name} lost the most: {lost:,.0f} GPU-hours of {most['gpus']} GPUs in {times} preemptions")
    run_s, restart_s = between_evictions_s(a.case), parse_duration(a.restart_cost)
    print(
        f"{run_s / HOUR:.1f} h between evictions, of which a restart of {a.restart_cost} is "
        f"{restart_s / run_s:.1%}; {sums['lost_gpu_s'].sum() / sums['delivered_gpu_s'].sum():.1%} are lost\n"
    )
    print(
        "| made way for | starts | their GPUs | GPUs that made way | lost GPU-hours |\n|---|---|---|---|---|"
    )
    for why, row in causes(a.case).iterrows():
        counts = f"{row['starts']:,.0f} | {row['gpus']:,.0f} | {row['evicted_gpus']:,.0f}"
        print(f"| {why} | {counts} | {row['lost_gpu_s'] / HOUR:,.0f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
