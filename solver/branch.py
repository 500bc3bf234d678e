"""Branch and bound on linear relaxations: what the models of a round need, and no more.

Their relaxations are almost whole: what is fractional is a wide gang that half fits. So how much starts is
decided first, where it goes is rounded off, each relaxation starts from the last one, and a few dozen of them
prove what a general solver would still be presolving. Where that comes to no end, one takes over from here.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
from scipy.sparse import vstack

from solver.linear import TOLERANCE, LinearModel
from solver.state import Bools, Floats, Ints

WHOLE = 1e-6
"""A column this close to a whole number is one."""

NEARLY = 0.5
"""Rounding off takes at once all columns that are so near to where they go."""

TOO_DEAR = (0.01, 0.25)
"""A column stays where it is in a likely part of a model if moving it would cost so much of the gap."""

PLACE_SHARE = 0.1
"""Where a gang stands matters so much of whether it starts: often another place is as good."""

Relax = Callable[[Floats, Floats], tuple[Floats, Floats] | None]
"""Solve the relaxation with these column bounds: the point and the dual of each row, None where there is no
point; TimeoutError where no answer comes."""

Box = tuple[Floats, Floats]
"""Bounds of all columns, lower and upper."""

Changes = tuple[tuple[int, float, float], ...]
"""Columns and their bounds in a part of the tree."""


@dataclass
class Found:
    """The best point so far, and what is proven: no point is worth more than `bound`.

    `likely` are parts where better points are likely, the smallest first: how much starts is decided there,
    and what would cost too much stays as it is.
    """

    x: Floats | None
    objective: float
    bound: float
    likely: tuple[Box, ...] = ()

    def within(self, gap: float, bound: float) -> bool:
        """Tell whether a bound leaves no more than the gap above the best point."""
        return self.x is not None and bound - self.objective <= gap * max(abs(bound), abs(self.objective))


def branch(
    model: LinearModel,
    relax: Relax,
    gap: float,
    most: int,
    start: Floats | None = None,
    details: bool = True,
    aside: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Found:
    """Return the best point found and the bound proven, as far as `most` relaxations and the clock allow.

    Always goes on with the open part of highest bound, once there is a whole point. A start that is feasible
    is the first one. Without `details` it ends where only they are left in that part: a solver that has cuts
    is better at those. Rounding off is done `aside`: the relaxation after it goes on from the one before it.
    """
    tree = _Tree(model, relax, gap, most, aside)
    if start is not None and model.violation(start) <= TOLERANCE:
        tree.take(start)
    try:
        while tree.open and not tree.found.within(gap, tree.bound()):
            if tree.open[0].rounded and not details:
                break
            tree.look(heapq.heappop(tree.open))
    except TimeoutError:
        pass
    tree.found.bound = tree.bound()
    return tree.found


@dataclass(frozen=True, order=True)
class _Open:
    """A part of the tree that is still open."""

    minus_bound: float
    number: int
    changes: Changes
    rounded: bool = False


class _Tree:
    """The parts of the tree that are open, and the best point so far."""

    def __init__(
        self,
        model: LinearModel,
        relax: Relax,
        gap: float,
        most: int,
        aside: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.model, self.relax, self.gap, self.left, self.aside = model, relax, gap, most, aside
        self.found = Found(None, -math.inf, math.inf)
        self.open = [_Open(-math.inf, 0, ())]
        self.closed = -math.inf  # highest bound of the parts that are done with
        self.here = -math.inf  # bound of the part that is being looked at
        self.promise = -math.inf  # bound of the part that `found.likely` is of
        self.weight = np.zeros(len(model.objective))
        np.maximum.at(self.weight, model.matrix.indices, np.abs(model.matrix.data))
        self.worth = _worth(model)
        self.sides = _Sides(model)

    def bound(self) -> float:
        """Return the highest bound of all parts of the tree."""
        best = -self.open[0].minus_bound if self.open else -math.inf
        return max(best, self.closed, self.here, self.found.objective)

    def look(self, part: _Open) -> None:
        """Look at one part of the tree and leave its branches open.

        Until the first whole point is found, go on into the nearer one.
        """
        self.here, changes = -part.minus_bound, part.changes
        while True:
            lower, upper = self._bounds(changes)
            relaxed = self._relaxed(lower, upper)
            if relaxed is None:
                break
            x, bound, dual = relaxed
            self.here = min(self.here, bound)
            j, matters = self._leading(x)
            if not matters and self._others_promise_more():
                heapq.heappush(self.open, _Open(-self.here, self.left, changes, part.rounded))
                break
            if not matters and not part.rounded:
                self._note_likely(x, dual, lower, upper)
                with self.aside():
                    self._round_off(x, lower, upper)
            j = self._heaviest(x) if j < 0 else j
            if j < 0:
                self.take(x)
            if j < 0 or self.found.within(self.gap, self.here):
                self.closed = max(self.closed, self.here)
                break
            if not matters and not part.rounded:
                heapq.heappush(self.open, _Open(-self.here, self.left, changes, rounded=True))
                break
            whole = math.floor(x[j])
            near, far = (j, whole + 1.0, upper[j]), (j, lower[j], float(whole))
            near, far = (near, far) if x[j] - whole >= 0.5 else (far, near)
            heapq.heappush(self.open, _Open(-self.here, self.left, (*changes, far)))
            changes = (*changes, near)
            if self.found.x is not None:
                heapq.heappush(self.open, _Open(-self.here, self.left, changes))
                break
        self.here = -math.inf

    def _others_promise_more(self) -> bool:
        """Tell whether to look elsewhere before details are worth the time."""
        return self.found.x is not None and bool(self.open) and self.here < -self.open[0].minus_bound

    def _bounds(self, changes: Changes) -> tuple[Floats, Floats]:
        lower, upper = self.model.lower.copy(), self.model.upper.copy()
        for j, low, high in changes:
            lower[j], upper[j] = low, high
        return lower, upper

    def _note_likely(self, x: Floats, dual: Floats, lower: Floats, upper: Floats) -> None:
        """Note the part of highest bound in which only details are left, less what would be dear to move."""
        if self.here > self.promise:
            cost = np.abs(self.model.objective - self.model.matrix.T @ dual)
            stays = [(cost > share * self.gap * abs(self.here)) & ~_is_fraction(x) for share in TOO_DEAR]
            self.found.likely = tuple(
                (np.where(s, np.rint(x), lower), np.where(s, np.rint(x), upper)) for s in stays
            )
            self.promise = self.here

    def _relaxed(self, lower: Floats, upper: Floats) -> tuple[Floats, float, Floats] | None:
        """Solve one relaxation; return point, proven bound and duals, None if there is no point."""
        if self.left <= 0:
            raise TimeoutError
        self.left -= 1
        relaxed = self.relax(lower, upper)
        if relaxed is None:
            return None
        x, dual = relaxed
        return x, proven_bound(self.model, dual, lower, upper), dual

    def _leading(self, x: Floats) -> tuple[int, bool]:
        """Return the fractional column that decides most, and whether it matters.

        -1 if none decides anything; what is worth less than the gap allows does not matter.
        """
        worth = np.where(_is_fraction(x), self.worth * np.abs(x - np.rint(x)), 0.0)
        first = int(np.argmax(worth))
        return first if worth[first] > 0 else -1, bool(worth[first] > self.gap * abs(self.here))

    def _heaviest(self, x: Floats) -> int:
        """Return the fractional column that counts most, -1 if all are whole."""
        columns = np.flatnonzero(_is_fraction(x))
        off = np.abs(x - np.rint(x))[columns]
        return int(columns[np.argmax(self.weight[columns] * off)]) if len(columns) else -1

    def _round_off(self, x: Floats, lower: Floats, upper: Floats) -> None:
        """Look for a whole point near `x`, and keep it if it is the best so far.

        Columns go to the side that costs, and so makes room: a bit less here would be a bit more elsewhere.
        For the same reason nothing that has gone there comes back. As many as can go at once, the heaviest
        first; where not even that one can, it goes to the other side.
        """
        leading = ~self.model.integer
        upper = np.where(self.model.objective > 0, np.floor(x + WHOLE), upper)
        lower = np.where(self.model.objective < 0, np.floor(x + WHOLE), lower)
        while len(columns := np.flatnonzero(_is_fraction(x))):
            if leading[columns].any():
                columns = columns[leading[columns]]
            up = self.model.objective[columns] <= 0
            near = np.where(up, x[columns] - np.floor(x[columns]), np.ceil(x[columns]) - x[columns])
            turn = np.argsort(-near * self.weight[columns], kind="stable")
            columns, up, many = columns[turn], up[turn], max(1, int((near > NEARLY).sum()))
            relaxed = None
            for count, upwards in ((many, up), (-(-many // 4), up), (1, up), (1, ~up)):
                low, high = self.sides.moved(columns[:count], upwards[:count], x, lower, upper)
                if (low > lower).any() or (high < upper).any():
                    relaxed = self._relaxed(low, high)
                if relaxed is not None:
                    break
            if relaxed is None or self.found.within(0.0, relaxed[1]):
                return
            x, lower, upper = relaxed[0], low, high
        self.take(x)

    def take(self, x: Floats) -> None:
        """Keep a whole point if it is the best so far."""
        whole = np.where(self.model.integer, np.rint(x), x)
        value = self.model.value(whole)
        if value > self.found.objective:
            self.found.x, self.found.objective = whole, value


class _Sides:
    """The rows of a model, each side by itself: matrix @ x <= most."""

    def __init__(self, model: LinearModel) -> None:
        self.matrix = vstack((model.matrix, -model.matrix)).tocsc()
        self.positive, self.negative = self.matrix.maximum(0), self.matrix.minimum(0)
        self.most = np.concatenate((model.row_upper, -model.row_lower))

    def moved(self, columns: Ints, up: Bools, x: Floats, lower: Floats, upper: Floats) -> Box:
        """Return the bounds with columns rounded up or down, one after the other, less those that cannot be.

        A column cannot be rounded where a row would be broken even if all others were at their best for it.
        """
        low, high = lower.copy(), upper.copy()
        least = self.positive @ low + self.negative @ high
        for j, upwards in zip(columns.tolist(), up.tolist(), strict=True):
            entries = slice(self.matrix.indptr[j], self.matrix.indptr[j + 1])
            rows, value = self.matrix.indices[entries], self.matrix.data[entries]
            whole = math.ceil(x[j]) if upwards else math.floor(x[j])
            more = (
                np.maximum(value, 0) * (whole - low[j])
                if upwards
                else np.minimum(value, 0) * (whole - high[j])
            )
            if (least[rows] + more <= self.most[rows] + TOLERANCE).all():
                least[rows] += more
                (low if upwards else high)[j] = whole
        return low, high


def _worth(model: LinearModel) -> Floats:
    """Return how much of the objective a count of each column decides, float64[n].

    Columns that sum up others (those that may be fractional) decide what they are worth; what they sum up,
    by equations, a share of that; all others are details.
    """
    a = model.matrix
    row = np.repeat(np.arange(len(model.row_lower)), np.diff(a.indptr))
    equal = (model.row_lower == model.row_upper)[row]
    sums = equal & ~model.integer[a.indices]
    of_row = np.zeros(len(model.row_lower))
    np.maximum.at(of_row, row[sums], np.abs(model.objective[a.indices[sums]] / a.data[sums]))
    parts = equal & model.integer[a.indices]
    worth = np.where(model.integer, 0.0, np.abs(model.objective))
    np.maximum.at(worth, a.indices[parts], PLACE_SHARE * np.abs(a.data[parts]) * of_row[row[parts]])
    return worth


def _is_fraction(x: Floats) -> Bools:
    out: Bools = np.abs(x - np.rint(x)) > WHOLE
    return out


def proven_bound(model: LinearModel, dual: Floats, lower: Floats, upper: Floats) -> float:
    """Return an upper bound on the objective between column bounds, proven by any duals whatever.

    c x = y A x + (c - y A) x <= sum of y times the row bound it leans on + the best of each column alone.
    """
    y = np.where((dual > 0) & np.isinf(model.row_upper), 0.0, dual)
    y = np.where((y < 0) & np.isinf(model.row_lower), 0.0, y)
    leans: Floats = np.where(y > 0, model.row_upper, model.row_lower)
    reduced = model.objective - model.matrix.T @ y
    rows = float(y[y != 0] @ leans[y != 0])
    return model.offset + rows + float(np.maximum(reduced * lower, reduced * upper).sum())
