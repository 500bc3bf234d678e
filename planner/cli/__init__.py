"""The `gangplan` command: thin, lazy, and never a traceback for a user's mistake."""

from planner.cli.main import main

__all__ = ["main"]
