"""The scalars of the files: how each is written, what it becomes, and what an editor should know of it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from planner.hostlist import Hosts
from planner.units import (
    MAX_EXPONENT,
    MIN_EXPONENT,
    parse_cpus,
    parse_duration,
    parse_memory,
    parse_number,
    parse_percent,
    parse_time,
)
from planner.words import shown

MAX_COUNT = 1_000_000
MAX_UNITS = 1_000_000_000
MAX_NAME = 255

LEDGERS = ("sqlite", "postgresql")
"""Databases that a ledger can be kept in."""

DURATION_PATTERN = r"^([0-9.]+[wdhms])+$|^[0-9]+-[0-9:]+$|^[0-9]+:[0-9]+:[0-9]+$"


def read_name(value: object) -> str:
    """Take text that can stand in tables, paths and messages."""
    text = read_text(value)
    if not text or len(text) > MAX_NAME:
        fault = f"is longer than {MAX_NAME} characters" if text else "is empty"
        raise ValueError(f"{shown(text)} {fault}, write a short name")
    if not text.isprintable() or text.strip() != text:
        raise ValueError(f"{shown(text)} has blanks around it or unseen characters, write it without")
    return text


def read_id(value: object) -> str:
    """Take a name that may be written as a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return read_name(value)


def read_budget_name(value: object) -> str:
    """Take one part of an allocation's path."""
    name = read_name(value)
    if "/" in name:
        raise ValueError(f"{shown(name)} holds a slash, write the parts as a tree of `children`")
    return name


def read_node_name(value: object) -> str:
    """Take the name of one node, free of what separates nodes in lists."""
    name = read_name(value)
    if any(c in "[],|: " for c in name):
        fix = "write a plain name, or a hostlist under `names`"
        raise ValueError(f"{shown(name)} holds one of [ ] , | : or a blank, {fix}")
    return name


def read_hostlist(value: object) -> Hosts:
    """Take the names of many nodes."""
    hosts = Hosts(read_text(value))
    for name in hosts.patterns:
        read_node_name(name)
    return hosts


def read_text(value: object) -> str:
    """Take text of any length."""
    if isinstance(value, str):
        return value
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    fix = f'write it in quotes: "{value}"' if number else "write text, in quotes if need be"
    raise ValueError(f"{shown(value)} is not text, {fix}")


def read_ledger(value: object) -> str:
    """Take a database URL; SQLAlchemy reads the rest of it later.

    What is wrong is not quoted beyond its scheme: a URL may hold a password.
    """
    text = read_text(value)
    scheme, mark, rest = text.partition("://")
    if not scheme or not mark or not text.isprintable():
        raise ValueError(f"{shown(text)} is not a database URL, write sqlite:///gangplan.db")
    kind = scheme.partition("+")[0]
    if kind not in LEDGERS:
        fix = "write sqlite:///gangplan.db or postgresql://host/gangplan"
        raise ValueError(f"{shown(kind)} is not a database that keeps ledgers, {fix}")
    file = rest.partition("?")[0].partition("/")[2]
    if kind == "sqlite" and (not file or file.startswith((":", "file:"))):
        raise ValueError("names no file, write sqlite:///gangplan.db")
    return text


def read_metrics_file(value: object) -> str:
    """Take the path of a file that node_exporter reads."""
    path = read_name(value)
    if not path.endswith(".prom"):
        fault = "does not end in .prom, and node_exporter reads no other file"
        raise ValueError(f"{shown(path)} {fault}, write for example /var/lib/node_exporter/gangplan.prom")
    return path


def read_command(words: list[str]) -> list[str]:
    """Take a program and its arguments, or nothing at all."""
    if words and not words[0].strip():
        raise ValueError(f"{shown(words[0])} names no program, write [/path/of/program, argument]")
    return words


def read_number(value: object, *, low: int, high: int, above: bool = False, like: str = "0.5") -> Fraction:
    """Take an exact number within bounds; `above`: more than the lower one."""
    bounds = f"above {low} and at most {high}" if above else f"from {low} to {high}"
    if _beyond(value):
        raise ValueError(f"{shown(value)} is out of bounds, write a number {bounds}")
    number = parse_number(value, like=f"a number such as {like}")
    if number < low or number > high or (above and number == low):
        fault = "is negative" if number < 0 else "is out of bounds"
        raise ValueError(f"{shown(value)} {fault}, write a number {bounds}")
    return number


def _beyond(value: object) -> bool:
    """Say whether a value is a number that is too large or too fine to be kept; files leave it as text."""
    if not isinstance(value, str) or not value.isascii():
        return False
    if value.lower().lstrip("+-") in (".inf", "infinity"):
        return True
    try:
        exponent = Decimal(value).adjusted() if value[:1] in "+-.0123456789" else 0
    except ArithmeticError:
        return False
    return not MIN_EXPONENT <= exponent <= MAX_EXPONENT


def read_float(value: object) -> float:
    """Take any finite number."""
    return float(parse_number(value))


def at_least(low_s: int, high_s: int | None = None) -> Callable[[object], int]:
    """Return a reader of durations within bounds, in seconds."""

    def read(value: object) -> int:
        seconds = parse_duration(value)
        if seconds < low_s:
            raise ValueError(f"{shown(value)} is too short, write at least {low_s}s")
        if high_s is not None and seconds > high_s:
            raise ValueError(f"{shown(value)} is too long, write at most {high_s // 86_400}d")
        return seconds

    return read


def plain(value: Any) -> Any:
    """Return free-form content with floats for exact decimals, as programs expect it."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def _text(**schema: object) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", **schema})


def _number(**schema: object) -> WithJsonSchema:
    return WithJsonSchema({"type": "number", **schema})


_DURATION = _text(pattern=DURATION_PATTERN, examples=["4h", "1h30m"])
_YEAR_S = 366 * 86_400

Name = Annotated[str, PlainValidator(read_name), _text(minLength=1, maxLength=MAX_NAME)]
BudgetName = Annotated[str, PlainValidator(read_budget_name), _text(pattern="^[^/]+$", maxLength=MAX_NAME)]
NodeName = Annotated[str, PlainValidator(read_node_name), _text(pattern=r"^[^\[\],|: ]+$")]
Hostlist = Annotated[Hosts, PlainValidator(read_hostlist), _text(examples=["saturn-[001-064]"])]
Id = Annotated[str, PlainValidator(read_id), WithJsonSchema({"type": ["string", "integer"], "minLength": 1})]
Text = Annotated[str, PlainValidator(read_text), _text()]
LedgerUrl = Annotated[
    str,
    PlainValidator(read_ledger),
    _text(pattern=r"^(sqlite|postgresql)(\+[a-z0-9]+)?://", examples=["sqlite:///gangplan.db"]),
]
MetricsFile = Annotated[str, PlainValidator(read_metrics_file), _text(pattern=r"\.prom$", maxLength=MAX_NAME)]
Command = Annotated[list[Text], AfterValidator(read_command)]
Time = Annotated[
    int,
    PlainValidator(parse_time),
    _text(format="date-time", examples=["2026-10-09T15:20:00Z"]),
]
Duration = Annotated[int, PlainValidator(parse_duration), _DURATION]
PositiveDuration = Annotated[int, PlainValidator(at_least(1)), _DURATION]
WindowDuration = Annotated[int, PlainValidator(at_least(1, _YEAR_S)), _DURATION]
ShortDuration = Annotated[int, PlainValidator(at_least(1, 86_400)), _DURATION]
Memory = Annotated[
    int,
    PlainValidator(parse_memory),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "minimum": 0,
            "pattern": r"^[0-9.]+[KMGTPkmgtp]?[iI]?[bB]?$",
            "examples": ["512G", "2TiB"],
        }
    ),
]
Cpus = Annotated[int, PlainValidator(parse_cpus), _number(minimum=0, examples=[96])]
Percent = Annotated[Fraction, PlainValidator(parse_percent), _text(pattern="^[0-9.]+%$", examples=["4%"])]
Weight = Annotated[
    Fraction,
    PlainValidator(partial(read_number, low=0, high=MAX_UNITS, like="50")),
    _number(minimum=0, maximum=MAX_UNITS),
]
Charge = Annotated[
    Fraction,
    PlainValidator(partial(read_number, low=0, high=1_000, above=True, like="2.0")),
    _number(exclusiveMinimum=0, maximum=1_000),
]
Units = Annotated[
    Fraction,
    PlainValidator(partial(read_number, low=0, high=MAX_UNITS, like="8123.5")),
    _number(minimum=0, maximum=MAX_UNITS),
]
Ratio = Annotated[
    Fraction,
    PlainValidator(partial(read_number, low=0, high=10, like="0.05")),
    _number(minimum=0, maximum=10),
]
ShareOfOne = Annotated[
    Fraction,
    PlainValidator(partial(read_number, low=0, high=1, above=True, like="0.125")),
    _number(exclusiveMinimum=0, maximum=1),
]
Real = Annotated[float, PlainValidator(read_float), _number()]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
PositiveCount = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Priority = Annotated[int, Field(ge=-MAX_UNITS, le=MAX_UNITS)]
