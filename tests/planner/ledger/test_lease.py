"""One host plans at a time, and one that has hung finds its token stale."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from planner.errors import LockedError
from planner.ledger import lease as module
from planner.ledger.lease import take
from planner.ledger.store import Ledger


def runs_out(ledger: Ledger) -> None:
    """Let the term of the lease end."""
    with ledger.write() as connection:
        connection.exec_driver_sql("UPDATE lease SET until_s = 1")


def test_a_second_host_is_kept_out_until_the_first_lets_go(ledger: Ledger) -> None:
    first = take(ledger, "a", 60)
    with pytest.raises(LockedError, match=r"a plans, and holds the lease until \d"):
        take(ledger, "b", 60)
    first.release()
    assert take(ledger, "b", 60).token > first.token


def test_whoever_was_silent_for_its_term_has_lost_its_turn_for_good(ledger: Ledger) -> None:
    first = take(ledger, "a", 60)
    runs_out(ledger)
    second = take(ledger, "b", 60)
    with pytest.raises(LockedError, match="another host has taken over"):
        first.renew()
    second.renew()


def test_nothing_is_kept_of_what_a_stale_host_writes(ledger: Ledger) -> None:
    first = take(ledger, "a", 60)
    runs_out(ledger)
    take(ledger, "b", 60)

    def write() -> None:
        with ledger.write() as connection:
            connection.exec_driver_sql("UPDATE clock SET horizon_s = 3600")
            first.renew_in(connection)

    with pytest.raises(LockedError):
        write()
    with ledger.read() as connection:
        assert connection.exec_driver_sql("SELECT horizon_s FROM clock").scalar() == 0


def test_a_stale_host_that_lets_go_takes_nothing_from_the_new_one(ledger: Ledger) -> None:
    first = take(ledger, "a", 60)
    runs_out(ledger)
    take(ledger, "b", 60)
    first.release()
    with pytest.raises(LockedError):
        take(ledger, "c", 60)


def test_a_host_takes_its_own_lease_back_at_once(ledger: Ledger) -> None:
    first = take(ledger, "a", 60)
    again = take(ledger, "a", 60)
    assert again.token > first.token
    with pytest.raises(LockedError):
        first.renew()


def test_a_lease_from_a_clock_that_has_stepped_back_is_not_believed(sqlite_ledger: Ledger) -> None:
    with patch.object(module.time, "time", return_value=2_000_000_000.0):
        take(sqlite_ledger, "a", 60)
    assert take(sqlite_ledger, "b", 60)
