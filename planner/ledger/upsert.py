"""Insert or change a row by its key: one statement, which SQLAlchemy has once for each database."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

Row = dict[str, Any]
Change = Callable[[Any, Any], ColumnElement[Any]]
"""From the column as it stands and as it is offered to what it becomes."""

BATCH = 1000


def upsert(connection: Connection, table: Table, rows: Iterable[Row], changes: dict[str, Change]) -> None:
    """Insert rows; where the primary key is there already, change the columns named."""
    offered = list(rows)
    if not offered:
        return
    make = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    insert = make(table)
    statement = insert.on_conflict_do_update(
        index_elements=list(table.primary_key),
        set_={name: change(table.c[name], insert.excluded[name]) for name, change in changes.items()},
    )
    for start in range(0, len(offered), BATCH):
        connection.execute(statement, offered[start : start + BATCH])


def add(there: Any, offered: Any) -> ColumnElement[int]:
    """Add what is offered."""
    return there + offered  # type: ignore[no-any-return]


def replace(there: Any, offered: Any) -> ColumnElement[Any]:
    """Take what is offered."""
    return offered  # type: ignore[no-any-return]
