"""The account of a simulation agrees with sums over its intervals, and with the ledger's rule for debts."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.encode import encode
from planner.model.snapshot import Snapshot
from planner.overdraft import Balance, carried
from planner.simulation.usage import HOUR_S, Usage
from planner.site import parse_site
from solver.state import MICRO
from solver.window import Window

SITE = """
budgets:
  - name: top
    weight: 3
    children: [{name: a, weight: 1}, {name: b, weight: 2}]
  - {name: c, weight: 1}
fair_share: {lookback: {window: 5h}, carry_overdraft: CARRY}
clusters: [{name: k, levels: [], nodes: [{name: n1, gpus: 8}, {name: n2, gpus: 8}]}]
"""
CAPACITY = 16 * MICRO
SHARES = {"top/a": Fraction(1, 4), "top/b": Fraction(1, 2), "c": Fraction(1, 4)}

charges = st.lists(
    st.tuples(st.integers(1, 4000), st.sampled_from(sorted(SHARES)), st.integers(1, 8), st.integers(1, 9000)),
    max_size=30,
)


def usage_of(carry: bool) -> tuple[Usage, dict[str, int]]:
    site = parse_site(SITE.replace("CARRY", str(carry).lower()), "site.yaml")
    encoded = encode(site, Snapshot(0, site.clusters))
    found = Usage(site, encoded.names.budgets, encoded.state.budgets)
    found.available(0, CAPACITY)
    return found, {path: v for v, path in enumerate(encoded.names.budgets)}


def runs_of(steps):
    """Return runs as (begin, end, allocation, GPUs), and the changes of rate that they make, in order."""
    runs, begin_s = [], 0
    for gap_s, path, gpus, length_s in steps:
        begin_s += gap_s
        runs.append((begin_s, begin_s + length_s, path, gpus))
    changes = [(b, p, g) for b, _, p, g in runs] + [(e, p, -g) for _, e, p, g in runs]
    return runs, sorted(changes)


def charge_upto(found: Usage, index: dict[str, int], changes, now_s: int) -> None:
    for time_s, path, gpus in changes:
        if time_s <= now_s:
            found.charge(time_s, index[path], gpus * MICRO)


def used(runs, path, begin_s, end_s):
    return sum(g * MICRO * max(0, min(e, end_s) - max(b, begin_s)) for b, e, p, g in runs if p == path)


@given(charges, st.integers(0, 40_000))
def test_use_in_the_window_is_what_its_runs_hold_of_it(steps, now_s):
    runs, changes = runs_of(steps)
    found, index = usage_of(carry=False)
    charge_upto(found, index, changes, now_s)
    tree = found.budgets(now_s)
    for path in SHARES:
        assert tree.usage[index[path]] == used(runs, path, max(now_s - 5 * HOUR_S, 0), now_s)
    assert tree.usage[index["top"]] == tree.usage[index["top/a"]] + tree.usage[index["top/b"]]
    assert tree.usage[0] == sum(tree.usage[index[path]] for path in SHARES)


@given(st.integers(0, 40_000))
def test_entitlement_is_the_share_of_what_was_there_in_the_window_and_at_least_an_hours(now_s):
    found, index = usage_of(carry=False)
    tree = found.budgets(now_s)
    known_s = max(min(now_s, 5 * HOUR_S), HOUR_S)
    for path, share in SHARES.items():
        assert tree.entitled[index[path]] == int(share * CAPACITY * known_s)


def test_an_outage_entitles_nobody():
    found, index = usage_of(carry=False)
    found.available(HOUR_S, 0)
    found.available(3 * HOUR_S, CAPACITY)
    assert found.budgets(4 * HOUR_S).entitled[index["c"]] == CAPACITY * 2 * HOUR_S // 4


@settings(max_examples=60)
@given(charges, st.lists(st.integers(0, 60_000), min_size=1, max_size=4))
def test_debts_are_those_of_the_ledgers_rule(steps, times):
    runs, changes = runs_of(steps)
    found, index = usage_of(carry=True)
    before_s = -1
    window = Window(5 * HOUR_S)
    for now_s in sorted(times):
        charge_upto(found, index, [c for c in changes if c[0] > before_s], now_s)
        before_s = now_s
        tree = found.budgets(now_s)
        for path, share in SHARES.items():
            hours = range(0, now_s + 1, HOUR_S)
            balances = [
                Balance(
                    h,
                    used(runs, path, h, min(h + HOUR_S, now_s)),
                    int(share * CAPACITY) * (min(h + HOUR_S, now_s) - h),
                )
                for h in hours
            ]
            inside = used(runs, path, max(now_s - 5 * HOUR_S, 0), now_s)
            over = inside - int(share * CAPACITY) * min(now_s, 5 * HOUR_S)
            assert tree.usage[index[path]] == inside + carried(balances, window, now_s, over)
