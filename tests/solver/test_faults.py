"""A round whose back ends run out of memory ends in time, with a checked plan that says what happened."""

from __future__ import annotations

import time

import numpy as np
import pytest

from solver.check import check
from solver.decide import decide
from solver.state import Action, SolveParams
from tests.solver.factories import node, pending, state

WORLD = state(
    [node(8)] * 2,
    [pending(8, 2, submitted_h_ago=9, min_runtime_h=1), pending(8, submitted_h_ago=5, min_runtime_h=1)],
    entitled_gpu_h={"a": 10**6, "b": 10**6},
)


def fills_the_memory(model, **_):
    hoard = []
    while True:
        hoard.append(np.empty(1 << 30, dtype=np.uint8))  # never touched: the machine does not notice


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("highs", "highs: out of memory"),
        ("cp-sat", "cp-sat: out of memory"),
        ("auto", "highs: out of memory; cp-sat: out of memory"),
    ],
)
def test_a_round_whose_back_end_runs_out_of_memory_is_checked_and_in_time_and_says_so(
    monkeypatch, name, note
):
    monkeypatch.setattr("solver.milp.solve", fills_the_memory)
    monkeypatch.setattr("solver.cpsat.solve", fills_the_memory)
    began_s = time.monotonic()
    outcome = decide(WORLD, SolveParams(name, 5.0, 1e-6))
    assert time.monotonic() - began_s < 7
    assert check(WORLD, outcome.decisions) == []
    assert note in outcome.report.notes
    assert (outcome.report.backend, outcome.report.status) == ("greedy", "greedy")
    assert (outcome.decisions.action == Action.START).any()


def test_where_one_back_end_runs_out_of_memory_auto_asks_the_other(monkeypatch):
    monkeypatch.setattr("solver.milp.solve", fills_the_memory)
    report = decide(WORLD, SolveParams("auto", 20.0, 1e-6)).report
    assert (report.status, report.backend) == ("optimal", "cp-sat")
