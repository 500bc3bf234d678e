"""A linear model put together family by family, from index arrays only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array

from solver.linear import Block, LinearModel
from solver.state import Bools, Floats, Ints


class Assembler:
    """Collects families of columns and rows, then builds one `LinearModel`."""

    def __init__(self) -> None:
        self._columns: list[Block] = []
        self._rows: list[Block] = []
        self._objective: list[Floats] = []
        self._column_bounds: list[tuple[Floats, Floats]] = []
        self._integer: list[Bools] = []
        self._row_bounds: list[tuple[Floats, Floats]] = []
        self._entries: list[tuple[Ints, Ints, Floats]] = []
        self._fixed: list[tuple[Ints, Floats]] = []
        self.offset = 0.0
        self._n_columns = self._n_rows = 0

    def columns(
        self,
        family: str,
        labels: Ints,
        *,
        objective: npt.ArrayLike = 0.0,
        upper: npt.ArrayLike,
        integer: bool = True,
    ) -> Ints:
        """Add one column for each row of `labels` (int64[K, D]), bounded by 0 and `upper`; return indices."""
        k = len(labels)
        self._columns.append(Block(family, labels))
        self._objective.append(np.broadcast_to(np.asarray(objective, dtype=float), k))
        self._column_bounds.append((np.zeros(k), np.broadcast_to(np.asarray(upper, dtype=float), k)))
        self._integer.append(np.full(k, integer))
        self._n_columns += k
        return np.arange(self._n_columns - k, self._n_columns)

    def rows(
        self, family: str, labels: Ints, *, lower: npt.ArrayLike = -np.inf, upper: npt.ArrayLike = np.inf
    ) -> Ints:
        """Add one empty row for each row of `labels` (int64[K, D]); return their indices."""
        k = len(labels)
        self._rows.append(Block(family, labels))
        low = np.broadcast_to(np.asarray(lower, dtype=float), k)
        self._row_bounds.append((low, np.broadcast_to(np.asarray(upper, dtype=float), k)))
        self._n_rows += k
        return np.arange(self._n_rows - k, self._n_rows)

    def put(self, rows: Ints, columns: Ints, values: npt.ArrayLike) -> None:
        """Add coefficients; entries of the same row and column add up."""
        values = np.broadcast_to(np.asarray(values, dtype=float), len(rows))
        self._entries.append((rows, columns, values))

    def fix(self, columns: Ints, values: Floats) -> None:
        """Hold columns at whole values."""
        self._fixed.append((columns, values))

    def forget_objective(self) -> None:
        """Let every column so far, and the offset, be worth nothing."""
        self._objective = [np.zeros_like(o) for o in self._objective]
        self.offset = 0.0

    def charge(self, columns: Ints, costs: Floats) -> None:
        """Take costs off the objective of columns."""
        objective = _joined(self._objective)
        np.subtract.at(objective, columns, costs)
        self._objective = [objective]

    def build(self) -> LinearModel:
        """Return the finished model."""
        rows, columns, values = (_joined([e[i] for e in self._entries]) for i in range(3))
        index = (rows.astype(np.int64), columns.astype(np.int64))
        matrix = coo_array((values, index), shape=(self._n_rows, self._n_columns)).tocsr()
        matrix.eliminate_zeros()
        low, high = (_joined([b[i] for b in self._column_bounds]) for i in (0, 1))
        for columns_, values_ in self._fixed:
            low[columns_] = high[columns_] = values_
        row_low, row_high = (_joined([b[i] for b in self._row_bounds]) for i in (0, 1))
        integer = np.concatenate(self._integer) if self._integer else np.zeros(0, dtype=bool)
        return LinearModel(
            _joined(self._objective), self.offset, low, high, integer, matrix, row_low, row_high,
            tuple(self._rows), tuple(self._columns),
        )  # fmt: skip


def _joined(parts: Sequence[npt.NDArray[Any]]) -> Floats:
    return np.concatenate(parts).astype(float) if parts else np.zeros(0)
