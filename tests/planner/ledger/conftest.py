"""Ledgers on real databases: SQLite in a file, PostgreSQL on a server of its own (or skipped)."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from planner.ledger.store import Ledger, connect
from tests.planner.ledger.histories import emptied

_SERIAL = count()


def _server_programs() -> Path | None:
    """Return the folder of the newest PostgreSQL server here."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _as_owner() -> dict[str, str]:
    """PostgreSQL refuses to run as root."""
    return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Start a server and return the URL of its maintenance database."""
    programs = _server_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed")
    home = Path(tempfile.mkdtemp(prefix="gangplan-pg-"))
    owner = _as_owner()
    if owner:
        entry = pwd.getpwnam(owner["user"])
        os.chown(home, entry.pw_uid, entry.pw_gid)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]

    def run(*command: object) -> None:
        subprocess.run([str(c) for c in command], check=True, cwd=home, stdout=subprocess.DEVNULL, **owner)

    data = home / "data"
    options = f"-p {port} -k {home} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=20"
    try:
        run(programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8")
        run(programs / "pg_ctl", "-D", data, "-l", home / "log", "-w", "-o", options, "start")
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        if (data / "postmaster.pid").exists():
            run(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(home, ignore_errors=True)


def _new_database(server_url: str) -> str:
    """Make a database and return its URL."""
    name = f"ledger_{next(_SERIAL)}"
    server = connect(server_url).engine.execution_options(isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    return server_url.removesuffix("postgres") + name


@pytest.fixture(scope="session")
def _postgresql_ledger(postgresql: str) -> Ledger:
    made = connect(_new_database(postgresql))
    made.upgrade()
    return made


@pytest.fixture
def postgresql_url(postgresql: str) -> str:
    """Return the URL of a new database."""
    return _new_database(postgresql)


@pytest.fixture
def postgresql_ledger(_postgresql_ledger: Ledger) -> Ledger:
    """Return a ledger with nothing in it."""
    return emptied(_postgresql_ledger)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def sqlite_ledger(sqlite_url: str) -> Ledger:
    made = connect(sqlite_url)
    made.upgrade()
    return made


@pytest.fixture(params=["sqlite_url", "postgresql_url"])
def url(request: pytest.FixtureRequest) -> str:
    """Run a test on both databases, with no ledger in them yet."""
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["sqlite_ledger", "postgresql_ledger"])
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """Run a test on both databases, with an empty ledger."""
    found: Ledger = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def twins(sqlite_ledger: Ledger, postgresql_ledger: Ledger) -> tuple[Ledger, Ledger]:
    return sqlite_ledger, postgresql_ledger


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """One ledger for many small examples; a connection that stays open spares SQLite its clearing up."""
    made = connect(f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.db")
    made.upgrade()
    with made.engine.connect():
        yield made
