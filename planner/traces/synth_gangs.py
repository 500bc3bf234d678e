"""What synthetic gangs look like: how wide they are, how long they run, what contract they ask for.

Run times are drawn between measured quantiles, straight in the logarithm of time:

- 1 to 6 GPUs, 8 GPUs, and 16 to 64 GPUs: the jobs of ITP clusters 01 to 06 with 1 to 6, 8, and 16 to 64
  GPUs (ElasticFlow, ASPLOS'23; 25,346, 6,072 and 793 jobs), cut at 5 days.
- Wider: the 183 jobs of Kalos with at least 96 GPUs (AcmeTrace, NSDI'24), cut at 2 days: half of them run
  for less than 6 minutes, and the longest eighth holds most of the GPU time.
- Debug work: log-normal, median 4 minutes, at most 15 (46% of Philly's jobs end within 15 minutes), on 1,
  2, 4, 8, 16 GPUs in 60, 14, 10, 12, 4% of the cases (an assumption near Philly's 93% of single GPUs).

Min runtimes are those of `benchmarks.gangs`: 30m, 1h, 2h, 4h, 8h for 10, 30, 30, 15, 15% of the gangs; wide
ones 15m, 1h, 4h, 8h for 30, 20, 25, 25%, and who asks for 15m mostly runs no longer; debug work what it
needs in steps of 5 minutes. So most GPU time is run beyond the min runtime.

What public traces do not tell is assumed:

- Resumable: all that no protection carries to its end, for else it might never get there: runs of more
  than 8 hours and unallocated work. Of shorter allocated work 85%, of debug work 30%; what is not asks for
  a min runtime that lasts to its end.
- Time limits: four in five workloads state one. They are over-estimates as on CERIT (median of run time
  over limit 7%, here log-normal with a spread of 1.2), rounded up to what people write, at most 7 days.
- Every second piece of unallocated work has no end of its own (sweeps, data generation, evaluation of
  whatever comes): it is as long as its owner's interest, up to 5 days.
- Owners lose interest: a workload that is not through an exponential time after its submit (mean 48 hours, of
  unallocated work 36) is cancelled, waiting or running. Half to two thirds of the GPU time of LLM
  clusters ends in cancelled jobs (Kalos 61%, Seren 66%). It also keeps queues finite where a month's demand
  exceeds supply.
- Topology as in `benchmarks.gangs`, but without segments, which other readers of traces do not know: 64
  GPUs require a leaf; 32 require or prefer one; half of the gangs of 16 prefer one; wider gangs that fit a
  block prefer one.
- CPUs and memory as in `benchmarks.gangs`: 70% ask for 8, 16 or 24 CPUs and 64, 128 or 240 GiB per GPU; 3%
  of those with at most 2 GPUs ask for 64 CPUs per GPU. 20% name their GPU type.
- Priority is a wish, from -1 to 2 (LOW, NORMAL, HIGH, URGENT): allocated work 10, 45, 30, 15%; debug work
  0, 20, 50, 30%; unallocated work 25, 40, 25, 10%.
- Users: of n users of a team, user number k submits with a density that falls as 1 / sqrt(k).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from solver.state import Bools, Floats, Ints

Rng = np.random.Generator

MINUTE, HOUR, DAY = 60, 3600, 86_400
NODE_GPUS, LEAF_GPUS, BLOCK_GPUS = 8, 64, 256
GIB = 2**30
WIDE_GPUS = 128
"""Gangs from this width on live by Kalos' run times."""

INTEREST_S, FREE_INTEREST_S = 2 * DAY, 36 * HOUR
"""Mean time until an owner loses interest, and in unallocated work."""

LONGEST_S = 5 * DAY
ENDLESS = 0.5
"""Part of unallocated work that goes on until its owner stops it."""

PROTECTION_S = np.array([HOUR // 2, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR])
PROTECTION_ODDS = (0.10, 0.30, 0.30, 0.15, 0.15)
"""Min runtimes that people ask for, and how often."""

WIDE_PROTECTION_S = np.array([HOUR, 4 * HOUR, 8 * HOUR])
WIDE_PROTECTION_ODDS = (0.28, 0.36, 0.36)
"""Those of wide gangs that ask for more than `DEBUG_S`."""

MODEST = 0.52
"""Part of the wide gangs through within `DEBUG_S` that ask for no more. 57% are: 30% of all wide ones."""

RESUMABLE, DEBUG_RESUMABLE = 0.85, 0.30
"""Part of the allocated work that a protection could carry to its end, and of debug work."""

DEBUG_S, DEBUG_MEDIAN_S, DEBUG_SPREAD = 15 * MINUTE, 4 * MINUTE, 1.0
"""Longest and median run of debug work, and the standard deviation of its logarithm."""

DEBUG_GPUS = {1: 0.60, 2: 0.14, 4: 0.10, 8: 0.12, 16: 0.04}
"""Part of debug work by width."""

LIMIT_STATED, LIMIT_USED, LIMIT_SPREAD = 0.8, 0.07, 1.2
"""Part of the work that states a time limit, the median part of it that is used, and its spread as above."""

LIMITS_S = np.array([HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR, DAY, 2 * DAY, 3 * DAY, 5 * DAY, 7 * DAY])
"""Time limits that people write."""

ANYWHERE, PREFERS_BLOCK, PREFERS_LEAF, REQUIRES_LEAF = range(4)
"""Topology wishes."""

PRIORITIES = np.array([-1, 0, 1, 2])
PRIORITY_ODDS, FREE_PRIORITY_ODDS, DEBUG_PRIORITY_ODDS = (
    (0.10, 0.45, 0.30, 0.15),
    (0.25, 0.40, 0.25, 0.10),
    (0.00, 0.20, 0.50, 0.30),
)
"""How often each is wished for: in allocated, unallocated and debug work."""


@dataclass(frozen=True)
class Gangs:
    """Workloads in columns, G rows.

    Attributes
    ----------
    team, user : int64[G]
        Numbers; users are counted within their team.
    replicas : int64[G]
    each, cpus, memory_gib : int64[G]
        Of a replica: GPUs, CPUs (0 = not said), GiB (0 = not said).
    runtime_s, min_runtime_s, interest_s : int64[G], seconds
        `interest_s`: the owner cancels this long after the submit.
    time_limit_s : int64[G], seconds; 0 = none
    wish, priority : int64[G]
    resumable, typed : bool[G]
        `typed`: names its GPU type.
    """

    team: Ints
    user: Ints
    replicas: Ints
    each: Ints
    cpus: Ints
    memory_gib: Ints
    runtime_s: Ints
    min_runtime_s: Ints
    interest_s: Ints
    time_limit_s: Ints
    wish: Ints
    priority: Ints
    resumable: Bools
    typed: Bools

    @property
    def gpus(self) -> Ints:
        """GPUs of each gang."""
        return self.replicas * self.each

    def take(self, rows: Ints) -> Gangs:
        """Return some rows, in the order of `rows`."""
        return Gangs(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @staticmethod
    def join(parts: list[Gangs]) -> Gangs:
        """Return the rows of all parts, one part after the other."""
        return Gangs(**{f.name: np.concatenate([getattr(g, f.name) for g in parts]) for f in fields(Gangs)})


# -- run times and widths ----------------------------------------------------------------------------


@dataclass(frozen=True)
class RunTimes:
    """A distribution of run times by its quantiles: `seconds[i]` at probability `p[i]`."""

    p: tuple[float, ...]
    seconds: tuple[float, ...]

    def at(self, p: Floats) -> Floats:
        """Return the quantiles at some probabilities, seconds."""
        out: Floats = np.exp(np.interp(p, self.p, np.log(self.seconds)))
        return out

    @property
    def spent_s(self) -> float:
        """Mean time that a run which never waits takes until it is through or cancelled, seconds."""
        run_s = self.at((np.arange(4096) + 0.5) / 4096)
        return float((INTEREST_S * -np.expm1(-run_s / INTEREST_S)).mean())


_P = (0.0, 0.10, 0.25, 0.50, 0.75, 0.90)
FEW = RunTimes((*_P, 0.99, 1.0), (600, 1078, 3474, 7562, 13_338, 23_176, 108_135, LONGEST_S))
ONE_NODE = RunTimes((*_P, 0.985, 1.0), (600, 1873, 6486, 15_375, 37_846, 84_920, LONGEST_S, LONGEST_S))
NODES = RunTimes((*_P, 0.975, 1.0), (600, 1418, 3981, 44_056, 107_974, 201_274, LONGEST_S, LONGEST_S))
WIDE = RunTimes((*_P, 0.97, 1.0), (20, 34, 74, 351, 8880, 57_822, 2 * DAY, 2 * DAY))


def run_times(gpus: int) -> RunTimes:
    """Return how long gangs of this width run."""
    if gpus >= WIDE_GPUS:
        return WIDE
    if gpus > NODE_GPUS:
        return NODES
    return ONE_NODE if gpus == NODE_GPUS else FEW


def draw_widths(rng: Rng, count: int, gpu_time: dict[int, float], widest: int) -> Ints:
    """Draw GPUs of gangs, so that the GPU time they take divides as `gpu_time` says, int64[count].

    `gpu_time` maps a width in GPUs to its part; widths above `widest` are left out.
    """
    widths = [gpus for gpus in gpu_time if gpus <= widest]
    often = np.array([gpu_time[gpus] / (gpus * run_times(gpus).spent_s) for gpus in widths])
    return rng.choice(widths, size=count, p=often / often.sum())


def _draw_run_times(rng: Rng, gpus: Ints) -> Ints:
    """Draw how long gangs of these widths run, int64[G], seconds."""
    chance, out = rng.random(len(gpus)), np.zeros(len(gpus))
    for width in np.unique(gpus).tolist():
        mine = gpus == width
        out[mine] = run_times(width).at(chance[mine])
    return np.ceil(out).astype(np.int64)


# -- kinds of work -----------------------------------------------------------------------------------


def allocated(rng: Rng, team: Ints, users: Ints, gpu_time: dict[int, float], widest: int) -> Gangs:
    """Draw protected work, one gang for each entry of `team`; `users` by team."""
    count = len(team)
    gpus = draw_widths(rng, count, gpu_time, widest)
    run_s = _draw_run_times(rng, gpus)
    modest = (run_s <= DEBUG_S) & (rng.random(count) < MODEST)
    wide_s = np.where(modest, DEBUG_S, rng.choice(WIDE_PROTECTION_S, size=count, p=WIDE_PROTECTION_ODDS))
    asked_s = np.where(gpus >= WIDE_GPUS, wide_s, rng.choice(PROTECTION_S, size=count, p=PROTECTION_ODDS))
    resumable = (run_s > PROTECTION_S[-1]) | (rng.random(count) < RESUMABLE)
    whole_s = PROTECTION_S[np.searchsorted(PROTECTION_S[:-1], run_s)]
    min_s = np.where(resumable, asked_s, np.maximum(asked_s, whole_s))
    interest_s = rng.exponential(INTEREST_S, size=count)
    return _gangs(rng, team, users, gpus, run_s, min_s, interest_s, resumable, PRIORITY_ODDS)


def unallocated(rng: Rng, team: Ints, users: Ints, gpu_time: dict[int, float]) -> Gangs:
    """Draw work without a min runtime, one gang for each entry of `team`; `users` by team."""
    count = len(team)
    gpus = draw_widths(rng, count, gpu_time, max(gpu_time))
    interest_s = rng.exponential(FREE_INTEREST_S, size=count)
    endless = rng.random(count) < ENDLESS
    run_s = np.where(endless, np.ceil(interest_s.clip(max=LONGEST_S)), _draw_run_times(rng, gpus))
    none, every = np.zeros(count, dtype=np.int64), np.ones(count, dtype=bool)
    return _gangs(rng, team, users, gpus, run_s.astype(np.int64), none, interest_s, every, FREE_PRIORITY_ODDS)


def debug(rng: Rng, team: Ints, users: Ints) -> Gangs:
    """Draw debug work, one gang for each entry of `team`; `users` by team."""
    count, step_s = len(team), 5 * MINUTE
    gpus = rng.choice(list(DEBUG_GPUS), size=count, p=list(DEBUG_GPUS.values()))
    run_s = rng.lognormal(np.log(DEBUG_MEDIAN_S), DEBUG_SPREAD, size=count).clip(20, DEBUG_S)
    min_s = -(-run_s.astype(np.int64) // step_s) * step_s
    interest_s, resumable = rng.exponential(INTEREST_S, size=count), rng.random(count) < DEBUG_RESUMABLE
    return _gangs(
        rng, team, users, gpus, run_s.astype(np.int64), min_s, interest_s, resumable, DEBUG_PRIORITY_ODDS
    )


def _gangs(
    rng: Rng,
    team: Ints,
    users: Ints,
    gpus: Ints,
    run_s: Ints,
    min_s: Ints,
    interest_s: Floats,
    resumable: Bools,
    priority_odds: tuple[float, ...],
) -> Gangs:
    """Draw all that does not depend on the kind of work."""
    count = len(team)
    halved = np.isin(gpus, (4, 8, 16, 32)) & (rng.random(count) < 0.15)
    each = np.minimum(gpus, NODE_GPUS) // np.where(halved, 2, 1)
    asks, heavy = rng.random(count) < 0.7, (gpus <= 2) & (rng.random(count) < 0.03)
    level = rng.integers(0, 3, size=count)
    cpus = np.where(heavy, 64, np.array([8, 16, 24])[level]) * each
    return Gangs(
        team=team,
        user=(users[team] * rng.random(count) ** 2).astype(np.int64),
        replicas=gpus // each,
        each=each,
        cpus=np.where(asks, cpus, 0),
        memory_gib=np.where(asks, np.array([64, 128, 240])[level] * each, 0),
        runtime_s=run_s,
        min_runtime_s=min_s,
        interest_s=np.ceil(interest_s).astype(np.int64),
        time_limit_s=_draw_limits(rng, run_s, min_s),
        wish=_draw_wishes(rng, gpus),
        priority=rng.choice(PRIORITIES, size=count, p=priority_odds),
        resumable=resumable,
        typed=rng.random(count) < 0.2,
    )


def _draw_limits(rng: Rng, run_s: Ints, min_s: Ints) -> Ints:
    """Draw time limits that cut neither a run nor its protection short, int64[G], seconds; 0 = none."""
    part = np.exp(rng.normal(np.log(LIMIT_USED), LIMIT_SPREAD, size=len(run_s))).clip(0.01, 0.9)
    wants_s = np.maximum(run_s / part, min_s).clip(max=LIMITS_S[-1])
    stated = rng.random(len(run_s)) < LIMIT_STATED
    return np.where(stated, LIMITS_S[np.searchsorted(LIMITS_S, wants_s)], 0)


def _draw_wishes(rng: Rng, gpus: Ints) -> Ints:
    """Draw topology wishes, int64[G]."""
    coin = rng.random(len(gpus)) < 0.5
    wish = np.full(len(gpus), ANYWHERE)
    wish[(gpus == 2 * NODE_GPUS) & coin] = PREFERS_LEAF
    wish[gpus == 4 * NODE_GPUS] = np.where(coin[gpus == 4 * NODE_GPUS], REQUIRES_LEAF, PREFERS_LEAF)
    wish[gpus == LEAF_GPUS] = REQUIRES_LEAF
    wish[(gpus > LEAF_GPUS) & (gpus <= BLOCK_GPUS)] = PREFERS_BLOCK
    return wish
