"""The allocations as managers see them: exact use, what was owed, and the order by ratio."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.random_snapshots import random_case
from planner.model.plan import ShareRow
from planner.shares import share_rows
from solver.state import Status
from tests.planner.worlds import World, world


def rows_of(w: World) -> dict[str, ShareRow]:
    """Rows by allocation, as things stand before a round."""
    encoded = w.encoded()
    standing = encoded.state.workloads.status != Status.PENDING
    return {row.allocation: row for row in share_rows(encoded, standing)}


def test_an_allocation_has_a_row_with_its_share_use_and_entitlement():
    family = [
        {"name": "l", "weight": 3, "children": [{"name": "x"}, {"name": "y", "weight": 2}]},
        {"name": "v"},
    ]
    rows = rows_of(world(family, "n[1-3]", usage={"l/x": 123.456, "v": 1512}))
    assert list(rows) == ["l/x", "l/y", "v"]
    assert [r.share for r in rows.values()] == pytest.approx([1 / 4, 1 / 2, 1 / 4], abs=1e-9)
    assert [r.entitled for r in rows.values()] == [1008, 2016, 1008]
    assert [r.usage for r in rows.values()] == [123.456, 0, 1512]
    assert [r.delivered for r in rows.values()] == [123.456, 0, 1512]
    assert [r.ratio for r in rows.values()] == pytest.approx([0.122476, 0, 1.5], abs=1e-6)


def test_the_ratio_holds_no_commitments():
    w = world(workloads=[{"id": "r", "on": "n1", "ran": "10m", "min_runtime": "8h"}], usage={"a": 100})
    assert rows_of(w)["a"].ratio == 100 / (16 * 168)


def test_ranks_go_by_ratio_then_by_name_and_who_has_no_share_comes_last():
    rows = rows_of(world({"z": 0, "d": 1, "c": 1, "b": 1}, ratios={"b": 0.5, "c": 0.2, "d": 0.5}))
    assert {k: r.rank for k, r in rows.items()} == {"c": 1, "b": 2, "d": 3, "z": 4}
    assert rows["z"].ratio is None


@pytest.mark.parametrize(
    ("usage", "gpus_wanted", "owed"),
    [
        (0, 0, 0),  # nothing was asked for
        (0, 8, 1344),  # half of its 16 GPUs, all week
        (0, 16, 2688),  # all of them
        (0, 64, 2688),  # no more than its share
        (500, 0, 500),  # what it got it has asked for
        (9000, 0, 2688),
    ],
)
def test_what_is_owed_is_the_smaller_of_share_and_demand(usage: float, gpus_wanted: int, owed: float):
    jobs = [{"id": f"j{i}"} for i in range(gpus_wanted // 8)]
    rows = rows_of(world(workloads=jobs, usage={"a": usage}))
    assert rows["a"].owed == owed


def test_unallocated_work_is_no_demand_and_is_counted_apart():
    w = world(
        workloads=[
            {"id": "r", "on": "n1", "gpus": 4},
            {"id": "u", "on": "n2", "gpus": 2, "min_runtime": "0s"},
            {"id": "p", "gpus": 3},
            {"id": "q", "gpus": 5, "min_runtime": "0s"},
        ]
    )
    row = rows_of(w)["a"]
    assert (row.running_gpus, row.unallocated_gpus, row.pending_gpus) == (4, 2, 3)
    assert row.owed == 7 * 168


def test_the_shares_of_a_plan_count_what_it_leaves():
    w = world(
        nodes="n1",
        workloads=[{"id": "r", "allocation": "b", "on": "n1"}, {"id": "j"}],
        ratios={"a": 0.1, "b": 1.9},
    )
    rows = {row.allocation: row for row in w.plan().shares}
    assert (rows["a"].running_gpus, rows["a"].pending_gpus) == (8, 0)
    assert (rows["b"].running_gpus, rows["b"].pending_gpus) == (0, 0)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_owed_lies_between_what_was_used_and_what_is_entitled(seed: int):
    w = World(*random_case(seed))
    rows = rows_of(w)
    assert sorted(r.rank for r in rows.values()) == list(range(1, len(rows) + 1))
    assert sum(r.share for r in rows.values()) == pytest.approx(1, abs=1e-7)
    for r in rows.values():
        assert min(r.usage, r.entitled) <= r.owed <= r.entitled
        assert (r.ratio is None) == (r.entitled == 0)


def test_a_cluster_without_gpus_owes_nothing():
    rows = rows_of(world(nodes=[{"name": "n", "gpus": 0, "cpus": 8}], workloads=[{"id": "j"}]))
    assert all((r.owed, r.ratio) == (0, None) for r in rows.values())
    assert np.isfinite([r.share for r in rows.values()]).all()
