"""A reserved start is the earliest by time limits, and nobody who starts now delays it."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.simulation.policies.backfill import RESOLUTION_S, Backfill, _Ahead
from planner.simulation.policies.base import Round
from planner.simulation.policies.serving import Serving, Shapes
from solver.state import FOREVER_S, Status
from tests.planner.simulation.policies.rounds import everybody
from tests.solver.factories import NOW_S, node, pending, running, state
from tests.solver.worlds import empty, place, seat, take

LIMITS_H = st.sampled_from([0.25, 0.5, 1, 2, 4])

allocated = {"leaf_budget": st.sampled_from(["a", "b"]), "min_runtime_h": st.just(0.25)}

queue = st.lists(
    st.builds(
        pending,
        gpus=st.sampled_from([1, 2, 4, 8]),
        replicas=st.integers(1, 4),
        required=st.sampled_from([None, None, "leaf", "node"]),
        time_limit_h=LIMITS_H,
        **allocated,
    ),
    min_size=2,
    max_size=8,
)


@st.composite
def clusters(draw):
    """Draw a busy cluster: allocated and unallocated runs, and a queue by index."""
    nodes = [node(8, leaf=draw(st.sampled_from(["l1", "l2"]))) for _ in range(draw(st.integers(2, 4)))]
    runs = [
        running(
            draw(st.sampled_from([2, 4, 8])),
            [n],
            started_h_ago=0.125,
            time_limit_h=draw(LIMITS_H),
            leaf_budget="a",
            min_runtime_h=draw(st.sampled_from([0.25, 0.25, 0])),
        )
        for n in range(len(nodes))
        if draw(st.integers(0, 3))
    ]
    waits = [(w, i) for i, w in enumerate(draw(queue))]
    return state(nodes, runs + [w for w, _ in waits], levels=["leaf"])


def earliest(world, j, busy) -> int:
    """Return when gang `j` could start first, given (end, workload, node of each replica) of all the rest."""
    for t in sorted({NOW_S, *(end for end, _, _ in busy)}):
        free = empty(world)
        for end, k, at in busy:
            if end > t:
                take(free, world, k, at)
        if place(world, free, j) is not None:
            return t
    return FOREVER_S


def served(world, most):
    """Return the board after everybody had a turn by index, and how long each may last."""
    serving = Serving(Round(world, everybody(world)), Shapes(world.workloads.count))
    backfill = Backfill(serving, world.workloads.time_limit_s, most)
    for j in serving.pending.tolist():
        backfill.take(j)
    return serving.board


@settings(max_examples=80)
@given(clusters())
def test_no_start_delays_the_earliest_start_of_the_first_that_is_blocked(world):
    w, board = world.workloads, served(world, 1)
    waits = np.flatnonzero((w.status == Status.PENDING) & ~board.standing)
    assume(len(waits))
    first = int(waits[0])
    stands = np.flatnonzero((w.status == Status.RUNNING) & w.allocated).tolist()
    runs = [(int(w.started_s[k] + w.time_limit_s[k]), k, seat(w.placement, k)) for k in stands]
    new = {
        k: (NOW_S + int(w.time_limit_s[k]), k, [n for n, reps in parts for _ in range(reps)])
        for k, parts in board.starts.items()
    }
    before = runs + [start for k, start in new.items() if k < first]
    with_all = runs + list(new.values())
    assert earliest(world, first, with_all) == earliest(world, first, before)


@settings(max_examples=60)
@given(clusters(), st.data())
def test_a_reservation_is_for_the_earliest_time_at_which_the_gang_fits(world, data):
    w = world.workloads
    serving = Serving(Round(world, everybody(world)), Shapes(w.count))
    j = data.draw(st.sampled_from(serving.pending.tolist()))
    found = _Ahead(serving, w.time_limit_s).earliest(j, np.ones(world.nodes.count, dtype=bool))
    runs = np.flatnonzero((w.status == Status.RUNNING) & w.allocated).tolist()
    busy = [
        (max(int(w.started_s[k] + w.time_limit_s[k]), NOW_S + RESOLUTION_S), k, seat(w.placement, k))
        for k in runs
    ]
    assert (FOREVER_S if found is None else found[0]) == earliest(world, j, busy)


def test_with_one_reservation_the_second_blocked_gang_may_be_delayed_and_with_two_it_is_not():
    busy = [running(8, [n], min_runtime_h=0.25, time_limit_h=h, started_h_ago=0) for n, h in [(0, 1), (1, 2)]]
    first = pending(8, 2, min_runtime_h=0.25, required="leaf", time_limit_h=1)
    second = pending(8, 2, min_runtime_h=0.25, required="leaf", time_limit_h=1)
    late = pending(8, min_runtime_h=0.25, time_limit_h=2.5)
    nodes = [node(8, leaf="l1"), node(8, leaf="l2"), node(8, leaf="l1"), node(8, leaf="l2")]
    world = state(nodes, [*busy, first, second, late], levels=["leaf"])
    assert list(served(world, 1).starts) == [4]
    assert not served(world, 2).starts


def test_nothing_is_worked_out_while_nobody_could_overtake():
    world = state(
        [node(8)],
        [running(8, [0], min_runtime_h=4), *(pending(4, min_runtime_h=1) for _ in range(5))],
    )
    serving = Serving(Round(world, everybody(world)), Shapes(6))
    backfill = Backfill(serving, world.workloads.time_limit_s, 8)
    for j in serving.pending.tolist():
        backfill.take(j)
    assert backfill.blocked == [1, 2, 3, 4, 5]
    assert (backfill.hold_s == FOREVER_S).all()
