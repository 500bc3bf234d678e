"""`ai2-priority`: priorities set by people, and a limit on what a team may run that cannot be preempted.

Source: the scheduler at Ai2 before budgets, as its public client shows it (allenai/beaker-py,
`JobPriority`: LOW, NORMAL, HIGH, URGENT; `ClusterSchedulingPolicy`: STRICT_PRIORITY_BACKFILL_ALL;
`Workspace`: separate slot limits for preemptible and other work) and as its users describe it (ai2cm/ace
pull request 1419). No document gives the algorithm; what is assumed is marked (*).

Rule. One queue, by class, then submit; what does not fit is passed over (backfill). Class of a workload, from
its priority p and the times r that its user has raised it:

    class = min(clip(p, -1, 2) + r, 2)        -1 LOW, 0 NORMAL, 1 HIGH, 2 URGENT

- A team runs at most q_i GPUs at once that cannot be preempted, q_i its share of all GPUs in whole GPUs (*).
  Allocated work that fits below that starts as such: nobody evicts it until it ends. It may take the place of
  preemptible work of its own class or a lower one (*).
- Other allocated work, above the limit, starts as preemptible, in the place of preemptible work of a lower
  class (*). Unallocated work is preemptible and takes nobody's place.
- Preemptible work is protected during its min runtime (the contract). Of the victims allowed, unallocated
  work goes first, then the least work lost.

Priority inflation, the pathology that Ai2 reports, as behaviour (*): a fraction `INFLATERS` of the users,
chosen by the seed, raises a workload by one class whenever it has waited `PATIENCE_S` (again), up to URGENT,
and nobody ever lowers one. Where the trace names no user, each workload is its own.

Differences: limits follow the site's shares and are not set by hand; a run keeps the terms of its start.
"""

from __future__ import annotations

import hashlib

import numpy as np

from planner.simulation.policies.base import Round, Setting, Verdict
from planner.simulation.policies.division import owned_gpus
from planner.simulation.policies.serving import Serving, Shapes
from solver.state import Bools, Ints

LOW, NORMAL, HIGH, URGENT = -1, 0, 1, 2

INFLATERS = 0.5
"""Fraction of the users who raise what waits."""

PATIENCE_S = 4 * 3600
"""How long they wait before they raise it, each time."""


class Ai2Priority:
    """Strict priority with backfill, and users who raise their priorities.

    Attributes
    ----------
    raised : int64[T]
        Classes by which each workload of the trace has been raised.
    waits_since_s : int64[T]
        When its present wait, or the wait after the last raise, began.
    firm : bool[T]
        Started within its team's limit, so that its present or last run cannot be preempted.
    """

    def __init__(self, setting: Setting) -> None:
        self.shapes = Shapes(setting.trace.count)
        self.impatient = _impatient(setting)
        self.raised = np.zeros(setting.trace.count, dtype=np.int64)
        self.waits_since_s = setting.trace.submitted_s.copy()
        self.firm = np.zeros(setting.trace.count, dtype=bool)

    def decide(self, round_: Round) -> Verdict:
        """Serve the highest class first, oldest first inside a class."""
        serving = Serving(round_, self.shapes)
        turn = _Turn(serving, self.classes(round_), self.firm)
        serving.in_order(serving.in_turn(serving.pending, -turn.grade).tolist(), turn.take)
        return serving.verdict()

    def classes(self, round_: Round) -> Ints:
        """Let users raise what has waited too long; return the class of each workload, int64[W]."""
        w, who, now_s = round_.state.workloads, round_.who, round_.state.now_s
        self.waits_since_s[who[~w.pending]] = now_s
        rows = who[w.pending & self.impatient[who]]
        steps = np.maximum(now_s - self.waits_since_s[rows], 0) // PATIENCE_S
        self.raised[rows] += steps
        self.waits_since_s[rows] += steps * PATIENCE_S
        grade: Ints = np.minimum(np.clip(w.priority, LOW, URGENT) + self.raised[who], URGENT)
        return grade


class _Turn:
    """One round: what each team runs that cannot be preempted, and who makes room for which class."""

    def __init__(self, serving: Serving, grade: Ints, firm: Bools) -> None:
        self.serving, self.grade, self.firm = serving, grade, firm
        w, stands = serving.state.workloads, serving.board.standing
        runs = stands & w.allocated & w.running
        held = runs & firm[serving.who]
        self.room = (owned_gpus(serving.state) - serving.by_budget(held)).tolist()
        loose = serving.unallocated | (runs & ~held)
        self.may = {c: loose & (grade < c) for c in range(LOW, URGENT + 2)}
        serving.loose = loose

    def take(self, j: int) -> bool:
        """Start `j` within its team's limit or, as preemptible, above it; tell whether."""
        serving, leaf = self.serving, int(self.serving.state.workloads.leaf[j])
        gpus = int(serving.gpus[j])
        within = bool(serving.state.workloads.allocated[j]) and gpus <= self.room[leaf]
        above = int(self.grade[j]) + within  # victims are of a class below this
        if not serving.take(j, self.may[above], above):
            return False
        self.firm[serving.who[j]] = within
        self.room[leaf] -= gpus * within
        return True


def _impatient(setting: Setting) -> Bools:
    """Return for each workload of the trace whether its user raises priorities, bool[T]."""
    trace = setting.trace
    users = [user or name for user, name in zip(trace.user, trace.id, strict=True)]
    raises = {user: _draw(setting.seed, user) < INFLATERS for user in set(users)}
    return np.array([raises[user] for user in users], dtype=bool)


def _draw(seed: int, name: str) -> float:
    """Return a number in [0, 1) that depends on the seed and the name alone."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
