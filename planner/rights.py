"""Files that the system keeps from this user: whose they are, and what to do about it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path


def unreadable(error: OSError | ValueError) -> str:
    """Return that a file cannot be read, why, and what to do."""
    why = getattr(error, "strerror", None) or str(error)
    kept_from = isinstance(error, PermissionError)
    fix = "ask for the right to read it" if kept_from else "name a file that is there"
    return f"cannot be read ({why}), {fix}"


def unwritable(*paths: Path) -> str | None:
    """Return which of these is there and not this user's to write to, and what to do; None if none is."""
    for path in paths:
        try:
            owner, me = _name(path.stat().st_uid), _name(os.geteuid())
        except OSError:
            continue
        if not os.access(path, os.W_OK, effective_ids=True):
            fix = f"`chown {me} {path}`, or run as {owner}" if owner != me else f"`chmod u+w {path}`"
            return f"{path}: belongs to {owner}, and {me} may not write to it, {fix}"
    return None


def _name(uid: int) -> str:
    """Return the name of a user; the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
