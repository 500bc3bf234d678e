"""The static site: every allocation a page, every link a file, every workload in the queue told why."""

from __future__ import annotations

import json
import re

import pytest

from planner.ledger.rounds import record_round
from planner.ledger.store import connect
from planner.reports.frames import queue
from planner.reports.frames.books import of_shares
from planner.reports.frames.scene import scene_of
from planner.reports.pages.site import PAGES, Contents, address_of, pages
from tests.planner.cli.calling import gangplan
from tests.planner.reports.test_fragmentation import random_scene
from tests.planner.worlds import NOW_S, world


def made(scene, rounds=None):
    return pages(Contents(scene, of_shares(scene.plan.shares), rounds, NOW_S, 900))


@pytest.fixture(scope="module")
def scenes():
    return [random_scene(seed) for seed in range(8)]


def test_there_is_a_page_for_each_allocation_and_every_link_leads_to_a_file(scenes):
    for scene in scenes[:3]:
        pages = made(scene)
        assert len(pages) == len(PAGES) + len(scene.plan.shares)
        for text in pages.values():
            links = set(re.findall(r'<a href="([^"]+)"', text))
            assert links <= pages.keys()
            assert PAGES.keys() <= links


def test_addresses_are_plain_and_differ():
    names = ["a/b", "a--b", "a b", "a_b", "../../etc/passwd", "é" * 200, "<script>", "a" * 255]
    found = [address_of(name) for name in names]
    assert all(re.fullmatch(r"allocation-[A-Za-z0-9._-]+\.html", address) for address in found)
    assert len(set(found[2:])) == len(names) - 2
    assert "/" not in "".join(found)


def test_an_address_that_could_be_that_of_another_is_told_apart():
    assert address_of("a/b") != address_of("a--b")


def test_everybody_who_waits_or_is_refused_is_in_the_queue_once_with_a_reason(scenes):
    for scene in scenes:
        frame = queue.waiting(scene)
        due = sorted(d.workload for d in scene.plan.decisions if d.action in ("wait", "reject"))
        assert sorted(frame["workload"]) == due
        assert (frame["reason"].str.len() > 10).all()
        starts = frame["expected_start"].dropna().tolist()
        assert starts == sorted(starts)


def test_what_runs_and_what_changes_are_the_decisions_of_the_plan(scenes):
    for scene in scenes:
        by_action = {
            a: sorted(d.workload for d in scene.plan.decisions if d.action == a)
            for a in ("start", "keep", "preempt")
        }
        assert sorted(queue.running(scene)["workload"]) == sorted(by_action["start"] + by_action["keep"])
        changes = queue.changes(scene)
        assert sorted(changes["workload"]) == sorted(by_action["start"] + by_action["preempt"])
        assert len(queue.promised(scene)) == len(scene.plan.reservations)


def test_the_last_rounds_are_those_of_the_ledger_the_newest_first(tmp_path):
    ledger = connect(f"sqlite:///{tmp_path}/ledger.db")
    ledger.upgrade()
    plan = world(workloads=[{"id": "w"}]).plan()
    with ledger.write() as connection:
        fences = [record_round(connection, plan, "digest") for _ in range(3)]
    frame = queue.last_rounds(ledger)
    assert frame["fence"].tolist() == fences[::-1]
    assert frame["starts"].tolist() == [1, 1, 1]
    scene = scene_of(world(workloads=[{"id": "w"}]).site, world(workloads=[{"id": "w"}]).snapshot)
    assert "The last 3 rounds" in made(scene, frame)["rounds.html"]
    assert "give --ledger" in made(scene)["rounds.html"]


def test_a_workload_called_script_is_shown_and_not_run():
    name = "<script>alert(1)</script>"
    place = world(workloads=[{"id": name}, {"id": name + "2", "replicas": 9}, {"id": name + "3", "on": "n1"}])
    for text in made(scene_of(place.site, place.snapshot)).values():
        assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in made(scene_of(place.site, place.snapshot))["plan.html"]


def test_data_for_other_tools_is_the_plan(tmp_path):
    called = gangplan(
        "report", "site", "--from", "examples/two-clusters/snapshot.yaml",
        "--site", "examples/two-clusters/site.yaml", "--out", tmp_path / "www",
    )  # fmt: skip
    assert (called.code, called.out, called.err) == (0, "", "")
    assert json.loads((tmp_path / "www" / "plan.json").read_text())["decisions"]
