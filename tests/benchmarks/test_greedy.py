"""The simulated minute of the greedy benchmark is a lawful one, and its phases are timed."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import greedy
from benchmarks.greedy import PHASES, minute_later, one_round, steady, waiting_in
from solver import decide as round_
from solver.state import Action, NodeState, Status
from tests.solver.seeded import instance_state

STATE = instance_state(16, 60, 1)


def held(state) -> np.ndarray:
    """GPUs given out on each node."""
    p = state.workloads.placement
    return np.bincount(p.node, p.gpus, state.nodes.count)


@pytest.mark.parametrize("seed", range(3))
def test_a_minute_later_what_was_decided_is_so(seed):
    outcome, _ = one_round(STATE)
    action = outcome.decisions.action
    later = minute_later(STATE, outcome, waiting_in(STATE), np.random.default_rng(seed))
    w = later.workloads
    running = int(np.isin(action, [Action.START, Action.KEEP]).sum())
    assert later.now_s == STATE.now_s + 60
    assert running - 2 <= (w.status == Status.RUNNING).sum() < running
    assert (held(later) <= later.nodes.gpus).all()
    assert (np.diff(w.placement.ptr)[w.status == Status.PENDING] == 0).all()
    started = (w.started_s == STATE.now_s) & (w.status == Status.RUNNING)
    assert started.sum() >= (action == Action.START).sum() - 2
    assert (w.protected_until_s[started & w.allocated] > STATE.now_s).all()
    assert (later.budgets.usage[0] != STATE.budgets.usage[0]) == (later.nodes.state == NodeState.UP).any()


def test_a_cluster_stays_full_while_work_waits():
    _, last = steady(STATE, 20, 1)
    healthy = last.nodes.state == NodeState.UP
    assert held(last)[healthy].sum() >= 0.9 * last.nodes.gpus[healthy].sum()


def test_phases_are_parts_of_the_whole_and_leave_nothing_behind():
    before = vars(round_).copy()
    _, spent = one_round(STATE)
    assert 0 < sum(spent[phase] for phase in PHASES) <= spent["whole"]
    assert vars(round_) == before


def test_the_table_has_a_line_for_each_world(capsys, monkeypatch):
    monkeypatch.setattr(
        "sys.argv", ["greedy", "--sizes", "16/60", "--seeds", "1", "--times", "1", "--minutes", "3"]
    )
    assert greedy.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[3] for line in lines[2:]] == ["snapshot", "steady"]
    assert len({line.count("|") for line in lines}) == 1
