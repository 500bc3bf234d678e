"""For whom runs made way, told from a simulation's events."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.losses import FOR, between_evictions_s, causes

EVENTS = [
    (60, "small", "preempt", 2, "n1:2", 100),
    (60, "wide", "preempt", 16, "n1:6|n2:8|n3:2", 1000),
    (60, "gang", "start", 16, "n1:8|n2:8", 0),
    (60, "debug", "start", 2, "n3:2", 0),
    (90, "gang", "preempt", 16, "n1:8|n2:8", 500),
    (90, "next", "start", 8, "n2:8", 0),
    (99, "idle", "start", 8, "n1:8", 0),
    (120, "next", "preempt", 8, "n2:8", 7),
]


@pytest.fixture
def case(tmp_path: Path) -> Path:
    columns = ["time_s", "workload", "event", "gpus", "nodes", "lost_gpu_s"]
    pd.DataFrame(EVENTS, columns=columns).to_parquet(tmp_path / "events.parquet")
    met = pd.DataFrame({"workload": ["gang", "other"], "actual_start_s": [60.0, None]})
    met.to_parquet(tmp_path / "promises.parquet")
    return tmp_path


def test_a_run_that_made_way_counts_once_and_for_the_promised_start_first(case):
    found = causes(case)
    assert found["evicted_gpus"].to_dict() == dict(zip(FOR, (18, 16, 8), strict=True))
    assert found["lost_gpu_s"].to_dict() == dict(zip(FOR, (1100, 500, 7), strict=True))


def test_starts_are_those_that_took_nodes_which_others_had_to_leave(case):
    found = causes(case)
    assert found["starts"].to_dict() == dict(zip(FOR, (1, 2, 0), strict=True))
    assert found["gpus"].to_dict() == dict(zip(FOR, (16, 10, 0), strict=True))


def test_a_gpu_is_held_between_evictions_for_all_that_is_held_over_all_gpus_evicted(case):
    pd.DataFrame({"delivered_gpu_s": [4200, 4200]}).to_parquet(case / "workloads.parquet")
    assert between_evictions_s(case) == 8400 / (2 + 16 + 16 + 8)
