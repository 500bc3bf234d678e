"""Who loses what preemptions throw away: `python -m benchmarks.losses CASE`, of a simulation's folder.

GPU-hours held and lost, and preemptions, of work that can and that cannot be resumed; and the workload that
lost the most.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from benchmarks.text import HOUR


def losses(case: Path) -> tuple[pd.DataFrame, pd.Series]:
    """Return the sums by whether work is resumable, and the row of the workload that lost the most."""
    work = pd.read_parquet(case / "workloads.parquet").set_index("id")
    columns = ["delivered_gpu_s", "lost_gpu_s", "preemptions"]
    return work.groupby("resumable")[columns].sum(), work.loc[work["lost_gpu_s"].idxmax()]


def main() -> int:
    """Print the table."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("case", type=Path, help="folder that simulate or compare wrote")
    a = ap.parse_args()
    sums, most = losses(a.case)
    print("| resumable | held GPU-hours | lost GPU-hours | preemptions |\n|---|---|---|---|")
    for resumable, row in sums.iterrows():
        held, lost = row["delivered_gpu_s"] / HOUR, row["lost_gpu_s"] / HOUR
        print(f"| {'yes' if resumable else 'no'} | {held:,.0f} | {lost:,.0f} | {row['preemptions']:,} |")
    lost, times = most["lost_gpu_s"] / HOUR, most["preemptions"]
    print(f"\n{most.name} lost the most: {lost:,.0f} GPU-hours of {most['gpus']} GPUs in {times} preemptions")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
