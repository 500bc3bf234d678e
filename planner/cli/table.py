"""Plain aligned tables, as kubectl and squeue print them: never cut, safe to pipe."""

from __future__ import annotations

from collections.abc import Sequence

RIGHT = frozenset("0123456789+-.%")


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return aligned lines; columns of numbers stand to the right, an empty cell shows as `-`."""
    cells = [["-" if c is None or c == "" else str(c) for c in row] for row in rows]
    widths = [max(len(x) for x in column) for column in zip(header, *cells, strict=True)]
    right = [bool(cells) and all(set(row[i]) <= RIGHT for row in cells) for i in range(len(header))]
    lines = []
    for row in (list(header), *cells):
        padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)
