"""Opening a ledger: its URL, its schema, and transactions in which one writer at a time writes.

Every fault of a database becomes one line of a `GangplanError`; no message ever holds a password.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NullPool,
    column,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    table,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError

from planner.errors import GangplanError, InputError, SourceError
from planner.ledger.schema import VERSION, clock
from planner.rights import unwritable

LOCK_WAIT_S = 30
"""How long a writer waits for its turn."""

UPGRADE_LOCK = 7_163_405
"""Advisory lock on PostgreSQL: two upgrades at once take turns."""

_LIKE = "write sqlite:///gangplan.db or postgresql://user@host/name"
_VERSIONS = table("alembic_version", column("version_num"))


def open_ledger(url: str, create: bool = False) -> Ledger:
    """Open a ledger that is at this program's schema version.

    With `create` an SQLite ledger that is not there yet is made; a PostgreSQL one is made by `upgrade` alone.
    Raises InputError where the URL is wrong or the schema another, SourceError where the database fails.
    """
    ledger = connect(url)
    found = ledger.version()
    if found is None and create and ledger.is_sqlite:
        ledger.upgrade()
    elif found is None:
        fix = "`gangplan ledger import` makes it" if ledger.is_sqlite else "run `gangplan ledger upgrade`"
        raise InputError([f"{ledger.name}: holds no ledger, name one that is there, or {fix}"])
    elif found != VERSION:
        fault = f"its schema is version {found}, this gangplan works on {VERSION}"
        raise InputError([f"{ledger.name}: {fault}, run `gangplan ledger upgrade`"])
    return ledger


def connect(url: str) -> Ledger:
    """Return a ledger whatever its schema; nothing is opened yet."""
    try:
        found = make_url(url)
    except (ArgumentError, ValueError):  # the latter where a port is no number
        raise InputError([f"the ledger is not named by a database URL, {_LIKE}"]) from None
    backend = found.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise InputError([f"a ledger is kept in SQLite or PostgreSQL and not in {backend}, {_LIKE}"])
    if backend == "sqlite" and (not found.database or found.database.startswith((":", "file:"))):
        raise InputError([f"a ledger in SQLite needs a file, {_LIKE}"])
    if found.drivername == "postgresql":
        found = found.set(drivername="postgresql+psycopg")
    try:
        return Ledger(_sqlite(found) if backend == "sqlite" else _postgresql(found), _named(found))
    except ModuleNotFoundError as error:
        fix = "install gangplan[postgres]" if backend == "postgresql" else "name another driver"
        raise InputError([f"{_named(found)}: needs {error.name}, {fix}"]) from None
    except SQLAlchemyError as error:
        raise InputError([f"{_named(found)}: {_line(error)}, {_LIKE}"]) from None


def _named(url: URL) -> str:
    """Return the URL as messages show it: no password, no options (they may hold one)."""
    return url.set(query={}).render_as_string(hide_password=True)


class Ledger:
    """A database that holds a ledger. `name` is its URL without the password, `file` that of SQLite."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.is_sqlite = engine.dialect.name == "sqlite"
        self.file = Path(engine.url.database) if self.is_sqlite and engine.url.database else None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that sees one moment of the ledger, however long it looks."""
        options: dict[str, Any] = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._in_one_line(), self.engine.connect() as raw:
            connection = raw.execution_options(**options)
            with connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection whose changes are kept together, or none of them; writers take turns."""
        with self._transaction() as connection:
            if not self.is_sqlite:
                connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'"))
                connection.execute(select(clock.c.id).with_for_update())
            yield connection

    def version(self) -> str | None:
        """Return the schema version; None where there is no ledger yet."""
        with suppress(PermissionError):  # SQLite itself says so below
            if self.file is not None and not self.file.exists():
                return None
        with self._in_one_line(), self.engine.connect() as connection:
            return _version(connection)

    def upgrade(self) -> None:
        """Bring the schema to this program's version; make it where there is none."""
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        with self._transaction() as connection:
            if not self.is_sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})"))
            found = _version(connection)
            config = Config()
            config.set_main_option("script_location", "planner.ledger:migrations")
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError:
                fault = f"its schema is version {found}, which this gangplan does not know"
                raise InputError([f"{self.name}: {fault}, install the newer gangplan"]) from None

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._in_one_line(), self.engine.connect() as raw:
            connection = raw.execution_options(gangplan_writes=True)
            with connection.begin():
                yield connection

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        """Turn what the database raises into one line."""
        try:
            yield
        except GangplanError:
            raise
        except SQLAlchemyError as error:
            fault = None
            if self.file is not None and isinstance(error, OperationalError):
                fault = unwritable(self.file, self.file.parent)
            raise SourceError(fault or f"{self.name}: {_line(error)}") from None


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(select(_VERSIONS.c.version_num)).scalar()
    return found


def _line(error: SQLAlchemyError) -> str:
    """Return the first line of what went wrong."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    said = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    if "database is locked" in said or "lock timeout" in said:
        return f"another process has been writing for {LOCK_WAIT_S} s, try again"
    return said


# -- SQLite ------------------------------------------------------------------------------------------


def _sqlite(url: URL) -> Engine:
    """Return an engine whose transactions begin as the store says, and not as the driver guesses."""
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": LOCK_WAIT_S})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _record: object) -> None:
    """Set up an SQLite connection: write-ahead log, waiting writers, foreign keys."""
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")
    mode = _journal_mode(connection)
    if mode != "wal":
        where = "move the ledger to a local disk that this user may write to"
        raise SourceError(f"SQLite keeps no write-ahead log there (its journal mode stays {mode}), {where}")


def _journal_mode(connection: Any) -> str:
    """Switch to the write-ahead log; SQLite itself does not wait when several connections do so at once."""
    deadline_s = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            mode: str = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except Exception as error:
            if "locked" not in str(error) or time.monotonic() > deadline_s:
                raise
            time.sleep(0.01)
        else:
            return mode


def _begin(connection: Connection) -> None:
    """Take the write lock at once: a reader that turns writer may find that it read what is no more."""
    writes = connection.get_execution_options().get("gangplan_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


# -- PostgreSQL --------------------------------------------------------------------------------------


def _postgresql(url: URL) -> Engine:
    return create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": 10})
