"""How the values of a file look in messages."""

from __future__ import annotations

from collections.abc import Sequence

NAMED_AT_MOST = 3
"""Allocations, nodes or workloads named in one sentence; the rest is counted."""

LONGEST = 64
"""Characters of a value that a message shows."""


def shown(value: object) -> str:
    """Return a value as an error message shows it: short, on one line."""
    if isinstance(value, str):
        text = value if len(value) <= LONGEST else value[:LONGEST] + "..."
        return '"' + printable(text) + '"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = str(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."


def printable(text: str) -> str:
    """Return the text with everything escaped that would break a line or hide."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - NAMED_AT_MOST
    shown = ", ".join(names[:NAMED_AT_MOST])
    return f"{shown} and {more} more" if more > 0 else shown


def plural(noun: str) -> str:
    """Return `leaves` of `leaf`, `blocks` of `block`."""
    return f"{noun[:-1]}ves" if noun.endswith("f") else f"{noun}s"


def count(number: float, noun: str) -> str:
    """Return `1 GPU`, `2 GPUs`, `0.5 CPUs`."""
    return f"{number:.12g} {noun}{'' if number == 1 else 's'}"
