"""Between rounds new work that fits starts at once, and nothing that a round decided is touched."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks.text import iso
from planner.cron.between import place_new
from planner.cron.books import Books
from planner.cron.cycle import Cycle, Done
from planner.errors import InputError
from planner.ledger.lease import Lease, take
from planner.model.budget import Budget
from planner.model.plan import Plan
from planner.verify import verify
from tests.planner.cron.town import Town, town
from tests.planner.worlds import NOW_S, world

CONTRACT = {"min_runtime": "1h"}


class Standing:
    """A town in which a round has just been done, and what serves new work."""

    def __init__(self, here: Town) -> None:
        self.here = here
        self.cycle = Cycle(here.site, here.source(), Books(here.site, here.ledger, "slurm"))
        self.lease: Lease = take(here.ledger, "me", 60)
        (here.home / "state").mkdir(exist_ok=True)
        self.done: Done = self.cycle.run(self.lease)
        self.known = {w.id for w in self.done.snapshot.workloads}

    def serve(self) -> None:
        """Look once for new work."""
        self.here.slurm.sleep(1)
        self.cycle.serve(self.lease, self.done, self.known)


@pytest.fixture
def here(tmp_path: Path) -> Town:
    return town(tmp_path)


def test_new_work_that_fits_starts_and_is_charged_from_then_on(here: Town) -> None:
    here.slurm.submit(4, 8, contract=CONTRACT)
    standing = Standing(here)
    new = [here.slurm.submit(1, 8, contract=CONTRACT) for _ in range(3)]
    standing.serve()
    assert all(len(here.slurm.nodes_of(j)) == 1 for j in new)
    taken = [n for j in ("1", *new) for n in here.slurm.nodes_of(j)]
    assert len(set(taken)) == len(taken) == 7
    here.slurm.sleep(5)
    standing.lease.release()
    here.rounds(1)
    assert {w for w, _ in here.charged()} == {"1", *new}


def test_new_work_takes_free_work_out_of_its_way(here: Town) -> None:
    free = here.slurm.submit(8, 8)
    standing = Standing(here)
    here.slurm.sleep(20)
    new = here.slurm.submit(2, 8, contract=CONTRACT)
    standing.serve()
    here.slurm.sleep(5)
    assert len(here.slurm.nodes_of(new)) == 2
    assert here.slurm.job(free)["restart_cnt"] == 1
    standing.lease.release()
    here.rounds(1)
    assert here.kinds()[free] == "unallocated"


def test_who_was_told_to_wait_waits_for_the_next_round(here: Town) -> None:
    first = here.slurm.submit(8, 8, contract=CONTRACT)
    waits = here.slurm.submit(4, 8, contract=CONTRACT)
    standing = Standing(here)
    here.slurm.finish(first)
    here.slurm.sleep(3)
    told = len(here.slurm.told)
    standing.serve()
    assert here.slurm.nodes_of(waits) == []
    assert [t[0] for t in here.slurm.told[told:]].count("squeue") == 1, (
        "one look is enough to see nothing new"
    )


def test_a_promise_is_neither_broken_nor_forgotten(here: Town) -> None:
    here.slurm.submit(4, 8, contract={"min_runtime": "60s"})
    here.rounds(1)
    gang = here.slurm.submit(8, 8, account="vision", contract=CONTRACT)
    standing = Standing(here)
    (promise,) = here.promises()
    assert promise.workload == gang
    late = here.slurm.submit(4, 8, contract=CONTRACT)
    short = here.slurm.submit(4, 8, 20, contract={"min_runtime": "30s"})
    standing.serve()
    assert here.slurm.nodes_of(late) == []
    assert len(here.slurm.nodes_of(short)) == 4
    assert here.promises() == (promise,)
    standing.lease.release()
    here.rounds(8, 10)
    assert len(here.slurm.nodes_of(gang)) == 8
    assert here.slurm.job(gang)["start_time"] <= promise.start_s + 20


def test_a_sick_node_is_not_brought_back_between_rounds(tmp_path: Path) -> None:
    check = "health: {command: [echo, node008 fan], settle: 0s}"
    here = town(tmp_path, more=check)
    standing = Standing(here)
    assert here.slurm.node("node008")["state"] == "drain"
    here.slurm.sleep(30)
    here.slurm.submit(1, 8, contract=CONTRACT)
    standing.serve()
    assert here.slurm.nodes_of("1")
    assert here.slurm.node("node008")["state"] == "drain"


def test_work_is_served_whose_account_is_not_the_path_of_its_allocation(here: Town) -> None:
    budgets = (Budget("lab", Fraction(1), children=(Budget("lab/nlp", Fraction(1)),)),)
    here.site = replace(here.site, budgets=budgets)
    here.slurm.submit(4, 8, contract=CONTRACT)
    standing = Standing(here)
    new = here.slurm.submit(1, 8, contract=CONTRACT)
    standing.serve()
    assert len(here.slurm.nodes_of(new)) == 1


def test_nothing_is_served_of_a_world_that_cannot_be(here: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm may show two runs on one node while it goes from one state to the next."""

    def refuse(*_: object) -> Plan:
        raise InputError(["node001: 16 of 8 GPUs given out"])

    standing = Standing(here)
    monkeypatch.setattr("planner.cron.cycle.place_new", refuse)
    new = here.slurm.submit(1, 8, contract=CONTRACT)
    standing.serve()
    assert here.slurm.nodes_of(new) == []


def test_a_promise_that_falls_due_between_rounds_keeps_nobody_from_being_served() -> None:
    promised = {"workload": "gang", "start_at": iso(NOW_S - 3), "placement": [{"node": "n1", "gpus": 8}]}
    work = [{"id": "gang"}, {"id": "r", "on": "n1", "ran": "1h", "min_runtime": "1h"}, {"id": "new"}]
    w = world(workloads=work, reservations=[promised], site={"plan_ahead": {"reservations": 8}})
    plan = place_new(w.site, w.snapshot, {"new"})
    assert {d.workload: d.action for d in plan.decisions} == {"gang": "wait", "r": "keep", "new": "start"}
    assert [(r.workload, r.start_s) for r in plan.reservations] == [("gang", NOW_S)]
    assert verify(w.snapshot, plan, w.site) == []
