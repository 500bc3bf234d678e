"""The `gangplan` command: thin, lazy, and never a traceback for a user's mistake."""

import sys

try:
    from planner.cli.main import main
except KeyboardInterrupt:  # Ctrl-C while we load: nobody is there yet to catch it
    sys.exit(130)

__all__ = ["main"]
