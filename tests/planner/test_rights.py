"""A file that is not this user's is named, with its owner and what to do; never its folder in its stead."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.cron.hostlock import host_lock
from planner.errors import InputError, SourceError
from planner.ledger.store import open_ledger
from planner.rights import unwritable
from planner.strict import read_text

NOBODY = 65_534


@pytest.fixture
def home() -> Iterator[Path]:
    """Give a folder that everybody may look into: pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def stranger(home: Path) -> Iterator[str]:
    """Be a user to whom nothing belongs, where the tests run as root; return who owns the files."""
    owner = pwd.getpwuid(os.geteuid()).pw_name
    root = os.geteuid() == 0
    yield owner
    if root:
        os.seteuid(0)


def become_stranger() -> None:
    if os.geteuid() == 0:
        os.seteuid(NOBODY)


def test_a_lock_that_another_user_left_is_named_with_its_owner(home: Path, stranger: str) -> None:
    (home / "lock").touch(mode=0o440)
    (home / "lock").chmod(0o440)
    become_stranger()
    with pytest.raises(
        InputError, match=rf"^{home}/lock: belongs to {stranger}, and .* may not write to it, "
    ):
        host_lock(home).__enter__()


def test_a_ledger_that_another_user_made_is_named_with_its_owner(home: Path, stranger: str) -> None:
    ledger = open_ledger(f"sqlite:///{home}/ledger.db", create=True)
    (home / "ledger.db").chmod(0o440)
    become_stranger()
    with pytest.raises(SourceError, match=rf"^{home}/ledger.db: belongs to {stranger}"), ledger.write():
        pass


def test_a_folder_that_may_not_be_entered_is_named_and_no_traceback(home: Path, stranger: str) -> None:
    (home / "state").mkdir()
    (home / "state").chmod(0o000)
    become_stranger()
    with pytest.raises(SourceError, match=rf"^{home}/state: belongs to {stranger}"):
        open_ledger(f"sqlite:///{home}/state/ledger.db", create=True)
    with pytest.raises(InputError, match=rf"^{home}/state: belongs to {stranger}"):
        host_lock(home / "state").__enter__()


def test_a_file_that_may_not_be_read_is_not_said_to_be_missing(home: Path, stranger: str) -> None:
    (home / "plan.json").touch()
    (home / "plan.json").chmod(0o000)
    become_stranger()
    with pytest.raises(InputError, match=r"Permission denied\), ask for the right to read it$"):
        read_text(home / "plan.json")


def test_what_this_user_may_write_to_is_no_fault(home: Path) -> None:
    assert unwritable(home / "none", home) is None
