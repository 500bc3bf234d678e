"""From a log to a trace: windows, shapes and names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.simulation.tracefile import read_trace, write_trace
from planner.traces.convert import DAY_S, Wishes, convert
from planner.traces.log import Log
from tests.planner.simulation.traces import same

EPOCH_S = 1_600_000_000
MOMENTS = st.one_of(st.integers(0, 4).map(lambda day: day * DAY_S), st.integers(0, 4 * DAY_S))
"""Within four days, and often right between two of them."""


def log(submitted_s: list[int], calendar: bool = False, **columns) -> Log:
    n = len(submitted_s)
    ids = [f"j{i}" for i in range(n)]
    labels = columns.pop("labels", {"team": ["a"] * n})
    return Log(ids, submitted_s, columns.pop("runtime_s", [60] * n), columns.pop("gpus", [1] * n), labels,
               calendar, **columns)  # fmt: skip


@given(
    st.lists(MOMENTS, min_size=1, max_size=12),
    MOMENTS,
    st.integers(1, 3),
    st.booleans(),
)
def test_a_window_holds_what_was_submitted_in_it_and_counts_from_its_begin(times, offset_s, days, calendar):
    shift = EPOCH_S if calendar else 0
    wishes = Wishes(begin=f"{offset_s}s", days=days)
    begin_s = (min(times) if calendar else 0) + offset_s
    inside = {f"j{i}": t - begin_s for i, t in enumerate(times) if begin_s <= t < begin_s + days * DAY_S}
    made = log([t + shift for t in times], calendar)
    if not inside:
        with pytest.raises(InputError, match="no job was submitted in this window"):
            convert(made, wishes)
        return
    found = convert(made, wishes)
    assert dict(zip(found.trace.id, found.trace.submitted_s.tolist(), strict=True)) == inside
    assert found.begin_s == begin_s + shift
    assert found.notes.get("left out: outside the window", 0) == len(times) - len(inside)


def test_a_window_may_begin_at_a_time_where_the_log_has_a_calendar():
    made = log([EPOCH_S, EPOCH_S + 100], calendar=True)
    found = convert(made, Wishes(begin="2020-09-13T12:26:50Z"))
    assert found.trace.submitted_s.tolist() == [90]


@pytest.mark.parametrize(
    ("begin", "calendar", "said"),
    [
        ("2020-09-13T12:26:50Z", False, "write a duration from its start"),
        ("2020-09-13", True, "write 2020-09-13T00:00:00Z"),
        ("2020-09-13 12:00", True, "has no time zone"),
        ("26", False, "has no unit"),
        ("soon", True, "is not a duration"),
        ("9d", False, "choose one from 5s to 1d"),
        ("9d", True, "choose one from 2020-09-13T12:26:45Z to 2020-09-14T12:26:40Z"),
    ],
)
def test_a_begin_that_is_none_is_refused(begin, calendar, said):
    shift = EPOCH_S if calendar else 0
    with pytest.raises(InputError, match="--from: ") as caught:
        convert(log([shift + 5, shift + DAY_S], calendar), Wishes(begin=begin))
    assert said in str(caught.value)


@given(st.integers(1, 300), st.integers(0, 40), st.integers(1, 16))
def test_a_gang_keeps_its_shape_if_it_ran_evenly_and_else_fills_whole_nodes(gpus, nodes, per_node):
    found = convert(log([0], gpus=[gpus], nodes=[nodes]), Wishes(gpus_per_node=per_node))
    replicas, each = int(found.trace.replicas[0]), int(found.trace.gpus_per_replica[0])
    assert each <= per_node
    if nodes and gpus % nodes == 0 and gpus // nodes <= per_node:
        assert (replicas, each) == (nodes, gpus // nodes)
    elif gpus <= per_node:
        assert (replicas, each) == (1, gpus)
    else:
        assert each == per_node
        assert (replicas - 1) * per_node < gpus <= replicas * per_node
    grown = replicas * each - gpus
    changed = [note for note in found.notes if note.startswith("changed: rounded up")]
    assert changed == ([f"changed: rounded up to whole nodes, {grown} GPUs in all"] if grown else [])


def test_names_can_stand_in_a_trace_file(tmp_path):
    trace = convert(log([0], labels={"vc": ["a\ufeff b\x85/"]}, user=["u\ufeff"]), Wishes()).trace
    assert (trace.allocation, trace.user) == (("a-b-",), ("u",))
    write_trace(trace, tmp_path / "t.csv")
    assert same(read_trace(tmp_path / "t.csv"), trace)


def test_a_window_of_more_than_a_hundred_years_is_refused():
    with pytest.raises(InputError, match='"j1": was submitted more than a hundred years after'):
        convert(log([0, 37_000 * DAY_S]), Wishes())


def test_absurd_amounts_are_capped_at_what_a_trace_may_hold(tmp_path):
    trace = convert(log([0], cpus_milli=[10**30], memory_bytes=[10**30]), Wishes()).trace
    write_trace(trace, tmp_path / "t.csv")
    assert same(read_trace(tmp_path / "t.csv"), trace)


def test_allocations_are_the_first_label_or_the_one_that_was_asked_for():
    labels = {"vc": ["x", "y"], "user": ["u 1", "a/b"]}
    made = log([0, 1], labels=labels)
    assert convert(made, Wishes()).trace.allocation == ("x", "y")
    assert convert(made, Wishes(allocation_from="user")).trace.allocation == ("u-1", "a-b")
    with pytest.raises(InputError, match='"usr" is not a column of this log, write user'):
        convert(made, Wishes(allocation_from="usr"))


@pytest.mark.parametrize("unsaid", ["", " ", "None", "-1"])
def test_work_of_nobody_is_charged_to_unknown(unsaid):
    assert convert(log([0], labels={"vc": [unsaid]}), Wishes()).trace.allocation == ("unknown",)


def test_amounts_of_a_job_are_shared_by_its_replicas():
    made = log([0], gpus=[16], nodes=[2], cpus_milli=[96_000], memory_bytes=[1 << 40])
    trace = convert(made, Wishes()).trace
    assert trace.cpus_milli_per_replica.tolist() == [48_000]
    assert trace.memory_bytes_per_replica.tolist() == [1 << 39]


def test_a_log_of_nothing_that_ran_on_gpus_is_refused():
    with pytest.raises(InputError, match="no job of the log ran on GPUs"):
        convert(log([0, 1], runtime_s=[None, 5], gpus=[1, 0]), Wishes())


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99_999), st.integers(1, 64)), min_size=1))
def test_an_imported_trace_is_written_and_read_as_it_is(tmp_path_factory, jobs):
    times, runs, gpus = map(list, zip(*jobs, strict=True))
    trace = convert(log(times, runtime_s=runs, gpus=gpus), Wishes(seed=4)).trace
    path = tmp_path_factory.getbasetemp() / "imported.csv"
    write_trace(trace, path)
    assert same(read_trace(path), trace)
