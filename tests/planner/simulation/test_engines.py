"""Engines run every case once, wherever it runs, and one that fails is alone with it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import dask
import distributed
import joblib
import pytest

from planner.errors import InputError
from planner.simulation import engines
from planner.simulation.cases import STOP, Case, is_done, run_case
from planner.simulation.engines import Outcome, attempt, confirmed, run_dask, run_local
from tests.planner.simulation.comparing import case, named, tables, write_inputs


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    write_inputs(tmp_path)
    return [named(case(tmp_path, policy=policy), policy) for policy in ("fifo", "budget-greedy", "drf")]


@pytest.fixture(scope="module")
def cluster():
    how = {"processes": True, "threads_per_worker": 1, "dashboard_address": ":0"}
    first_death_counts = {"distributed.scheduler.allowed-failures": 0}
    with dask.config.set(first_death_counts), distributed.LocalCluster(n_workers=2, **how) as made:
        yield made


@dataclass(frozen=True)
class Deadly(Case):
    """Kills the process that runs it."""

    def digest(self) -> str:
        os._exit(1)


def deadly(of: Case) -> Case:
    return Deadly(**{name: getattr(of, name) for name in of.__dataclass_fields__})


def check(outcomes: list[Outcome], cases: list[Case], broken: Case) -> None:
    """Check that every case has one outcome, that of `broken` alone is a fault, and the others are there."""
    assert sorted(o.case.name for o in outcomes) == sorted([broken.name, *(c.name for c in cases)])
    (failed,) = [o for o in outcomes if o.fault]
    assert (failed.case, failed.exit_code, failed.folder) == (broken, 2, None)
    assert failed.fault.startswith(f"{broken.trace_path}: cannot be read")
    assert {o.folder for o in outcomes if not o.fault} == {c.folder for c in cases}


def compare_with_here(cases: list[Case]) -> None:
    """Check that cases have the results that this very process would have made."""
    for one in cases:
        here = named(one, f"{one.name}-here")
        run_case(here)
        assert tables(one.folder) == tables(here.folder)


@pytest.mark.parametrize("jobs", [1, 2])
def test_local_processes_run_every_case_and_one_that_fails_is_alone(cases: list[Case], jobs: int):
    broken = named(cases[0], "broken", trace_path=Path("/nowhere.csv"))
    check(list(run_local([broken, *cases], jobs)), cases, broken)
    compare_with_here(cases)


def test_local_processes_are_others_and_array_libraries_have_one_thread_there(tmp_path: Path):
    write_inputs(tmp_path)
    (outcome,) = run_local([Spying(**vars(case(tmp_path)))], 2)
    pid, threads = outcome.fault.splitlines()[-1].split("says ")[1].split()
    assert int(pid) != os.getpid()
    assert threads == "1"


def test_no_more_processes_are_made_than_there_are_cases(tmp_path, monkeypatch):
    asked = []

    def parallel(jobs, **how):
        asked.append(jobs)
        return lambda calls: iter(())

    monkeypatch.setattr(joblib, "Parallel", parallel)
    write_inputs(tmp_path)
    list(run_local([case(tmp_path)] * 3, 1_000_000))
    assert asked == [3]


@dataclass(frozen=True)
class Spying(Case):
    """Says in its fault where it is run."""

    def digest(self) -> str:
        raise RuntimeError(f"says {os.getpid()} {os.environ.get('OMP_NUM_THREADS')}")


def test_a_process_that_dies_leaves_every_case_with_an_outcome(cases: list[Case]):
    (cases[0].folder).mkdir(parents=True)
    (cases[0].folder / "summary.json").touch()
    killer = deadly(cases[0])
    outcomes = list(run_local([killer, *cases[1:]], 2))
    assert sorted(o.case.name for o in outcomes) == sorted(c.name for c in cases)
    (fault,) = [o for o in outcomes if o.case.name == killer.name]
    assert "a process died" in fault.fault
    assert fault.exit_code == 1


def test_after_a_wish_to_stop_nothing_is_begun(cases: list[Case]):
    cases[0].folder.parent.mkdir()
    (cases[0].folder.parent / STOP).touch()
    outcomes = sorted(run_local(cases, 2), key=lambda o: o.case.name)
    assert outcomes == [Outcome(c) for c in sorted(cases, key=lambda c: c.name)]


def test_a_bug_is_reported_with_its_traceback(cases: list[Case], monkeypatch: pytest.MonkeyPatch):
    def broken(of: Case) -> None:
        raise ZeroDivisionError("never")

    monkeypatch.setattr(engines, "run_case", broken)
    outcome = attempt(cases[0])
    assert outcome.exit_code == 1
    assert outcome.fault.startswith("Traceback")
    assert outcome.fault.endswith("ZeroDivisionError: never")


def test_results_that_are_not_seen_from_here_are_none(cases: list[Case]):
    one = cases[0]
    assert confirmed(Outcome(one)) == Outcome(one)
    lost = confirmed(Outcome(one, one.folder))
    assert (lost.folder, lost.exit_code) == (None, 2)
    run_case(one)
    assert confirmed(Outcome(one, one.folder)) == Outcome(one, one.folder)
    assert confirmed(Outcome(replace(one, program="other"), one.folder)).fault


def test_dask_workers_run_every_case_and_one_that_fails_is_alone(cases: list[Case], cluster):
    broken = named(cases[0], "broken", trace_path=Path("/nowhere.csv"))
    check(list(run_dask([broken, *cases], cluster.scheduler_address)), cases, broken)
    compare_with_here(cases)
    assert all(map(is_done, cases))


def test_dask_workers_stop_at_the_wish(cases: list[Case], cluster):
    cases[0].folder.parent.mkdir()
    (cases[0].folder.parent / STOP).touch()
    outcomes = list(run_dask(cases, cluster.scheduler_address))
    assert sorted(o.case.name for o in outcomes) == sorted(c.name for c in cases)
    assert all(o.folder is None and not o.fault for o in outcomes)


def test_a_dask_worker_that_dies_costs_its_case_alone(cases: list[Case], cluster):
    cases[0].folder.mkdir(parents=True)
    (cases[0].folder / "summary.json").touch()
    outcomes = list(run_dask([deadly(cases[0]), *cases[1:]], cluster.scheduler_address))
    (failed,) = [o for o in outcomes if o.fault]
    assert failed.case.name == cases[0].name
    assert "its worker failed" in failed.fault
    assert {o.folder for o in outcomes} == {None, *(c.folder for c in cases[1:])}


def test_without_dask_the_user_is_told_what_to_install(cases: list[Case], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'gangplan\[dask\]'"):
        next(run_dask(cases, "tcp://127.0.0.1:1"))


@pytest.mark.parametrize("scheduler", ["nonsense", "localhost:8786", "tcp://host", "tcp://:1", "foo://h:1"])
def test_what_is_no_address_is_refused(cases: list[Case], scheduler: str):
    with pytest.raises(InputError, match="is no address"):
        next(run_dask(cases, scheduler))


def test_a_scheduler_that_is_not_there_is_the_users_error(cases: list[Case], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engines, "CONNECT_S", 0.5)
    with pytest.raises(InputError, match=r"tcp://127\.0\.0\.1:1: cannot be reached"):
        next(run_dask(cases, "tcp://127.0.0.1:1"))


def test_a_scheduler_without_workers_is_the_users_error(cases: list[Case], monkeypatch: pytest.MonkeyPatch):
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty:
        monkeypatch.setattr(engines, "CONNECT_S", 0.5)
        with pytest.raises(InputError, match="has no workers"):
            next(run_dask(cases, empty.scheduler_address))
