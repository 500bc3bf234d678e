"""Cells of tables: text to values, or a ValueError that says what is wrong and what to write."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeVar

from planner.units import MAX_DURATION_S, MAX_TIME_S, parse_time
from planner.words import shown

Value = TypeVar("Value")

MAX_NAME = 255
TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

_WHOLE = re.compile(r"(-?[0-9]{1,18})(?:\.0*)?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_NAIVE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?", re.ASCII)
_LONGEST = 64
_DIGITS = 18


def whole(low: int, high: int, what: str = "a whole number") -> Callable[[str], int]:
    """Return a reader of whole numbers within bounds; `8.0` is one."""
    fix = f"write {what} from {low} to {high}"

    def read(text: str) -> int:
        value = _whole(text)
        if value is None or not low <= value <= high:
            raise ValueError(f"{_not_whole(text, low, high)}, {fix}")
        return value

    return read


def _whole(text: str) -> int | None:
    """Return what a text says as a whole number, None where it says none."""
    if text.isdecimal() and text.isascii() and len(text) <= _DIGITS:
        return int(text)
    match = _WHOLE.fullmatch(text)
    return int(match[1]) if match else None


seconds = whole(0, MAX_DURATION_S, "whole seconds")
"""Reads a number of seconds, at most a hundred years."""


def _not_whole(text: str, low: int, high: int) -> str:
    """Say why a text is no whole number within bounds."""
    if not text:
        return "is empty"
    value = _float(text)
    if value is None or not math.isfinite(value):
        return f"{shown(text)} is not a number"
    if value < low:
        return f"{shown(text)} is {'negative' if low == 0 else 'too small'}"
    if value > high:
        return f"{shown(text)} is too large"
    return f"{shown(text)} is {'not whole' if value % 1 else 'not plain digits'}"


def number(text: str) -> float:
    """Read a finite number."""
    value = _float(text)
    if value is None or not math.isfinite(value):
        raise ValueError(f"{shown(text)} is not a number, write one such as 0.5" if text else _EMPTY)
    return value


_EMPTY = "is empty, write a number such as 0.5"


def within(low: float, high: float) -> Callable[[str], float]:
    """Return a reader of finite numbers within bounds."""

    def read(text: str) -> float:
        value = number(text)
        if not low <= value <= high:
            raise ValueError(f"{shown(text)} is out of bounds, write a number from {low:g} to {high:g}")
        return value

    return read


def begun_seconds(text: str) -> int:
    """Read seconds that may have a fraction, a begun one as a whole one."""
    return math.ceil(within(0, MAX_DURATION_S)(text))


def _float(text: str) -> float | None:
    """Return what a text in ASCII says as a number, None where it says none."""
    return float(text) if len(text) <= _LONGEST and _NUMBER.fullmatch(text) else None


def name(text: str) -> str:
    """Read a name that can stand in tables and messages."""
    if 0 < len(text) <= MAX_NAME and text.isprintable() and text.strip() == text:
        return text
    fix = f"write 1 to {MAX_NAME} characters without blanks around them"
    raise ValueError(f"{shown(text)} is not a name, {fix}" if text else f"is empty, {fix}")


def names(text: str) -> tuple[str, ...]:
    """Read names separated by `|`, each once; nothing is none."""
    return tuple(dict.fromkeys(name(part) for part in text.split("|"))) if text else ()


def truth(text: str) -> bool:
    """Read a truth value: true or false, yes or no, 1 or 0, in any case."""
    value = TRUTH.get(text.lower())
    if value is None:
        raise ValueError(f"{shown(text)} is not a truth value, write true or false")
    return value


def utc(text: str) -> int:
    """Read a time into epoch seconds; one without an offset is taken as UTC, as logs write it."""
    try:
        return parse_time(f"{text}Z" if _NAIVE.fullmatch(text) else text)
    except ValueError:
        fix = "write a time such as 2026-10-09 15:20:00"
        raise ValueError(f"{shown(text)} is not a time, {fix}" if text else f"is empty, {fix}") from None


epoch = whole(0, MAX_TIME_S, "epoch seconds")
"""Reads epoch seconds."""


def optional(read: Callable[[str], Value], default: Value, *blanks: str) -> Callable[[str], Value]:
    """Return a reader that takes an empty cell, or one of `blanks`, for the default."""
    unsaid = {"", *blanks}

    def read_if(text: str) -> Value:
        return default if text in unsaid else read(text)

    return read_if
