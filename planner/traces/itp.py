"""Microsoft ITP (ElasticFlow's raw traces): a CSV file a cluster, with nothing of teams but its name.

Columns: job_id, submission_time (seconds from the start of the collection), duration (seconds), num_gpu.
"""

from __future__ import annotations

from pathlib import Path

from planner.cells import name, seconds, whole
from planner.sheet import Columns, read_csv
from planner.traces.log import Log, stem

COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")


def read(path: Path) -> Log:
    """Read one cluster; the label `cluster` is the name of the file."""
    sheet = read_csv(path)
    columns = Columns(sheet)
    columns.expect(COLUMNS)
    ids = columns.read("job_id", name)
    submitted_s = columns.read("submission_time", seconds)
    runtime_s = columns.read("duration", seconds)
    gpus = columns.read("num_gpu", whole(0, 1_000_000))
    columns.unique("job_id")
    columns.finish()
    labels = {"cluster": [stem(path)] * sheet.count, **sheet.columns}
    return Log(ids, submitted_s, [*runtime_s], gpus, labels, calendar=False)
