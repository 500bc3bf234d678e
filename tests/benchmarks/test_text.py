"""What the generators write is read back by other code as what was meant."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from benchmarks import text
from tests.benchmarks import format_rules


@given(st.integers(0, 10**7))
def test_durations_mean_the_seconds_they_were_made_from(length: int):
    assert format_rules.seconds(text.duration(length)) == length == text.seconds(text.duration(length))


@given(st.integers(0, 2**32))
def test_times_mean_the_second_they_were_made_from(time_s: int):
    assert format_rules.when(text.iso(time_s)) == datetime.fromtimestamp(time_s, tz=UTC)


@given(st.sets(st.integers(1, 300), min_size=1))
def test_hostlists_name_each_node_once_in_order(numbers: set[int]):
    folded = text.hostlist("n-", sorted(numbers), 3)
    assert format_rules.expand(folded) == [f"n-{k:03d}" for k in sorted(numbers)]


def test_runs_of_nodes_are_folded():
    assert text.hostlist("n-", [1, 2, 3, 7, 9, 10], 3) == "n-[001-003,007,009-010]"
