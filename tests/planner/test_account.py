"""The account of a window by the ledger: usage, entitlement, owed and delivered, against sums by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from planner.account import account, into_rows, with_ledger
from planner.encode import encode
from planner.ledger.csvfile import import_csv
from planner.ledger.demand import Coverage, observe_stretch
from planner.ledger.store import Ledger, connect
from planner.model.budget import Budget
from planner.model.site import FairShare, Lookback, Site
from planner.shares import share_rows
from solver.state import MICRO, Status
from solver.window import HOUR_MICRO_S, Window
from tests.planner.ledger.histories import HOUR, interval, record
from tests.planner.worlds import NOW_S, world

DAY = 24 * HOUR
WEEK = 7 * DAY
T = 1000 * DAY
SITE = Site((Budget("a", Fraction(1)), Budget("b", Fraction(3))))
A, B = {"a": 250_000_000, "b": 750_000_000}, {"a": 500_000_000, "b": 500_000_000}


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    made = connect(f"sqlite:///{tmp_path}/ledger.db")
    made.upgrade()
    return made


def saw(ledger, begin_s, end_s, gpus=32, asked=None, share=A, gpu_type="h100"):
    """Record a stretch in which everything stood still."""
    with ledger.write() as connection:
        observe_stretch(
            connection, begin_s, end_s, {("k", gpu_type): gpus}, asked or {"a": 999, "b": 999}, share
        )


def units(amounts: dict[str, int]) -> dict[str, float]:
    return {a: v / HOUR_MICRO_S for a, v in amounts.items()}


def test_a_week_is_share_times_capacity_and_what_was_held(ledger):
    saw(ledger, T - WEEK, T)
    record(ledger, interval("w", T - 2 * DAY, T - DAY, allocation="a"))
    found = account(SITE, ledger, T)
    assert found.known_s == WEEK
    assert units(found.entitled) == {"a": 8 * 168, "b": 24 * 168}
    assert units(found.usage) == units(found.delivered) == {"a": 8 * 24, "b": 0}
    assert units(found.owed) == {"a": 8 * 168, "b": 24 * 168}


def test_the_window_is_exact_to_the_second(ledger):
    saw(ledger, T - 2 * WEEK, T)
    record(ledger, interval("w", T - WEEK - 100, T - WEEK + 17, allocation="a", gpus=3))
    now_s = T + 5
    assert account(SITE, ledger, now_s).usage["a"] == 3 * 12 * MICRO


def test_unallocated_use_is_free(ledger):
    saw(ledger, T - DAY, T)
    record(ledger, interval("w", T - DAY, T, occupancy="unallocated"))
    assert account(SITE, ledger, T).delivered["a"] == 0


def test_each_hour_counts_with_its_own_share_and_capacity(ledger):
    saw(ledger, T - 3 * HOUR, T - 2 * HOUR, gpus=32, share=A)
    saw(ledger, T - 2 * HOUR, T - HOUR, gpus=16, share=A)
    saw(ledger, T - HOUR, T, gpus=16, share=B)
    assert units(account(SITE, ledger, T).entitled) == {"a": 8 + 4 + 8, "b": 24 + 12 + 8}


def test_a_part_of_an_hour_is_worth_a_part(ledger):
    """Ten minutes known, with half of the share asked for; then a window that cuts them in the middle."""
    saw(ledger, T - HOUR, T - HOUR + 600, asked={"a": 4, "b": 24})
    found = account(SITE, ledger, T)
    assert found.known_s == 600
    assert units(found.entitled) == {"a": 8 / 6, "b": 4}
    assert units(found.owed) == {"a": 4 / 6, "b": 4}
    cut = account(SITE, ledger, T - HOUR + 300 + WEEK)
    assert (cut.known_s, units(cut.entitled)["a"]) == (300, 4 / 6)


def test_a_new_allocation_has_no_claim_on_the_past(ledger):
    saw(ledger, T - 2 * HOUR, T - HOUR, share={"b": 10**9})
    saw(ledger, T - HOUR, T)
    assert units(account(SITE, ledger, T).entitled)["a"] == 8


def test_charges_price_use_and_entitlement(ledger):
    site = replace(SITE, charges={"b200": Fraction(2)})
    saw(ledger, T - HOUR, T, gpu_type="b200", gpus=16)
    record(ledger, interval("w", T - HOUR, T, gpu_type="b200", gpus=8))
    found = account(site, ledger, T)
    assert units(found.usage)["a"] == 16
    assert units(found.entitled) == {"a": 8, "b": 24}


def test_what_is_owed_is_capped_by_the_demand_of_each_hour(ledger):
    """Not by the mean: 16 GPUs in one hour and none in the next are worth one hour of the share."""
    saw(ledger, T - 2 * HOUR, T - HOUR, asked={"a": 16, "b": 12})
    saw(ledger, T - HOUR, T, asked={"a": 0, "b": 12})
    found = account(SITE, ledger, T)
    assert units(found.owed) == {"a": 8, "b": 24}


def test_who_got_more_than_it_was_seen_to_ask_for_had_asked_for_it(ledger):
    saw(ledger, T - HOUR, T, asked={"a": 2})
    record(ledger, interval("w", T - HOUR, T, gpus=5))
    assert units(account(SITE, ledger, T).owed)["a"] == 5


def test_a_hole_counts_on_neither_side(ledger):
    """A day known, five days not, a day known; one run goes on through all of it."""
    saw(ledger, T - 7 * DAY, T - 6 * DAY)
    saw(ledger, T - DAY, T)
    record(ledger, interval("w", T - 7 * DAY, T))
    found = account(SITE, ledger, T)
    assert found.known_s == 2 * DAY
    assert units(found.entitled)["a"] == units(found.usage)["a"] == 8 * 48
    assert units(found.delivered)["a"] == 8 * 168


def test_of_an_imported_hour_todays_share_of_todays_capacity_is_due(ledger, tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(
        "source,workload,started_s,allocation,occupancy,cluster,gpu_type,gpus,begin_s,end_s,state\n"
        f"s,w,{T - DAY},a,allocated,k,h100,4,{T - DAY},{T - DAY + 600},ended\n"
    )
    import_csv(ledger, path)
    found = account(SITE, ledger, T, {"h100": 32})
    assert found.known_s == 600
    assert units(found.entitled) == {"a": 8 / 6, "b": 4}
    assert units(found.usage)["a"] == units(found.owed)["a"] == 4 / 6


def test_without_a_snapshot_the_capacity_seen_last_stands_in(ledger):
    saw(ledger, T - HOUR, T, gpus=32)
    with ledger.write() as connection:
        coverage = Coverage()
        coverage.touch([interval(begin_s=T - 3 * HOUR, end_s=T - 2 * HOUR)])
        coverage.flush(connection)
    assert units(account(SITE, ledger, T).entitled) == {"a": 16, "b": 48}


@pytest.mark.parametrize("now_s", [T, T + 1234])
def test_a_tumbling_window_begins_anew(ledger, now_s):
    site = replace(SITE, fair_share=FairShare(lookback=Lookback(DAY, "tumbling")))
    saw(ledger, T - 2 * DAY, now_s)
    record(ledger, interval("w", T - 2 * DAY, now_s))
    found = account(site, ledger, now_s)
    assert found.known_s == now_s - T
    assert found.usage["a"] == 8 * (now_s - T) * MICRO


def test_a_half_life_weighs_whole_hours_as_the_window_does(ledger):
    site = replace(SITE, fair_share=FairShare(lookback=Lookback(WEEK, half_life_s=2 * DAY)))
    saw(ledger, T - WEEK, T)
    record(ledger, interval("w", T - 3 * DAY, T - 2 * DAY, gpus=8))
    found = account(site, ledger, T)
    window = Window(WEEK, half_life_s=2 * DAY)
    used_s = window.seconds_between(T - 3 * DAY, T - 2 * DAY, T)
    assert found.usage["a"] == pytest.approx(8 * MICRO * used_s, rel=1e-9)
    assert found.entitled["a"] == pytest.approx(8 * MICRO * window.history_s(T, None), rel=1e-9)
    assert units(found.delivered)["a"] == 8 * 24


def test_a_part_of_an_hour_decays_as_its_hour_within_a_percent(ledger):
    site = replace(SITE, fair_share=FairShare(lookback=Lookback(WEEK, half_life_s=2 * DAY)))
    saw(ledger, T - WEEK, T)
    record(ledger, interval("w", T - DAY, T - DAY + 300, gpus=8))
    exact = 8 * MICRO * Window(WEEK, half_life_s=2 * DAY).seconds_between(T - DAY, T - DAY + 300, T)
    assert account(site, ledger, T).usage["a"] == pytest.approx(exact, rel=0.01)


def test_an_overdraft_is_carried_only_where_the_site_says_so(ledger):
    lookback = Lookback(4 * HOUR)
    saw(ledger, T - 5 * HOUR, T, gpus=40)
    record(ledger, interval("w", T - 5 * HOUR, T - 4 * HOUR, gpus=60))
    forgets = account(replace(SITE, fair_share=FairShare(lookback=lookback)), ledger, T)
    carries = account(replace(SITE, fair_share=FairShare(lookback=lookback, carry_overdraft=True)), ledger, T)
    assert forgets.carried["a"] == 0
    assert units(carries.carried)["a"] == 50
    assert carries.usage == forgets.usage
    assert carries.delivered == forgets.delivered


def test_an_overdraft_beside_a_half_life_is_warned_about(ledger):
    fair = FairShare(lookback=Lookback(WEEK, half_life_s=DAY), carry_overdraft=True)
    assert "forgets by design" in account(replace(SITE, fair_share=fair), ledger, T).warnings[0]


def test_an_allocation_that_was_renamed_lives_on_as_an_account(ledger):
    site = Site((Budget("new", Fraction(1), accounts=("a",)), Budget("b", Fraction(3))))
    saw(ledger, T - HOUR, T)
    record(ledger, interval("w", T - HOUR, T))
    found = account(site, ledger, T)
    assert units(found.usage)["new"] == units(found.entitled)["new"] == 8


def test_use_that_the_site_does_not_know_is_dropped_with_a_warning(ledger):
    saw(ledger, T - HOUR, T)
    record(ledger, interval("w", T - HOUR, T, allocation="gone"))
    found = account(SITE, ledger, T)
    assert found.warnings == ("the ledger's use of gone is dropped: the site has no such allocation",)
    assert set(found.usage) == {"a", "b"}


def test_without_budgets_all_that_the_ledger_knows_is_shown(ledger):
    saw(ledger, T - HOUR, T)
    record(ledger, interval("w", T - HOUR, T, allocation="c"))
    found = account(Site(()), ledger, T)
    assert list(found.usage) == ["a", "b", "c"]
    assert units(found.entitled) == {"a": 8, "b": 24, "c": 0}


def test_an_empty_ledger_knows_nothing(ledger):
    found = account(SITE, ledger, T)
    assert found.known_s == 0
    assert found.usage == found.entitled == found.owed == {"a": 0, "b": 0}


# --- in a plan


def test_a_ledger_takes_the_place_of_the_usage_in_a_snapshot(ledger):
    w = world({"a": 1, "b": 3}, workloads=[{"id": "r", "on": "n1"}], ratios={"a": 0.5, "b": 2.0})
    saw(ledger, NOW_S - DAY, NOW_S, gpus=32, asked={"a": 8, "b": 4})
    record(ledger, interval("w", NOW_S - DAY, NOW_S, allocation="b", gpus=4))
    site, snapshot, found = with_ledger(w.site, w.snapshot, ledger)
    encoded = encode(site, snapshot)
    v = encoded.names.budgets.index("b")
    assert encoded.state.budgets.usage[v] == found.usage["b"] == 4 * DAY * MICRO
    assert encoded.state.budgets.entitled[v] == found.entitled["b"] == 24 * DAY * MICRO
    rows = share_rows(encoded, encoded.state.workloads.status != Status.PENDING)
    row = next(r for r in into_rows(rows, found) if r.allocation == "b")
    assert (row.owed, row.delivered, row.usage) == (96, 96, 96)
    assert row.ratio == pytest.approx(1 / 6)


def test_a_plan_by_a_ledger_that_knows_nothing_says_so(ledger):
    w = world()
    _, snapshot, _ = with_ledger(w.site, w.snapshot, ledger)
    assert snapshot.warnings == ("the ledger knows nothing of the window",)


def test_what_is_carried_counts_in_the_ratio_and_is_not_delivered(ledger):
    fair = {"lookback": {"window": "4h"}, "carry_overdraft": True}
    w = world({"a": 1, "b": 3}, site={"fair_share": fair}, history="4h")
    saw(ledger, NOW_S - 5 * HOUR, NOW_S, gpus=40)
    record(ledger, interval("w", NOW_S - 5 * HOUR, NOW_S - 4 * HOUR, gpus=60))
    site, snapshot, found = with_ledger(w.site, w.snapshot, ledger)
    encoded = encode(site, snapshot)
    rows = share_rows(encoded, encoded.state.workloads.status != Status.PENDING)
    row = into_rows(rows, found)[0]
    assert (row.ratio, row.usage, row.delivered) == (1.25, 50, 0)
    assert encoded.warnings == ()
