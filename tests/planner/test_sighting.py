"""What a snapshot shows of who holds and wants what."""

from __future__ import annotations

from planner.ledger.hourly import occupied
from planner.ledger.observe import observe
from planner.ledger.store import connect
from planner.sighting import sighting_of
from tests.planner.worlds import NOW_S, world

THREE_HOURS = 3 * 3600


def seen(*workloads, budgets=None, **more):
    w = world(budgets, workloads=workloads, **more)
    return sighting_of(w.site, w.snapshot)


def test_a_running_workload_holds_its_gpus_from_its_start_until_now():
    (held,) = seen({"id": "r", "on": "n[1-2]"}).held
    assert (held.workload, held.allocation, held.occupancy, held.gpus) == ("r", "a", "allocated", 16)
    assert (held.started_s, held.begin_s, held.end_s) == (NOW_S - THREE_HOURS, NOW_S - THREE_HOURS, NOW_S)
    assert held.running


def test_a_stopping_workload_still_holds_its_gpus():
    assert [i.gpus for i in seen({"id": "r", "on": "n1", "state": "stopping"}).held] == [8]


def test_a_pending_workload_holds_nothing_and_asks():
    sighting = seen({"id": "p"}, {"id": "q", "replicas": 2, "allocation": "b"})
    assert sighting.held == ()
    assert sighting.asked_gpus == {"a": 8, "b": 16}


def test_unallocated_work_asks_for_nothing():
    sighting = seen({"id": "r", "on": "n1", "min_runtime": "0s"}, {"id": "p", "min_runtime": "0s"})
    assert [i.occupancy for i in sighting.held] == ["unallocated"]
    assert sighting.asked_gpus == {}


def test_a_run_keeps_the_occupancy_that_it_was_started_with():
    (held,) = seen({"id": "r", "on": "n1", "occupancy": "unallocated"}).held
    assert held.occupancy == "unallocated"


def test_a_gang_on_two_types_is_two_intervals():
    nodes = [{"name": "x", "gpu_type": "h100"}, {"name": "y", "gpu_type": "b200"}]
    sighting = seen({"id": "r", "on": ["x", "y"]}, nodes=nodes)
    assert [(i.gpu_type, i.gpus) for i in sighting.held] == [("b200", 8), ("h100", 8)]


def test_work_without_gpus_leaves_no_trace():
    sighting = seen({"id": "r", "on": "n1", "gpus": 0})
    assert sighting.held == ()


def test_an_account_charges_its_allocation():
    family = [{"name": "l", "children": [{"name": "x", "accounts": ["lab"]}]}, {"name": "b"}]
    sighting = seen({"id": "r", "on": "n1", "allocation": "lab"}, budgets=family)
    assert sighting.held[0].allocation == "l/x"
    assert sighting.asked_gpus == {"l/x": 8}


def test_nodes_that_are_down_cannot_be_used_and_draining_ones_can():
    nodes = [{"name": "x"}, {"name": "y", "state": "draining"}, {"name": "z", "state": "down"}]
    assert seen(nodes=nodes).gpus == {("k", ""): 16}


def test_shares_are_those_of_the_site():
    assert seen(budgets={"a": 1, "b": 3}).share_ppb == {"a": 250_000_000, "b": 750_000_000}


def test_a_snapshot_goes_into_a_ledger(tmp_path):
    ledger = connect(f"sqlite:///{tmp_path}/ledger.db")
    ledger.upgrade()
    with ledger.write() as connection:
        observe(connection, seen({"id": "r", "on": "n1"}))
        assert sum(occupied(connection, 0, NOW_S).values()) == 8 * THREE_HOURS
