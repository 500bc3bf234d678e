"""The naive model agrees with enumeration, and reports its search truthfully."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.naive import NaiveProblem, NaiveResult, solve_naive


def ints(*values: int) -> np.ndarray:
    """A row of integers."""
    return np.array(values, dtype=np.int64)


def tiny(seed: int) -> NaiveProblem:
    """Three nodes in two leaves, four pending gangs, up to three running ones."""
    rng = np.random.default_rng(seed)
    runs = [rng.choice(3, size=rng.integers(1, 3), replace=False) for _ in range(rng.integers(0, 4))]
    node = ints(*itertools.chain(*runs))
    return NaiveProblem(
        free=rng.integers(0, 6, size=3),
        size=rng.choice([1, 2, 3, 4], size=4),
        replicas=rng.choice([1, 1, 2, 3], size=4),
        value=rng.uniform(0.5, 5, size=4).round(2),
        eligible=rng.random((4, 3)) < 0.85,
        domain=np.array([[0, 0, 1], [0, 1, rng.choice([-1, 2])]]),
        level=rng.choice([-1, 0, 1], size=4),
        part_ptr=ints(*np.cumsum([0, *map(len, runs)])),
        part_node=node,
        part_gpus=rng.integers(1, 4, size=len(node)),
        keep_value=rng.uniform(0.5, 5, size=len(runs)).round(2),
    )


def fits(p: NaiveProblem, left: np.ndarray, gangs: tuple[int, ...]) -> bool:
    """Can these gangs stand side by side? Tries every node for every piece."""
    if not gangs:
        return True
    j = gangs[0]
    for where in itertools.product(range(3), repeat=int(p.replicas[j])):
        after = left - p.size[j] * np.bincount(where, minlength=3)
        if (after < 0).any() or not p.eligible[j, list(where)].all():
            continue
        if p.level[j] >= 0:
            here = set(p.domain[p.level[j], list(where)].tolist())
            if len(here) > 1 or -1 in here:
                continue
        if fits(p, after, gangs[1:]):
            return True
    return False


def best(p: NaiveProblem) -> float:
    """The greatest value over every choice of starts and keeps."""
    out = 0.0
    runs = range(len(p.keep_value))
    for kept in itertools.chain.from_iterable(itertools.combinations(runs, k) for k in range(len(runs) + 1)):
        left = p.free.copy()
        for r in set(runs) - set(kept):
            part = slice(p.part_ptr[r], p.part_ptr[r + 1])
            np.add.at(left, p.part_node[part], p.part_gpus[part])
        for k in range(5):
            for gangs in itertools.combinations(range(4), k):
                if fits(p, left, gangs):
                    out = max(out, p.value[list(gangs)].sum() + p.keep_value[list(kept)].sum())
    return out


def solve(p: NaiveProblem, target: float | None = None) -> NaiveResult:
    """One worker, so that the answer repeats."""
    return solve_naive(p, time_limit_s=20, workers=1, target=target)


@pytest.mark.parametrize("seed", range(25))
def test_the_optimum_is_that_of_enumeration(seed: int):
    problem = tiny(seed)
    result = solve(problem)
    assert result.objective == pytest.approx(best(problem), abs=1e-6)
    assert result.bound == pytest.approx(result.objective, abs=1e-6)


def one_gang(**changes: object) -> NaiveProblem:
    """Two nodes with one free GPU each, one gang of two single GPUs, nothing running."""
    none = ints()
    problem = NaiveProblem(
        free=ints(1, 1),
        size=ints(1),
        replicas=ints(2),
        value=np.array([3.0]),
        eligible=np.ones((1, 2), dtype=bool),
        domain=np.array([[0, 1]]),
        level=ints(-1),
        part_ptr=ints(0),
        part_node=none,
        part_gpus=none,
        keep_value=np.zeros(0),
    )
    return replace(problem, **changes)


def test_a_gang_may_span_nodes_unless_it_requires_one_domain():
    assert solve(one_gang()).objective == pytest.approx(3.0)
    assert solve(one_gang(level=ints(0))).objective == pytest.approx(0.0)


def test_a_victim_goes_only_for_what_is_worth_more():
    running = {"part_ptr": ints(0, 1), "part_node": ints(0), "part_gpus": ints(1), "free": ints(0, 1)}
    assert solve(one_gang(**running, keep_value=np.array([2.0]))).objective == pytest.approx(3.0)
    assert solve(one_gang(**running, keep_value=np.array([4.0]))).objective == pytest.approx(4.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_trajectory_rises_to_the_objective_within_the_time(seed: int):
    result = solve(tiny(seed))
    times, values = zip(*result.trajectory, strict=True)
    assert list(values) == sorted(values)
    assert values[-1] == pytest.approx(result.objective)
    assert list(times) == sorted(times)
    assert times[-1] <= result.seconds


def test_a_target_counts_as_reached_from_two_percent_below_it():
    assert solve(one_gang(), target=3.0 / 0.985).reached_s is not None
    assert solve(one_gang(), target=3.0 / 0.975).reached_s is None
    assert solve(one_gang()).reached_s is None


def test_no_time_gives_no_plan_and_a_bound():
    result = solve_naive(one_gang(), time_limit_s=0.0, workers=1)
    assert result.objective == -np.inf
    assert result.trajectory == []
    assert result.bound >= 3.0


def test_arrays_that_do_not_agree_are_refused():
    with pytest.raises(ValueError, match="pending"):
        one_gang(value=np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="running"):
        one_gang(keep_value=np.array([1.0]))
