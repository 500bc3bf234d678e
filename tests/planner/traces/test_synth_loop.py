"""The fluid serves fairly and loses nothing; people submit what is lacking, less when served slower."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.traces import synth_loop
from planner.traces.synth_gangs import DAY, Gangs, allocated, debug, unallocated
from planner.traces.synth_loop import STEP_S, WARM_UP_S, Deck, Decks, Fluid, Play, Wishes, fill

GPUS = 64
SHARE = np.array([0.75, 0.25])
USERS = np.array([3, 2])
WIDTHS = {1: 0.5, 8: 0.5}

amounts = st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 1000)), min_size=1, max_size=8)


@given(amounts, st.floats(0, 2000))
def test_filling_gives_all_there_is_to_those_that_lack(teams: list[tuple[float, float]], capacity: float):
    weight, demand = np.array(teams).T
    given_ = fill(capacity, weight, demand)
    assert (given_ <= demand + 1e-9).all()
    assert given_.sum() == pytest.approx(min(capacity, demand.sum()))


@given(amounts, st.floats(0, 2000))
def test_filling_leaves_nobody_behind_who_gets_less_for_its_weight_than_another(
    teams: list[tuple[float, float]], capacity: float
):
    weight, demand = np.array(teams).T
    per_weight = fill(capacity, weight, demand) / weight
    lacks = per_weight * weight < demand - 1e-6
    assert not lacks.any() or per_weight[lacks].min() >= per_weight.max() - 1e-6


def rows_of(*gangs: tuple[int, int, int]) -> Fluid:
    """Return a fluid of 64 GPUs with gangs of (team, GPUs, work in seconds)."""
    fluid = Fluid(SHARE, GPUS)
    fluid.enter([(team, gpus, work_s, 10**9, i) for i, (team, gpus, work_s) in enumerate(gangs)])
    return fluid


gangs = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 100), st.integers(1, 100_000)), min_size=1)


@given(gangs)
def test_the_fluid_serves_as_much_as_there_is_of_what_is_asked_for(work: list[tuple[int, int, int]]):
    fluid = rows_of(*work)
    before_s = fluid.rows["left_s"].copy()
    fluid.serve()
    served = ((before_s - fluid.rows["left_s"]) * fluid.rows["gpus"]) / STEP_S
    held = fluid.held()
    assert served.sum() <= GPUS + 1e-6
    paid = served[fluid.rows["team"] < 2].sum()
    assert paid == pytest.approx(synth_loop.room(GPUS, held[:2].sum()))
    assert served.sum() - paid == pytest.approx(min(GPUS - paid, held[2]))


@given(gangs)
def test_all_gangs_of_a_team_go_on_at_one_pace(work: list[tuple[int, int, int]]):
    fluid = rows_of(*work)
    before_s = fluid.rows["left_s"].copy()
    fluid.serve()
    done_s = before_s - fluid.rows["left_s"]
    for team in range(3):
        mine = done_s[fluid.rows["team"] == team]
        assert mine == pytest.approx(mine[:1].repeat(len(mine)))
        assert (mine <= STEP_S + 1e-6).all()


@given(st.floats(0, 10_000), st.floats(0, 10_000))
def test_more_demand_holds_more_and_never_more_than_there_is(a: float, b: float):
    low, high = sorted((a, b))
    assert synth_loop.room(GPUS, low) <= synth_loop.room(GPUS, high) + 1e-9 <= GPUS + 1e-6
    assert synth_loop.room(GPUS, low) <= low + 1e-9


def test_what_is_through_and_what_nobody_cares_for_leaves():
    fluid = Fluid(SHARE, GPUS)
    fluid.enter([(0, 1, STEP_S, 10**9, 0), (0, 1, 10**6, 500, 1), (1, 1, 10**6, 10**9, 2)])
    fluid.serve()
    fluid.rows["left_s"][0] = 0
    fluid.leave(500)
    assert fluid.rows["ticket"].tolist() == [2]


def a_deck(seed: int, draw) -> Deck:
    return Deck(np.random.default_rng(seed), lambda rng, count: draw(rng, np.arange(count) % 2, USERS))


def play(days: int, part: float = 1.0, debug_a_step: int = 0, seed: int = 0) -> tuple[Gangs, np.ndarray]:
    """Play a lab of 64 GPUs whose two teams want 40 and 24 of them times `part`, and 128 in all."""
    steps = (WARM_UP_S + days * DAY) // STEP_S
    paid = [
        a_deck(team, lambda *a, t=team: allocated(a[0], 0 * a[1] + t, a[2], WIDTHS, 8)) for team in (0, 1)
    ]
    decks = Decks(paid, a_deck(2, lambda *a: unallocated(*a, WIDTHS)), a_deck(3, debug))
    wishes = Wishes(
        teams=np.tile(np.array([40.0, 24.0]) * part, (steps, 1)),
        total=np.full(steps, 128.0),
        looks=np.ones((steps, 2), dtype=bool),
        debug=np.full(steps, debug_a_step),
    )
    return Play(np.random.default_rng(seed), decks, SHARE, GPUS).run(wishes)


def test_a_deck_gives_what_was_drawn_in_order_over_many_blocks():
    tops = []
    for _ in range(2):
        deck = a_deck(1, debug)
        tops.append([(deck.next_gpus, *deck.take()) for _ in range(600)])
        taken = deck.gangs()
        assert [top[1] for top in tops[-1]] == taken.gpus.tolist()
        assert [top[0] for top in tops[-1]] == taken.gpus.tolist()
        assert [top[2] for top in tops[-1]] == taken.runtime_s.tolist()
    assert tops[0] == tops[1]
    assert len(set(tops[0])) > 300


def test_the_trace_begins_with_all_that_people_want():
    gangs_, submitted_s = play(days=2)
    first = submitted_s == 0
    assert gangs_.gpus[first].sum() == pytest.approx(128, abs=16)
    assert (np.diff(submitted_s) >= 0).all()
    assert (gangs_.runtime_s > 0).all()
    assert (gangs_.interest_s > 0).all()


def test_who_is_served_slower_submits_less(monkeypatch: pytest.MonkeyPatch):
    def offered() -> float:
        gangs_, submitted_s = play(days=6)
        return float(((gangs_.min_runtime_s > 0) * gangs_.gpus * gangs_.runtime_s)[submitted_s > 0].sum())

    fast = offered()
    monkeypatch.setattr(synth_loop, "EFFICIENCY", 0.4)
    assert offered() < 0.75 * fast


def test_debug_work_comes_whatever_the_queues():
    gangs_, submitted_s = play(days=1, debug_a_step=2)
    short = (gangs_.min_runtime_s > 0) & (gangs_.min_runtime_s <= 900)
    assert short.sum() == 2 * DAY // STEP_S
    assert np.bincount(submitted_s[short] // STEP_S).tolist() == [2] * (DAY // STEP_S)


def test_a_team_that_wants_nothing_submits_nothing():
    gangs_, _ = play(days=2, part=1e-9)
    assert (gangs_.min_runtime_s == 0).all()
    assert gangs_.gpus.size > 0
