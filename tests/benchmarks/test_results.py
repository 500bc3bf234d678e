"""benchmarks.results."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.results import promises_kept

END_S, PERIOD_S = 10_000, 300


@pytest.fixture
def case(tmp_path: Path) -> Path:
    promises = pd.DataFrame(
        {
            "workload": ["in time", "early", "a round late", "never, overdue", "never, not due", "cancelled"],
            "start_s": [1000, 1000, 1000, 1000, 12_000, 1000],
            "actual_start_s": [1299, 400, 1300, None, None, None],
        }
    ).astype({"actual_start_s": "Int64"})
    promises.to_parquet(tmp_path / "promises.parquet")
    ended_s = pd.array([5000, 5000, 5000, None, None, 900], dtype="Int64")
    pd.DataFrame({"id": promises["workload"], "end_s": ended_s}).to_parquet(tmp_path / "workloads.parquet")
    return tmp_path


def test_a_promise_that_a_later_round_met_counts_as_broken(case: Path) -> None:
    # of those whose time came two were kept, one was late and one overdue at the end
    assert promises_kept(case, end_s=END_S, period_s=PERIOD_S) == 2 / 4
