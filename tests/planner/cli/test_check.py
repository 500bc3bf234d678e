"""`gangplan check`: what the files come to, or every fault of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planner.cli.calling import gangplan, refused

BOTH = ("check", "--site", "site.yaml", "--snapshot", "snapshot.yaml")


def test_a_good_site_shows_its_shares(folder: Path):
    called = gangplan("check", "--site", "site.yaml")
    assert (called.code, called.err) == (0, "")
    header, *rows, last = called.out.splitlines()
    assert header.split() == ["ALLOCATION", "SHARE"]
    assert sum(float(row.split()[1].rstrip("%")) for row in rows) == pytest.approx(100, abs=0.05)
    assert last == f"site.yaml: {len(rows)} allocations, no error"


def test_a_good_snapshot_is_counted(folder: Path):
    called = gangplan(*BOTH)
    assert (called.code, called.err) == (0, "")
    assert "snapshot.yaml: 6 nodes, 9 workloads" in called.out


def test_what_is_dropped_is_warned_about_on_stderr(folder: Path):
    text = (folder / "snapshot.yaml").read_text()
    assert "usage: {" in text or "usage:\n" in text
    (folder / "snapshot.yaml").write_text(
        text.replace("usage:\n", "usage:\n  closed/lab: 5\n").replace("usage: {", "usage: {closed/lab: 5, ")
    )
    called = gangplan(*BOTH)
    assert called.code == 0
    assert called.errors == ["warning: usage of closed/lab is dropped: the site has no such allocation"]


def test_a_wrong_snapshot_shows_every_fault_and_no_result(folder: Path):
    (folder / "snapshot.yaml").write_text("time: noon\nclusters: {}\nworkload: []\n")
    lines = refused_after_shares(gangplan(*BOTH))
    assert [line.split(":")[1] for line in lines] == ["1", "2", "3"]


def refused_after_shares(called) -> list[str]:
    """Return the errors of a call whose site was fine."""
    assert called.code == 2
    assert "no error" not in called.out
    assert "Traceback" not in called.err
    return called.errors


def test_a_wrong_site_is_refused(folder: Path):
    (folder / "site.yaml").write_text("budgets: []\n")
    assert "budgets" in refused(gangplan("check", "--site", "site.yaml"))[0]


def test_one_allocation_and_one_node_are_singular(folder: Path):
    (folder / "site.yaml").write_text("budgets: [{name: all}]\n")
    (folder / "snapshot.yaml").write_text(
        "time: 2026-10-09T12:00:00Z\nclusters: [{name: k, nodes: [{name: n, gpus: 8}]}]\n"
    )
    out = gangplan(*BOTH).out
    assert "snapshot.yaml: 1 node, 0 workloads" in out
    assert "site.yaml: 1 allocation, no error" in out
