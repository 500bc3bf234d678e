"""Where starts stand, once it is settled who starts: wishes first, then what stays whole, then company."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from solver import backends
from solver.board import Board
from solver.formulation import Formulation, counts_of, evicted_of, formulate
from solver.places import formulate_places
from solver.problem import Problem, places_problem, problem_of
from solver.seating import seat, started
from solver.shares import WITHIN
from tests.solver.factories import node, pending, running, state
from tests.solver.oracles import TIERS, is_exact, order_of, tier_worlds, waiting

PLENTY = {"entitled_gpu_h": {"a": 10**6, "b": 10**6}}


def best_of(f: Formulation) -> np.ndarray:
    solution = backends.solve(f.model, "highs", 20.0, 0.0, isolated=False)
    assert solution.status == "optimal"
    return solution.x


def settled(board: Board, tier: int) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Solve a tier; return the question of places that is left, who starts, and who makes room."""
    f = formulate(problem_of(board, tier, waiting(board, tier)))
    x = best_of(f)
    js, evicted = started(f.problem, counts_of(f, x)[0]), evicted_of(f, x)
    return places_problem(board, tier, js, evicted), js, evicted


def placed(nodes, workloads, **more) -> dict[int, list[int]]:
    """Return the nodes of each start, as the two models choose them."""
    world = state(nodes, workloads, **PLENTY | more)
    problem, _, evicted = settled(Board(world, order_of(world)), WITHIN)
    f = formulate_places(problem)
    seated = seat(problem, *counts_of(f, best_of(f)), evicted)
    assert seated.unseated == []
    return {j: sorted({n for n, _ in parts}) for j, parts in seated.board.starts.items()}


def held(gpus: int, at: int, hours: float = 8):
    return running(gpus, [at], leaf_budget="b", min_runtime_h=1 + hours, started_h_ago=1)


def ask(gpus: int, replicas: int = 1, **more):
    return pending(gpus, replicas, **{"min_runtime_h": 1, **more})


def test_a_gang_stands_in_one_domain_of_its_preferred_level_where_it_can():
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l2", "l2", "l3")]
    assert placed(nodes, [ask(8, 2, preferred="leaf")]) == {0: [1, 2]}


def test_a_gang_that_must_be_split_touches_as_few_preferred_domains_as_it_can():
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l2", "l3", "l4", "l4")]
    leaves = {nodes[n].domains["leaf"] for n in placed(nodes, [ask(8, 3, preferred="leaf")])[0]}
    assert len(leaves) == 2


def test_a_wish_gives_way_to_what_another_requires():
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l1", "l2", "l3")]
    assert placed(nodes, [ask(8, 2, preferred="leaf"), ask(8, 2, required="leaf")]) == {0: [2, 3], 1: [0, 1]}


@pytest.mark.parametrize(("taken", "left"), [(2, 3), (0, 1)])
def test_a_wholly_free_domain_stays_whole(taken, left):
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l1", "l2", "l2")]
    assert placed(nodes, [held(8, taken), ask(8)]) == {1: [left]}


@pytest.mark.parametrize("broken", [1, 3])
def test_a_small_piece_breaks_no_whole_node_for_the_sake_of_company(broken):
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l1", "l2", "l2")]
    hours = {1: 3, 3: 3} | {4 - broken: 6}  # neither leaf is wholly free, and the other one ends later
    work = [held(8, 0, hours[1]), held(8, 2, hours[3]), held(2, broken, 3)]
    assert placed(nodes, [*work, ask(2, min_runtime_h=5)]) == {3: [broken]}


@pytest.mark.parametrize(("weight", "place"), [(1.0, 1), (10.0, 1), (0.0, 3)])
def test_without_weight_on_what_stays_whole_only_company_counts(weight, place):
    """Node 1 is broken already; node 3 is whole, and beside it a protection lasts longer."""
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l1", "l2", "l2")]
    work = [held(8, 0, 3), held(8, 2, 6), held(2, 1, 3)]
    assert placed(nodes, [*work, ask(2, min_runtime_h=5)], keep_whole=weight) == {3: [place]}


def test_the_weight_multiplies_what_broken_nodes_and_domains_cost_and_nothing_else():
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l1", "l2", "l2")]
    costs = []
    for weight in (1.0, 10.0, 0.0):
        world = state(nodes, [held(2, 1), ask(2), ask(8, preferred="leaf")], keep_whole=weight, **PLENTY)
        problem, _, _ = settled(Board(world, order_of(world)), WITHIN)
        model = formulate_places(problem).model
        families = np.concatenate([[block.family] * len(block.labels) for block in model.columns])
        broken = np.char.startswith(families, "broken")
        assert broken.any()
        costs.append((model.objective[broken], model.objective[~broken]))
    (ours, rest), (strong, same), (none, also) = costs
    assert (ours < 0).all()
    assert strong == pytest.approx(10 * ours)
    assert not none.any()
    assert rest.tolist() == same.tolist() == also.tolist()


@pytest.mark.parametrize("longest", [0, 1, 2])
def test_work_lives_where_others_are_protected_as_long(longest):
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l1", "l2", "l2", "l3", "l3")]
    work = [held(8, 2 * i, 6 if i == longest else 2 + i / 2) for i in range(3)]
    assert placed(nodes, [*work, ask(8, min_runtime_h=5)]) == {3: [2 * longest + 1]}


def test_without_levels_the_pool_is_the_company():
    nodes = [node(8), node(8), node(8, gpu_type="b200"), node(8, gpu_type="b200")]
    assert placed(nodes, [held(8, 0, 2), held(8, 2, 6), ask(8, min_runtime_h=5)]) == {2: [3]}


@settings(max_examples=80)
@given(st.one_of(tier_worlds(), tier_worlds(resources=True)), st.sampled_from(TIERS))
def test_all_that_starts_has_a_place_in_the_room_of_those_who_go(board, tier):
    assume(len(waiting(board, tier)) and is_exact(board, tier))
    problem, js, evicted = settled(board, tier)
    assume(len(js))
    f = formulate_places(problem)
    gangs, pieces = counts_of(f, best_of(f))
    assert (gangs == problem.members).all()
    seated = seat(problem, gangs, pieces, evicted)
    assert seated.unseated == []
    assert sorted(seated.board.starts) == sorted(js.tolist())
    assert sorted(seated.board.victims) == sorted(evicted.tolist())


@settings(max_examples=80)
@given(tier_worlds(), st.sampled_from(TIERS))
def test_no_place_costs_less_than_nothing(board, tier):
    assume(len(waiting(board, tier)))
    problem, js, _ = settled(board, tier)
    assume(len(js))
    model = formulate_places(problem).model
    assert (model.objective <= 0).all()
    assert model.offset == 0
