"""What the arrays of a round say of themselves."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from solver.state import Status
from tests.solver.factories import node, pending, running, state
from tests.solver.worlds import seat, worlds

SHAPE = ("replicas", "gpus_per_replica", "cpus_milli", "memory_bytes", "required", "segment", "min_runtime_s")


@given(worlds())
def test_pending_workloads_are_of_one_kind_exactly_if_a_search_sees_no_difference(world):
    w = world.workloads
    rows = [(*(int(getattr(w, x)[j]) for x in (*SHAPE, "allocated")), *w.pool_ok[j]) for j in range(w.count)]
    waits = w.status == Status.PENDING
    for i in range(w.count):
        assert (w.kind[i] >= 0) == waits[i]
        for j in range(w.count):
            assert not waits[i] or not waits[j] or (w.kind[i] == w.kind[j]) == (rows[i] == rows[j])


@given(worlds())
def test_parts_know_their_workload(world):
    w = world.workloads
    seats = [np.flatnonzero(w.owner == j) for j in range(w.count)]
    again = [np.repeat(w.placement.node[k], w.placement.replicas[k]).tolist() for k in seats]
    assert again == [seat(w.placement, j) for j in range(w.count)]


@given(st.lists(st.sampled_from(["t/a", "t/b", "c", -1]), max_size=6))
def test_a_subtree_holds_what_its_leaves_hold_and_unknown_allocations_count_nowhere(leaves):
    work = [running(2**i, [0], leaf_budget=leaf) for i, leaf in enumerate(leaves)]
    world = state([node(64)], [*work, pending(1, leaf_budget="c")], shares={"t/a": 0.5, "t/b": 0.2, "c": 0.3})
    b, w = world.budgets, world.workloads
    sums = b.subtree_sums(w.leaf, w.gpus)
    for v in range(b.count):
        below = [j for j in range(w.count) if v in b.path(int(w.leaf[j]))]
        assert sums[v] == sum(int(w.gpus[j]) for j in below)


@given(worlds())
def test_every_workload_either_waits_or_runs_or_was_told_to_stop(world):
    w = world.workloads
    said = {Status.PENDING: w.pending, Status.RUNNING: w.running, Status.STOPPING: w.stopping}
    for j, status in enumerate(w.status.tolist()):
        assert [s for s, there in said.items() if there[j]] == [status]
