"""Which allocations lie in one subtree of the budgets."""

from __future__ import annotations

from collections.abc import Iterable

from planner.errors import InputError


def within(path: str, allocations: Iterable[str]) -> list[str]:
    """Return the allocations at or below a path; InputError where there is none."""
    known = list(allocations)
    kept = [a for a in known if a == path or a.startswith(f"{path}/")]
    if not kept:
        tops = ", ".join(sorted({a.partition("/")[0] for a in known}))
        raise InputError([f"--under: no allocation is {path} or below it, write one of {tops}"])
    return kept
