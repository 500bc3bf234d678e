"""How tests call the command: in this process, with what it printed on each stream."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from planner.cli import main


@dataclass(frozen=True)
class Called:
    """Exit code and streams of a call."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines on stderr."""
        return self.err.splitlines()


def gangplan(*args: str | Path) -> Called:
    """Call `gangplan` with these arguments; whatever it raises but an exit comes through."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = ["gangplan", *map(str, args)]
    with patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    return Called(code, out.getvalue(), err.getvalue())


def refused(called: Called, code: int = 2) -> list[str]:
    """Return the errors of a call that failed as it should: on stderr alone, and no traceback."""
    assert called.code == code, called
    assert called.out == ""
    assert called.errors
    assert "Traceback" not in called.err
    return called.errors
