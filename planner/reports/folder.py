"""A folder of files that changes all at once: readers see the old one or the new one, never a mixture.

The name is a symbolic link to a folder beside it. A new folder is filled under a name of its own, and then
the link is replaced, one step of the file system. The folder before is kept for whoever is reading it.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from planner.errors import InputError


def replace_folder(path: Path, files: Mapping[str, str]) -> None:
    """Make `path` a folder of exactly these files.

    InputError where `path` is a folder or file that this function has not made, or cannot be written.
    """
    if (path.exists() or path.is_symlink()) and not _is_ours(path):
        raise InputError([f"{path}: is there and was not made by this command, name another folder"])
    fresh = path.parent / f".{path.name}-{secrets.token_hex(6)}"
    link = path.parent / f"{fresh.name}.link"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        for name, text in files.items():
            (fresh / name).write_text(text, encoding="utf-8")
        link.symlink_to(fresh.name, target_is_directory=True)
        before = path.resolve() if path.is_symlink() else None
        link.replace(path)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        link.unlink(missing_ok=True)
        why = error.strerror or type(error).__name__
        raise InputError(
            [f"{path}: cannot be written ({why}), name a folder that you may write to"]
        ) from None
    _forget(path, {fresh.name, *([] if before is None else [before.name])})


def _is_ours(path: Path) -> bool:
    """Tell whether a path is a link to one of our folders."""
    return path.is_symlink() and str(path.readlink()).startswith(f".{path.name}-")


def _forget(path: Path, kept: set[str]) -> None:
    """Remove the folders of earlier times."""
    for old in path.parent.glob(f".{path.name}-" + "[0-9a-f]" * 12):
        if old.name not in kept:
            shutil.rmtree(old, ignore_errors=True)
