"""A round may be killed (SIGKILL) between any two of its steps: the next one goes on as if nothing had been.

A step is a command to Slurm, a transaction of the ledger or a file; the process is killed before each, and in
transactions also before they are kept. Each time it is the same crowded moment: a victim to requeue, a start
that needs its nodes, a job that somebody released, a node to drain and repair, and a gang with a promise.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from planner.cron import cycle, metrics
from planner.ledger.store import Ledger
from tests.planner.cron.town import Town, town

FORK = multiprocessing.get_context("fork")
HEALTH = (
    'max_age: 2m, health: {{command: [sh, -c, "echo node008 fan"], settle: 0s}}, on_empty: ["{home}/repair"]'
)


def crowded(home: Path) -> Town:
    """Build the moment before the round that is killed."""
    home.mkdir()
    repair = home / "repair"
    repair.write_text(f'#!/bin/sh\necho "$1" >> {home}/repaired\n')
    repair.chmod(0o755)
    here = there(home)
    here.slurm.submit(4, 8)  # 1: free, the victim
    here.slurm.submit(2, 8, contract={"min_runtime": "40s"})  # 2: protected until the promise
    here.rounds(1, 6)
    here.slurm.submit(7, 8, account="vision", contract={"min_runtime": "1h"})  # 3: gets the promise
    here.rounds(2, 2)
    here.slurm.submit(2, 8, 15, contract={"min_runtime": "10s"})  # 4: needs the victim's nodes
    here.slurm.loosen(here.slurm.submit(8, 8, 5))  # 5: released by somebody
    assert [r.workload for r in here.promises()] == ["3"]
    return here


def there(home: Path) -> Town:
    """Return the town in a folder."""
    return town(home, more=HEALTH.format(home=home))


class Tripwire:
    """Kills this process at its n-th step; counts them where there is no such step."""

    def __init__(self, at: int) -> None:
        self.at, self.passed = at, 0

    def step(self, *_: object) -> None:
        """Pass one moment in which a process may end."""
        self.passed += 1
        if self.passed == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def ahead_of(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Make a step before a call."""

        def wrapped(*args: Any) -> Any:
            self.step()
            return call(*args)

        return wrapped

    @contextmanager
    def transaction(self, ledger: Ledger) -> Iterator[Any]:
        """Make a step before a transaction, and one before it is kept."""
        self.step()
        with REAL_WRITE(ledger) as connection:
            yield connection
            self.step()


REAL_WRITE = Ledger.write


def killed_round(home: Path, at: int, passed: Any) -> None:
    """Do one round in this process, which is killed at a step."""
    here, wire = there(home), Tripwire(at)
    here.slurm.before = wire.step
    with (
        patch.object(Ledger, "write", lambda self: wire.transaction(self)),
        patch.object(cycle, "write_atomic", wire.ahead_of(cycle.write_atomic)),
        patch.object(metrics, "write_atomic", wire.ahead_of(metrics.write_atomic)),
    ):
        here.round()
    passed.value = wire.passed


def round_killed_at(home: Path, at: int) -> int:
    """Do one round in a child that dies at a step; return how many steps it passed if it did not."""
    passed = FORK.Value("i", 0)
    child = FORK.Process(target=killed_round, args=(home, at, passed))
    child.start()
    child.join(60)
    assert child.exitcode == (0 if passed.value else -signal.SIGKILL)
    return int(passed.value)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The moment before, to be copied for each death."""
    home = tmp_path_factory.mktemp("crowded") / "town"
    crowded(home)
    return home


def copied(before: Path, to: Path) -> Town:
    """Return a town that has come to the same moment."""
    shutil.copytree(before, to)
    (to / "repair").write_text(f'#!/bin/sh\necho "$1" >> {to}/repaired\n')
    return there(to)


def goes_on(here: Town, promised_s: int) -> None:
    """Let a town live on, and check that nothing was done twice and nothing forgotten."""
    here.rounds(6, 9)
    slurm = here.slurm
    assert len(slurm.nodes_of("3")) == 7, "the promise was forgotten"
    assert slurm.job("3")["start_time"] <= promised_s + 15
    attempts = Counter(str(r["id"]) for r in slurm.records())
    for name, many in attempts.items():
        assert many <= slurm.job(name)["restart_cnt"] + 1, f"{name} was started twice"
    assert attempts["2"] == attempts["3"] == attempts["4"] == 1
    assert slurm.job("4")["job_state"] == "COMPLETED"
    assert slurm.job("1")["priority"] == 0, "the victim is lost"
    ended = {run: held for run, held in here.charged().items() if run in here.accounted()}
    assert ended == here.accounted(), "charged otherwise than it ran"
    assert Counter(w for w, _ in here.charged()) == attempts, "charged twice, or not at all"
    assert slurm.node("node008")["state"] == "drain"
    assert set((here.home / "repaired").read_text().split()) == {"node008"}


def test_a_round_may_be_killed_at_every_step(before: Path, tmp_path: Path) -> None:
    died_at, passed = 0, 0
    while not passed:
        died_at += 1
        here = copied(before, tmp_path / str(died_at))
        (promise,) = here.promises()
        passed = round_killed_at(here.home, died_at)
        goes_on(here, promise.start_s)
    assert passed == died_at - 1 > 25, "the round took hardly any steps"
