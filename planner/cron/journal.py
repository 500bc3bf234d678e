"""What a round says while it works: one JSON object a line on stderr.

From cron a round that goes well is silent: warnings and errors alone are written unless more is asked for.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from planner.units import format_time

LOGGER = logging.getLogger("gangplan.run")


class _JsonLines(logging.Formatter):
    """Writes a record with its facts; what users wrote is inside JSON strings, and can forge no line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line = {"time": format_time(int(record.created)), "level": record.levelname.lower()}
        facts = getattr(record, "facts", {})
        return json.dumps({**line, "event": record.getMessage(), **facts}, ensure_ascii=True, default=str)


def to_stderr(level: int) -> None:
    """Let the journal write to stderr from this level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    LOGGER.handlers[:] = [handler]
    LOGGER.propagate = False
    LOGGER.setLevel(level)


def tell(event: str, **facts: Any) -> None:
    """Say what happened as it should."""
    LOGGER.info(event, extra={"facts": facts})


def warn(event: str, **facts: Any) -> None:
    """Say what somebody should look at."""
    LOGGER.warning(event, extra={"facts": facts})


def fail(event: str, **facts: Any) -> None:
    """Say what ended the round."""
    LOGGER.error(event, extra={"facts": facts})
