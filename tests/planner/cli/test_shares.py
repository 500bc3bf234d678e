"""`gangplan shares`: what the budgets come to, and with a snapshot how each allocation stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.planner.cli.calling import gangplan, refused
from tests.planner.worlds import world


@pytest.fixture
def scene(folder: Path) -> Path:
    """Write a folder of four allocations, one of them without a share."""
    family = [
        {"name": "l", "children": [{"name": "x", "weight": 3}, {"name": "y"}]},
        {"name": "v"},
        {"name": "z", "weight": 0},
    ]
    w = world(
        family,
        workloads=[{"id": "r", "on": "n1", "allocation": "v"}, {"id": "p", "allocation": "l/y"}],
        ratios={"l/x": 0.5, "l/y": 0.25, "v": 1.5},
    )
    (folder / "site.yaml").write_text(yaml.safe_dump(w.site_data))
    (folder / "snapshot.yaml").write_text(json.dumps(w.snapshot_data))
    return folder


def test_without_a_snapshot_it_shows_the_shares(scene: Path):
    called = gangplan("shares", "--site", "site.yaml")
    assert (called.code, called.err) == (0, "")
    rows = [line.split() for line in called.out.splitlines()]
    assert rows == [
        ["ALLOCATION", "SHARE"],
        ["l/x", "37.50%"],
        ["l/y", "12.50%"],
        ["v", "50.00%"],
        ["z", "0.00%"],
    ]
    data = json.loads(gangplan("shares", "--site", "site.yaml", "-o", "json").out)
    assert data[0] == {"allocation": "l/x", "share": 0.375}


def test_with_a_snapshot_it_shows_use_in_the_order_of_the_queue(scene: Path):
    called = gangplan("shares", "--site", "site.yaml", "--snapshot", "snapshot.yaml")
    assert (called.code, called.err) == (0, "")
    header, *rows = [line.split() for line in called.out.splitlines()]
    assert header[:6] == ["RANK", "ALLOCATION", "SHARE", "USAGE", "ENTITLED", "RATIO"]
    assert [row[1] for row in rows] == ["l/y", "l/x", "v", "z"]
    assert [row[5] for row in rows] == ["0.250", "0.500", "1.500", "-"]
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_as_data_it_has_every_number(scene: Path, form: str):
    called = gangplan("shares", "--site", "site.yaml", "--snapshot", "snapshot.yaml", "-o", form)
    rows = {row["allocation"]: row for row in yaml.safe_load(called.out)}
    assert called.err == ""
    assert (rows["v"]["running_gpus"], rows["l/y"]["pending_gpus"]) == (8, 8)
    assert rows["v"]["ratio"] == pytest.approx(1.5)
    assert rows["z"]["ratio"] is None


def test_a_wrong_snapshot_is_refused(scene: Path):
    (scene / "snapshot.yaml").write_text("time: noon\nclusters: []\n")
    (line,) = refused(gangplan("shares", "--site", "site.yaml", "--snapshot", "snapshot.yaml"))
    assert line.startswith("snapshot.yaml:1:")
