"""Whole rounds: every rung keeps the rules, and there is a plan whatever happens to a solver."""

from __future__ import annotations

import math
import os
import signal
import time
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver import backends
from solver.board import Board
from solver.check import check
from solver.decide import decide, opening
from solver.exact import exact
from solver.feasible import rejections
from solver.holds import worth
from solver.linear import Solution, no_answer
from solver.shares import WITHIN
from solver.state import Action, NodeState, SolveParams, State, Status
from tests.solver.factories import NOW_S, node, pending, promise, renumbered, running, state
from tests.solver.oracles import order_of, permuted, tier_worlds, waiting
from tests.solver.reading import Reading
from tests.solver.seeded import back_end, instance_state, random_state
from tests.solver.worlds import seat, worlds

PAST = {"min_runtime_h": 1, "started_h_ago": 5}
ASK = {"min_runtime_h": 1}
SEEDS = range(150)
EXACT = 1e-9


@pytest.fixture
def here(monkeypatch):
    """Solve in this process: a fork for each tiny model would be most of the time."""
    solve = backends.solve

    def in_process(model, name, time_limit_s, gap, start=None):
        return solve(model, name, time_limit_s, gap, start, isolated=False)

    monkeypatch.setattr(backends, "solve", in_process)


def behind(a: tuple[float, ...], b: tuple[float, ...], gap: float = 1e-6) -> bool:
    """Tell whether objective `a` is below `b`, tier by tier, by more than the gap."""
    for x, y in zip(a, b, strict=True):
        if abs(x - y) > gap * max(abs(x), abs(y), 1.0):
            return x < y
    return False


# --- the rules --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["greedy", "highs", "cp-sat"])
def test_no_plan_of_150_random_worlds_breaks_a_rule(backend, here):
    for seed in SEEDS:
        outcome = decide(random_state(seed), SolveParams(backend, 20.0, 1e-4))
        assert check(random_state(seed), outcome.decisions, set(outcome.book.moved)) == [], seed
        assert outcome.broken == []
        assert not [note for note in outcome.report.notes if "broke a rule" in note], seed


@settings(max_examples=80)
@given(worlds())
def test_nor_does_a_slow_reading_find_a_broken_rule(world):
    outcome = decide(world, SolveParams("greedy"))
    left = Reading(world, outcome.decisions).broken()
    assert left <= ({"promise_moved"} if outcome.book.moved else set())


def test_protected_work_stands_where_it_stood_and_everybody_has_a_decision():
    for seed in SEEDS:
        world = random_state(seed)
        w, plan = world.workloads, decide(world, SolveParams("greedy")).decisions
        for j in np.flatnonzero(world.protected).tolist():
            down = any(world.nodes.state[i] == NodeState.DOWN for i in seat(w.placement, j))
            assert plan.action[j] == (Action.PREEMPT if down else Action.KEEP)
        legal = {
            Status.PENDING: {Action.START, Action.WAIT, Action.REJECT},
            Status.RUNNING: {Action.KEEP, Action.PREEMPT},
            Status.STOPPING: {Action.PREEMPT},
        }
        assert all(
            a in legal[Status(s)] for a, s in zip(plan.action.tolist(), w.status.tolist(), strict=True)
        )


def test_a_forecast_lies_ahead_and_is_the_promise_where_there_is_one():
    seen = 0
    for seed in SEEDS:
        outcome = decide(random_state(seed), SolveParams("greedy"))
        d, expected = outcome.decisions, outcome.expected_start_s
        assert (expected[d.promised] == d.promised_start_s).all()
        assert ((expected == -1) | (expected >= random_state(seed).now_s)).all()
        assert (d.action[expected >= 0] != Action.START).all()
        seen += int((expected >= 0).sum())
    assert seen > 100


# --- relations --------------------------------------------------------------------------------------------


def plain(seed: int) -> State:
    """Return a random world without ties by name: nothing is promised, was lost, or submitted together."""
    world = random_state(seed)
    world = replace(world, nodes=replace(world.nodes, state=world.nodes.state * 0))
    w, p = world.workloads, world.promises
    nobody = replace(p, workload=p.workload[:0], start_s=p.start_s[:0], placement=type(p.placement).of([]))
    apart = replace(w, submitted_s=w.submitted_s - np.arange(w.count))
    return replace(
        world, workloads=apart, promises=nobody, policy=replace(world.policy, lane_gpus=0, reservations=0)
    )


@pytest.mark.parametrize("seed", range(30))
def test_numbering_nodes_and_workloads_otherwise_changes_no_decision(seed, here):
    world, rng = plain(seed), np.random.default_rng(seed)
    plan = decide(world, SolveParams("highs", 20.0, EXACT)).decisions
    nodes, turn = (rng.permutation(k).tolist() for k in (world.nodes.count, world.workloads.count))
    moved = decide(renumbered(world, nodes), SolveParams("highs", 20.0, EXACT)).decisions
    assert moved.action.tolist() == plan.action.tolist()
    renamed = decide(permuted(world, turn), SolveParams("highs", 20.0, EXACT)).decisions
    assert renamed.action.tolist() == plan.action[turn].tolist()


@pytest.mark.parametrize("backend", ["greedy", "highs", "cp-sat"])
def test_the_same_world_gives_the_same_plan(backend, here):
    for seed in range(20):
        one, two = (decide(random_state(seed), SolveParams(backend, 20.0, 1e-4)).decisions for _ in range(2))
        assert one.action.tolist() == two.action.tolist()
        assert one.victims_for == two.victims_for
        for a, b in ((one.placement, two.placement), (one.promised_placement, two.promised_placement)):
            assert all(np.array_equal(x, y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True))


def with_free_node(board: Board, like: int) -> Board:
    """Return the board of the same world, order and prices with one more node like `like`, empty and up."""
    n = board.state.nodes
    columns = {f.name: getattr(n, f.name) for f in fields(n)}
    more = {name: np.append(x, x[like]) for name, x in columns.items() if x.shape == n.gpus.shape}
    nodes = replace(n, **more | {"domain": np.column_stack((n.domain, n.domain[:, like]))})
    nodes.state[-1] = NodeState.UP
    out = Board(replace(board.state, nodes=nodes), board.order)
    out.hold_s[:-1] = board.hold_s
    return out


@settings(max_examples=80)
@given(tier_worlds(), st.data())
def test_a_free_node_never_lowers_the_objective_where_entitlements_and_prices_stay(board, data):
    like = data.draw(st.integers(0, board.state.nodes.count - 1))
    js = np.concatenate([waiting(board, tier) for tier in (0, 1)])
    tier = WITHIN if len(waiting(board, WITHIN)) else 1
    deadline_s = time.monotonic() + 20
    before = exact(board, js, back_end("highs"), deadline_s, EXACT)[0].objective()[tier]
    after = exact(with_free_node(board, like), js, back_end("highs"), deadline_s, EXACT)[0].objective()[tier]
    assert after >= before - 1e-6 * max(1, abs(before))


def test_an_exact_plan_is_never_behind_the_greedy_one(here):
    better = 0
    for seed in range(80):
        world = random_state(seed)
        ours, theirs = (
            worth(decide(world, SolveParams(backend, 20.0, 1e-6)).board) for backend in ("highs", "greedy")
        )
        assert not behind(ours, theirs, 1e-9), seed
        better += behind(theirs, ours)
    assert better > 4


def test_what_the_report_says_is_true(here):
    for seed in range(60):
        outcome = decide(random_state(seed), SolveParams("highs", 20.0, 1e-4))
        report = outcome.report
        assert report.objective == pytest.approx(sum(outcome.board.objective()[:2]))
        assert report.status in ("optimal", "feasible", "greedy")
        if report.bound is not None:
            assert report.bound >= report.objective - 1e-9
            assert report.gap == pytest.approx(
                (report.bound - report.objective) / max(abs(report.bound), 1e-9)
            )
            assert (report.status == "optimal") == (report.gap <= 1e-4)


# --- small stories ----------------------------------------------------------------------------------------


def actions(world: State, backend: str = "greedy") -> list[str]:
    outcome = decide(world, SolveParams(backend, 20.0, 1e-6))
    assert outcome.broken == []
    return [Action(a).name.lower() for a in outcome.decisions.action]


def test_every_victim_says_for_whom():
    work = [
        running(8, [0], leaf_budget="b", **PAST),
        running(8, [1], allocated=False),
        pending(8, 2, leaf_budget="a", **ASK),
    ]
    world = state([node(8)] * 2, work, ratios={"a": 0.1, "b": 3.0}, entitled_gpu_h={"a": 10**6, "b": 10**6})
    plan = decide(world, SolveParams("highs", 20.0, 1e-6)).decisions
    assert plan.victims_for == {0: [2], 1: [2]}


@pytest.mark.parametrize("backend", ["greedy", "highs"])
def test_what_can_never_run_is_rejected_and_what_only_an_outage_stops_waits(backend):
    work = [pending(8, **ASK), pending(16, **ASK), pending(8, 2, **ASK)]
    assert actions(state([node(8), node(8, state="down")], work), backend) == ["start", "reject", "wait"]


def test_what_is_known_to_run_nowhere_is_not_found_out_again(monkeypatch):
    worlds = [random_state(seed) for seed in range(60)]
    plans = [decide(world, SolveParams("greedy")).decisions for world in worlds]
    known = [rejections(world) for world in worlds]
    assert any(rejected.any() for rejected in known)
    monkeypatch.delattr("solver.decide.rejections")
    for world, plan, rejected in zip(worlds, plans, known, strict=True):
        again = decide(world, SolveParams("greedy"), rejected=rejected).decisions
        assert again.action.tolist() == plan.action.tolist()
        assert again.placement.node.tolist() == plan.placement.node.tolist()


def test_stopping_work_is_still_preempted_and_its_place_is_not_given_away():
    work = [replace(running(8, [0]), status=Status.STOPPING), pending(8, **ASK)]
    assert actions(state([node(8)], work)) == ["preempt", "wait"]


def test_work_that_must_leave_a_sick_node_ranks_nowhere_and_is_preempted_for_nobody():
    nodes = [node(8, state="draining"), node(8, state="down"), node(8)]
    outcome = decide(state(nodes, [running(8, [i], **PAST) for i in range(3)]), SolveParams("greedy"))
    assert outcome.order.sequence.tolist() == [2]
    assert outcome.decisions.action.tolist() == [Action.PREEMPT, Action.PREEMPT, Action.KEEP]
    assert outcome.decisions.victims_for == {}


def test_an_empty_world_has_an_empty_plan():
    assert actions(state([node(8)])) == []
    assert actions(state([node(8, state="down")], [pending(8, **ASK)])) == ["wait"]


def test_unallocated_work_fills_what_is_left_and_evicts_nobody():
    work = [
        running(4, [0], leaf_budget="b", **PAST),
        pending(4, allocated=False),
        pending(8, allocated=False),
    ]
    assert actions(state([node(8)], work, ratios={"b": 9.0})) == ["keep", "start", "wait"]


# --- when a solver fails ----------------------------------------------------------------------------------


def contested() -> State:
    """A world in which greedy is beaten: the first of the order is one gang, the next two are worth more."""
    work = [
        pending(8, 2, leaf_budget="b", submitted_h_ago=9, **ASK),
        *(pending(8, leaf_budget="b", submitted_h_ago=5 - i, **ASK) for i in range(2)),
    ]
    return state([node(8)] * 2, work, ratios={"b": 0.3}, entitled_gpu_h={"a": 10**6, "b": 10**6})


def killed(model, **_):
    os.kill(os.getpid(), signal.SIGKILL)


def hangs(model, **_):
    time.sleep(60)


def raises(model, **_):
    raise MemoryError("out of memory")


def knows_nothing(model, **_):
    return no_answer("no point within the time")


def answers_nonsense(model, **_):
    return Solution("optimal", np.full(len(model.objective), 7.5), 1e9, 1e9, 0.0)


def overfills(model, **_):
    return Solution("optimal", model.upper.copy(), model.value(model.upper), math.inf, 0.0)


FAILURES = (killed, hangs, raises, knows_nothing, answers_nonsense, overfills)


@pytest.mark.parametrize("failure", FAILURES, ids=[f.__name__ for f in FAILURES])
def test_whatever_a_back_end_does_there_is_a_checked_plan_and_the_report_says_so(failure, monkeypatch):
    monkeypatch.setattr("solver.milp.solve", failure)
    world = contested()
    outcome = decide(world, SolveParams("highs", 0.1, 1e-6))
    assert check(world, outcome.decisions) == []
    assert outcome.report.notes
    assert outcome.report.backend == "greedy"
    assert outcome.report.status != "optimal"
    assert (outcome.decisions.action == Action.START).any()


def test_where_one_back_end_dies_auto_asks_the_other(monkeypatch):
    monkeypatch.setattr("solver.milp.solve", killed)
    outcome = decide(contested(), SolveParams("auto", 20.0, 1e-6))
    assert (outcome.report.status, outcome.report.backend) == ("optimal", "cp-sat")
    assert outcome.broken == []


def test_a_feasible_answer_without_a_bound_is_reported_without_a_gap(here, monkeypatch):
    solve = backends.solve

    def unproven(*args, **more):
        return replace(solve(*args, **more), status="feasible", bound=math.inf)

    monkeypatch.setattr(backends, "solve", unproven)
    report = decide(contested(), SolveParams("highs", 20.0, 1e-6)).report
    assert (report.status, report.bound, report.gap) == ("feasible", None, None)


def test_a_wrong_plan_of_the_exact_rung_is_dropped_for_the_greedy_one(here, monkeypatch):
    def wrong(board, js, *rest):
        out, report = exact(board, js, *rest)
        for j in js.tolist():
            if j in out.starts:
                out.cancel(j)
            out.start(j, [(0, int(out.state.workloads.replicas[j]))])  # all on one node
        return out, report

    monkeypatch.setattr("solver.decide.exact", wrong)
    world = contested()
    outcome = decide(world, SolveParams("highs", 20.0, 1e-6))
    assert outcome.broken == []
    assert check(world, outcome.decisions) == []
    assert any("broke a rule" in note for note in outcome.report.notes)
    assert outcome.report.backend == "greedy"


def test_of_two_lawful_plans_the_better_is_taken(here, monkeypatch):
    def poor(board, js, *rest):
        out, report = exact(board, js[:0], *rest)
        out = out.copy()
        out.start(int(js[-1]), [(0, 1)])  # the last of the order has the only place
        return out, report

    monkeypatch.setattr("solver.decide.exact", poor)
    world = state([node(8)], [pending(8, submitted_h_ago=h, **ASK) for h in (1, 9)])
    outcome = decide(world, SolveParams("highs", 20.0, 1e-6))
    assert outcome.decisions.action.tolist() == [Action.WAIT, Action.START]
    assert outcome.report.backend == "greedy"


def test_where_even_the_greedy_plan_is_wrong_the_outcome_says_which_rule(monkeypatch):
    def wrong(board, js):
        out = board.copy()
        out.start(0, [(0, 2)])
        return out

    monkeypatch.setattr("solver.decide.greedy", wrong)
    outcome = decide(contested(), SolveParams("greedy"))
    assert [b.rule for b in outcome.broken] == ["capacity"]


def test_a_round_ends_in_time_whatever_is_asked(here):
    began_s = time.monotonic()
    decide(instance_state(16, 60, 0), SolveParams("highs", 0.05, 0.0))
    assert time.monotonic() - began_s < 5


# --- the opening ------------------------------------------------------------------------------------------


def test_the_opening_has_kept_promises_and_run_the_lane_before_anybody_is_served():
    work = [
        pending(8, leaf_budget="b", **ASK),
        pending(2, leaf_budget="b", min_runtime_h=0.2, debug=True),
        pending(2, leaf_budget="a", **ASK),
        pending(2, leaf_budget="a", allocated=False),
    ]
    world = state([node(8)] * 2, work, promises=[promise(0, 0, [1])], lane_gpus=4)
    board, js = opening(world)
    assert board.starts == {0: [(1, 1)], 1: [(0, 1)]}
    assert js.tolist() == [2]
    assert board.order.sequence.tolist() == order_of(world).sequence.tolist()
    assert board.state.now_s == NOW_S


def test_forecasts_are_made_when_they_are_asked_for_and_once(monkeypatch):
    made = []

    def forecast(board):
        made.append(board)
        return np.zeros(board.state.workloads.count)

    monkeypatch.setattr("solver.decide.forecasts", forecast)
    outcome = decide(random_state(1), SolveParams("greedy"))
    assert made == []
    assert outcome.expected_start_s is outcome.expected_start_s
    assert made == [outcome.board]


# --- promises ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["greedy", "highs", "cp-sat"])
def test_its_own_promise_keeps_no_gang_from_an_earlier_start(name):
    work = [
        running(4, [0], min_runtime_h=2, leaf_budget="b"),
        pending(4, 2, min_runtime_h=2, leaf_budget="a"),
    ]
    world = state([node(4)] * 3, work, promises=[promise(1, 1, [0, 1])], reservations=8)
    outcome = decide(world, SolveParams(name))
    assert outcome.board.starts == {1: [(1, 1), (2, 1)]}
    assert outcome.board.settled() == []
    assert outcome.broken == []


@pytest.mark.parametrize("name", ["greedy", "highs", "cp-sat"])
def test_who_is_not_worth_its_victims_is_not_promised_them_either(name):
    huge = running(8, range(20), allocated=False, leaf_budget="b")
    elsewhere = running(8, [20], min_runtime_h=1.1, leaf_budget="b")
    tiny = pending(1, 2, min_runtime_h=1, leaf_budget="a", clusters=("c",))
    nodes, had = [node(8)] * 20 + [node(8, cluster="d")], {"a": 0.96, "b": 0.96}
    world = state(nodes, [huge, elsewhere, tiny], ratios=had, reservations=8)
    outcome = decide(world, SolveParams(name))
    assert outcome.board.victims == {}
    assert outcome.board.settled() == []
