"""`gangplan plan`: results on stdout, whole tables, and a file that is whole or not there."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest
import yaml

from benchmarks.text import iso
from planner.errors import PlanRejectedError
from planner.planfile import load_plan, parse_plan
from tests.planner.cli.calling import Called, gangplan, refused
from tests.planner.worlds import NOW_S, world


def plan(*more: str | Path) -> Called:
    """Plan the folder's snapshot."""
    inputs = ("--site", "site.yaml", "--snapshot", "snapshot.yaml", "--backend", "greedy")
    return gangplan("plan", *inputs, *more)


def write(folder: Path, **asks: object) -> None:
    """Write a world in place of the example."""
    w = world(**asks)
    (folder / "site.yaml").write_text(yaml.safe_dump(w.site_data))
    (folder / "snapshot.yaml").write_text(json.dumps(w.snapshot_data))


def timeless(text: str) -> str:
    """A plan or table without the seconds that the solver took."""
    return re.sub(r'"seconds": [0-9.]+|, [0-9.]+ s\n', "", text)


def test_json_is_the_plan_and_nothing_else(folder: Path):
    called = plan("-o", "json")
    assert (called.code, called.err) == (0, "")
    assert parse_plan(called.out, "stdout").time_s == NOW_S
    json.loads(called.out)


def test_yaml_says_the_same_as_json(folder: Path):
    one, other = json.loads(plan("-o", "json").out), yaml.safe_load(plan("-o", "yaml").out)
    del one["solver"]["seconds"], other["solver"]["seconds"]
    assert one == other


def test_the_file_holds_what_stdout_shows(folder: Path):
    called = plan("-o", "json", "--out", "out.json")
    assert (folder / "out.json").read_text() == called.out
    assert stat.S_IMODE((folder / "out.json").stat().st_mode) & 0o444 == 0o444


def test_the_same_input_gives_the_same_output(folder: Path):
    for form in ("json", "table"):
        assert timeless(plan("-o", form).out) == timeless(plan("-o", form).out)


def test_the_table_has_everybody_whose_state_changes_and_the_totals(folder: Path):
    called = plan("--out", "out.json")
    made = load_plan(folder / "out.json")
    assert (called.code, called.err) == (0, "")
    for d in made.decisions:
        row = re.search(rf"^{d.action} +{d.workload} .*{re.escape(d.reason.text)}$", called.out, re.MULTILINE)
        assert bool(row) == (d.action != "keep")
    *_, totals, solver = called.out.splitlines()
    assert totals.startswith(f"{iso(NOW_S)}: ")
    for action in ("start", "keep", "preempt", "wait", "reject"):
        mine = [d for d in made.decisions if d.action == action]
        assert re.search(rf"\b{len(mine)} {action} \({sum(d.gpus for d in mine)} GPU", totals)
    assert solver.startswith("solver: greedy, greedy, objective")


def test_one_gpu_is_singular_in_the_totals(folder: Path):
    write(folder, workloads=[{"id": "j", "gpus": 1}], nodes=[{"name": "n", "gpus": 2}])
    assert "1 start (1 GPU), 0 keep (0 GPUs)" in plan().out
    assert "; 1 GPU left free" in plan().out


def test_a_world_without_work_has_totals_alone(folder: Path):
    write(folder)
    called = plan()
    assert called.code == 0
    assert len(called.out.splitlines()) == 2
    assert json.loads(plan("-o", "json").out)["decisions"] == []


def test_a_table_is_never_cut(folder: Path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "dumb")
    long = "x" * 255
    nodes = [{"name": f"{'n' * 100}{k}"} for k in (1, 3, 5, 7, 9)]
    write(folder, nodes=nodes, workloads=[{"id": long, "replicas": 5}])
    out = plan().out
    assert long in out
    assert f"{'n' * 100}[1,3,5,7,9]" in out


def test_warnings_are_part_of_the_table(folder: Path):
    write(folder, workloads=[{"id": "j", "min_runtime": "30h"}])
    called = plan()
    assert re.search(r"^warning: j asked for .*8h", called.out, re.MULTILINE)


def test_another_time_may_be_taken_for_now(folder: Path):
    later = iso(NOW_S + 3600)
    assert json.loads(plan("-o", "json", "--now", later).out)["time"] == later
    assert json.loads(plan("-o", "json", "--now", "2026-10-09T15:00:00+02:00").out)["time"] == later


@pytest.mark.parametrize("path", ["gone/out.json", "site.yaml/out.json", ".", "", "full"])
def test_a_file_that_cannot_be_written_leaves_nothing_behind(folder: Path, path: str):
    (folder / "full").mkdir()
    (folder / "full" / "other").touch()
    before = sorted(folder.rglob("*"))
    refused(plan("--out", path))
    assert sorted(folder.rglob("*")) == before


def test_a_failed_plan_leaves_the_old_file_as_it_was(folder: Path, monkeypatch):
    (folder / "out.json").write_text("old")

    def broken(*_: object):
        raise PlanRejectedError(["x: protected: too early", "y: gang: half"])

    monkeypatch.setattr("planner.cli.plan.plan_round", broken)
    lines = refused(plan("--out", "out.json"), code=3)
    assert lines == ["x: protected: too early", "y: gang: half"]
    assert (folder / "out.json").read_text() == "old"


def test_a_backend_that_is_not_installed_costs_no_round(folder: Path):
    called = gangplan(
        "plan", "--site", "site.yaml", "--snapshot", "snapshot.yaml", "--backend", "mosek", "-o", "json"
    )
    solver = json.loads(called.out)["solver"]
    assert (called.code, called.err) == (0, "")
    assert solver["status"] in ("greedy", "optimal")
