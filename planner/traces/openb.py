"""Alibaba's openb pods (cluster-trace-gpu-v2023): one pod is one workload of one replica.

Columns: name, cpu_milli, memory_mib, num_gpu, gpu_milli (share of the GPU where num_gpu is 1), gpu_spec
(accepted types, `|`-separated), qos, pod_phase, creation_time, deletion_time, scheduled_time (seconds).
"""

from __future__ import annotations

from pathlib import Path

from planner.cells import name, names, optional, seconds, whole
from planner.sheet import Columns, read_csv
from planner.traces.log import BLANKS, Log

COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
WHOLE_MILLI = 1000

_amount = whole(0, 1_000_000_000)
_time = optional(seconds, None, *BLANKS)


def read(path: Path) -> Log:
    """Read one list of pods; the default label is the quality of service, for there are no teams."""
    sheet = read_csv(path)
    columns = Columns(sheet)
    columns.expect(COLUMNS)
    ids = columns.read("name", name)
    submitted_s = columns.read("creation_time", seconds)
    started_s = columns.read("scheduled_time", _time)
    ended_s = columns.read("deletion_time", _time)
    gpus = columns.read("num_gpu", whole(0, 1_000))
    gpu_milli = columns.read("gpu_milli", whole(0, WHOLE_MILLI))
    cpus_milli = columns.read("cpu_milli", _amount)
    memory_mib = columns.read("memory_mib", _amount)
    gpu_types: list[tuple[str, ...]] = columns.read("gpu_spec", names, ())
    columns.unique("name")
    columns.finish()
    times = zip(started_s, ended_s, strict=True)
    log = Log(
        ids,
        submitted_s,
        [None if a is None or b is None or b < a else b - a for a, b in times],
        gpus,
        labels={"qos": sheet.columns.get("qos", ["openb"] * sheet.count), **sheet.columns},
        calendar=False,
        gpu_types=gpu_types,
        cpus_milli=cpus_milli,
        memory_bytes=[mib << 20 for mib in memory_mib],
    )
    parts = [g == 1 and milli < WHOLE_MILLI for g, milli in zip(gpus, gpu_milli, strict=True)]
    return log.select([i for i, part in enumerate(parts) if not part], "left out: a fraction of a GPU")
