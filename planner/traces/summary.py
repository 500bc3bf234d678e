"""What a trace asks of a cluster, in figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.simulation.trace import Trace
from solver.state import Floats, Ints

DAY_S = 86_400
PERCENTILES = (50, 90, 99)


def gang_gpus(trace: Trace) -> Ints:
    """Return the GPUs of each whole gang; int64[T]."""
    return trace.replicas * trace.gpus_per_replica


def window_days(trace: Trace) -> int:
    """Return the days from second 0 to the last submit, begun ones as whole ones."""
    return int(trace.submitted_s.max()) // DAY_S + 1


def offered_gpus(trace: Trace, days: int) -> dict[str, float]:
    """Return the GPUs that each allocation would keep busy on average over so many days, the most first."""
    gpu_s = _gpu_s(trace)
    names, rows = np.unique(np.array(trace.allocation), return_inverse=True)
    offered = np.bincount(rows, gpu_s, len(names)) / (days * DAY_S)
    by_name = dict(zip(names.tolist(), offered.tolist(), strict=True))
    return dict(sorted(by_name.items(), key=lambda item: (-item[1], item[0])))


def summary(trace: Trace, days: int) -> dict[str, Any]:
    """Return the figures that `trace show` prints, over a window of so many days."""
    offered = offered_gpus(trace, days)
    gpus = gang_gpus(trace)
    of = np.array(trace.allocation)
    total = sum(offered.values())
    rows = []
    for allocation, part in offered.items():
        mine = of == allocation
        rows.append(
            {
                "allocation": allocation,
                "workloads": int(mine.sum()),
                "offered_gpus": round(part, 3),
                "share": round(part / total, 6) if total else None,
                "largest_gpus": int(gpus[mine].max()),
                "runtime_p50_s": float(np.median(trace.runtime_s[mine])),
            }
        )
    return {
        "workloads": trace.count,
        "days": days,
        "offered_gpus": round(total, 3),
        "runtime_s": _percentiles(trace.runtime_s),
        "unallocated_workloads": int((trace.min_runtime_s == 0).sum()),
        "resumable_workloads": int(trace.resumable.sum()),
        "sizes": _sizes(gpus, _gpu_s(trace)),
        "allocations": rows,
    }


def _gpu_s(trace: Trace) -> Floats:
    """Return the work of each gang in GPU-seconds, as floats: a sum of many may leave int64."""
    return gang_gpus(trace).astype(np.float64) * trace.runtime_s


def _percentiles(values: Ints) -> dict[str, float]:
    return {f"p{q}": float(np.percentile(values, q)) for q in PERCENTILES}


def _sizes(gpus: Ints, gpu_s: Floats) -> list[dict[str, Any]]:
    """Return workloads and GPU time by size of the gang, in powers of two."""
    power = np.ceil(np.log2(np.maximum(gpus, 1))).astype(np.int64)
    power[gpus == 0] = -1
    total = gpu_s.sum()
    rows = []
    for k in np.unique(power).tolist():
        low, high = (2 ** (k - 1) + 1 if k > 0 else k + 1), (2**k if k >= 0 else 0)
        mine = power == k
        rows.append(
            {
                "gpus": str(high) if low >= high else f"{low}-{high}",
                "workloads": int(mine.sum()),
                "gpu_time_share": round(float(gpu_s[mine].sum() / total), 6) if total else None,
            }
        )
    return rows
