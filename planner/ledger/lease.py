"""The lease: of all hosts that share a ledger one plans, and one that has hung finds its token stale.

Each time the lease changes hands its token grows. Whoever is about to touch the cluster shows its token
first; a stale one ends the round. A host takes its own lease back at once, for the lock of the host has
already made sure that no other round runs there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import Connection, func, select, update

from planner.errors import LockedError
from planner.ledger.schema import lease
from planner.ledger.store import Ledger
from planner.units import format_time


@dataclass(frozen=True)
class Lease:
    """The right to plan, held by this process for a while at a time.

    Attributes
    ----------
    term_s : int, seconds
        How long a host that has fallen silent keeps others out.
    """

    ledger: Ledger
    holder: str
    token: int
    term_s: int

    def renew(self) -> None:
        """Make sure that the lease is still ours, and ours for another term; LockedError where it is not."""
        with self.ledger.write() as connection:
            self.renew_in(connection)

    def renew_in(self, connection: Connection) -> None:
        """Do the same inside a transaction, which is kept only if the lease is ours."""
        until_s = _now_s(connection) + self.term_s
        ours = update(lease).where(lease.c.token == self.token).values(until_s=until_s)
        if connection.execute(ours).rowcount != 1:
            raise LockedError(
                f"{self.ledger.name}: another host has taken over, nothing more is applied here"
            )

    def release(self) -> None:
        """Let others plan at once."""
        with self.ledger.write() as connection:
            connection.execute(update(lease).where(lease.c.token == self.token).values(until_s=0))


def take(ledger: Ledger, holder: str, term_s: int) -> Lease:
    """Take the lease; LockedError while another host holds it.

    A lease that seems to run for longer than a term was written by a clock that has since stepped back: it is
    not believed.
    """
    with ledger.write() as connection:
        row = connection.execute(select(lease)).one()
        now_s = _now_s(connection)
        if row.holder != holder and now_s < row.until_s <= now_s + term_s:
            until = format_time(row.until_s)
            raise LockedError(f"{ledger.name}: {row.holder} plans, and holds the lease until {until}")
        token = int(row.token) + 1
        values = {"token": token, "holder": holder, "until_s": now_s + term_s}
        connection.execute(update(lease).values(values))
    return Lease(ledger, holder, token, term_s)


def _now_s(connection: Connection) -> int:
    """Return the time of the one clock that all hosts share: the database server's."""
    if connection.dialect.name == "sqlite":
        return int(time.time())
    return int(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one())
