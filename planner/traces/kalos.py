"""Shanghai AI Lab's Acme traces: Kalos and Seren as published, and Kalos in the decoded form.

Published columns: job_id, user, node_num, gpu_num, cpu_num, type, state, submit_time, duration (seconds), and
on Kalos mem_per_pod_GB. Decoded (completed jobs only): job_id, submit_s, duration_s, node_num, gpu_num, type.
"""

from __future__ import annotations

from pathlib import Path

from planner.cells import begun_seconds, name, optional, utc, whole, within
from planner.sheet import Columns, read_csv
from planner.traces.log import BLANKS, Log

PUBLISHED = ("job_id", "node_num", "gpu_num", "type", "submit_time", "duration")
DECODED = ("job_id", "node_num", "gpu_num", "type", "submit_s", "duration_s")

_count = optional(whole(0, 1_000_000), 0, *BLANKS)
_amount = optional(within(0, 1e9), 0.0, *BLANKS)


def read(path: Path) -> Log:
    """Read one file; the default label is the type of workload."""
    sheet = read_csv(path)
    columns = Columns(sheet)
    calendar = "submit_s" not in sheet.columns
    columns.expect(PUBLISHED if calendar else DECODED)
    submit, duration = ("submit_time", "duration") if calendar else ("submit_s", "duration_s")
    ids = columns.read("job_id", name)
    submitted_s = columns.read(submit, utc if calendar else begun_seconds)
    runtime_s = columns.read(duration, optional(begun_seconds, None, *BLANKS))
    gpus = columns.read("gpu_num", _count)
    nodes = columns.read("node_num", _count)
    users = columns.read("user", optional(name, "", *BLANKS), "")
    cpus = columns.read("cpu_num", _amount, 0.0)
    memory_gib = columns.read("mem_per_pod_GB", _amount, 0.0)
    columns.unique("job_id")
    columns.finish()
    return Log(
        ids,
        submitted_s,
        runtime_s,
        gpus,
        labels={"type": sheet.columns["type"], **sheet.columns},
        calendar=calendar,
        nodes=nodes,
        user=users,
        cpus_milli=[round(1000 * x) for x in cpus],
        memory_bytes=[round(x * n) << 30 for x, n in zip(memory_gib, nodes, strict=True)],
    )
