"""Rounds: fences only grow, and the newest round's promises are those that stand."""

from __future__ import annotations

from planner.ledger.rounds import newest_fence, record_round, standing_promises
from planner.model.plan import Decision, Plan, Reason, SolverSummary
from planner.model.snapshot import Reservation
from planner.model.workload import Placement

PROMISES = (
    Reservation("v", 100, (Placement("n1", 8), Placement("n2", 8))),
    Reservation("u", 200, (Placement("n3", 4),)),
)


def plan(time_s: int = 0, promises: tuple[Reservation, ...] = ()) -> Plan:
    solver = SolverSummary("highs", "optimal", 1.5, 1.5, 0.0, 0.1)
    decisions = (Decision("v", "wait", Reason("Promised", "later"), "a", 16),)
    return Plan(time_s, solver, decisions, promises, (), (), {}, ())


def test_before_the_first_round_there_is_nothing(ledger):
    with ledger.read() as connection:
        assert newest_fence(connection) is None
        assert standing_promises(connection) == ()


def test_promises_come_back_as_they_were(ledger):
    with ledger.write() as connection:
        record_round(connection, plan(promises=PROMISES), "digest")
    with ledger.read() as connection:
        assert standing_promises(connection) == PROMISES


def test_a_newer_round_takes_back_what_it_does_not_promise_again(ledger):
    with ledger.write() as connection:
        first = record_round(connection, plan(1, PROMISES), "digest")
        second = record_round(connection, plan(2, PROMISES[1:]), "digest")
        assert second > first
        assert newest_fence(connection) == second
        assert standing_promises(connection) == PROMISES[1:]


def test_a_fence_is_never_given_twice(ledger):
    with ledger.write() as connection:
        first = record_round(connection, plan(1), "digest")
        connection.exec_driver_sql("DELETE FROM rounds")
        assert record_round(connection, plan(1), "digest") > first
