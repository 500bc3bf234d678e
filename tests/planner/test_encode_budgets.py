"""Budgets to arrays: shares, use and entitlement exact to the micro unit, and the choices of the site."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from planner.errors import InputError
from solver.state import MICRO
from tests.planner.worlds import World, world

DAY_S, WEEK_S = 86_400, 604_800
UNIT = 3_600 * MICRO  # micro budget units in one budget unit


def leaf(w: World, path: str) -> int:
    """Index of an allocation."""
    return w.encoded().names.budgets.index(path)


# --- budgets, exactly


@pytest.mark.parametrize(("charge", "micro"), [("1.37", 1_370_000), ("2", 2_000_000), ("0.000001", 1)])
def test_a_charge_is_exact_and_an_unnamed_type_costs_one(charge: str, micro: int):
    nodes = [{"name": "a", "gpu_type": "h100"}, {"name": "b", "gpu_type": "other"}]
    w = world(nodes=nodes, site={"gpu_types": {"h100": {"charge": float(charge)}}})
    e = w.encoded()
    assert dict(zip(e.names.pools, e.state.policy.charge_micro.tolist(), strict=True)) == {
        ("k", "h100"): micro,
        ("k", "other"): MICRO,
    }


def test_use_is_exact_to_the_micro_unit_and_adds_up_through_the_tree():
    family = [{"name": "l", "children": [{"name": "x"}, {"name": "y"}]}, {"name": "v"}]
    w = world(family, usage={"l/x": 8123.457, "l/y": 0.1, "v": 1e-9})
    b = w.encoded().state.budgets
    at = {path: int(b.usage[leaf(w, path)]) for path in ("", "l", "l/x", "l/y", "v")}
    assert at["l/x"] == 8_123_457 * UNIT // 1000
    assert at["l/y"] == UNIT // 10
    assert at["v"] == round(Fraction(UNIT, 10**9))
    assert at["l"] == at["l/x"] + at["l/y"]
    assert at[""] == at["l"] + at["v"]


def test_what_is_entitled_is_share_times_capacity_times_history():
    nodes = [{"names": "n[1-3]", "gpus": 7, "gpu_type": "h100"}, {"name": "m", "gpus": 5}]
    for history, seconds in (("7d", WEEK_S), ("3d", 3 * DAY_S), ("61m", 3_660), (None, WEEK_S)):
        more = {} if history is None else {"history": history}
        w = world({"a": 1, "b": 2}, nodes, site={"gpu_types": {"h100": {"charge": 1.37}}}, **more)
        if history is None:
            del w.snapshot_data["history"]
        micro_a_second = 21 * 1_370_000 + 5 * MICRO
        entitled = w.encoded().state.budgets.entitled
        assert entitled[leaf(w, "a")] == round(Fraction(micro_a_second * seconds, 3))
        assert entitled[leaf(w, "b")] == round(Fraction(2 * micro_a_second * seconds, 3))


def test_a_fresh_site_counts_an_hour_at_least():
    w = world({"a": 1, "b": 3}, "n[1-2]", history="1m")
    b = w.encoded().state.budgets
    assert b.entitled[leaf(w, "a")] == 4 * UNIT
    assert b.entitled[leaf(w, "b")] == 12 * UNIT


def test_what_is_down_is_nobodys_capacity_and_what_drains_still_is():
    nodes = [{"name": "u"}, {"name": "g", "state": "draining"}, {"name": "d", "state": "down"}]
    w = world({"a": 1}, nodes, history="1h")
    assert w.encoded().state.budgets.entitled[leaf(w, "a")] == 16 * UNIT


def test_an_entitlement_that_is_given_is_taken_and_an_hour_is_the_least():
    w = world({"a": 1, "b": 1, "c": 1, "d": 1}, "n[1-2]", entitled={"a": 12.5, "b": 0.25, "d": 0})
    b = w.encoded().state.budgets
    assert b.entitled[leaf(w, "a")] == 25 * UNIT // 2
    assert b.entitled[leaf(w, "b")] == b.entitled[leaf(w, "d")] == 4 * UNIT
    assert b.entitled[leaf(w, "c")] == 4 * 168 * UNIT  # not named: today's share


def test_a_weight_of_zero_is_entitled_to_nothing():
    w = world({"a": 1, "z": 0}, "n[1-2]", entitled={"z": 100})
    b = w.encoded().state.budgets
    assert (b.entitled[leaf(w, "z")], b.share_ppb[leaf(w, "z")]) == (0, 0)


def test_a_tumbling_window_counts_since_it_tumbled():
    look = {"window": "1d", "type": "tumbling"}
    w = world({"a": 1}, "n[1-2]", site={"fair_share": {"lookback": look}}, history="1d")
    assert w.encoded().state.budgets.entitled[1] == 16 * 12 * UNIT  # it is noon
    young = world({"a": 1}, "n[1-2]", site={"fair_share": {"lookback": look}}, history="2h")
    assert young.encoded().state.budgets.entitled[1] == 16 * 2 * UNIT


def test_a_half_life_weighs_the_past_by_its_age():
    half_h = 12
    look = {"window": "7d", "half_life": f"{half_h}h"}
    w = world({"a": 1}, "n[1-2]", site={"fair_share": {"lookback": look}})
    hours = half_h / math.log(2) * (1 - 2 ** (-168 / half_h))
    assert w.encoded().state.budgets.entitled[1] == pytest.approx(16 * hours * UNIT, rel=1e-12)


def test_more_use_than_can_be_counted_is_refused_and_not_wrapped():
    w = world({"a": 1, "b": 1, "c": 1}, usage=dict.fromkeys("abc", 10**9))
    with pytest.raises(InputError, match="budget units"):
        w.encoded()


# --- policy


@pytest.mark.parametrize(
    ("nodes", "lane", "max_gpus", "gpus"),
    [
        ("n[1-100]", "4%", 16, 32),
        ("n[1-100]", "3.99%", 16, 31),
        ("n[1-10]", "4%", 16, 16),
        ("n[1-4]", "4%", 16, 8),
        ("n[1-4]", "100%", 0, 8),
        ("n[1-100]", "0%", 16, 0),
    ],
)
def test_the_debug_lane_is_its_share_at_least_its_largest_at_most_a_quarter(nodes, lane, max_gpus, gpus):
    contract = {"debug": {"lane": lane, "max_gpus": max_gpus}}
    assert world(nodes=nodes, site={"contract": contract}).encoded().state.policy.lane_gpus == gpus


def test_nodes_that_are_down_are_no_part_of_the_lane():
    nodes = [{"names": "n[1-50]"}, {"names": "d[1-50]", "state": "down"}]
    assert world(nodes=nodes).encoded().state.policy.lane_gpus == 16


def test_the_choices_of_the_site_reach_the_solver():
    chosen = {
        "fair_share": {"order": "fair_tree", "band": 0.125, "commitment": "30m", "worth": "2h"},
        "preemption": {"restart_cost": "7m", "max_gpus_per_round": 24},
    }
    policy = world(site=chosen).encoded().state.policy
    assert (policy.order, policy.band, policy.restart_cost_s, policy.max_preempted_gpus) == (
        "fair_tree",
        0.125,
        420,
        24,
    )
    assert (policy.commitment_s, policy.worth_s) == (1800, 7200)
    assert world().encoded().state.policy.max_preempted_gpus == -1


def test_limits_stand_at_their_budgets():
    family = [{"name": "l", "limit": 12, "children": [{"name": "x", "limit": 0}, {"name": "y"}]}]
    w = world(family)
    limits = w.encoded().state.budgets.limit_gpus
    assert [int(limits[leaf(w, p)]) for p in ("", "l", "l/x", "l/y")] == [-1, 12, 0, -1]


def test_carrying_an_overdraft_without_a_ledger_is_said():
    w = world(site={"fair_share": {"carry_overdraft": True}})
    assert any("carry_overdraft" in text for text in w.encoded().warnings)
    assert world().encoded().warnings == ()
