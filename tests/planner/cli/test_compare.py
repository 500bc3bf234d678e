"""`gangplan compare`: one table of all cases, nothing done twice, and nothing lost by a stop."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.cli import compare as compare_module
from planner.simulation import cases, session
from planner.simulation.engines import attempt
from planner.simulation.policies.fifo import Fifo
from tests.planner.cli.calling import Called, gangplan, refused
from tests.planner.simulation.comparing import tables, write_inputs

TWO = ("--policy", "fifo", "--policy", "drf", "--seed", "1", "--seed", "2")
ALL = ["drf,seed=1", "drf,seed=2", "fifo,seed=1", "fifo,seed=2"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_inputs(tmp_path, seeds=(1, 2))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compare(*more: str) -> Called:
    """Compare in this process, two hours of each case."""
    inputs = ("--site", "site.yaml", "--trace", "work-{seed}.csv", "--days", str(2 / 24), "--period", "5m")
    return gangplan("compare", *inputs, "--jobs", "1", "--out", "out", *more)


def table_of(folder: Path) -> list[dict[str, str]]:
    """Return the rows of the table in a folder, without what the clock has to say."""
    with (folder / "compare.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]


def test_the_table_has_a_row_for_each_policy_and_the_files_one_for_each_case(folder: Path):
    called = compare(*TWO)
    assert (called.code, called.err) == (0, "")
    header, *rows = called.out.splitlines()
    assert header.split()[:4] == ["POLICY", "SEEDS", "OCCUPANCY", "DELIVERED"]
    assert [row.split()[:2] for row in rows] == [["fifo", "2"], ["drf", "2"]]
    assert sorted(row["case"] for row in table_of(folder / "out")) == ALL
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "compare.csv",
        "compare.parquet",
        *ALL,
    ]


@pytest.mark.parametrize("left", ["compare.csv", "compare.parquet", "fifo,seed=1/case.json"])
def test_the_folder_of_a_comparison_or_of_its_case_takes_no_simulation(folder: Path, left: str):
    compare("--policy", "fifo", "--seed", "1")
    for file in ("compare.csv", "compare.parquet", "fifo,seed=1/case.json"):
        if file != left:
            (folder / "out" / file).unlink()
    before = tables(folder / "out" / "fifo,seed=1")
    for out in {"out", Path("out", left).parent}:
        call = ("--site", "site.yaml", "--trace", "work-1.csv", "--policy", "drf", "--out", out)
        assert refused(gangplan("simulate", *call))[0].startswith(f"{out}: is of a comparison, name another")
    assert tables(folder / "out" / "fifo,seed=1") == before
    assert not (folder / "out" / "summary.json").exists()


@pytest.mark.parametrize("file", ["summary.json", "checkpoint.pickle", "case.json"])
def test_the_folder_of_a_simulation_takes_no_comparison(folder: Path, file: str):
    (folder / "out").mkdir(exist_ok=True)
    (folder / "out" / file).write_text("{}")
    called = compare(*TWO)
    assert (called.code, called.out) == (2, "")
    assert "out: holds a simulation" in called.err


def test_json_has_the_means_and_the_cases_and_nothing_else(folder: Path):
    called = compare(*TWO, "-o", "json")
    said = json.loads(called.out)
    assert (called.code, called.err, sorted(said)) == (0, "", ["cases", "means"])
    fifo = [row["occupancy"] for row in said["cases"] if row["policy"] == "fifo"]
    assert said["means"][0]["occupancy"] == pytest.approx(sum(fifo) / 2)
    (one,) = [row for row in said["cases"] if row["case"] == "fifo,seed=1"]
    summary = json.loads((folder / "out" / "fifo,seed=1" / "summary.json").read_text())
    assert summary["occupancy"] == one["occupancy"]


def test_settings_are_columns_and_rows_of_their_own(folder: Path):
    called = compare("--policy", "budget-greedy", "--seed", "1", "--set", "budgets[0].weight=1,9")
    header, *rows = called.out.splitlines()
    assert "budgets[0].weight" in header
    assert [row.split()[:3] for row in rows] == [["budget-greedy", w, "1"] for w in "19"]
    assert [row["budgets[0].weight"] for row in table_of(folder / "out")] == ["1", "9"]


@pytest.mark.parametrize("seeds", [("1",), ("1", "2")])
def test_refused_work_is_told_in_one_line(folder: Path, seeds: tuple[str, ...]):
    called = compare(
        "--policy", "fifo", *(w for s in seeds for w in ("--seed", s)), "--set", "budgets[0].name=a,x"
    )
    refused_ = sorted(int(row["refused"]) for row in table_of(folder / "out"))
    assert len(set(refused_)) == 1 + len(seeds)  # 0, and one number for each seed
    many = " to ".join(map(str, refused_[len(seeds) :]))
    cases_ = f"in {len(seeds)} of {2 * len(seeds)} cases"
    told = f"{cases_} {many} workloads can never run and count nowhere: see refused in out/compare.csv"
    assert (called.code, called.errors) == (0, [told])


def test_what_is_done_is_not_done_again(folder: Path, monkeypatch: pytest.MonkeyPatch):
    first = compare(*TWO)
    monkeypatch.setattr(session, "simulate", None)
    assert compare(*TWO) == first
    more = compare(*TWO, "--seed", "1")
    assert (more.code, more.out) == (0, first.out)


def test_only_what_is_new_is_run(folder: Path):
    compare("--policy", "fifo", "--seed", "1")
    before = (folder / "out" / "fifo,seed=1" / "summary.json").stat().st_mtime_ns
    assert compare(*TWO).code == 0
    assert (folder / "out" / "fifo,seed=1" / "summary.json").stat().st_mtime_ns == before
    assert sorted(row["case"] for row in table_of(folder / "out")) == ALL


def test_a_failing_case_is_reported_and_the_others_are_compared(folder: Path):
    (folder / "out").mkdir()
    (folder / "out" / "drf,seed=1").write_text("in the way")
    called = compare(*TWO)
    assert called.code == 2
    assert called.errors[0].startswith("drf,seed=1: ")
    assert "cannot be written to" in called.errors[0]
    assert called.errors[1:] == ["1 case left to do, the same command goes on in out"]
    assert [row.split()[:2] for row in called.out.splitlines()[1:]] == [["fifo", "2"], ["drf", "1"]]
    (folder / "out" / "drf,seed=1").unlink()
    assert compare(*TWO).code == 0


def test_a_bug_in_a_policy_is_that_cases_traceback(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Fifo, "decide", lambda self, round_: 1 // 0)
    called = compare(*TWO)
    assert called.code == 1
    assert "fifo,seed=1: Traceback" in called.err
    assert [row["policy"] for row in table_of(folder / "out")] == ["drf", "drf"]


def test_ctrl_c_stops_between_two_rounds_and_the_same_command_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    compare(*TWO, "--out", "whole")
    monkeypatch.setattr(cases, "LOOK_EVERY_S", -1.0)
    decide, rounds = Fifo.decide, iter(range(100))

    def interrupted(self, round_):
        if next(rounds) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return decide(self, round_)

    with monkeypatch.context() as patch:
        patch.setattr(Fifo, "decide", interrupted)
        called = compare(*TWO)
    assert called.code == 130
    assert called.errors == ["4 cases left to do, the same command goes on in out"]
    assert [path.name for path in (folder / "out").iterdir()] == ["fifo,seed=1"]
    assert compare(*TWO).code == 0
    assert table_of(folder / "out") == table_of(folder / "whole")
    for name in ALL:
        assert tables(folder / "out" / name) == tables(folder / "whole" / name)


def test_ctrl_c_on_a_terminal_stops_worker_processes_too(folder: Path):
    write_inputs(folder, seeds=(1, 2), length=200)  # minutes of work at a round a second
    words = ("compare", "--site", "site.yaml", "--trace", "work-{seed}.csv", *TWO, "--out", "out")
    call = (
        sys.executable,
        "-c",
        "from planner.cli import main; main()",
        *words,
        "--period",
        "1s",
        "--jobs",
        "2",
    )
    running = subprocess.Popen(call, start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while len(list((folder / "out").glob("*/case.json"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(running.pid, signal.SIGINT)
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    assert err == "4 cases left to do, the same command goes on in out\n"
    left = sorted(str(path.relative_to("out")) for path in Path("out").rglob("*") if path.is_file())
    assert left == [f"fifo,seed={n}/{file}" for n in (1, 2) for file in ("case.json", "checkpoint.pickle")]


def test_dask_gets_the_cases_and_the_address(folder: Path, monkeypatch: pytest.MonkeyPatch):
    asked = []

    def run(wanted, scheduler):
        asked.extend([*(c.name for c in wanted), scheduler])
        return map(attempt, wanted)

    monkeypatch.setattr(compare_module, "run_dask", run)
    inputs = (
        "--site",
        "site.yaml",
        "--trace",
        "work-1.csv",
        "--days",
        "0.1",
        "--policy",
        "fifo",
        "--out",
        "out",
    )
    called = gangplan("compare", *inputs, "--engine", "dask", "--scheduler", "tcp://h:1")
    assert (called.code, asked) == (0, ["fifo,seed=0", "tcp://h:1"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--engine", "dask"), "needs the address of a scheduler"),
        (("--engine", "dask", "--scheduler", "tcp://h:1"), "--jobs is for this machine"),
        (("--scheduler", "tcp://h:1"), "--scheduler is of --engine dask"),
        (("--mtbf", "1d", "--node-events", "x.csv"), "give one of the two"),
        (("--policy", "best"), "'best' is not one of"),
        (("--set", "fair_share.band=x"), "--set fair_share.band=x: fair_share.band: "),
        (("--set", "band"), "--set band: holds no value"),
        (("--seed", "3"), "work-3.csv: cannot be read"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_runs(folder: Path, options, words: str):
    errors = refused(compare("--policy", "fifo", "--seed", "1", *options))
    assert any(words in error for error in errors)
    assert not (folder / "out").exists()
