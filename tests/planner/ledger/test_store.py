"""Opening a ledger: what makes it, what is refused, and that no message holds a password or a traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from planner.errors import GangplanError, InputError, SourceError
from planner.ledger import store
from planner.ledger.schema import VERSION, metadata
from planner.ledger.store import connect, open_ledger


def test_the_migrations_make_the_tables_that_the_code_uses(ledger):
    with ledger.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_the_version_of_the_code_is_the_newest_migration():
    config = Config()
    config.set_main_option("script_location", "planner.ledger:migrations")
    assert ScriptDirectory.from_config(config).get_current_head() == VERSION


def test_sqlite_makes_itself_where_it_is_to_be_written(sqlite_url):
    assert open_ledger(sqlite_url, create=True).version() == VERSION


def test_a_reader_makes_nothing(sqlite_url, tmp_path):
    with pytest.raises(InputError, match="holds no ledger"):
        open_ledger(sqlite_url)
    assert list(tmp_path.iterdir()) == []


def test_postgresql_is_made_by_upgrade_alone(postgresql_url):
    with pytest.raises(InputError, match="run `gangplan ledger upgrade`"):
        open_ledger(postgresql_url, create=True)
    connect(postgresql_url).upgrade()
    assert open_ledger(postgresql_url).version() == VERSION


def test_upgrading_what_is_up_to_date_changes_nothing(ledger):
    ledger.upgrade()
    assert ledger.version() == VERSION


def test_an_unknown_schema_is_refused_with_what_to_run(ledger):
    with ledger.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    try:
        with pytest.raises(InputError, match=r"version 9999.*run `gangplan ledger upgrade`"):
            open_ledger(str(ledger.engine.url))
        with pytest.raises(InputError, match=r"version 9999.*install the newer gangplan"):
            ledger.upgrade()
    finally:
        with ledger.write() as connection:
            connection.execute(text(f"UPDATE alembic_version SET version_num = '{VERSION}'"))


def test_sqlite_keeps_a_write_ahead_log_and_waits_for_writers(sqlite_ledger):
    with sqlite_ledger.read() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == store.LOCK_WAIT_S * 1000


def test_a_file_system_without_a_write_ahead_log_is_refused(sqlite_url, monkeypatch):
    monkeypatch.setattr(store, "_journal_mode", lambda _: "delete")
    with pytest.raises(SourceError, match=r"keeps no write-ahead log there.*delete"):
        connect(sqlite_url).upgrade()


def test_a_writer_that_waits_too_long_says_so(ledger, monkeypatch):
    monkeypatch.setattr(store, "LOCK_WAIT_S", 1)
    second = connect(str(ledger.engine.url))
    with ledger.write(), pytest.raises(SourceError, match="another process has been writing"), second.write():
        pass


def test_a_reader_sees_one_moment_while_others_write(ledger):
    with ledger.read() as reader:
        before = reader.execute(text("SELECT horizon_s FROM clock")).scalar()
        with ledger.write() as writer:
            writer.execute(text("UPDATE clock SET horizon_s = 3600"))
        assert reader.execute(text("SELECT horizon_s FROM clock")).scalar() == before
    with ledger.read() as reader:
        assert reader.execute(text("SELECT horizon_s FROM clock")).scalar() == 3600


def test_what_fails_leaves_nothing_behind(ledger):
    def fail() -> None:
        with ledger.write() as connection:
            connection.execute(text("UPDATE clock SET horizon_s = 3600"))
            connection.execute(text("INSERT INTO clock (id, horizon_s) VALUES (2, 0)"))

    with pytest.raises(SourceError):
        fail()
    with ledger.read() as connection:
        assert connection.execute(text("SELECT horizon_s FROM clock")).scalar() == 0


@pytest.mark.parametrize(
    "url",
    [
        "",
        "gangplan.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////nowhere/at/all.db",
        "mysql://someone:sesame@host/name",
        "postgresql://someone:sesame@127.0.0.1:1/name?password=sesame",
        "postgresql+nodriver://someone:sesame@host/name",
        "postgresql://someone:sesame@host:port/name",
    ],
)
def test_what_cannot_be_opened_is_one_line_without_a_password(url):
    with pytest.raises(GangplanError) as caught:
        open_ledger(url, create=True)
    said = str(caught.value)
    assert said
    assert "\n" not in said
    assert "sesame" not in said


def test_a_file_that_is_no_database_is_one_line(tmp_path: Path):
    path = tmp_path / "ledger.db"
    path.write_text("not a database, but long enough to be looked at as one" * 30)
    with pytest.raises(SourceError, match=r"^sqlite.*file is not a database$"):
        open_ledger(f"sqlite:///{path}", create=True)


def test_a_missing_driver_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match=r"install gangplan\[postgres\]"):
        connect("postgresql://host/name")


def test_a_database_error_is_one_line(ledger):
    with pytest.raises(SourceError) as caught, ledger.read() as connection:
        connection.execute(text("SELECT 1 FROM nowhere"))
    assert "\n" not in str(caught.value)
    assert "nowhere" in str(caught.value)
