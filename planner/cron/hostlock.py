"""The lock of a host: one round at a time writes into a state folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from planner.errors import InputError, LockedError
from planner.rights import unwritable


@contextmanager
def host_lock(state: Path) -> Iterator[str]:
    """Hold the lock of a state folder, and give the name by which the ledger knows its holder.

    The kernel lets go of it when the process ends, however it ends. LockedError where another holds it.
    """
    try:
        state.mkdir(mode=0o750, parents=True, exist_ok=True)
        lock = FileLock(state / "lock", timeout=0, mode=0o640)
        lock.acquire()
    except Timeout:
        raise LockedError(f"{state / 'lock'}: another round holds the lock") from None
    except OSError as error:
        fix = "name a folder that you may write to as run.state"
        fault = unwritable(state / "lock", state)
        raise InputError([fault or f"{state}: cannot be used ({error.strerror or error}), {fix}"]) from None
    try:
        yield f"{socket.gethostname()}:{os.path.realpath(state)}"
    finally:
        lock.release()
