"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from planner.errors import InputError


def write_atomic(path: Path, text: str) -> None:
    """Write UTF-8 text so that readers and a crash see the old file or the new one, nothing between.

    The temporary file stands in the same directory, so that the rename stays on one file system, and gets
    its mode from the umask (a file of mode 0600 could not be read by others). It is gone whatever happens.
    A link is followed; what is no regular file (a device, a pipe) is written to as it is, never replaced.
    Raises InputError, naming the path, where the file cannot be written.
    """
    if not path.name or path.name == "-":
        raise InputError([f"{str(path)!r}: is no name for a file, write one (or -o json for stdout)"])
    path = Path(os.path.realpath(path))
    draft = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_text(text, encoding="utf-8")
            return
        _write_new(draft, text.encode())
        draft.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError(
            [f"{path}: cannot be written ({why}), name a file in a directory you may write to"]
        ) from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _write_new(path: Path, data: bytes) -> None:
    """Write a file that must not be there yet, through to the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    """Make the rename itself survive a crash."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
