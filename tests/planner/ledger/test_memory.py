"""What a source forgets is remembered as it was said last, and forgotten when it has long left."""

from __future__ import annotations

from planner.ledger.memory import (
    KEEP_S,
    Known,
    NodeMemory,
    account_until,
    accounted_until,
    known_nodes,
    known_workloads,
    remember,
    remember_nodes,
)
from planner.ledger.store import Ledger
from planner.model.workload import Placement

GANG = Known(100, "unallocated", (Placement("n1", 8), Placement("n2", 8)), 2, 900)


def test_what_is_remembered_comes_back_and_the_last_word_counts(ledger: Ledger) -> None:
    with ledger.write() as connection:
        remember(connection, "slurm", {"1": GANG, "2": Known(5)}, 1000)
        remember(connection, "slurm", {"2": Known(5, "allocated")}, 1001)
        remember(connection, "other", {"1": Known(7)}, 1001)
        assert known_workloads(connection, "slurm") == {"1": GANG, "2": Known(5, "allocated")}


def test_who_has_long_left_is_forgotten(ledger: Ledger) -> None:
    with ledger.write() as connection:
        remember(connection, "slurm", {"1": GANG}, 1000)
        remember(connection, "slurm", {"2": GANG}, 1000 + KEEP_S)
        assert known_workloads(connection, "slurm").keys() == {"1", "2"}
        remember(connection, "slurm", {"2": GANG}, 1001 + KEEP_S)
        assert known_workloads(connection, "slurm").keys() == {"2"}


def test_nodes_are_remembered_until_they_have_settled(ledger: Ledger) -> None:
    with ledger.write() as connection:
        remember_nodes(connection, "slurm", {"n1": NodeMemory(5), "n2": NodeMemory(6, True)}, ())
        remember_nodes(connection, "slurm", {"n1": NodeMemory(9, True)}, ["n2"])
        assert known_nodes(connection, "slurm") == {"n1": NodeMemory(9, True)}


def test_accounts_are_read_on_from_where_they_were_read_to(ledger: Ledger) -> None:
    with ledger.write() as connection:
        assert accounted_until(connection, "slurm") is None
        account_until(connection, "slurm", 50)
        account_until(connection, "slurm", 70)
        assert accounted_until(connection, "slurm") == 70
