"""Node events: read strictly, drawn by chance, written as they are read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.simulation.engine import Outages
from planner.simulation.node_events import draw, read_node_events, write_node_events
from solver.state import NodeState

NAMES = ["n1", "n2", 'q"3']
HOUR = 3600


def read(tmp_path, text):
    path = tmp_path / "nodes.csv"
    path.write_text(text, encoding="utf-8")
    return read_node_events(path, NAMES)


def test_events_are_sorted_by_time_whatever_the_order_of_lines_and_columns(tmp_path):
    found = read(tmp_path, "node,state,time_s\nn2,up,90\nn1,down,30\nn2,draining,30\n")
    assert found == Outages((30, 30, 90), (0, 1, 1), (NodeState.DOWN, NodeState.DRAINING, NodeState.UP))


def test_a_header_alone_is_no_events(tmp_path):
    assert read(tmp_path, "time_s,node,state\n") == Outages()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("time_s,node,state\n-5,n1,up\n", ":2:1: time_s: "),
        ("time_s,node,state\n1.5,n1,up\n", ":2:1: time_s: "),
        ("time_s,node,state\n5,n9,up\n", ':2:3: node: "n9" is no node of the site'),
        ("time_s,node,state\n5,n1,UP\n", ':2:6: state: "UP" is unknown, write up, draining, down'),
        ("time_s,node,state\n5,n1\n", ":2:1: file: the line holds 2 cells"),
        ("time_s,node\n5,n1\n", ":1:1: state: not in the header"),
        ("time_s,node,state,why\n5,n1,up,x\n", ":1:19: why: "),
        (
            "time_s,node,state\n5,n1,up\n6,n1,up\n5,n1,down\n",
            ":4:3: node: has two states in one second, see line 2",
        ),
        ("", ":1:1: file: is empty"),
    ],
)
def test_a_fault_is_told_with_its_place_and_what_to_write(tmp_path, text, fault):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert f"nodes.csv{fault}" in str(caught.value)


def test_all_faults_are_told_at_once(tmp_path):
    with pytest.raises(InputError) as caught:
        read(tmp_path, "time_s,node,state\nx,n9,on\n7,n1,up\n,n1,up\n")
    assert [m.split(": ")[0].rpartition("nodes.csv:")[2] for m in caught.value.messages] == [
        "2:1", "2:3", "2:6", "4:1",
    ]  # fmt: skip


@given(seed=st.integers(0, 2**40), draining=st.sampled_from([0.0, 0.5, 1.0]))
def test_what_is_drawn_is_read_back_as_it_was_written(tmp_path_factory, seed, draining):
    path = tmp_path_factory.mktemp("nodes") / "nodes.csv"
    drawn = draw(NAMES, 20 * HOUR, 5 * HOUR, 96 * HOUR, seed, draining_share=draining)
    write_node_events(path, drawn, NAMES)
    assert read_node_events(path, NAMES) == drawn


@given(seed=st.integers(0, 2**40), end_s=st.integers(0, 400 * HOUR), mean_s=st.sampled_from([1, 10, HOUR]))
def test_each_node_fails_before_the_end_and_is_repaired_in_turn(seed, end_s, mean_s):
    drawn = draw(NAMES, 30 * HOUR, mean_s, end_s, seed, draining_share=0.3)
    assert list(drawn.time_s) == sorted(drawn.time_s)
    rows = list(zip(drawn.time_s, drawn.state, strict=True))
    assert all(0 < t < end_s for t, state in rows if state != NodeState.UP)
    for n in range(len(NAMES)):
        mine = [(t, s) for t, m, s in zip(drawn.time_s, drawn.node, drawn.state, strict=True) if m == n]
        assert all((state == NodeState.UP) == (k % 2 == 1) for k, (_, state) in enumerate(mine))
        assert len(mine) % 2 == 0  # nobody stays down
        assert len({t for t, _ in mine}) == len(mine)


def test_the_same_seed_draws_the_same_and_another_seed_does_not():
    draws = [draw(NAMES, HOUR, HOUR, 90 * HOUR, seed) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_the_fate_of_a_node_depends_on_no_later_node():
    few, many = draw(NAMES[:1], HOUR, HOUR, 50 * HOUR, 7), draw(NAMES, HOUR, HOUR, 50 * HOUR, 7)
    rows = list(zip(many.time_s, many.node, many.state, strict=True))
    assert list(zip(few.time_s, few.node, few.state, strict=True)) == [row for row in rows if row[1] == 0]


def test_an_earlier_end_leaves_out_failures_from_then_on_and_nothing_before():
    whole = draw(NAMES, HOUR, HOUR, 50 * HOUR, 7)
    rows = list(zip(whole.time_s, whole.node, whole.state, strict=True))
    for end_s in (t for t in whole.time_s if t <= 50 * HOUR):
        drawn = draw(NAMES, HOUR, HOUR, end_s, 7)
        some = list(zip(drawn.time_s, drawn.node, drawn.state, strict=True))
        assert set(some) <= set(rows)
        assert [r for r in some if r[0] < end_s] == [r for r in rows if r[0] < end_s]
        assert all(state == NodeState.UP for time_s, _, state in some if time_s >= end_s)


def test_times_between_failures_and_to_repair_have_the_means_asked_for():
    drawn = draw([f"n{i}" for i in range(200)], 20 * HOUR, 4 * HOUR, 2000 * HOUR, 11)
    changes: dict[int, list[int]] = {}
    for t, n in zip(drawn.time_s, drawn.node, strict=True):
        changes.setdefault(n, [0]).append(t)
    up_s = np.concatenate([np.diff(times)[::2] for times in changes.values()])
    down_s = np.concatenate([np.diff(times)[1::2] for times in changes.values()])
    assert len(up_s) > 10_000
    assert up_s.mean() == pytest.approx(20 * HOUR, rel=0.03)
    assert down_s.mean() == pytest.approx(4 * HOUR, rel=0.05)
    assert np.median(up_s) == pytest.approx(np.log(2) * 20 * HOUR, rel=0.05)
    assert np.median(down_s) == pytest.approx(np.exp(-0.5) * 4 * HOUR, rel=0.05)


def test_the_share_of_failures_that_drain_is_the_one_asked_for():
    drawn = draw([f"n{i}" for i in range(100)], HOUR, HOUR, 200 * HOUR, 5, draining_share=0.25)
    failures = [s for s in drawn.state if s != NodeState.UP]
    assert failures.count(NodeState.DRAINING) / len(failures) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("means", [(0, HOUR), (HOUR, 0), (-1, HOUR)])
def test_mean_times_below_a_second_are_refused(means):
    with pytest.raises(InputError, match="a second at least"):
        draw(NAMES, *means, HOUR, 0)
