"""Rounds in a loop go on through whatever fails, and end between two steps when they are told to."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from planner.cron import cycle, journal
from planner.cron.hostlock import host_lock
from planner.cron.loop import run_always
from planner.errors import InputError, SourceError
from planner.ledger.lease import take
from tests.planner.cli.calling import gangplan, refused
from tests.planner.cron.town import Town, town


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Town]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield town(tmp_path)
    for number, handler in before.items():
        signal.signal(number, handler)


def said(here: Town, rounds: int | None, period_s: float = 0.05) -> list[dict[str, object]]:
    """Run a loop; return the lines of its journal."""
    err = io.StringIO()
    with redirect_stderr(err):
        journal.to_stderr(logging.INFO)
        run_always(here.site, here.source(), period_s, rounds)
    return [json.loads(line) for line in err.getvalue().splitlines()]


def test_every_line_is_json_with_time_level_and_event(here: Town) -> None:
    evil = here.slurm.submit(1, 8, account='x"\n{"event": "forged"}')
    job = here.slurm.submit(1, 8, contract={"min_runtime": "1h"})
    lines = said(here, 1)
    assert all({"time", "level", "event"} <= line.keys() for line in lines)
    assert {line["event"] for line in lines} == {"plan warns", "started", "round done"}
    assert [line["workload"] for line in lines if line["event"] == "started"] == [job]
    assert here.slurm.nodes_of(evil) == []


def test_drains_and_resumes_are_told_with_node_and_reason(tmp_path: Path) -> None:
    sick = tmp_path / "sick"
    sick.write_text("node003 fan\n")
    here = town(tmp_path, more=f"health: {{command: [cat, {sick}], settle: 1s}}")
    drained = said(here, 1)
    sick.write_text("")
    here.slurm.sleep(5)
    told = [line for line in (*drained, *said(here, 2)) if line["event"] in ("drained", "resumed")]
    assert [(line["event"], line["node"]) for line in told] == [
        ("drained", "node003"),
        ("resumed", "node003"),
    ]
    assert told[0]["reason"] == "fan"
    assert here.slurm.node("node003")["state"] == "up"


def test_what_fails_is_told_and_the_next_round_goes_on(here: Town) -> None:
    job = here.slurm.submit(1, 8, contract={"min_runtime": "1h"})
    calls = 0

    def away(args: Sequence[str]) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise SourceError("squeue: Unable to contact slurm controller")

    here.slurm.before = away
    lines = said(here, 2)
    assert [line["exit_code"] for line in lines if line["event"] == "round failed"] == [4]
    assert here.slurm.nodes_of(job)


def test_a_standby_waits_while_another_host_plans_and_then_takes_over(here: Town) -> None:
    job = here.slurm.submit(1, 8, contract={"min_runtime": "1h"})
    other = take(here.ledger, "other host", 60)
    assert [line["event"] for line in said(here, 2)] == ["another host plans"] * 2
    assert here.slurm.nodes_of(job) == []
    other.release()
    said(here, 1)
    assert here.slurm.nodes_of(job)


def test_sigterm_lets_the_round_end_and_gives_the_lease_back(here: Town) -> None:
    job = here.slurm.submit(1, 8, contract={"min_runtime": "1h"})
    here.slurm.before = lambda args: os.kill(os.getpid(), signal.SIGTERM)  # in the middle of the round
    said(here, None, 60)
    assert here.slurm.nodes_of(job)
    assert take(here.ledger, "other host", 600)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--period", "0s"), "write at least 1s"),
        (("--period", "20"), "write 20s"),
        (("--period", "20s", "--dry-run"), "--dry-run is one round"),
        (("--rounds", "2"), "--rounds needs --period"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    (tmp_path / "site.yaml").write_text("budgets: [{name: a}]\nsource: {type: slurm}\n")
    errors = refused(gangplan("run", "--site", tmp_path / "site.yaml", *options))
    assert told in "\n".join(errors)


@pytest.mark.parametrize(
    ("site", "told"),
    [
        ("budgets: [{name: a}]", "source.type: is missing, write one of slurm"),
        ("budgets: [{name: a}]\nsource: {type: slurm, conf: /nowhere, bin: /nowhere}", "ledger: is missing"),
        (
            "budgets: [{name: a}]\nsource: {type: slurm, level: [leaf]}",
            "source.level: is no known key, write levels",
        ),
    ],
)
def test_a_site_that_cannot_be_run_is_refused(tmp_path: Path, site: str, told: str) -> None:
    (tmp_path / "site.yaml").write_text(f"{site}\nrun: {{state: {tmp_path}/state}}\n")
    called = gangplan("run", "--site", tmp_path / "site.yaml")
    assert called.code == 2
    assert told in called.err
    assert called.err.startswith(f"{tmp_path}/site.yaml:")
    assert called.out == ""


def test_slurm_that_is_not_there_is_told_with_what_to_do(tmp_path: Path) -> None:
    text = f"budgets: [{{name: a}}]\nledger: sqlite:///{tmp_path}/l.db\nrun: {{state: {tmp_path}/state}}\n"
    (tmp_path / "site.yaml").write_text(text + "source: {type: slurm, bin: /nowhere}\n")
    called = gangplan("run", "--site", tmp_path / "site.yaml")
    assert called.code == 4
    line = json.loads(called.err)
    assert line["fault"].endswith("install Slurm's commands, or name their folder as source.bin")


def test_a_round_that_finds_another_at_work_exits_75_and_says_nothing(tmp_path: Path) -> None:
    text = f"budgets: [{{name: a}}]\nledger: sqlite:///{tmp_path}/l.db\nrun: {{state: {tmp_path}/state}}\n"
    (tmp_path / "site.yaml").write_text(text + "source: {type: slurm}\n")
    with host_lock(tmp_path / "state"):
        called = gangplan("run", "--site", tmp_path / "site.yaml")
    assert (called.code, called.out, called.err) == (75, "", "")


@pytest.mark.parametrize("bad_round", [0, 1])
def test_only_the_first_round_takes_bad_input_for_the_site_files(
    here: Town, bad_round: int, monkeypatch
) -> None:
    calls = iter(range(10))
    plan = cycle.plan_round

    def planned(*args):
        if next(calls) == bad_round:
            raise InputError(["node001: 16 of 8 GPUs given out"])
        return plan(*args)

    monkeypatch.setattr(cycle, "plan_round", planned)
    if bad_round == 0:
        with pytest.raises(InputError):
            said(here, 3)
    else:
        events = [line["event"] for line in said(here, 3) if str(line["event"]).startswith("round")]
        assert events == ["round done", "round failed", "round done"]
