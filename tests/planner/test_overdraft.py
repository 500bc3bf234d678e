"""Overdraft: what is used beyond entitlement counts until it is paid, and what was paid counts no longer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.overdraft import Balance, Overdraft, carried
from solver.window import Window

HOUR = 3600
FOUR_HOURS = Window(4 * HOUR)
AMOUNTS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=20)


def balances(amounts: list[tuple[int, int]]) -> list[Balance]:
    return [Balance(i * HOUR, used, entitled) for i, (used, entitled) in enumerate(amounts)]


def inside(amounts: list[tuple[int, int]], window: Window = FOUR_HOURS) -> tuple[int, int]:
    """Return what is used and entitled inside the window at the end of the last hour."""
    first = max(window.begins_s(len(amounts) * HOUR), 0) // HOUR
    return sum(u for u, _ in amounts[first:]), sum(e for _, e in amounts[first:])


def carry(amounts: list[tuple[int, int]], window: Window = FOUR_HOURS) -> int:
    """Return what is carried at the end of the last hour."""
    used, entitled = inside(amounts, window)
    return carried(balances(amounts), window, len(amounts) * HOUR, used - entitled)


def ratio(amounts: list[tuple[int, int]], window: Window = FOUR_HOURS) -> float:
    """Return what is counted over what is entitled, at the end of the last hour."""
    used, entitled = inside(amounts, window)
    return (used + carry(amounts, window)) / entitled


def test_a_lump_counts_until_as_many_hours_have_paid_for_it():
    """The worked example of docs/ledger.md: 60 units in one hour, 10 units of entitlement each."""
    lump = [(60, 10)] + [(0, 10)] * 10
    found = [round(ratio(lump[: n + 1]), 2) for n in range(4, 10)]
    assert found == [1.25, 1.0, 0.75, 0.5, 0.25, 0.0]


def test_the_worked_example_is_the_one_in_the_document():
    text = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \|$", text, flags=re.MULTILINE)
    assert len(rows) > 5
    lump = [(60, 10)] + [(0, 10)] * 20
    for hour, used, amount, without, with_it in rows:
        n = int(hour)
        assert carry(lump[:n]) == int(amount)
        assert inside(lump[:n]) == (int(used), min(10 * n, 40))
        assert int(used) / min(10 * n, 40) == float(without)
        assert ratio(lump[:n]) == float(with_it)


def test_use_that_was_saved_for_is_no_overdraft():
    saved = [(0, 10)] * 3 + [(40, 10)] + [(0, 10)] * 6
    assert [carry(saved[:n]) for n in range(1, 11)] == [0] * 10


def test_credit_that_has_left_the_window_pays_for_nothing():
    late = [(0, 10)] * 9 + [(60, 10)] + [(0, 10)] * 4
    assert carry(late) > 0


@given(AMOUNTS)
def test_within_the_first_window_nothing_is_carried(amounts):
    assert carry(amounts, Window(20 * HOUR)) == 0


@given(AMOUNTS)
def test_who_never_uses_more_than_the_entitlement_of_the_hour_carries_nothing(amounts):
    modest = [(min(u, e), e) for u, e in amounts]
    assert carry(modest) == 0


@given(AMOUNTS)
def test_whoever_has_something_left_to_pay_is_beyond_its_share(amounts):
    """Debt by a plain matching of units: each unit of use takes a unit of entitlement, none twice."""
    debt, units = 0, []
    for hour, (used, entitled) in enumerate(amounts):
        paid = min(debt, entitled)
        debt -= paid
        units = [h for h in units if h > hour - 4] + [hour] * (entitled - paid)
        debt += max(used - len(units), 0)
        units = units[used:]
    used, entitled = inside(amounts)
    if debt:
        assert used + carry(amounts) - entitled >= debt


@given(AMOUNTS.filter(lambda a: len(a) > 5))
def test_long_lumps_average_to_the_share(amounts):
    """Who starts a lump only while within its share gets no more than its share and one lump."""
    history: list[tuple[int, int]] = []
    for lump, _ in amounts * 4:
        within = not history or ratio(history) < 1
        history.append((lump if within else 0, 10))
    used = sum(u for u, _ in history)
    assert used <= 10 * (len(history) + 4) + 60


def test_a_tumbling_window_forgets_credit_and_not_debt():
    window = Window(4 * HOUR, tumbling=True)
    credit = [(0, 10)] * 4 + [(10, 10)]
    assert carry(credit, window) == 0
    debt = [(60, 10)] + [(0, 10)] * 4
    assert carry(debt, window) == pytest.approx(20)


@given(st.integers(4 * HOUR, 5 * HOUR))
def test_a_lump_that_is_leaving_the_window_counts_in_every_second_until_it_is_paid(now_s):
    """Between the fourth and the fifth hour of the example: what leaves the window is carried at once."""
    lump = [*balances([(60 * HOUR, 10 * HOUR)] + [(0, 10 * HOUR)] * 3)]
    lump.append(Balance(4 * HOUR, 0, 10 * (now_s - 4 * HOUR)))
    used = 60 * (5 * HOUR - now_s)
    counted = used + carried(lump, FOUR_HOURS, now_s, used - 40 * HOUR)
    assert counted == 60 * HOUR - 10 * (now_s - 4 * HOUR)


def test_of_an_hour_that_the_window_cuts_credit_counts_in_proportion():
    history = [Balance(0, 0, 100 * HOUR), Balance(HOUR, 0, 0), Balance(2 * HOUR, 0, 0)]
    past = Overdraft(Window(2 * HOUR))
    for balance in history:
        past.add(balance, 3 * HOUR - 1800)
    past.debt = 80 * HOUR  # of earlier times
    assert past.carried(3 * HOUR - 1800, over=0) == 80 * HOUR - 50 * HOUR
