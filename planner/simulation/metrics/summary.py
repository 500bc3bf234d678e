"""The figures of `summary.json`, in its order; docs/metrics.md defines each."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from planner.simulation.metrics.hours import HOUR_S
from planner.simulation.metrics.measure import Measured
from planner.simulation.metrics.runs import Fate
from planner.simulation.metrics.waits import largest, percentile, promise_errors_s, promise_fates
from solver.state import Bools

Figures = dict[str, int | float | str | None]
"""Figures by name; None where there is nothing to say."""

KEPT = Fraction(95, 100)
"""Delivered over owed from which an allocation has had what it was promised."""


def summary(measured: Measured) -> Figures:
    """Return every figure of a simulation: those of the interface first, then the additions."""
    return {
        **_capacity(measured),
        **_delivery(measured),
        **_waits(measured),
        **_preemption(measured),
        **_effort(measured),
        **_counts(measured),
        **_use(measured),
    }


def ratio(part: int | Fraction, whole: int | Fraction) -> float | None:
    """Return part ÷ whole, rounded once; None of nothing."""
    return float(Fraction(part) / Fraction(whole)) if whole else None


def _capacity(m: Measured) -> Figures:
    """Say where the GPU time went."""
    hours = m.hours
    busy, free = int(m.runs.gpu_s.sum()), int(m.runs.gpu_s[~m.runs.allocated].sum())
    available = int(hours.available_gpu_s.sum())
    return {
        "end_s": m.history.end_s,
        "availability": ratio(available, int(hours.capacity_gpu_s.sum())),
        "occupancy": ratio(busy, available),
        "unallocated_share": ratio(free, busy),
    }


def _delivery(m: Measured) -> Figures:
    """Say what allocations received of what they were owed."""
    hours = m.hours
    owed = []
    for a in range(len(hours.allocations)):
        parts, bottom = hours.owed(a)
        owed.append(Fraction(sum(parts), bottom))
    got = hours.allocated_gpu_s.sum(axis=1).tolist()
    ratios = [Fraction(g) / o for g, o in zip(got, owed, strict=True) if o]
    kept = sum((min(Fraction(g), o) for g, o in zip(got, owed, strict=True)), Fraction(0))
    return {
        "delivered_over_owed": ratio(kept, sum(owed, Fraction(0))),
        "worst_delivered_over_owed": float(min(ratios)) if ratios else None,
        "allocations_at_95": sum(r >= KEPT for r in ratios),
    }


def _waits(m: Measured) -> Figures:
    """Say how long allocated work waited, and for what."""
    terms, wait_s, placement_s = m.history.terms, m.fates.wait_s, m.history.placement_wait_s
    every = m.fates.counts & terms.allocated
    debug, big = every & terms.debug, every & largest(m.history)
    return {
        "wait_p50_s": percentile(wait_s[every], 50),
        "wait_p90_s": percentile(wait_s[every], 90),
        "debug_wait_p90_s": percentile(wait_s[debug], 90),
        "largest_wait_p50_s": percentile(wait_s[big], 50),
        "largest_wait_p90_s": percentile(wait_s[big], 90),
        "placement_wait_p90_s": percentile(placement_s[every], 90),
        "largest_placement_wait_p90_s": percentile(placement_s[big], 90),
        "promise_error_p90_s": percentile(promise_errors_s(m.history, m.runs, m.fates), 90),
    }


def _preemption(m: Measured) -> Figures:
    """Say what preemption cost."""
    lost, busy = int(m.fates.lost_gpu_s.sum()), int(m.runs.gpu_s.sum())
    return {
        "preemptions": int(m.fates.preemptions.sum()),
        "preempted_gpu_hours_lost": lost / HOUR_S,
        "goodput": ratio(busy - lost, busy),
    }


def _effort(m: Measured) -> Figures:
    """Say what deciding cost."""
    effort = m.history.effort
    return {
        "rounds": effort.rounds,
        "solve_seconds_p50": percentile(effort.solve_s, 50),
        "solve_seconds_p90": percentile(effort.solve_s, 90),
        "wall_seconds": effort.wall_s,
        "exact_rounds": effort.exact,
        "placed_between_rounds": effort.placed_between,
    }


def _counts(m: Measured) -> Figures:
    """Say how many workloads the figures are about, and how many waits were cut short by the end."""

    def number(rows: Bools) -> int:
        return int(np.count_nonzero(rows))

    counts, fate = m.fates.counts, m.fates.fate
    unstarted = counts & m.history.terms.allocated & (m.fates.starts == 0)
    kept, by_node, otherwise = promise_fates(m.history, m.runs, m.fates)
    return {
        "policy": m.history.policy,
        "workloads": number(counts),
        "refused": number(m.fates.submitted & ~counts),
        "finished": number(fate == Fate.FINISHED),
        "unstarted": number(unstarted),
        "largest_unstarted": number(unstarted & largest(m.history)),
        "promised": len(np.unique(m.history.promised)),
        "promises_kept": kept,
        "promises_late_by_node": by_node,
        "promises_late_otherwise": otherwise,
    }


def _use(m: Measured) -> Figures:
    """Say how well GPUs were used, and how many were of no use to anybody who waited."""
    samples, used = m.history.samples, m.history.trace.gpu_utilization
    lasts_s = np.diff(samples.time_s, append=m.history.end_s)
    known = ~np.isnan(used)
    held = m.fates.delivered_gpu_s[known]
    return {
        "stranded_gpus_mean": ratio(int(lasts_s @ samples.stranded_gpus), int(lasts_s.sum())),
        "gpu_utilization": float(held @ used[known] / held.sum()) if held.any() else None,
    }
