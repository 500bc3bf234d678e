"""SQLite and PostgreSQL are twins: the same history gives the same answers to the last GPU-second."""

from __future__ import annotations

from random import Random

import pytest

from planner.ledger.demand import Coverage, known_hours
from planner.ledger.hourly import occupied
from planner.ledger.intervals import statements
from planner.ledger.retain import prune
from tests.planner.ledger.histories import hourly_rows, interval_rows, random_year, record

YEAR_S = 366 * 86_400


@pytest.mark.parametrize("seed", [1, 2])
def test_a_year_of_random_intervals_gives_the_same_answers(twins, seed):
    said = random_year(seed, 900)
    for ledger in twins:
        recorder = record(ledger, *said)
        assert recorder.counts.new > 300
        assert recorder.counts.corrected > 30
        with ledger.write() as connection:
            coverage = Coverage()
            coverage.touch(said)
            coverage.flush(connection)
    one, other = twins
    rng = Random(seed)
    spans = [sorted((rng.randrange(YEAR_S), rng.randrange(YEAR_S))) for _ in range(6)]
    spans += [[t, t + 604_800] for t in rng.sample(range(YEAR_S), 12)]
    with one.read() as a, other.read() as b:
        assert interval_rows(a) == interval_rows(b)
        assert hourly_rows(a) == hourly_rows(b)
        for begin_s, end_s in spans:
            for occupancy in ("allocated", "unallocated"):
                assert occupied(a, begin_s, end_s, occupancy) == occupied(b, begin_s, end_s, occupancy)
            assert known_hours(a, begin_s, end_s) == known_hours(b, begin_s, end_s)
            assert list(statements(a, begin_s, end_s)) == list(statements(b, begin_s, end_s))


def test_after_pruning_they_are_still_twins(twins):
    said, late = random_year(3, 400), random_year(4, 400)
    found = []
    for ledger in twins:
        record(ledger, *said)
        with ledger.write() as connection:
            prune(connection, YEAR_S // 2 + 1234)
        record(ledger, *late)
        with ledger.read() as connection:
            windows = [occupied(connection, t, t + 604_800) for t in range(0, YEAR_S, 1_000_003)]
            found.append((interval_rows(connection), hourly_rows(connection), windows))
    assert found[0] == found[1]
