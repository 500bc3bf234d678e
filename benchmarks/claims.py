"""What every refusal must say, and what tells one fault from another; for `benchmarks.fuzz`."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

MAX_MESSAGE = 2_000
"""Characters of one line of a refusal."""

_PLACE = re.compile(r":[0-9]+:[0-9]+: (\S.*?): ")
_FIX = re.compile(
    r", (write|remove|keep|name|give|list|leave|rename|move|count|flatten|save|check|mend|add|shorten)\b"
)


class OverrunError(BaseException):
    """An input takes too much time; no `except Exception` on the way stops this."""


class BrokenClaimError(Exception):
    """What must hold for every input does not hold for this one."""


def judge(message: str, path: Path | None = None) -> None:
    """Raise where a line of a refusal does not say where (in a file, if `path`), what, and what to write."""
    if not message.isprintable() or len(message) > MAX_MESSAGE:
        raise BrokenClaimError(f"a refusal that is not one readable line: {message[:MAX_MESSAGE]!r}")
    if path and not (message.startswith(str(path)) and _PLACE.match(message, len(str(path)))):
        raise BrokenClaimError(f"a refusal without its place: {message}")
    if not _FIX.search(message):
        raise BrokenClaimError(f"a refusal that does not say what to write: {message}")


def kind_of(error: BaseException) -> str:
    """Return what makes two faults the same: the broken claim, or the error and the line that raised it."""
    if isinstance(error, OverrunError):
        return "takes more time than it may"
    if isinstance(error, BrokenClaimError):
        return re.sub(r'"[^"]*"|[0-9]+|/\S+', "_", str(error))[:100]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "site-packages" not in f.filename]
    return f"{type(error).__name__} at {Path(frames[-1].filename).name}:{frames[-1].lineno}"
