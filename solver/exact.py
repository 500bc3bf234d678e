"""The exact rung: tier by tier who starts, then who makes room, then where; each answer is seated."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from solver.board import Board
from solver.formulation import (
    Formulation,
    add_settled,
    assemble,
    counts_of,
    evicted_of,
    first_of_each_class,
    formulate,
)
from solver.greedy import serve
from solver.linear import LinearModel, Solution
from solver.places import formulate_places
from solver.polish import give_back
from solver.problem import Cut, Problem, places_problem, problem_of
from solver.reseat import Solve
from solver.seating import Seated, seat, started
from solver.shares import BEYOND, WITHIN
from solver.state import Bools, Floats, Ints

RESEATINGS = 3
"""Solves of one tier at most; each after the first looks closer where seating missed."""

SPLIT_NODES = 32
"""A domain of so many nodes is taken apart when it could not be seated; a larger one gets a cut."""

LEAST_S = 0.05
"""A solve gets so much time, even when none is left."""

FIRST_SHARE = 0.7
"""Share of the time that is left which the first tier's solves may take: the second needs some as well."""

VICTIMS_LIMIT_S, PLACES_LIMIT_S = 2.0, 0.4
"""Choosing victims and places, once starts are settled, is worth so much time; any answer is a valid plan."""

PLACES_GAP = 0.02

MOST_PLACES = 1500
"""Where starts have more possible places (pairs of class and domain), seating chooses by its own rules."""

CUT_NOTE = "choosing {} was cut by the clock: another run may choose others of the same worth"


@dataclass
class Report:
    """How the exact rung went.

    Attributes
    ----------
    bounds : dict of int to float
        Proven upper bound of each tier solved, given the tiers before it; GPU-hours.
    lessons : int
        Solves after which seating missed, and the next looked closer.
    backend : str
        Who answered last.
    notes : list of str
    """

    bounds: dict[int, float] = field(default_factory=dict)
    lessons: int = 0
    backend: str = ""
    notes: list[str] = field(default_factory=list)


def exact(board: Board, js: Ints, solve: Solve, deadline_s: float, gap: float) -> tuple[Board, Report]:
    """Return a board with the best starts of pending allocated work `js`, tier by tier.

    A tier for which no answer came in time is served greedily, and the report says so.

    Parameters
    ----------
    js : int64
        Sorted by the order.
    deadline_s : float
        On the clock of `time.monotonic`.
    """
    report = Report()
    for tier in (WITHIN, BEYOND):
        mine = js[(board.order.tier[js] == tier) & (board.state.workloads.gpus_per_replica[js] > 0)]
        if not len(mine):
            continue
        board = _Tier(board, tier, mine, solve, deadline_s, gap, report).run()
    return board, report


@dataclass
class _Tier:
    board: Board
    tier: int
    js: Ints
    solve: Solve
    deadline_s: float
    gap: float
    report: Report

    def __post_init__(self) -> None:
        self.began_left_s = self._left_s()
        self.lessons = _Lessons(np.zeros(self.board.state.nodes.count, dtype=bool))

    def run(self) -> Board:
        """Solve and seat; where seating misses, start the rest greedily, look closer and solve again."""
        lessons = self.lessons
        best: Board | None = None
        for _ in range(RESEATINGS):
            problem = problem_of(self.board, self.tier, self.js, lessons.apart, lessons.cuts.values())
            if not problem.caps.any():
                return best or self.board
            answer = self._answer(problem, proves=not lessons.cuts)
            if answer is None:
                break
            seated, wanted = answer
            if seated.unseated:
                give_back(seated.board)  # who made room for what found no seat
                serve(seated.board, self.js)
            if best is None or seated.board.objective() > best.objective():
                best = seated.board
            if not seated.unseated or self._good_enough(best):
                return best
            lessons.learn(problem, wanted, seated)
            self.report.lessons += 1
        simple = self.board.copy()
        serve(simple, self.js)
        return simple if best is None else max(best, simple, key=Board.objective)

    def _good_enough(self, board: Board) -> bool:
        """Tell whether a board is within the gap of what is proven, or no time is left to do better."""
        bound = self.report.bounds[self.tier]
        near = bound - board.objective()[self.tier] <= self.gap * abs(bound)
        return near or self._left_s() < self.began_left_s / 2

    def _left_s(self) -> float:
        return self.deadline_s - time.monotonic()

    def _answer(self, problem: Problem, *, proves: bool) -> tuple[Seated, Ints] | None:
        """Solve a problem and seat the answer; return it, and the pieces of each class in each domain.

        Without cuts its bound is one of the tier itself.
        """
        f = formulate(problem)
        share = FIRST_SHARE if self.tier == WITHIN else 1.0
        solution = self.solve(f.model, max(self._left_s() * share, LEAST_S), self._gap(f.model), None)
        if proves:
            known = self.report.bounds.get(self.tier, solution.bound)
            self.report.bounds[self.tier] = min(known, solution.bound)
        if solution.x is not None:
            self.report.backend = solution.backend
        else:
            self.report.notes.append(solution.note or f"tier {self.tier}: {solution.status}")
            return None
        x = self._choose_victims(f, first_of_each_class(f, solution.x))
        evicted = evicted_of(f, x)
        gangs, pieces = counts_of(f, x)
        where = self._choose_places(problem, gangs, pieces, evicted)
        return seat(*where, evicted, self.solve), pieces

    def _gap(self, model: LinearModel) -> float:
        """Return the gap to ask for: that of the site, on the worth of the clusters at price 1 at most.

        The prices of starved allocations are a thousand times those of others, whose starts would all
        disappear in a gap on the sum.
        """
        state = self.board.state
        at_share = float(state.nodes.gpus.sum()) * state.policy.worth_s / 3600
        most = model.offset + float(np.maximum(model.objective, 0) @ model.upper)
        return self.gap * min(1.0, at_share / most) if most > 0 else self.gap

    def _refine(
        self, model: LinearModel, limit_s: float, gap: float, start: Floats | None, what: str
    ) -> Solution:
        solution = self.solve(model, min(max(self._left_s(), LEAST_S), limit_s), gap, start)
        note = CUT_NOTE.format(what)
        if solution.status in ("feasible", "unknown") and note not in self.report.notes:
            self.report.notes.append(note)
        return solution

    def _choose_victims(self, f: Formulation, x: Floats) -> Floats:
        """With starts and the cost of evictions as they are, let those go that are worth least."""
        p, gone = f.problem, f.columns.gone(x)
        later = np.flatnonzero(p.victims.tier > p.tier)
        if not gone[later].any():
            return x
        a, columns = assemble(p)
        a.forget_objective()
        a.fix(columns.start, x[columns.start])
        add_settled(a, p, columns, gone)
        which, column, sign = columns.gone_terms(later)
        a.charge(column, sign * p.victims.regret[later[which]])
        model = a.build()
        solution = self._refine(model, VICTIMS_LIMIT_S, 0.0, x, "victims")
        worse = solution.x is None or solution.objective < model.value(x)
        return x if worse or solution.x is None else solution.x

    def _choose_places(
        self, problem: Problem, gangs: Ints, pieces: Ints, evicted: Ints
    ) -> tuple[Problem, Ints, Ints]:
        """With starts and victims as they are, choose domains: preferences, wholeness, ends together.

        Returns the problem in whose domains gangs and pieces are counted: this one, where there is no better.
        """
        js = started(problem, gangs)
        if not len(js):
            return problem, gangs, pieces
        finer = places_problem(self.board, self.tier, js, evicted, self.lessons.apart)
        if (finer.caps > 0).sum() > MOST_PLACES:
            return problem, gangs, pieces
        f = formulate_places(finer)
        solution = self._refine(f.model, PLACES_LIMIT_S, PLACES_GAP, None, "places")
        return (problem, gangs, pieces) if solution.x is None else (finer, *counts_of(f, solution.x))


@dataclass
class _Lessons:
    """What seating has taught about a tier's problem.

    Attributes
    ----------
    apart : bool[N]
        Nodes of small domains that could not be seated: from now on each is a domain of its own.
    cuts : dict of (class, first node of a domain) to Cut
        For domains too large for that: no more of a class than found a seat.
    """

    apart: Bools
    cuts: dict[tuple[int, int], Cut] = field(default_factory=dict)

    def learn(self, problem: Problem, wanted: Ints, seated: Seated) -> None:
        """Look closer at every domain in which something found no seat.

        Parameters
        ----------
        wanted : int64[C, D]
            The answer to the problem, in pieces.
        """
        class_of = dict(zip(problem.starters().tolist(), problem.class_of_starters().tolist(), strict=True))
        for want in seated.unseated:
            nodes = seated.problem.domains.nodes(want.d)
            if 1 < len(nodes) <= SPLIT_NODES:
                self.apart[nodes] = True
                continue
            c = class_of[want.j]
            d = problem.area(c, int(nodes[0]))
            first = int(problem.domains.node[d])
            known = self.cuts.get((c, first), Cut(c, first, int(wanted[c, d])))
            self.cuts[c, first] = Cut(c, first, max(known.most - want.pieces, 0))
