"""The ledger at scale: `python -m benchmarks.ledger [--intervals 1000000] [--url postgresql://...]`.

Fills a new SQLite ledger (and with --url a PostgreSQL database that holds none) with seeded intervals, all
inside one window of 7 days or spread over a year, and times the questions of a round: the usage of 7 days,
and the whole account (use, entitlement, owed, delivered of each allocation). Windows begin and end inside
an hour. Times are medians of --repeat calls, each with a new connection; a check by plain sums precedes
them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

from sqlalchemy import text

from planner.account import account
from planner.ledger.demand import Coverage
from planner.ledger.hourly import occupied
from planner.ledger.intervals import Interval, Recorder
from planner.ledger.schema import metadata
from planner.ledger.store import Ledger, connect
from planner.model.budget import Budget
from planner.model.site import FairShare, Site

DAY_S = 86_400
WEEK_S = 7 * DAY_S
NOW_S = 2000 * DAY_S + 12_345
GPUS = {"h100": 8192, "b200": 2048}


def runs(count: int, days: int, allocations: int, seed: int) -> Iterator[Interval]:
    """Yield seeded runs that begin in the last `days`; one in ten is unallocated, some still run."""
    rng = Random(seed)
    for i in range(count):
        begin_s = NOW_S - rng.randrange(days * DAY_S)
        end_s = begin_s + int(rng.lognormvariate(8.5, 1.2))
        yield Interval(
            source="bench",
            workload=f"w{i}",
            started_s=begin_s,
            allocation=f"team{rng.randrange(allocations)}",
            occupancy="unallocated" if rng.random() < 0.1 else "allocated",
            cluster="k",
            gpu_type=rng.choice(list(GPUS)),
            gpus=rng.choice((1, 2, 4, 8, 8, 16, 64)),
            begin_s=begin_s,
            end_s=min(end_s, NOW_S),
            running=end_s > NOW_S,
        )


def fill(ledger: Ledger, said: Iterator[Interval]) -> Counter[str]:
    """Record runs in one transaction; return what plain sums say of the last week."""
    due: Counter[str] = Counter()

    def counted() -> Iterator[Interval]:
        for i in said:
            if i.occupancy == "allocated":
                due[i.allocation] += i.gpus * max(i.end_s - max(i.begin_s, NOW_S - WEEK_S), 0)
            yield i

    with ledger.write() as connection:
        recorder, coverage = Recorder(connection), Coverage()
        coverage.touch(recorder.record(counted()))
        coverage.flush(connection)
        recorder.finish()
    return due


def usage(ledger: Ledger) -> Counter[str]:
    """Return the GPU-seconds of the last 7 days by allocation."""
    out: Counter[str] = Counter()
    with ledger.read() as connection:
        for (_, allocation, _), gpu_s in occupied(connection, NOW_S - WEEK_S, NOW_S).items():
            out[allocation] += gpu_s
    return out


def median_ms(ask: Callable[[], object], repeat: int) -> float:
    """Return the median wall time of a call in milliseconds."""
    took = []
    for _ in range(repeat):
        began_s = time.perf_counter()
        ask()
        took.append(time.perf_counter() - began_s)
    return statistics.median(took) * 1000


def measure(ledger: Ledger, days: int, args: argparse.Namespace) -> str:
    """Fill a new ledger, check it, and return one line of the table."""
    if ledger.version() is not None:
        sys.exit(f"{ledger.name} holds a ledger already, name an empty database")
    ledger.upgrade()
    began_s = time.perf_counter()
    due = fill(ledger, runs(args.intervals, days, args.allocations, args.seed))
    fill_s = time.perf_counter() - began_s
    if not ledger.is_sqlite:  # what autovacuum does within a minute
        with ledger.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.execute(text("ANALYZE"))
    assert usage(ledger) == due, "the ledger and plain sums disagree"
    site = Site(tuple(Budget(f"team{i}", Fraction(1)) for i in range(args.allocations)))
    carry = replace(site, fair_share=FairShare(carry_overdraft=True))
    times = [
        median_ms(ask, args.repeat)
        for ask in (
            lambda: usage(ledger),
            lambda: account(site, ledger, NOW_S, GPUS),
            lambda: account(carry, ledger, NOW_S, GPUS),
        )
    ]
    cells = (ledger.engine.dialect.name, f"{args.intervals:,}", f"{days}", f"{fill_s:.1f}")
    return f"| {' | '.join((*cells, *(f'{t:.0f}' for t in times)))} |"


def main() -> int:
    """Print the table."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--intervals", type=int, default=1_000_000)
    ap.add_argument("--allocations", type=int, default=20)
    ap.add_argument("--days", type=int, nargs="+", default=[7, 365], help="time over which runs are spread")
    ap.add_argument("--repeat", type=int, default=9)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--url", help="a PostgreSQL database without a ledger; it is left as it was")
    a = ap.parse_args()
    header = ("database", "intervals", "over days", "import s", "usage of 7 days ms", "account ms")
    header += ("with overdraft ms",)
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for days in a.days:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(connect(f"sqlite:///{Path(folder)}/ledger.db"), days, a), flush=True)
        if a.url:
            server = connect(a.url)
            print(measure(server, days, a), flush=True)
            with server.engine.begin() as connection:
                metadata.drop_all(connection)
                connection.execute(text("DROP TABLE alembic_version"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
