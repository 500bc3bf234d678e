"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from planner.errors import InputError


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write text (as UTF-8) or bytes, so that readers and a crash see the old file or the new one.

    Raises InputError as `writing` does.
    """
    with writing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a file for bytes that takes its name only when the block ends without an error.

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
            with path.open("wb") as file:
                yield file
            return
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with _create(draft) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
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


def _create(path: Path) -> BinaryIO:
    """Open a file that must not be there yet."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb")


def _sync_directory(directory: Path) -> None:
    """Make the rename itself survive a crash."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
