"""Quotas: what holds on a day, and that the changes add up to it."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cells import utc
from planner.errors import InputError
from planner.traces.quota import Quota, is_quota, read_quota, write_changes
from tests.planner.faults import refusal
from tests.planner.traces.logs import HELIOS, QUOTA, put

DAY_S = 86_400
FIRST_S = utc("2020-06-01 00:00")


def test_a_table_by_day_is_read_in_the_order_of_the_days(tmp_path):
    path = put(tmp_path, "q.csv", QUOTA)
    quota = read_quota(path)
    assert quota.day_s == tuple(FIRST_S + k * DAY_S for k in range(3))
    assert quota.weights == ({"vcA": 16, "vcB": 32}, {"vcA": 16, "vcB": 48}, {"vcA": 0, "vcB": 48})
    assert is_quota(path)
    assert not is_quota(put(tmp_path, "log.csv", HELIOS))


@pytest.mark.parametrize(("hours", "row"), [(-100, 0), (0, 0), (23, 0), (24, 1), (49, 2), (10_000, 2)])
def test_a_day_holds_until_the_next(tmp_path, hours, row):
    quota = read_quota(put(tmp_path, "q.csv", QUOTA))
    assert quota.at(FIRST_S + hours * 3600) == quota.weights[row]


def test_names_with_their_nodes_are_a_quota_without_days(tmp_path):
    quota = read_quota(put(tmp_path, "q.csv", "vc,node num\n6214e9,64\nblue,8\n"))
    assert quota.at(0) == quota.at(10**9) == {"6214e9": 64, "blue": 8}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8),
    st.integers(0, 9),
    st.integers(1, 9),
)
def test_changes_replayed_are_what_holds_at_every_hour(rows, begin_day, days):
    quota = Quota(
        tuple(FIRST_S + k * DAY_S for k in range(len(rows))), tuple({"a": a, "b": b} for a, b in rows)
    )
    begin_s = FIRST_S + begin_day * DAY_S // 2
    changes = list(quota.changes(begin_s, begin_s + days * DAY_S))
    assert all(0 <= time_s < days * DAY_S for time_s, _, _ in changes)
    for hour in range(0, days * 24, 5):
        held = {name: weight for time_s, name, weight in changes if time_s <= hour * 3600}
        assert held == quota.at(begin_s + hour * 3600)
    assert len(changes) == len(set(changes))


def test_weights_over_time_are_written_as_a_table(tmp_path):
    quota = read_quota(put(tmp_path, "q.csv", QUOTA))
    assert write_changes(tmp_path / "w.csv", quota, FIRST_S, None) == 4
    with (tmp_path / "w.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["time_s", "allocation", "weight"],
        ["0", "vcA", "16"],
        ["0", "vcB", "32"],
        ["86400", "vcB", "48"],
        ["172800", "vcA", "0"],
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (QUOTA.replace("2020-06-02", "June"), ":2:1: date: "),
        (QUOTA.replace("2020-06-02", "2020-06-01"), ":3:1: date: "),
        (QUOTA.replace("2020-06-02,16", "2020-06-02,-16"), ":2:12: vcA: "),
        ("vc,nodes\na,x\n", ":2:3: nodes: "),
        ("vc,nodes\na,1\na,2\n", ":3:1: vc: "),
    ],
)
def test_a_damaged_table_is_refused_with_its_place(tmp_path, text, said):
    path = put(tmp_path, "q.csv", text)
    assert refusal(read_quota, path)[0].startswith(f"{path}{said}")


@pytest.mark.parametrize("text", ["a,b,c\n1,2,3\n", "a,b\n", "date,a,total\n"])
def test_another_table_is_refused(tmp_path, text):
    with pytest.raises(InputError, match="is no table of quotas"):
        read_quota(put(tmp_path, "q.csv", text))
