"""Gangs have the widths, run times and contracts that the module's docstring says."""

from __future__ import annotations

import numpy as np
import pytest

from planner.traces.synth_gangs import (
    DAY,
    HOUR,
    INTEREST_S,
    LIMITS_S,
    MINUTE,
    REQUIRES_LEAF,
    WIDE_GPUS,
    Gangs,
    allocated,
    debug,
    draw_widths,
    run_times,
    unallocated,
)

COUNT = 40_000
USERS = np.array([4, 1])
GPU_TIME = {1: 0.1, 2: 0.1, 4: 0.1, 8: 0.2, 16: 0.1, 32: 0.1, 64: 0.1, 256: 0.1, 400: 0.1}
TEAM = np.arange(COUNT) % 2


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


PAID = allocated(rng(), TEAM, USERS, GPU_TIME, 256)
BIG = allocated(rng(), TEAM, USERS, {256: 1.0}, 256)
FREE = unallocated(rng(), TEAM, USERS, GPU_TIME)
DEBUG = debug(rng(), TEAM, USERS)


def part(chosen: np.ndarray, of: np.ndarray | None = None) -> float:
    """Return which part of some gangs is chosen."""
    return float((chosen if of is None else chosen[of]).mean())


@pytest.mark.parametrize("gangs", [PAID, FREE, DEBUG])
def test_every_gang_is_possible(gangs: Gangs):
    assert (gangs.replicas >= 1).all()
    assert (gangs.each >= 1).all()
    assert (gangs.each <= 8).all()
    assert (gangs.cpus <= 192).all()
    assert (gangs.memory_gib <= 2048).all()
    assert (gangs.runtime_s >= 1).all()
    assert (gangs.interest_s >= 1).all()
    assert (gangs.user < USERS[gangs.team]).all()
    assert (gangs.min_runtime_s <= 8 * HOUR).all()


@pytest.mark.parametrize("gangs", [PAID, FREE, DEBUG])
def test_a_time_limit_cuts_neither_run_nor_protection(gangs: Gangs):
    stated = gangs.time_limit_s > 0
    assert part(stated) == pytest.approx(0.8, abs=0.01)
    assert np.isin(gangs.time_limit_s[stated], LIMITS_S).all()
    assert (gangs.time_limit_s >= np.maximum(gangs.runtime_s, gangs.min_runtime_s))[stated].all()
    assert gangs.time_limit_s.max() <= 7 * DAY


def test_time_limits_are_over_estimates():
    short = (PAID.time_limit_s > 0) & (PAID.runtime_s < 2 * HOUR)  # where the longest limit hardly cuts
    assert 0.03 <= np.median(PAID.runtime_s[short] / PAID.time_limit_s[short]) <= 0.07


def test_gpu_time_divides_by_width_as_asked():
    gpus = draw_widths(rng(), 400_000, GPU_TIME, 400)
    width = np.array(list(GPU_TIME))
    spent = np.array([(gpus == w).sum() * w * run_times(w).spent_s for w in GPU_TIME])
    assert width.max() in gpus
    assert spent / spent.sum() == pytest.approx(np.array(list(GPU_TIME.values())), rel=0.1)


def test_the_time_a_run_takes_is_that_of_runs_and_owners_drawn():
    for gpus in (1, 8, 64, 256):
        chance = rng().random(400_000)
        run_s = run_times(gpus).at(chance)
        bored_s = np.random.default_rng(4).exponential(INTEREST_S, size=len(run_s))
        assert run_times(gpus).spent_s == pytest.approx(np.minimum(run_s, bored_s).mean(), rel=0.01)


def test_no_gang_is_wider_than_its_team_may_ask_for():
    assert PAID.gpus.max() == 256
    assert set(np.unique(FREE.gpus)) == set(GPU_TIME)


def test_half_of_the_wide_gangs_run_only_minutes_and_some_for_a_day():
    assert 5 * MINUTE < np.median(BIG.runtime_s) < 7 * MINUTE
    assert BIG.runtime_s.max() == 2 * DAY
    assert part(BIG.runtime_s > DAY) > 0.03


def test_a_quarter_of_what_runs_on_one_node_runs_for_ten_hours():
    hours = PAID.runtime_s[PAID.gpus == 8] / HOUR
    assert np.percentile(hours, 75) == pytest.approx(10.5, abs=0.7)


def test_most_gpu_time_is_run_beyond_the_min_runtime():
    beyond = np.maximum(PAID.runtime_s - PAID.min_runtime_s, 0)
    assert (beyond * PAID.gpus).sum() > 0.6 * (PAID.runtime_s * PAID.gpus).sum()


def test_min_runtimes_are_those_of_the_benchmarks():
    few = (PAID.gpus < WIDE_GPUS) & PAID.resumable
    for hours, odds in ((0.5, 0.10), (1, 0.30), (2, 0.30), (4, 0.15), (8, 0.15)):
        assert part(PAID.min_runtime_s == hours * HOUR, few) == pytest.approx(odds, abs=0.02)
    for hours, odds in ((0.25, 0.30), (1, 0.20), (4, 0.25), (8, 0.25)):
        assert part(BIG.min_runtime_s == hours * HOUR, BIG.resumable) == pytest.approx(odds, abs=0.02)


def test_half_of_the_unallocated_work_goes_on_for_as_long_as_its_owner_cares():
    endless = (FREE.runtime_s == FREE.interest_s) | (FREE.runtime_s == 5 * DAY)
    assert part(endless) == pytest.approx(0.5, abs=0.03)
    assert (PAID.runtime_s == PAID.interest_s).mean() < 0.001


def test_debug_work_is_protected_to_its_end_and_asks_for_little():
    assert (DEBUG.runtime_s <= DEBUG.min_runtime_s).all()
    assert DEBUG.min_runtime_s.max() == 15 * MINUTE
    assert DEBUG.gpus.max() == 16


def test_only_debug_work_counts_as_debug_work():
    assert ((PAID.min_runtime_s > 15 * MINUTE) | (PAID.gpus > 16)).all()
    assert (FREE.min_runtime_s == 0).all()


@pytest.mark.parametrize("gangs", [PAID, BIG, FREE, DEBUG])
def test_what_is_not_resumable_is_protected_to_its_end(gangs: Gangs):
    assert (gangs.resumable | (gangs.runtime_s <= gangs.min_runtime_s)).all()


def test_a_seventh_of_what_protection_can_carry_is_not_resumable():
    long = PAID.runtime_s > 8 * HOUR
    assert PAID.resumable[long].all()
    assert part(PAID.resumable, ~long) == pytest.approx(0.85, abs=0.01)


def test_leaves_are_required_by_gangs_that_fit_them():
    assert set(np.unique(PAID.gpus[PAID.wish == REQUIRES_LEAF])) == {32, 64}
    assert (PAID.wish[PAID.gpus == 64] == REQUIRES_LEAF).all()
