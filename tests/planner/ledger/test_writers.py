"""Several processes at once: nothing is lost or charged twice, and a killed writer leaves nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.ledger.csvfile import HEADER, export_csv, import_csv
from planner.ledger.hourly import occupied, rebuild
from planner.ledger.store import connect
from tests.planner.ledger.histories import HOUR, hourly_rows

GANGPLAN = (sys.executable, "-c", "from planner.cli import main; main()")


def url_of(ledger) -> str:
    return ledger.engine.url.render_as_string(hide_password=False)


def runs(path: Path, workloads: range, gpus: int = 8) -> Path:
    """Write a file of runs of an hour each, that meet in the same hours."""
    lines = [f"s,w{i},{i % 50},a,allocated,k,h100,{gpus},{i % 50},{i % 50 + HOUR},ended\n" for i in workloads]
    path.write_text(",".join(HEADER) + "\n" + "".join(lines), encoding="utf-8")
    return path


def importing(ledger, path: Path) -> subprocess.Popen[bytes]:
    command = (*GANGPLAN, "ledger", "import", "--ledger", url_of(ledger), str(path))
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def total(ledger) -> int:
    with ledger.read() as connection:
        return sum(occupied(connection, 0, 10 * HOUR).values())


def test_two_writers_at_once_lose_nothing(ledger, tmp_path):
    """Their runs share hours, so that each changes rows of the other's; some runs are in both files."""
    files = [runs(tmp_path / "a.csv", range(600)), runs(tmp_path / "b.csv", range(500, 1100))]
    writers = [importing(ledger, path) for path in files]
    for writer in writers:
        _, err = writer.communicate(timeout=120)
        assert writer.returncode == 0, err
    assert total(ledger) == 1100 * 8 * HOUR
    with ledger.write() as connection:
        before = hourly_rows(connection)
        rebuild(connection)
        assert hourly_rows(connection) == before


def test_two_writers_make_a_new_sqlite_ledger_together(sqlite_url, tmp_path):
    made = connect(sqlite_url)
    files = [runs(tmp_path / "a.csv", range(100)), runs(tmp_path / "b.csv", range(100, 200))]
    writers = [importing(made, path) for path in files]
    for writer in writers:
        _, err = writer.communicate(timeout=120)
        assert writer.returncode == 0, err
    assert total(made) == 200 * 8 * HOUR


def test_a_writer_killed_in_the_middle_leaves_nothing_or_all(ledger, tmp_path):
    """Killed at several moments of an import; then the same file goes in as if nothing had been."""
    path = runs(tmp_path / "a.csv", range(8000))
    whole = 8000 * 8 * HOUR
    seen = set()
    for wait_s in (0.0, 0.3, 0.6):
        writer = importing(ledger, path)
        began(ledger, writer)
        time.sleep(wait_s)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        seen.add(total(ledger))
    assert seen <= {0, whole}
    assert 0 in seen, "no import was killed before its end: make the file longer"
    import_csv(ledger, path)
    assert total(ledger) == whole
    assert len(list(export_csv(ledger, 0, HOUR))) == 8001


def began(ledger, writer: subprocess.Popen[bytes]) -> None:
    """Wait until a writer holds the lock, or is gone."""
    impatient = connect(url_of(ledger)).engine
    probe = "BEGIN IMMEDIATE" if ledger.is_sqlite else "SELECT id FROM clock FOR UPDATE NOWAIT"
    deadline_s = time.monotonic() + 60
    while writer.poll() is None and time.monotonic() < deadline_s:
        raw = impatient.raw_connection()
        try:
            cursor = raw.cursor()
            if ledger.is_sqlite:
                cursor.execute("PRAGMA busy_timeout = 0")
            cursor.execute(probe)
            raw.rollback()
        except Exception as error:
            if "lock" not in str(error):
                raise
            return
        finally:
            raw.close()
        time.sleep(0.02)
    pytest.fail("the writer never began to write")
