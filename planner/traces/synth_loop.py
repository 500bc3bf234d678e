"""People who watch their queues: a closed loop between what is submitted and a fluid that serves it.

A trace cannot react to the scheduler it will be given to, so the generator plays the reaction beforehand.
In steps of 10 minutes, everything that is in the system is served as if GPUs were water: allocated work by
weighted max-min fairness over the teams (progressive filling), unallocated work by what is left, all gangs
of a team at one pace. Then people look at what their team has in the system, running and waiting. Below
what they want they submit, above it they do not: so they submit less when their queue is long and more when
it is short.

All numbers are assumptions; `LUMPS` and `EFFICIENCY` follow simulations under the policy `budget-greedy`.

- Who is awake looks once in `LOOK_S` on average. A team wants more than its part of what the lab wants
  where the whole lab has too little in the system, and less where it has too much, in the same proportion.
- A team that lacks x GPUs and whose next gang is g wide submits it with probability (x / g)^2, and looks
  again at once: a wide gang comes when a good part of it is lacking, a small one as soon as anything is.
- Unallocated work is submitted in the same way by the lab as a whole, in every step. It fills demand up to
  what all want; for allocated work it reckons with the mean of what is there and what is wanted.
- Debug work comes as people are awake, whatever the queues. With half a per cent of the GPU time it is left
  out of the fluid.
- Gangs are lumps: allocated work that asks for x times the GPUs holds only x / (1 + x^p)^(1/p) of them at
  once, with p = `LUMPS`. The rest waits until enough comes free together.
- Only a part `EFFICIENCY` of the GPUs serves: some stand idle for a moment, and some work is lost by
  preemptions.

The loop starts `WARM_UP_S` before the trace. What is in the system at time 0 is submitted then, with the
work it has left, so that demand is there from the first second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.traces.synth_gangs import DAY, MINUTE, Gangs, Rng
from solver.state import Bools, Floats, Ints

STEP_S = 10 * MINUTE
WARM_UP_S = 3 * DAY
LOOK_S = 20 * MINUTE
EFFICIENCY = 0.97
LUMPS = 5.0
PATIENCE = 2
"""Exponent of the part that must be lacking before a gang is submitted."""

BLOCK = 256
"""Gangs that a deck draws at a time."""

Row = tuple[int, int, int, int, int]
"""Values of a row of the fluid."""

_ROW = np.dtype([("team", "i8"), ("gpus", "f8"), ("left_s", "f8"), ("until_s", "f8"), ("ticket", "i8")])


class Deck:
    """Gangs in the order in which somebody will submit them, drawn in blocks as they are needed."""

    def __init__(self, rng: Rng, draw: Callable[[Rng, int], Gangs]) -> None:
        self._rng, self._draw = rng, draw
        self._blocks: list[Gangs] = []
        self._rows: list[tuple[int, int, int]] = []
        self.taken = 0
        self._refill()

    def _refill(self) -> None:
        block = self._draw(self._rng, BLOCK)
        self._blocks.append(block)
        columns = (block.gpus, block.runtime_s, block.interest_s)
        self._rows += zip(*(column.tolist() for column in columns), strict=True)

    @property
    def next_gpus(self) -> int:
        """GPUs of the gang on top."""
        return self._rows[self.taken][0]

    def take(self) -> tuple[int, int, int]:
        """Take the gang on top; return its GPUs, its run time and its owner's interest in seconds."""
        row = self._rows[self.taken]
        self.taken += 1
        if self.taken == len(self._rows):
            self._refill()
        return row

    def gangs(self) -> Gangs:
        """Return what was taken, in order."""
        return Gangs.join(self._blocks).take(np.arange(self.taken))


def fill(capacity: float, weight: Floats, demand: Floats) -> Floats:
    """Divide capacity by weighted max-min fairness: nobody gets more than it asks for, float64[T]."""
    given, left = np.zeros(len(weight)), capacity
    order = np.argsort(demand / weight, kind="stable")
    weights = np.cumsum(weight[order][::-1])[::-1]  # of each and all after it
    for i, v in enumerate(order.tolist()):
        given[v] = min(demand[v], left * weight[v] / weights[i])
        left -= given[v]
    return given


def room(gpus: float, demand_gpus: float) -> float:
    """Return the GPUs that gangs asking for `demand_gpus` can hold at once: some wait for others to end."""
    return float(demand_gpus / (1 + (demand_gpus / gpus) ** LUMPS) ** (1 / LUMPS))


class Fluid:
    """All allocated and unallocated work in the system, served as if GPUs were water.

    Attributes
    ----------
    share : float64[T]
    gpus : float
    rows : structured array, one row for each gang in the order of its submit
        `team` (one more than there are teams: unallocated), `gpus`, `left_s` of work, `until_s` its owner
        cares, `ticket`.
    """

    def __init__(self, share: Floats, gpus: float) -> None:
        self.share, self.gpus = share, gpus
        self.rows = np.zeros(0, dtype=_ROW)

    def held(self) -> Floats:
        """Return the GPUs that each team's work asks for, running and waiting, float64[T + 1]."""
        return np.bincount(self.rows["team"], self.rows["gpus"], len(self.share) + 1).astype(np.float64)

    def leave(self, now_s: int) -> None:
        """Let go what is through, and what nobody cares for any more."""
        self.rows = self.rows[(self.rows["left_s"] > 0) & (self.rows["until_s"] > now_s)]

    def enter(self, rows: list[Row]) -> None:
        """Add gangs in the order of their submit."""
        self.rows = np.concatenate([self.rows, np.array(rows, dtype=_ROW)])

    def serve(self) -> None:
        """Serve everything for one step; all gangs of a team get the same part of what they ask for."""
        held = self.held()
        given = fill(room(self.gpus, held[:-1].sum()), self.share, held[:-1])
        given = np.append(given, min(self.gpus - given.sum(), held[-1]))
        self.rows["left_s"] -= STEP_S * (given / np.maximum(held, 1))[self.rows["team"]]


@dataclass(frozen=True)
class Wishes:
    """What people want, step by step; K steps, the first at `-WARM_UP_S`.

    Attributes
    ----------
    teams : float64[K, T], GPUs
        Allocated work that each team wants to have in the system.
    total : float64[K], GPUs
        What all want to have in the system, unallocated work included.
    looks : bool[K, T]
        Whether somebody of the team looks at its queue.
    debug : int64[K]
        Debug workloads submitted.
    """

    teams: Floats
    total: Floats
    looks: Bools
    debug: Ints


@dataclass(frozen=True)
class Decks:
    """What will be submitted: allocated work by team, unallocated work, debug work."""

    teams: list[Deck]
    unallocated: Deck
    debug: Deck


class Play:
    """The loop in progress: the fluid, and a log of what was submitted when."""

    def __init__(self, rng: Rng, decks: Decks, share: Floats, gpus: int) -> None:
        self._rng, self._decks = rng, [*decks.teams, decks.unallocated, decks.debug]
        self._fluid = Fluid(share, EFFICIENCY * gpus)
        self._log: list[tuple[int, int, int]] = []  # deck, place in it, time

    def run(self, wishes: Wishes) -> tuple[Gangs, Ints]:
        """Play all steps; return what is submitted from time 0 on, in order, and when, int64[G] seconds."""
        standing = self._fluid.rows
        for k in range(len(wishes.total)):
            now_s = k * STEP_S - WARM_UP_S
            self._fluid.leave(now_s)
            if now_s == 0:
                standing = self._fluid.rows.copy()
            self._fluid.enter(self._look(wishes, k, now_s))
            self._fluid.serve()
        return self._result(standing)

    def _look(self, wishes: Wishes, k: int, now_s: int) -> list[Row]:
        """Let people look at their queues and submit; return the rows that enter the fluid."""
        held = self._fluid.held()
        last = len(held) - 1
        want, have = wishes.teams[k].sum(), held[:-1].sum()
        wants = wishes.teams[k] * (2 - have / want)
        rows: list[Row] = []
        for team in np.flatnonzero(wishes.looks[k]).tolist():
            rows += self._submit(team, wants[team] - held[team], now_s)
        have += sum(row[1] for row in rows)
        lack = wishes.total[k] - held[last] - (have + want) / 2
        rows += self._submit(last, lack, now_s)
        for _ in range(int(wishes.debug[k])):
            self._take(last + 1, now_s)
        return rows

    def _submit(self, team: int, lack_gpus: float, now_s: int) -> list[Row]:
        """Submit what a team lacks; the last team is the lab with its unallocated work."""
        deck, rows = self._decks[team], []
        while deck.next_gpus * self._rng.random() ** (1 / PATIENCE) < lack_gpus:
            gpus, run_s, interest_s = self._take(team, now_s)
            rows.append((team, gpus, run_s, now_s + interest_s, len(self._log) - 1))
            lack_gpus -= gpus
        return rows

    def _take(self, deck: int, now_s: int) -> tuple[int, int, int]:
        self._log.append((deck, self._decks[deck].taken, now_s + int(self._rng.integers(STEP_S))))
        return self._decks[deck].take()

    def _result(self, standing: npt.NDArray[np.void]) -> tuple[Gangs, Ints]:
        """Return what was logged from time 0 on, and before it what stood then, with the work it has left."""
        deck, place, time_s = np.array(self._log, dtype=np.int64).T
        time_s = np.sort(time_s)  # inside a step: the order that the fluid has seen
        first = np.cumsum([0] + [d.taken for d in self._decks])
        gangs = Gangs.join([d.gangs() for d in self._decks]).take(first[deck] + place)
        ticket = standing["ticket"]
        gangs.runtime_s[ticket] = np.ceil(standing["left_s"])
        gangs.interest_s[ticket] = standing["until_s"]
        chosen = np.concatenate([ticket, np.flatnonzero(time_s >= 0)])
        return gangs.take(chosen), time_s[chosen].clip(0)
