"""What goes wrong around a round, and what a round does then: each fault has one stated behaviour."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from planner.cron import books, cycle
from planner.cron.hostlock import host_lock
from planner.cron.loop import run_once
from planner.errors import InputError, LockedError, PlanRejectedError, SourceError
from planner.ledger.store import connect
from planner.model.plan import Plan
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.planfile import load_plan
from planner.round import plan_round
from planner.snapshot import load_snapshot
from planner.sources.base import Source
from planner.verify import verify
from tests.planner.cron.town import Town, town

CONTRACT = {"min_runtime": "1h"}


@pytest.fixture
def here(tmp_path: Path) -> Town:
    return town(tmp_path)


def at_the_second_look(here: Town, happens: Callable[[], object]) -> None:
    """Let something happen after the plan was made, and before it is carried out."""
    looks = 0

    def before(args: Sequence[str]) -> None:
        nonlocal looks
        looks += args[0] == "squeue"
        if looks == 2:
            looks += 1
            happens()

    here.slurm.before = before


# -- the world goes on while a plan is made ----------------------------------------------------------


def test_a_job_that_was_cancelled_meanwhile_is_not_started_and_its_victim_lives(here: Town) -> None:
    victim = here.slurm.submit(8, 8)
    here.round()
    here.slurm.sleep(60)
    gainer = here.slurm.submit(8, 8, contract=CONTRACT)
    at_the_second_look(here, lambda: here.slurm.cancel(gainer))
    here.round()
    assert here.slurm.nodes_of(victim)
    assert here.slurm.job(victim)["restart_cnt"] == 0


def test_a_victim_that_ended_meanwhile_stays_ended_and_its_nodes_are_used(here: Town) -> None:
    victim = here.slurm.submit(8, 8)
    here.round()
    here.slurm.sleep(60)
    gainer = here.slurm.submit(8, 8, contract=CONTRACT)
    at_the_second_look(here, lambda: here.slurm.finish(victim))
    here.round()
    here.rounds(2)
    assert here.slurm.job(victim)["job_state"] == "COMPLETED"
    assert here.slurm.nodes_of(gainer)


def test_a_node_that_died_meanwhile_gets_nothing_and_the_rest_starts(here: Town) -> None:
    jobs = [here.slurm.submit(1, 8, contract=CONTRACT) for _ in range(8)]
    at_the_second_look(here, lambda: here.slurm.node_dies("node003"))
    done = here.round()
    running = [j for j in jobs if here.slurm.nodes_of(j)]
    assert len(running) == 7
    assert done.outcome.failed == {}
    assert "node003" not in [n for j in jobs for n in here.slurm.nodes_of(j)]


def test_a_node_that_an_operator_filled_meanwhile_is_left_to_its_job(here: Town) -> None:
    job = here.slurm.submit(8, 8, contract=CONTRACT)
    other = here.slurm.submit(1, 8, required_nodes="node005", account="vision")
    at_the_second_look(here, lambda: here.slurm.loosen(other))
    here.round()
    assert here.slurm.nodes_of(other) == ["node005"]
    assert here.slurm.job(job)["priority"] == 0
    assert here.slurm.job(job)["job_state"] == "PENDING"


def test_a_plan_older_than_it_may_be_is_not_applied(tmp_path: Path) -> None:
    here = town(tmp_path)
    here.site = replace(here.site, run=replace(here.site.run, max_age_s=0))
    here.slurm.submit(1, 8, contract=CONTRACT)
    with pytest.raises(SourceError, match=r"more than run\.max_age"):
        here.round()
    assert not [t for t in here.slurm.told if t == ["scontrol"]]


# -- gangs that lose their nodes ---------------------------------------------------------------------


def test_a_gang_that_lost_a_node_comes_back_with_the_first_claim(here: Town) -> None:
    first = here.slurm.submit(4, 8, contract=CONTRACT)
    here.round()
    here.slurm.sleep(10)
    for _ in range(4):
        here.slurm.submit(4, 8, contract={**CONTRACT, "priority": 9})
    here.round()
    node = here.slurm.nodes_of(first)[0]
    here.slurm.node_dies(node)
    here.slurm.finish("2")
    here.slurm.sleep(5)
    here.rounds(2)
    assert node not in here.slurm.nodes_of(first)
    assert len(here.slurm.nodes_of(first)) == 4
    assert here.slurm.job(first)["restart_cnt"] == 1


def test_a_gang_that_lost_a_node_has_its_promise_from_the_round_that_finds_it_waiting(here: Town) -> None:
    gang, other = here.slurm.submit(4, 8, contract=CONTRACT), here.slurm.submit(4, 8, contract=CONTRACT)
    here.round()
    here.slurm.sleep(60)
    here.slurm.node_dies(here.slurm.nodes_of(gang)[0])
    here.slurm.sleep(3)
    late = here.slurm.submit(3, 8, contract=CONTRACT, account="vision")
    plan = here.round().plan
    assert {d.workload: d.action for d in plan.decisions} == {gang: "wait", other: "keep", late: "start"}
    assert [r.workload for r in plan.reservations] == [gang]
    assert here.slurm.job(gang)["required_nodes"] == ""


def test_an_operators_requeue_is_held_again_and_planned_again(here: Town) -> None:
    job = here.slurm.submit(2, 8, contract=CONTRACT)
    here.round()
    here.slurm.sleep(5)
    here.source().preempt([w for w in here.source().observe().workloads if w.id == job])
    here.slurm.loosen(job)
    here.rounds(3)
    assert here.slurm.nodes_of(job)
    assert here.charged().keys() >= {(job, r["start"]) for r in here.slurm.records()}


# -- Slurm, the disk, the clock ----------------------------------------------------------------------


def test_slurmctld_may_be_away_at_any_command_and_the_next_round_goes_on(here: Town) -> None:
    victim = here.slurm.submit(8, 8)
    here.round()
    here.slurm.sleep(60)
    gainer = here.slurm.submit(8, 8, contract=CONTRACT)
    asked, away_at = 1, 0
    while asked >= away_at:  # until a round needs fewer commands than this
        asked, away_at = 0, away_at + 1

        def away(args: Sequence[str], away_at: int = away_at) -> None:
            nonlocal asked
            asked += 1
            if asked == away_at:
                raise SourceError(f"{args[0]}: Unable to contact slurm controller")

        here.slurm.before = away
        with suppress(SourceError):
            here.round()
        here.slurm.sleep(1)
    assert away_at > 10
    here.slurm.before = here.slurm._nothing
    here.rounds(3)
    assert here.slurm.nodes_of(gainer)
    assert here.slurm.job(victim)["restart_cnt"] == 1


def test_a_slurmctld_that_was_restarted_is_not_ready_and_then_the_next_round_goes_on(here: Town) -> None:
    job = here.slurm.submit(1, 8, contract=CONTRACT)
    here.round()
    here.slurm.restart()
    with pytest.raises(SourceError, match="Slurm is not ready"):
        here.round()
    here.slurm.sleep(5)
    here.round()
    assert here.slurm.job(job)["restart_cnt"] == 0


def test_a_round_of_one_who_may_not_change_jobs_fails_and_says_so(here: Town) -> None:
    here.slurm.submit(1, 8, contract=CONTRACT)
    here.slurm.allow("None")
    with pytest.raises(SourceError, match="AdminLevel=Operator"):
        here.round()


def test_a_plan_that_is_rejected_is_kept_with_what_it_was_made_of(here: Town) -> None:
    job = here.slurm.submit(1, 8, contract=CONTRACT)
    here.round()
    good = here.left("snapshot.json")
    here.slurm.sleep(5)

    def spoiled(site: Site, snapshot: Snapshot) -> Plan:
        plan = plan_round(site, snapshot)
        return replace(plan, decisions=tuple(replace(d, action="wait", placement=()) for d in plan.decisions))

    with patch.object(cycle, "plan_round", spoiled), pytest.raises(PlanRejectedError) as caught:
        here.round()
    state = here.home / "state"
    snapshot = load_snapshot(state / "snapshot.rejected.json", here.site)
    assert verify(snapshot, load_plan(state / "plan.rejected.json"), here.site) == caught.value.broken
    assert here.left("snapshot.json") == good
    assert here.slurm.nodes_of(job)


def test_a_full_disk_ends_the_round_before_anything_is_done(here: Town) -> None:
    job = here.slurm.submit(1, 8, contract=CONTRACT)
    full = InputError(["plan.json: cannot be written (No space left on device)"])
    with patch.object(cycle, "write_atomic", side_effect=full), pytest.raises(SourceError, match="No space"):
        here.round()
    assert here.slurm.job(job)["priority"] == 0
    here.round()
    assert here.slurm.nodes_of(job)


def test_a_clock_that_steps_back_charges_nothing_twice(here: Town) -> None:
    here.slurm.submit(1, 8, 30, contract=CONTRACT)
    here.rounds(2)
    real = here.slurm.clock
    source = here.source()
    source.clock = lambda: real() - 4000
    run_once(here.site, source)
    source.clock = lambda: real() - 20
    run_once(here.site, source)
    here.rounds(8)
    assert here.charged() == here.accounted()


# -- the database ------------------------------------------------------------------------------------


def test_a_database_that_goes_away_after_the_look_stops_the_round_before_it_acts(here: Town) -> None:
    job = here.slurm.submit(1, 8, contract=CONTRACT)
    here.round()
    waiting = here.slurm.submit(8, 8)
    here.slurm.finish(job)
    gone = SourceError("sqlite: disk I/O error")
    for step in ("look", "decide"):
        with patch.object(books.Books, step, side_effect=gone), pytest.raises(SourceError, match="disk I/O"):
            here.round()
        assert here.slurm.nodes_of(waiting) == []
    here.rounds(2)
    assert here.slurm.nodes_of(waiting)


def test_a_database_that_goes_away_after_the_starts_forgets_nothing(here: Town) -> None:
    job = here.slurm.submit(1, 8, contract=CONTRACT)
    with (
        patch.object(books.Books, "settle", side_effect=SourceError("gone")),
        pytest.raises(SourceError, match="gone"),
    ):
        here.round()
    here.rounds(2)
    here.slurm.finish(job)
    here.slurm.sleep(5)
    here.rounds(1)
    assert here.charged() == here.accounted()


# -- two rounds at once ------------------------------------------------------------------------------


def test_a_second_round_on_the_host_exits_75(here: Town) -> None:
    with host_lock(here.home / "state"), pytest.raises(LockedError, match="another round"):
        here.round()
    assert LockedError.exit_code == 75


class Hung:
    """A source whose host hangs at a call until it is let go."""

    def __init__(self, source: Source, at: str) -> None:
        self.source, self.at = source, at
        self.reached, self.let_go = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> object:
        found = getattr(self.source, name)
        if name != self.at:
            return found

        def hang(*args: object) -> object:
            self.reached.set()
            self.let_go.wait(30)
            return found(*args)

        return hang


def two_hosts(tmp_path: Path, url: str) -> tuple[Town, Town]:
    """Return one cluster as two hosts see it: a state folder each, one ledger."""
    (tmp_path / "a").mkdir()
    first = town(tmp_path / "a", url)
    second = replace(first, site=replace(first.site, run=replace(first.site.run, state=str(tmp_path / "b"))))
    connect(url).upgrade()
    return first, second


@pytest.mark.parametrize("at", ["observe", "start"])
def test_of_two_hosts_one_plans_and_the_other_exits_75_also_when_the_first_hangs(
    tmp_path: Path, postgresql_url: str, at: str
) -> None:
    first, second = two_hosts(tmp_path, postgresql_url)
    jobs = [first.slurm.submit(2, 8, contract=CONTRACT) for _ in range(3)]
    hung = Hung(first.source(), at)
    errors: list[BaseException] = []

    def hang() -> None:
        try:
            run_once(first.site, hung)  # type: ignore[arg-type]
        except LockedError as error:
            errors.append(error)

    host = threading.Thread(target=hang)
    host.start()
    assert hung.reached.wait(30)
    with pytest.raises(LockedError, match="holds the lease until"):
        second.round()
    with second.ledger.write() as connection:
        connection.exec_driver_sql("UPDATE lease SET until_s = 0")  # its term has run out
    second.round()
    hung.let_go.set()
    host.join(30)
    if at == "observe":
        assert [str(e) for e in errors if "another host has taken over" in str(e)]
    assert all(len(first.slurm.nodes_of(j)) == 2 for j in jobs)
    assert all(first.slurm.job(j)["restart_cnt"] == 0 for j in jobs)
    assert len(first.slurm.records()) == 3


# -- files -------------------------------------------------------------------------------------------


def test_a_name_that_would_be_a_command_reaches_none(here: Town) -> None:
    evil = "$(touch /tmp/owned); rm -rf /\n--uid=0"
    job = here.slurm.submit(1, 8, contract={"min_runtime": "1h", "allocation": evil}, name=evil, account=evil)
    here.round()
    assert not [word for words in here.slurm.told for word in words if "touch" in word or "uid" in word]
    assert here.slurm.nodes_of(job) == []
    json.loads((here.home / "state" / "plan.json").read_text())
