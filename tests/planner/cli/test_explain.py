"""`gangplan explain`: why this workload, and when a new one would start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from planner.planfile import load_plan
from planner.story import story
from tests.planner.cli.calling import gangplan, refused
from tests.planner.worlds import world


@pytest.fixture
def scene(folder: Path) -> Path:
    """Write a folder whose plan has every action."""
    w = world(
        nodes="n[1-3]",
        workloads=[
            {"id": "kept", "on": "n1", "ran": "1h", "min_runtime": "2h", "allocation": "b"},
            {"id": "victim", "on": "n2", "allocation": "b"},
            {"id": "starts", "waited": "3h"},
            {"id": "next", "waited": "2h", "replicas": 2},
            {"id": "never", "gpus": 9},
        ],
        ratios={"a": 0.1, "b": 2.5},
    )
    (folder / "site.yaml").write_text(yaml.safe_dump(w.site_data))
    (folder / "snapshot.yaml").write_text(json.dumps(w.snapshot_data))
    inputs = ("--site", "site.yaml", "--snapshot", "snapshot.yaml")
    assert gangplan("plan", *inputs, "--out", "plan.json").code == 0
    return folder


def test_every_action_is_explained_in_a_table_and_as_data(scene: Path):
    plan = load_plan(scene / "plan.json")
    assert {d.action for d in plan.decisions} == {"start", "keep", "preempt", "wait", "reject"}
    for d in plan.decisions:
        table = gangplan("explain", d.workload, "--plan", "plan.json")
        assert (table.code, table.err) == (0, "")
        assert d.reason.text in table.out
        data = json.loads(gangplan("explain", d.workload, "--plan", "plan.json", "-o", "json").out)
        assert [(line["about"], line["text"]) for line in data] == story(plan, d.workload)
        assert (
            yaml.safe_load(gangplan("explain", d.workload, "--plan", "plan.json", "-o", "yaml").out) == data
        )


def test_the_table_is_aligned(scene: Path):
    lines = gangplan("explain", "starts", "--plan", "plan.json").out.splitlines()
    width = max(len(line.split("  ")[0]) for line in lines) + 2
    assert all(line[width - 1] == " " != line[width] for line in lines)


def test_an_unknown_workload_is_refused_with_close_ones(scene: Path):
    (line,) = refused(gangplan("explain", "start", "--plan", "plan.json"))
    assert "did you mean starts?" in line


ASK = {"id": "new", "allocation": "a", "replicas": 1, "gpus_per_replica": 8, "min_runtime": "8h"}


def ask(folder: Path, *more: str, **changes: object):
    """Ask when a new workload would start."""
    (folder / "new.yaml").write_text(yaml.safe_dump({**ASK, **changes}))
    inputs = ("--site", "site.yaml", "--snapshot", "snapshot.yaml")
    return gangplan("explain", "--workload", "new.yaml", *inputs, *more)


def test_a_new_workload_is_tried_with_shorter_min_runtimes_too(scene: Path):
    called = ask(scene)
    assert (called.code, called.err) == (0, "")
    header, *rows = called.out.splitlines()
    assert header.split("  ")[0] == "MIN RUNTIME"
    assert [row.split()[0] for row in rows] == ["8h", "4h", "1h", "15m", "0s"]


def test_the_trials_as_data_have_action_start_nodes_and_reason(scene: Path):
    data = json.loads(ask(scene, "-o", "json", allocation="b").out)
    assert [t["min_runtime"] for t in data] == ["8h", "4h", "1h", "15m", "0s"]
    for trial in data:
        assert trial.keys() == {"min_runtime", "topology", "action", "expected_start", "nodes", "reason"}
        assert bool(trial["nodes"]) == (trial["action"] == "start")
        assert trial["reason"]["code"]
        assert trial["reason"]["text"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"replicas": 0}, "replicas"),
        ({"min_runtime": 8}, "8h"),
        ({"state": "running"}, "state"),
        ({"colour": "red"}, "colour"),
        ({"submitted": "2030-01-01T00:00:00Z", "gpus_per_replica": -1}, "gpus_per_replica"),
    ],
)
def test_a_new_workload_that_is_wrong_is_refused_with_its_place(scene: Path, changes: dict, word: str):
    lines = refused(ask(scene, **changes))
    assert all(line.startswith("new.yaml:") for line in lines)
    assert any(word in line for line in lines)


@pytest.mark.parametrize("taken", ["next", "kept"])
def test_an_id_of_the_snapshot_is_refused_for_a_new_workload(scene: Path, taken: str):
    (line,) = refused(ask(scene, id=taken))
    assert "give the new workload its own id" in line


@pytest.mark.parametrize("missing", ["--site", "--snapshot"])
def test_a_new_workload_needs_a_site_and_a_snapshot(scene: Path, missing: str):
    (scene / "new.yaml").write_text(yaml.safe_dump(ASK))
    given = {"--site": "site.yaml", "--snapshot": "snapshot.yaml"}
    del given[missing]
    args = [word for pair in given.items() for word in pair]
    assert "--workload needs" in "\n".join(refused(gangplan("explain", "--workload", "new.yaml", *args)))
