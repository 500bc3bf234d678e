"""Promises of the exact rung: what gives way to them, what does not, and what stands when no answer comes."""

from __future__ import annotations

import time
from itertools import combinations, product
from random import Random

import numpy as np
import pytest

from solver.board import Board
from solver.decide import decide
from solver.foresee import foresee
from solver.holds import promised_worth, worth
from solver.linear import no_answer
from solver.shares import WITHIN
from solver.state import SolveParams, State
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state
from tests.solver.oracles import order_of, waiting
from tests.solver.seeded import back_end, random_state


def held(hours: float, at, **more):
    """Protected for so many hours more."""
    return running(8, at, min_runtime_h=hours + 1, started_h_ago=1, leaf_budget="b", **more)


def board_of(nodes, work, starts, b_gpu_h: float = 100.0) -> Board:
    """Return a board with some starts on it, workload and node of each; `a` has had 50 GPU-hours."""
    world = state(nodes, work, reservations=8, usage_gpu_h={"a": 50.0, "b": b_gpu_h})
    board = Board(world, order_of(world))
    for j, n in starts:
        board.start(j, [(n, 1)])
    return board


def promised(board: Board, solve=None) -> tuple[Board, dict[int, tuple[float, list[int]]]]:
    """Return the board once the best are promised a start, and hours and nodes of each promise."""
    out, _ = foresee(board, waiting(board, WITHIN), solve or back_end("highs"), time.monotonic() + 20, 1e-6)
    return out, {
        j: ((start_s - NOW_S) / HOUR_S, sorted(n for n, _ in parts))
        for j, (start_s, parts) in out.promised.items()
    }


def wide(hours_of_start: float, **more):
    """One small start on the only node that would soon be free for a gang of three."""
    work = [
        held(0.5, [0]),
        held(0.5, [1]),
        held(7, [3]),
        pending(8, min_runtime_h=hours_of_start, leaf_budget="b"),
        pending(8, 3, min_runtime_h=1, leaf_budget="a"),
    ]
    return board_of([node(8)] * 4, work, [(3, 2)], **more)


def test_a_start_gives_way_where_an_earlier_promise_is_worth_more():
    board, found = promised(wide(6))
    assert 3 not in board.starts
    assert found == {4: (0.5, [0, 1, 2])}


def test_a_start_whose_protection_ends_in_time_stays():
    board, found = promised(wide(0.5))
    assert 3 in board.starts
    assert found == {4: (0.5, [0, 1, 2])}


def test_a_start_stays_where_the_promise_gains_less_than_it_is_worth():
    board, found = promised(wide(1, b_gpu_h=20.0))
    assert 3 in board.starts
    assert found == {4: (1, [0, 1, 2])}


def test_nothing_is_promised_at_the_end_of_a_start_that_is_worth_more():
    board, found = promised(wide(1, b_gpu_h=5.0))
    assert 3 in board.starts
    assert found == {}


def crossed():
    """Two gangs of two: the first by order could stand in either pool, the other in one only."""
    work = [
        *(held(hours, [n]) for n, hours in enumerate((1, 1, 7, 7, 1, 1))),
        pending(8, 2, min_runtime_h=1, leaf_budget="a", submitted_h_ago=9),
        pending(8, 2, min_runtime_h=1, leaf_budget="a", submitted_h_ago=1, gpu_types=("h100",)),
    ]  # fmt: skip
    nodes = [*[node(8)] * 4, *[node(8, gpu_type="b200")] * 2]
    return board_of(nodes, work, [])


def test_gangs_are_promised_their_starts_jointly_over_pools():
    _, found = promised(crossed())
    assert found == {6: (1, [4, 5]), 7: (1, [0, 1])}


def test_without_an_answer_what_is_promised_one_by_one_stands():
    def silent(model, time_limit_s, gap, start=None):
        return no_answer("out of order")

    board = wide(1)
    out, notes = foresee(board, waiting(board, WITHIN), silent, time.monotonic() + 20, 1e-6)
    assert list(out.promised) == [4]
    assert notes == ["promises were made one by one: out of order"]


def test_no_more_is_promised_than_the_site_allows():
    work = [held(1, [n]) for n in range(6)]
    work += [pending(8, 2, min_runtime_h=1, leaf_budget="a", submitted_h_ago=9 - k) for k in range(3)]
    world = state([node(8)] * 6, work, reservations=2, usage_gpu_h={"b": 100.0})
    board = Board(world, order_of(world))
    _, found = promised(board)
    assert list(found) == [6, 7]


@pytest.mark.parametrize("name", ["highs", "cp-sat"])
def test_jointly_is_never_worth_less_than_one_by_one(name):
    """On random worlds, and somewhere it is worth more."""
    for seed in range(40):
        outcome = decide(random_state(seed), SolveParams("greedy"))
        board = outcome.board.copy()
        board.promised = {}
        board.release_nodes()
        js = waiting(board, WITHIN)
        simple, _ = foresee(board, js, lambda *a: no_answer(""), time.monotonic() + 20, 1e-6)
        joint, _ = foresee(board, js, back_end(name), time.monotonic() + 20, 1e-6)
        assert worth(joint) >= worth(simple) or worth(joint) == pytest.approx(worth(simple))


def test_what_is_promised_counts_in_the_tier_of_the_gang():
    out, _ = promised(wide(1))
    stands, all_in_all = out.objective(), worth(out)
    assert all_in_all[0] - stands[0] == pytest.approx(promised_worth(out)[4])
    assert all_in_all[1:] == stands[1:]


# --- all at once ------------------------------------------------------------------------------------------


def tiny(seed: int) -> State:
    """Three nodes that come free at random, two single replicas and a gang of two nodes that wait."""
    luck = Random(seed)
    ends = [luck.choice((0, 0, 0.5, 1, 2, 4)) for _ in range(3)]
    work = [held(hours, [n]) for n, hours in enumerate(ends) if hours]
    for _ in range(2):
        payer, hours = luck.choice("ab"), luck.choice((0.5, 1, 2, 6))
        work.append(
            pending(8, min_runtime_h=hours, leaf_budget=payer, submitted_h_ago=luck.choice((1, 2, 3)))
        )
    work.append(pending(8, 2, min_runtime_h=1, leaf_budget="a", submitted_h_ago=luck.choice((1, 2, 3))))
    usage = {"a": luck.choice((5.0, 50.0, 200.0)), "b": luck.choice((5.0, 50.0, 200.0))}
    return state([node(8)] * 3, work, reservations=8, usage_gpu_h=usage)


def best_of_all(world: State) -> float:
    """Return the greatest worth within the share over every set of starts and every promise, node by node."""
    empty = Board(world, order_of(world))
    w = world.workloads
    *singles, gang = np.flatnonzero(w.pending).tolist()
    ends = [int(w.protected_until_s[w.owner[w.placement.node == n]].max(initial=NOW_S)) for n in range(3)]
    free = [n for n in range(3) if ends[n] == NOW_S]
    pairs = list(combinations(range(3), 2))
    times = sorted({NOW_S, *ends, *(NOW_S + int(w.min_runtime_s[j]) for j in singles)})
    begins = [None, *((t, p) for t in times for p in pairs if all(ends[n] <= t for n in p))]
    best = -np.inf
    for *seats, begin in product(*([None, *free] for _ in singles), begins):
        if begin and (begin[0] > NOW_S and not empty.order.in_money[gang]):
            continue
        board = empty.copy()
        on = {n: j for j, n in zip(singles, seats, strict=True) if n is not None}
        if len(on) < sum(n is not None for n in seats):
            continue  # two on one node
        for n, j in on.items():
            board.start(j, [(n, 1)])
        lasts = {n: NOW_S + int(w.min_runtime_s[j]) for n, j in on.items()}
        if begin is not None:
            time_s, pair = begin
            if any(n in lasts and (time_s == NOW_S or lasts[n] > time_s) for n in pair):
                continue
            place = [(n, 1) for n in pair]
            if time_s == NOW_S:
                board.start(gang, place)
            else:
                board.promise(gang, time_s, place)
        best = max(best, worth(board)[WITHIN])
    return best


def test_starts_and_promises_in_turns_are_nearly_as_good_as_all_at_once():
    """Never better than everything tried, and hardly ever worse; docs/formulation.md gives these figures."""
    shares = []
    for seed in range(130):
        world = tiny(seed)
        if (order_of(world).tier[world.workloads.pending] != WITHIN).any():
            continue
        found = worth(decide(world, SolveParams("highs", 20.0, 1e-6)).board)[WITHIN]
        best = best_of_all(world)
        assert found <= best * (1 + 1e-9)
        if best > 0:
            shares.append(found / best)
    assert len(shares) > 100
    assert np.mean(np.array(shares) > 1 - 1e-6) > 0.95
    assert np.mean(shares) > 0.99
    assert min(shares) > 0.8
