"""Books of allocations: nothing is lost between hours, sums and the tree, whatever they are made from."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from planner.errors import InputError
from planner.ledger.demand import observe_stretch
from planner.ledger.store import connect
from planner.model.budget import Budget
from planner.model.site import Site
from planner.reports.frames.books import (
    AMOUNTS,
    PER_DAY,
    by_day_part,
    of_ledger,
    of_shares,
    of_simulation,
    tree,
)
from planner.round import plan_round
from planner.simulation.metrics.measure import measure
from planner.simulation.metrics.summary import summary
from tests.planner.ledger.histories import HOUR, interval, record
from tests.planner.reports.folders import PLAYED
from tests.planner.worlds import job, world

DAY = 24 * HOUR
T = 1000 * DAY
NESTED = [
    {"name": "lab", "weight": 3, "children": [{"name": "x", "weight": 1}, {"name": "y", "weight": 2}]},
    {"name": "c", "weight": 1},
]


@given(PLAYED)
def test_delivered_over_owed_is_that_of_the_summary(played):
    toy, found = played
    books, figures = of_simulation(found), summary(measure(toy.history))
    owed, delivered = books.whole["owed"], books.whole["delivered"]
    told = figures["delivered_over_owed"]
    got = np.minimum(owed, delivered).sum() / owed.sum() if owed.sum() else None
    assert got == (told if told is None else pytest.approx(told))
    parts = (delivered / owed)[owed > 0]
    assert (parts.min() if len(parts) else None) == (
        pytest.approx(figures["worst_delivered_over_owed"]) if len(parts) else None
    )


@given(PLAYED)
def test_nothing_is_lost_between_hours_and_sums(played):
    books = of_simulation(played[1])
    for amount in AMOUNTS:
        assert books.hourly[amount].sum() == pytest.approx(books.whole[amount].sum())
    assert books.whole["entitled"].sum() == pytest.approx(
        (played[1].hours["capacity"] - played[1].hours["unavailable"]).sum()
    )


@given(PLAYED)
def test_parts_of_days_are_means_of_their_hours(played):
    books = of_simulation(played[1])
    frame, hours = by_day_part(books), 24 // PER_DAY
    first = books.hourly[books.hourly["hour"] < hours].groupby("allocation")["delivered"].mean()
    told = frame[frame["day"] == 0].set_index("allocation")["delivered"]
    pd.testing.assert_series_equal(told.sort_index(), first.sort_index(), check_names=False)


@given(PLAYED)
def test_every_budget_is_the_sum_of_those_right_below_it(played):
    frame = tree(of_simulation(played[1])).set_index("budget")
    for path in frame.index[~frame["is_allocation"]]:
        below = [p for p in frame.index if p.rpartition("/")[0] == path]
        for amount in ("share", "owed", "delivered", "unallocated", "entitled_in_window"):
            assert frame.loc[below, amount].sum() == pytest.approx(frame.loc[path, amount])


@given(PLAYED)
def test_ranks_follow_the_ratio_and_are_all_there(played):
    window = of_simulation(played[1]).window.sort_values("rank")
    assert window["rank"].tolist() == list(range(1, len(window) + 1))
    ratios = window["ratio"].fillna(np.inf)
    assert ratios.is_monotonic_increasing


def test_a_subtree_holds_its_allocations_and_no_other():
    books = of_shares(plan_round(world(NESTED).site, world(NESTED).snapshot, "greedy").shares)
    assert books.under("lab").whole["allocation"].tolist() == ["lab/x", "lab/y"]
    assert books.under("lab/x").whole["allocation"].tolist() == ["lab/x"]
    for stranger in ("la", "lab/", "lab/x/z", "<b>"):
        with pytest.raises(InputError, match="write one of c, lab"):
            books.under(stranger)


def test_the_books_of_a_plan_are_its_shares():
    place = world(NESTED, workloads=[{"id": "w", "on": "n1", "allocation": "lab/x"}], ratios={"lab/x": 2.0})
    plan = plan_round(place.site, place.snapshot, "greedy")
    frame = tree(of_shares(plan.shares)).set_index("budget")
    for row in plan.shares:
        told = frame.loc[row.allocation]
        assert (told["share"], told["rank"], told["ratio"]) == (row.share, row.rank, row.ratio)
        assert (told["owed"], told["delivered"]) == (row.owed, row.delivered)
    assert frame.loc["lab", "delivered"] == frame.loc[["lab/x", "lab/y"], "delivered"].sum()


@pytest.fixture
def ledger(tmp_path):
    made = connect(f"sqlite:///{tmp_path}/ledger.db")
    made.upgrade()
    return made


SITE = Site((Budget("a", Fraction(1)), Budget("b", Fraction(3))))


def test_the_books_of_a_ledger_are_hour_by_hour_what_was_held_and_due(ledger):
    """32 GPUs for a day, a quarter of them `a`'s, which asks for 4 and holds 4 for ten hours.

    `b` asks for all.
    """
    with ledger.write() as connection:
        share = {"a": 250_000_000, "b": 750_000_000}
        observe_stretch(connection, T - DAY, T, {("k", "h100"): 32}, {"a": 4, "b": 99}, share)
    record(ledger, interval("w", T - 10 * HOUR, T, allocation="a", gpus=4))
    record(ledger, interval("f", T - 2 * HOUR, T, allocation="b", gpus=16, occupancy="unallocated"))
    books = of_ledger(SITE, ledger, T)
    whole = books.whole.set_index("allocation")
    assert books.hourly["hour"].nunique() == 24
    assert whole["entitled"].to_dict() == {"a": 8 * 24, "b": 24 * 24}
    assert whole["owed"].to_dict() == {"a": 4 * 24, "b": 24 * 24}
    assert whole["delivered"].to_dict() == {"a": 4 * 10, "b": 0}
    assert whole["unallocated"].to_dict() == {"a": 0, "b": 32}
    assert whole["demand"].to_dict() == {"a": 4 * 24, "b": 99 * 24}


def test_a_ledger_that_knows_nothing_of_the_window_is_refused(ledger):
    with pytest.raises(InputError, match="knows nothing"):
        of_ledger(SITE, ledger, T)


def test_who_was_owed_nothing_has_no_quotient():
    place = world(NESTED, workloads=job("w", "n1", allocation="c")[:0])
    frame = tree(of_shares(plan_round(place.site, place.snapshot, "greedy").shares))
    assert frame["delivered_over_owed"].isna().all()
