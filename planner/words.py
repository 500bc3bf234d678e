"""How the values of a file look in messages."""

from __future__ import annotations

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


def count(number: float, noun: str) -> str:
    """Return `1 GPU`, `2 GPUs`, `0.5 CPUs`."""
    return f"{number:.12g} {noun}{'' if number == 1 else 's'}"
