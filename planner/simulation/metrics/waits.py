"""How long work waited, and how true promises were."""

from __future__ import annotations

import numpy as np

from planner.simulation.history import History
from planner.simulation.metrics.runs import NEVER, Fates, Runs
from solver.promises import Moved
from solver.state import Bools, Floats, Ints


def percentile(values: Ints | Floats, q: float) -> float | None:
    """Return the q-th percentile by linear interpolation; None of nothing."""
    return float(np.percentile(values, q)) if len(values) else None


def largest(history: History) -> Bools:
    """Return which workloads ask for enough of the GPUs to count among the largest, bool[T]."""
    share = history.site.contract.largest_min_cluster_share
    least = share.numerator * int(history.inventory.nodes.gpus.sum())
    asked: Bools = history.terms.gpus * share.denominator >= least
    return asked


def kept_start_s(history: History, runs: Runs) -> Ints:
    """Return the first start at or after each promise of the history, int64[P]; `NEVER` if there was none."""
    span = history.end_s + 1  # makes one ascending key of workload and time
    key = history.promised * span + np.minimum(history.promised_at_s, history.end_s)
    at = np.searchsorted(runs.workload * span + runs.start_s, key)
    who, start_s = np.append(runs.workload, -1)[at], np.append(runs.start_s, NEVER)[at]
    return np.where(who == history.promised, start_s, NEVER)


def first_promises(history: History) -> Ints:
    """Return the row of the first promise of each workload that had one, by workload."""
    order = np.lexsort((history.promised_at_s, history.promised))
    _, first = np.unique(history.promised[order], return_index=True)
    rows: Ints = order[first]
    return rows


def promise_errors_s(history: History, runs: Runs, fates: Fates) -> Ints:
    """Return how far each workload's first promise was from its start, int64[workloads judged], seconds.

    A workload that did not start counts with how long its promise was overdue when it was cancelled or the
    simulation ended; if its promise was not due by then, nothing can be said and it does not count.
    """
    return np.abs(_lateness_s(history, runs, fates)[1])


def promise_fates(history: History, runs: Runs, fates: Fates) -> tuple[int, int, int]:
    """Return how many first promises were kept, were late for a node that failed, and were late otherwise.

    Kept: the start came in the first round at or after the time promised, or before. Judged as in
    `promise_errors_s`.
    """
    who, late_s = _lateness_s(history, runs, fates)
    late = who[late_s >= history.period_s]
    failed = np.isin(late, history.moved[history.moved_why == Moved.NODE_LOST])
    by_node = int(np.count_nonzero(failed))
    return len(who) - len(late), by_node, len(late) - by_node


def _lateness_s(history: History, runs: Runs, fates: Fates) -> tuple[Ints, Ints]:
    """Return the workloads whose first promise is judged, and by how much their start came after it."""
    row = first_promises(history)
    who, promised_s = history.promised[row], history.promised_start_s[row]
    start_s = kept_start_s(history, runs)[row]
    known_s = np.where(fates.over_s[who] == NEVER, history.end_s, fates.over_s[who])
    judged = (start_s != NEVER) | (known_s > promised_s)
    late_s: Ints = np.where(start_s == NEVER, known_s, start_s) - promised_s
    return who[judged], late_s[judged]
