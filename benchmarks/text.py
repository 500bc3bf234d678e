"""Times, durations and node lists as they are written in site files and snapshots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

MINUTE, HOUR, DAY = 60, 3600, 86_400


def iso(time_s: int) -> str:
    """Return epoch seconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(time_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: int) -> str:
    """Return whole seconds as `1d2h3m4s` without its zeros."""
    out, left = "", seconds
    for unit, letter in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (1, "s")):
        out += f"{left // unit}{letter}" if left >= unit else ""
        left %= unit
    return out or "0s"


def seconds(text: str) -> int:
    """Return the length of a duration that `duration` has written."""
    units = {"d": DAY, "h": HOUR, "m": MINUTE, "s": 1}
    return sum(int(number) * units[letter] for number, letter in re.findall(r"(\d+)([dhms])", text))


def hostlist(prefix: str, numbers: Sequence[int], digits: int) -> str:
    """Fold ascending node numbers into `prefix[001-008,010]`."""
    runs = [[numbers[0], numbers[0]]]
    for number in numbers[1:]:
        if number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    folded = ",".join(f"{a:0{digits}d}" if a == b else f"{a:0{digits}d}-{b:0{digits}d}" for a, b in runs)
    return f"{prefix}{folded}" if len(numbers) == 1 else f"{prefix}[{folded}]"
