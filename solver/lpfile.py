"""The one linear model as text in CPLEX's LP format: for people, for golden tests, for other solvers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from solver.linear import Block, LinearModel
from solver.state import Floats

_WIDTH = 100


def names(blocks: Iterable[Block]) -> list[str]:
    """Return a name that every solver takes for each row or column: `family(1,m2)` for family[1,-2].

    LP files keep brackets and minus signs for themselves.
    """
    return [_safe(name) for block in blocks for name in block.names()]


def write_lp(model: LinearModel) -> str:
    """Return `model` in LP format; equal models give equal text.

    A row with two different finite bounds is written twice, as `row` (<= or =) and `row.low` (>=). A row
    without bounds and the offset, which the format cannot say, are comments.
    """
    columns = names(model.columns)
    lines = [f"\\ offset {_number(model.offset)}", "Maximize"]
    used = np.flatnonzero(model.objective)
    lines += _expression("objective", model.objective[used], used, columns)
    lines.append("Subject To")
    lines += _rows(model, columns)
    lines.append("Bounds")
    for name, low, high in zip(columns, model.lower, model.upper, strict=True):
        lines.append(f" {_number(low)} <= {name} <= {_number(high)}")
    if model.integer.any():
        lines.append("General")
        lines += _wrapped("", [columns[i] for i in np.flatnonzero(model.integer)])
    lines.append("End")
    return "\n".join(lines) + "\n"


def _rows(model: LinearModel, columns: list[str]) -> Iterator[str]:
    matrix = model.matrix
    for i, name in enumerate(names(model.rows)):
        terms = slice(matrix.indptr[i], matrix.indptr[i + 1])
        coefficients, places = matrix.data[terms], matrix.indices[terms]
        low, high = float(model.row_lower[i]), float(model.row_upper[i])
        sides = [(name, "<=", high), (f"{name}.low", ">=", low)]
        if low == high:
            sides = [(name, "=", high)]
        elif np.isinf(high):
            sides = [(name, ">=", low)]
        sides = [side for side in sides if np.isfinite(side[2])]
        if not sides:
            yield f"\\ {name} is free"
        for label, sense, bound in sides:
            ending = f"{sense} {_number(bound)}"
            yield from _expression(label, coefficients, places, columns, ending)


def _expression(
    label: str,
    coefficients: Floats,
    places: npt.NDArray[np.integer[Any]],
    columns: list[str],
    ending: str = "",
) -> list[str]:
    terms = [
        f"{'-' if c < 0 else '+'} {_number(abs(c))} {columns[j]}"
        for c, j in zip(coefficients.tolist(), places.tolist(), strict=True)
    ]
    if not terms:  # the format wants a term
        terms = [f"+ 0 {columns[0]}"]
    return _wrapped(f"{label}: ", [*terms, ending] if ending else terms)


def _wrapped(label: str, words: list[str]) -> list[str]:
    """Break `words` into lines, as solvers limit the length of theirs."""
    lines, line = [], f" {label}"
    for word in words:
        if len(line) + len(word) > _WIDTH and line.strip():
            lines.append(line.rstrip())
            line = "  "
        line += f"{word} "
    return [*lines, line.rstrip()]


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _safe(name: str) -> str:
    family, _, labels = name.rpartition("[")
    labels = labels.removesuffix("]").replace("-", "m")
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', family)}({labels})"
