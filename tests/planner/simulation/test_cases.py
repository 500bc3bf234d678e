"""A case makes the folder that a simulation makes, once, and goes on where it was stopped."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.simulation import cases, session
from planner.simulation.cases import CASE, STOP, Case, is_done, name_of, program, read_world, run_case
from planner.simulation.engine import Outages
from planner.simulation.knobs import Knob, read_knobs
from planner.simulation.output import SUMMARY, read_summary, write
from planner.simulation.tracefile import read_trace
from tests.planner.simulation.comparing import case, named, tables, write_inputs
from tests.planner.simulation.small import HOUR


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_inputs(tmp_path)
    monkeypatch.setattr(cases, "LOOK_EVERY_S", -1.0)
    return tmp_path


def stop_after(rounds: int, stop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the next simulation stop after so many rounds, by its stop file alone."""
    simulate = session.simulate

    def counted(*args, go_on, **more):
        left = iter(range(rounds))

        def watched(now_s: int) -> bool:
            if next(left, None) is None:
                stop.touch()
            return go_on(now_s)

        return simulate(*args, go_on=watched, **more)

    monkeypatch.setattr(session, "simulate", counted)


def test_a_case_is_the_simulation_of_its_inputs(folder: Path):
    one = case(folder, ("budgets[0].weight=1",), policy="budget-greedy")
    assert run_case(one) == one.folder
    site, _ = read_world(one)
    given_ = session.Case(site, read_trace(one.trace_path), one.options, Outages(), "")
    write(session.simulate(given_, None)[0].history(), folder / "plain")
    assert tables(one.folder) == tables(folder / "plain")


def test_knobs_and_failures_reach_the_simulation(folder: Path):
    plain = case(folder, policy="budget-greedy")
    others = [
        named(plain, "knobs", knobs=read_knobs(["budgets[0].limit=8"])[0]),
        named(plain, "failures", failures=(HOUR, HOUR)),
    ]
    for one in (plain, *others):
        run_case(one)
    assert all(tables(one.folder) != tables(plain.folder) for one in others)
    assert read_summary(others[1].folder)["availability"] < 1 == read_summary(plain.folder)["availability"]


def test_the_summary_and_the_record_say_what_was_simulated(folder: Path):
    one = case(folder, ("solver.gap=1%",), seed=0)
    run_case(one)
    inputs = read_summary(one.folder)["inputs"]
    assert inputs["knobs"] == {"solver.gap": "1%"}
    assert (inputs["policy"], inputs["seed"], inputs["trace"]) == ("fifo", 0, str(folder / "work-0.csv"))
    assert json.loads((one.folder / CASE).read_text()) == {"digest": one.digest(), **inputs}


def test_a_case_survives_pickling(folder: Path):
    one = case(folder, ("fair_share.band=0.1",))
    assert pickle.loads(pickle.dumps(one)) == one
    assert pickle.loads(pickle.dumps(one)).digest() == one.digest()


def test_a_case_that_is_done_is_not_run_again(folder: Path, monkeypatch: pytest.MonkeyPatch):
    one = case(folder)
    assert not is_done(one)
    run_case(one)
    assert is_done(one)
    monkeypatch.setattr(session, "simulate", None)
    assert run_case(one) == one.folder


def change_trace(one: Case) -> Case:
    one.trace_path.write_text(one.trace_path.read_text().replace("\nw0,a", "\nw0,b"))
    return one


@pytest.mark.parametrize(
    "change",
    [
        change_trace,
        lambda c: replace(c, knobs=read_knobs(["fair_share.band=0.1"])[0]),
        lambda c: replace(c, options=replace(c.options, seed=1)),
        lambda c: replace(c, failures=(HOUR, HOUR)),
        lambda c: replace(c, program="another"),
    ],
)
def test_a_case_of_other_inputs_is_run_anew_in_the_same_folder(folder: Path, change):
    one = case(folder)
    run_case(one)
    before = (one.folder / SUMMARY).read_bytes()
    other = change(one)
    assert not is_done(other)
    run_case(other)
    assert is_done(other)
    assert (one.folder / SUMMARY).read_bytes() != before


def test_a_folder_that_is_taken_over_holds_no_old_results_meanwhile(folder: Path, monkeypatch):
    one = case(folder)
    run_case(one)

    def broken(*args, **more):
        raise InputError(["broken"])

    monkeypatch.setattr(session, "simulate", broken)
    other = change_trace(one)
    with pytest.raises(InputError, match="broken"):
        run_case(other)
    assert not (one.folder / SUMMARY).exists()
    assert not is_done(other)


@pytest.mark.parametrize("record", ["", "[]", "nonsense", '{"digest": 1}'])
def test_a_damaged_record_has_the_case_run_anew(folder: Path, record: str):
    one = case(folder)
    run_case(one)
    (one.folder / CASE).write_text(record)
    assert not is_done(one)
    run_case(one)
    assert is_done(one)


def test_a_case_that_was_told_to_stop_before_its_begin_does_nothing(folder: Path):
    one = case(folder)
    one.folder.parent.mkdir()
    (one.folder.parent / STOP).touch()
    assert run_case(one) is None
    assert not one.folder.exists()


def test_a_stopped_case_goes_on_to_the_same_end(folder: Path, monkeypatch: pytest.MonkeyPatch):
    whole, one = named(case(folder, policy="budget-greedy"), "whole"), case(folder, policy="budget-greedy")
    run_case(whole)
    stop = one.folder.parent / STOP
    with monkeypatch.context() as patch:
        stop_after(10, stop, patch)
        assert run_case(one) is None
    assert (one.folder / session.CHECKPOINT).exists()
    assert not is_done(one)
    stop.unlink()
    began_at = []
    with monkeypatch.context() as patch:
        run = session.Engine.run
        patch.setattr(session.Engine, "run", lambda e, **how: began_at.append(e.now_s) or run(e, **how))
        assert run_case(one) == one.folder
    assert began_at[0] > 0
    assert tables(one.folder) == tables(whole.folder)
    assert not (one.folder / session.CHECKPOINT).exists()


def test_a_checkpoint_of_other_inputs_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch):
    one = case(folder)
    with monkeypatch.context() as patch:
        stop_after(3, one.folder.parent / STOP, patch)
        assert run_case(one) is None
    (one.folder.parent / STOP).unlink()
    other = change_trace(one)
    run_case(other)
    whole = named(other, "whole")
    run_case(whole)
    assert tables(other.folder) == tables(whole.folder)


def test_a_slow_folder_is_not_asked_at_every_round(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cases, "LOOK_EVERY_S", 1e6)
    one = case(folder)
    stop_after(1, one.folder.parent / STOP, monkeypatch)
    assert run_case(one) == one.folder


def test_a_site_without_inventory_is_refused(folder: Path):
    (folder / "site.yaml").write_text("budgets: [{name: a}]")
    with pytest.raises(InputError, match=r"site\.yaml: clusters: is empty"):
        run_case(case(folder))


def test_a_folder_that_cannot_be_made_is_the_users_error(folder: Path):
    (folder / "out").write_text("a file")
    with pytest.raises(InputError, match="cannot be written to"):
        run_case(case(folder))


def test_listed_failures_are_those_of_the_file(folder: Path):
    (folder / "events.csv").write_text("time_s,node,state\n60,n1,down\n")
    listed = replace(case(folder), events_path=folder / "events.csv")
    assert read_world(listed)[1].time_s == (60,)
    assert listed.digest() != case(folder).digest()


def test_the_program_is_the_code_without_its_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tmp_path /= "cli"
    for name in ("planner/cli/a.py", "planner/b.py", "solver/c/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old")
    monkeypatch.setattr(cases.planner, "__file__", str(tmp_path / "planner" / "__init__.py"))
    monkeypatch.setattr(cases.solver, "__file__", str(tmp_path / "solver" / "__init__.py"))
    seen = [program.__wrapped__()]
    for name in ("planner/cli/a.py", "planner/b.py", "solver/c/d.py"):
        (tmp_path / name).write_text("new")
        seen.append(program.__wrapped__())
    assert seen[0] == seen[1]
    assert len(set(seen)) == 3


KNOBS = st.lists(
    st.builds(Knob, st.tuples(st.sampled_from("ab")), st.text(max_size=4) | st.integers() | st.booleans()),
    max_size=2,
).map(tuple)


@given(st.lists(st.tuples(st.sampled_from(["fifo", "budget"]), KNOBS, st.integers(0, 9)), max_size=6))
def test_names_tell_cases_apart_and_can_be_folders(wishes):
    said = {
        (policy, tuple(map(str, knobs)), seed): name_of(policy, knobs, seed) for policy, knobs, seed in wishes
    }
    assert len(set(said.values())) == len(said)
    assert all(len(name.encode()) < 255 and "/" not in name and name.isascii() for name in said.values())


def test_names_of_values_that_no_folder_could_have_stay_apart():
    values = ["a/b", "a b", "a_b", "x" * 300 + "1", "x" * 300 + "2"]
    names = [name_of("fifo", (Knob(("k",), value),), 0) for value in values]
    assert len(set(names)) == len(values)
    assert all(len(name) < 255 and "/" not in name for name in names)


def test_a_plain_name_says_it_all():
    (knobs,) = read_knobs(["fair_share.band=0.1"])
    assert name_of("fifo", knobs, 3) == "fifo,fair_share.band=0.1,seed=3"
