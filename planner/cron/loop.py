"""How often: one round and out, as cron wants it, or round after round with the hot path between them."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from planner.cron import journal, metrics
from planner.cron.books import Books, ledger_of
from planner.cron.cycle import Cycle, Done
from planner.cron.hostlock import host_lock
from planner.errors import GangplanError, InputError, LockedError
from planner.ledger.lease import Lease, take
from planner.ledger.store import connect
from planner.model.plan import Plan
from planner.model.site import Site
from planner.sources.base import Source

SERVE_EVERY_S = 1.0
"""How often the hot path looks for new work."""

PAUSE = 5
"""Between two looks lies at least this many times what a look took: large queues are slow to read."""

GRACE_S = 120
"""What a round may take besides its solver; who is silent for longer has lost its turn."""


def rehearse(site: Site, source: Source) -> Plan:
    """Return the plan that a round would carry out now; where there is no ledger yet, none is made."""
    with TemporaryDirectory() as folder:
        file = connect(site.ledger).file if site.ledger else None
        if file is not None and not file.exists():
            site = replace(site, ledger=f"sqlite:///{folder}/ledger.db")
        return Cycle(site, source, Books(site, ledger_of(site), source.name)).rehearse()


def run_once(site: Site, source: Source) -> Done:
    """Do one round under the lock of this host and the lease of the ledger."""
    with host_lock(Path(site.run.state)) as holder:
        lease: Lease | None = None
        try:
            books = Books(site, ledger_of(site), source.name)
            lease = take(books.ledger, holder, _term_s(site))
            return Cycle(site, source, books).run(lease)
        except GangplanError as error:
            _note_failure(site, error)
            raise
        finally:
            if lease is not None:
                _let_go(lease)


def run_always(site: Site, source: Source, period_s: float, rounds: int | None = None) -> None:
    """Do round after round until SIGTERM or SIGINT, which let the step at hand end.

    What fails is told, and tried again in the next round: a slurmctld that restarts, a database that is away,
    another host that plans. `rounds`: stop after so many.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with host_lock(Path(site.run.state)) as holder:
        lease: Lease | None = None
        cycle, works = Cycle(site, source, Books(site, ledger_of(site), source.name)), False
        while not stop.is_set() and rounds != 0:
            due = time.monotonic() + period_s
            rounds = None if rounds is None else rounds - 1
            try:
                lease = lease or take(cycle.books.ledger, holder, _term_s(site))
                done, works = cycle.run(lease), True
                if rounds != 0:
                    _serve(cycle, lease, done, due, stop)
            except LockedError as error:
                lease = None
                journal.tell("another host plans", fault=str(error))
            except GangplanError as error:
                if isinstance(error, InputError) and not works:  # the site file, and not a passing moment
                    raise
                _note_failure(site, error)
                journal.fail("round failed", exit_code=error.exit_code, fault=str(error))
            stop.wait(max(due - time.monotonic(), 0))
        if lease is not None:
            _let_go(lease)


def _serve(cycle: Cycle, lease: Lease, done: Done, due: float, stop: threading.Event) -> None:
    """Serve new work until the next round is due; where looking is slow, less often."""
    known, pause_s = {w.id for w in done.snapshot.workloads}, SERVE_EVERY_S
    while due - time.monotonic() > pause_s and not stop.wait(pause_s):
        began = time.monotonic()
        cycle.serve(lease, done, known)
        pause_s = max(SERVE_EVERY_S, PAUSE * (time.monotonic() - began))


def _term_s(site: Site) -> int:
    return GRACE_S + int(site.solver.time_limit_s)


def _let_go(lease: Lease) -> None:
    """Give the lease back; where that fails it runs out by itself."""
    try:
        lease.release()
    except GangplanError as error:
        journal.tell("lease not given back", fault=str(error))


def _note_failure(site: Site, error: GangplanError) -> None:
    """Let the metrics say that a round came to nothing; another host's round is no failure."""
    if site.run.metrics is None or isinstance(error, LockedError):
        return
    path = Path(site.run.metrics)
    try:
        metrics.write(
            path, metrics.of_failure(int(time.time()), error.exit_code, metrics.last_success_s(path))
        )
    except InputError as fault:
        journal.warn("not published", fault=str(fault))
