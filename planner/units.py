"""Durations, times, memory, CPUs and percentages: text that people write to exact integers and back.

Every reader takes what a file held (text or a number) and raises `ValueError` whose message says what is
wrong and what to write instead. A bare number is never a duration: minutes were taken for seconds too often.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from planner.words import shown

MAX_DURATION_S = 36_500 * 86_400
"""A hundred years; longer is a slip of the pen, and sums of seconds stay far from overflow."""

MAX_TIME_S = 221_845_392_000
"""The year 9000: what is added to a time, a min runtime say, must still be on the calendar."""

MAX_MEMORY_BYTES = 1 << 60
MAX_CPUS = 1_000_000

MIN_EXPONENT, MAX_EXPONENT = -400, 300
"""Decimal exponents beyond these fit no float, and would only make exact fractions explode."""

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SUFFIXED = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?[wdhms])+")
_PART = re.compile(r"([0-9.]+)([wdhms])")
_CLOCK = re.compile(r"(?:([0-9]+)-)?([0-9]+)(?::([0-9]+))?(?::([0-9]+))?")
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?)?(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]?)I?B?", re.IGNORECASE | re.ASCII)
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_LONGEST = 64

_LIKE_DURATION = "write a duration such as 90s, 15m, 1h30m, 7d or 1-12:00:00"
_LIKE_TIME = "write a time such as 2026-10-09T15:20:00Z"
_LIKE_MEMORY = "write a size such as 512G or 2TiB"
_LIKE_PERCENT = "write a percentage such as 4% or 0.1%"

# -- durations ---------------------------------------------------------------------------------------


def parse_duration(value: object) -> int:
    """Read a duration into whole seconds: `90s`, `1h30m`, `1.5h`, `7d`, `D-HH[:MM[:SS]]`, `HH:MM:SS`."""
    if isinstance(value, str):
        return _duration(value.strip())
    raise ValueError(_bare_duration(value))


@lru_cache(maxsize=1024)
def _duration(text: str) -> int:
    """Read a duration that is text at least."""
    if len(text) > _LONGEST:
        raise ValueError(f"{shown(text)} is not a duration, {_LIKE_DURATION}")
    if text.startswith("-"):
        raise ValueError(f"{shown(text)} is negative, {_LIKE_DURATION}")
    if _SUFFIXED.fullmatch(text):
        seconds = _suffixed(text)
    elif clock := _CLOCK.fullmatch(text):
        seconds = _clock(text, *clock.groups())
    else:
        bare = "".join(text.split()).lower()
        fix = f"write {bare}" if _SUFFIXED.fullmatch(bare) else _LIKE_DURATION
        raise ValueError(f"{shown(text)} is not a duration, {fix}")
    if seconds > MAX_DURATION_S:
        raise ValueError(f"{shown(text)} is more than a hundred years, write at most 36500d")
    return seconds


def _bare_duration(value: object) -> str:
    """Say why something that is not text is no duration."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        return f"{shown(value)} is not a duration, {_LIKE_DURATION}"
    if not isinstance(value, int):
        return f"{shown(value)} has no unit, {_LIKE_DURATION}"
    if value < 0:
        return f"{shown(value)} is negative and has no unit, {_LIKE_DURATION}"
    return f"{shown(value)} has no unit, {_with_units(value)}"


def _with_units(number: int) -> str:
    """Offer the units for a bare number."""
    return f"write {number}s, {number}m or {number}h" if number else "write 0s"


def _suffixed(text: str) -> int:
    """Add up the parts of `1h30m`."""
    parts = _PART.findall(text)
    places = ["wdhms".index(unit) for _, unit in parts]
    if sorted(set(places)) != places:
        raise ValueError(f"{shown(text)} repeats or mixes its units, write them as in 1d2h30m")
    total = sum((Fraction(number) * _SECONDS[unit] for number, unit in parts), Fraction(0))
    if total.denominator != 1:
        rounded = format_duration(-(-total.numerator // total.denominator))
        raise ValueError(f"{shown(text)} is not a whole number of seconds, write {rounded}")
    return total.numerator


def _clock(text: str, days: str | None, *clock: str | None) -> int:
    """Read Slurm's forms; what could be minutes or hours is refused."""
    first, second, third = clock
    assert first is not None
    if days is None and second is None:
        raise ValueError(f"{shown(text)} has no unit, {_with_units(int(first))}")
    if days is None and third is None:
        a, b = int(first), int(second or 0)
        raise ValueError(f"{shown(text)} could be minutes or hours, write {a}m{b}s or {a}h{b}m")
    hours, minutes, seconds = int(first), int(second or 0), int(third or 0)
    if minutes > 59 or seconds > 59 or (days is not None and hours > 23):
        raise ValueError(
            f"{shown(text)} has hours over 23, minutes or seconds over 59, write D-HH:MM:SS or HH:MM:SS"
        )
    return int(days or 0) * 86_400 + hours * 3_600 + minutes * 60 + seconds


def format_duration(seconds: int) -> str:
    """Write seconds as `parse_duration` reads them: `1d12h`, `1h30m`, `0s`."""
    if seconds < 0:
        raise ValueError(f"a duration of {seconds} s is negative")
    parts = []
    rest = seconds
    for unit in "dhms":
        count, rest = divmod(rest, _SECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


# -- times -------------------------------------------------------------------------------------------


def parse_time(value: object) -> int:
    """Read an ISO 8601 time with its offset into epoch seconds, parts of a second dropped."""
    if isinstance(value, str):
        return _time(value)
    raise ValueError(_bare_time(value))


def _time(value: str) -> int:
    """Read a time that is text at least."""
    match = _TIME.fullmatch(value)
    if not match:
        raise ValueError(f"{shown(value)} is not a time, {_LIKE_TIME}")
    date, minute, second, zone = match.groups()
    if minute is None:
        raise ValueError(f"{shown(value)} has no time of day, write {date}T00:00:00Z")
    if zone is None:
        whole = f"{date}T{minute}{second or ':00'}Z"
        raise ValueError(f"{shown(value)} has no time zone, write {whole} (or an offset for Z)")
    try:
        seconds = (datetime.fromisoformat(value) - _EPOCH) // _SECOND
    except ValueError:
        raise ValueError(f"{shown(value)} is not on the calendar, {_LIKE_TIME}") from None
    if not 0 <= seconds <= MAX_TIME_S:
        raise ValueError(f"{shown(value)} is not between 1970 and 9000, {_LIKE_TIME}")
    return seconds


def _bare_time(value: object) -> str:
    """Say why something that is not text is no time."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TIME_S:
        return f"{value} is a bare number, write {format_time(value)}"
    return f"{shown(value)} is not a time, {_LIKE_TIME}"


def format_time(time_s: int) -> str:
    """Write epoch seconds as `2026-10-09T15:20:00Z`."""
    if not 0 <= time_s <= MAX_TIME_S:
        raise ValueError(f"{time_s} s is not between 1970 and 9999")
    return f"{(_EPOCH + time_s * _SECOND).replace(tzinfo=None).isoformat()}Z"


# -- amounts -----------------------------------------------------------------------------------------


def parse_memory(value: object) -> int:
    """Read memory into bytes; every suffix is binary (`64GB` = `64GiB`), a whole number is bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _memory(str(value))
    if isinstance(value, str):
        return _memory(value)
    raise ValueError(f"{shown(value)} is not a memory size, {_LIKE_MEMORY}")


@lru_cache(maxsize=1024)
def _memory(text: str) -> int:
    """Read a memory size that is text."""
    match = _MEMORY.fullmatch(text) if len(text) <= _LONGEST else None
    if not match:
        raise ValueError(f"{shown(text)} is not a memory size, {_LIKE_MEMORY}")
    number, prefix = match.groups()
    unit: int = 1024 ** " KMGTP".index(prefix.upper() or " ")
    total = Fraction(number) * unit
    if total.denominator != 1:
        raise ValueError(f"{shown(text)} is not a whole number of bytes, {_LIKE_MEMORY}")
    if total > MAX_MEMORY_BYTES:
        raise ValueError(f"{shown(text)} is too much memory, write at most 1024P")
    return total.numerator


def parse_cpus(value: object) -> int:
    """Read a number of CPUs with up to three decimals into thousandths of a CPU."""
    number = parse_number(value, like="a number of CPUs such as 96 or 0.5")
    if not 0 <= number <= MAX_CPUS:
        raise ValueError(f"{shown(value)} CPUs cannot be, write a number from 0 to {MAX_CPUS}")
    milli = number * 1000
    if milli.denominator != 1:
        raise ValueError(f"{shown(value)} has more than three decimals, write {float(number):.3f}")
    return milli.numerator


def parse_percent(value: object) -> Fraction:
    """Read `4%` or `0.1%`, at most 100%, into a fraction; the % sign must be there."""
    match = _PERCENT.fullmatch(value) if isinstance(value, str) and len(value) <= _LONGEST else None
    if not match:
        raise ValueError(f"{shown(value)} has no % sign or no number, {_LIKE_PERCENT}")
    part = Fraction(match.group(1)) / 100
    if part > 1:
        raise ValueError(f"{shown(value)} is more than the whole, write at most 100%")
    return part


def parse_number(value: object, like: str = "a number such as 0.5") -> Fraction:
    """Return a finite number exactly as it was written: 0.1 is 1/10."""
    if isinstance(value, int | Fraction) and not isinstance(value, bool):
        return Fraction(value)
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    if isinstance(exact, Decimal) and exact.is_finite():
        low, high = int(exact.as_tuple().exponent), exact.adjusted()
        if low >= MIN_EXPONENT and high <= MAX_EXPONENT:
            return Fraction(exact)
    raise ValueError(f"{shown(value)} is not a number, write {like}")
