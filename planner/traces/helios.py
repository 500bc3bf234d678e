"""SenseTime's Helios traces: the job logs (`cluster_log.csv`); their quotas are read by `quota`.

Columns: job_id, user, vc, gpu_num, cpu_num, node_num, submit_time, start_time, duration (s), and others.
"""

from __future__ import annotations

from pathlib import Path

from planner.cells import name, optional, seconds, utc, whole
from planner.sheet import Columns, read_csv
from planner.traces.log import BLANKS, Log

COLUMNS = ("job_id", "user", "vc", "gpu_num", "node_num", "submit_time", "start_time", "duration")

_count = optional(whole(0, 1_000_000), 0, *BLANKS)


def read(path: Path) -> Log:
    """Read one cluster; the default label is the virtual cluster."""
    sheet = read_csv(path)
    columns = Columns(sheet)
    columns.expect(COLUMNS)
    ids = columns.read("job_id", name)
    submitted_s = columns.read("submit_time", utc)
    started_s = columns.read("start_time", optional(utc, None, *BLANKS))
    runtime_s = columns.read("duration", optional(seconds, None, *BLANKS))
    gpus = columns.read("gpu_num", _count)
    nodes = columns.read("node_num", _count)
    cpus = columns.read("cpu_num", _count, 0)
    users = columns.read("user", optional(name, "", *BLANKS))
    columns.unique("job_id")
    columns.finish()
    return Log(
        ids,
        submitted_s,
        [d if start is not None else None for d, start in zip(runtime_s, started_s, strict=True)],
        gpus,
        labels={"vc": sheet.columns["vc"], **sheet.columns},
        calendar=True,
        nodes=nodes,
        user=users,
        cpus_milli=[1000 * x for x in cpus],
    )
