"""`gangplan report`: a page from each source, and errors that say what to write and leave no file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planner.ledger.demand import observe_stretch
from planner.ledger.store import connect
from tests.planner.cli.calling import gangplan, refused
from tests.planner.simulation.comparing import write_inputs
from tests.planner.worlds import NOW, NOW_S

ROOT = Path(__file__).parents[3]
SITE = ROOT / "examples" / "two-clusters" / "site.yaml"
SNAPSHOT = ROOT / "examples" / "two-clusters" / "snapshot.yaml"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("simulated")
    write_inputs(folder, length=24)
    called = gangplan(
        "simulate", "--site", folder / "site.yaml", "--trace", folder / "work-0.csv",
        "--policy", "budget-greedy", "--days", "0.3", "--out", folder / "out",
    )  # fmt: skip
    assert called.code == 0, called
    return folder / "out"


def report(kind, *args):
    return gangplan("report", kind, *args)


@pytest.mark.parametrize("kind", ["allocations", "fragmentation", "timeline"])
def test_a_simulation_becomes_one_page(simulated, tmp_path, kind):
    out = tmp_path / "page.html"
    called = report(kind, "--from", simulated, "--out", out)
    assert (called.code, called.out, called.err) == (0, "", "")
    assert f"<h1>{kind.capitalize()}</h1>" in out.read_text()


@pytest.mark.parametrize("kind", ["allocations", "fragmentation", "timeline"])
def test_a_simulation_of_seconds_becomes_a_page_too(tmp_path, kind):
    write_inputs(tmp_path, length=1)
    inputs = ("--site", tmp_path / "site.yaml", "--trace", tmp_path / "work-0.csv", "--days", "0.0002")
    assert gangplan("simulate", *inputs, "--policy", "fifo", "--out", tmp_path / "out").code == 0
    assert report(kind, "--from", tmp_path / "out", "--out", tmp_path / "page.html").code == 0


@pytest.mark.parametrize("kind", ["allocations", "fragmentation", "timeline"])
def test_a_snapshot_becomes_one_page_with_and_without_its_plan(tmp_path, kind):
    plan = tmp_path / "plan.json"
    assert (
        gangplan("plan", "--site", SITE, "--snapshot", SNAPSHOT, "--backend", "greedy", "--out", plan).code
        == 0
    )
    pages = []
    for more in ((), ("--plan", plan)):
        out = tmp_path / "page.html"
        assert report(kind, "--from", SNAPSHOT, "--site", SITE, *more, "--out", out).code == 0
        pages.append(re.sub(r"\d+\.\d+ s", "", out.read_text()))
    assert pages[0] == pages[1]


def test_a_subtree_shows_its_allocations_and_no_other(tmp_path):
    out = tmp_path / "page.html"
    called = report("allocations", "--from", SNAPSHOT, "--site", SITE, "--under", "language", "--out", out)
    assert called.code == 0
    shown = re.sub(r"<script>.*?</script>", "", out.read_text(), flags=re.DOTALL)
    assert "Allocations of language" in shown
    assert "vision" not in shown


@pytest.mark.parametrize(
    ("kind", "args", "fault"),
    [
        ("allocations", ["--from", SNAPSHOT], "needs the budgets beside it, write --site FILE"),
        ("timeline", ["--from", SNAPSHOT], "write --site FILE"),
        ("site", ["--from", SNAPSHOT], "write --site FILE"),
        ("allocations", ["--from", "sqlite:///nowhere.db"], "write --site FILE"),
        ("fragmentation", ["--from", "sqlite:///x.db"], "a ledger knows no nodes"),
        ("timeline", ["--from", "sqlite:///x.db"], "a ledger knows no nodes"),
        ("compare", ["--from", "sqlite:///x.db"], "a ledger compares nothing"),
        ("compare", ["--from", ROOT / "docs"], "name a folder that `gangplan compare` has finished"),
        ("allocations", ["--from", ROOT / "docs"], "name a folder that a simulation has finished"),
        ("timeline", ["--from", ROOT / "docs"], "name a folder that a simulation has finished"),
        ("fragmentation", ["--from", ROOT / "nowhere.json"], "nowhere.json: is not there, name a snapshot"),
        ("site", ["--from", ROOT / "nowhere.json"], "nowhere.json: is not there, name a snapshot"),
        ("compare", ["--from", ROOT / "nowhere"], "nowhere: is not there"),
        ("site", ["--from", ROOT / "docs", "--site", SITE], "a site shows the present"),
        ("site", ["--from", SNAPSHOT, "--site", SITE, "--stale-after", "15"], "--stale-after: "),
        ("allocations", ["--from", SNAPSHOT, "--site", SITE, "--under", "nobody"], "no allocation is nobody"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_nothing_is_written(tmp_path, kind, args, fault):
    out = tmp_path / "out"
    errors = refused(report(kind, *args, "--out", out))
    assert any(fault in error for error in errors), errors
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_becomes_a_page_of_its_window(tmp_path):
    ledger = connect(f"sqlite:///{tmp_path}/l.db")
    ledger.upgrade()
    with ledger.write() as connection:
        observe_stretch(
            connection, NOW_S - 7200, NOW_S, {("k", "h100"): 32}, {"vision": 9}, {"vision": 10**9}
        )
    out = tmp_path / "x.html"
    args = ("--from", f"sqlite:///{tmp_path}/l.db", "--site", SITE, "--now", NOW, "--out", out)
    assert report("allocations", *args).code == 0
    assert "vision" in out.read_text()
    assert "the lookback window" in out.read_text()


def test_a_bad_time_is_refused_with_what_to_write(tmp_path):
    connect(f"sqlite:///{tmp_path}/l.db").upgrade()
    args = ("--from", f"sqlite:///{tmp_path}/l.db", "--site", SITE, "--out", tmp_path / "x.html")
    assert any("--now: " in e for e in refused(report("allocations", *args, "--now", "yesterday")))
    assert any("knows nothing" in e for e in refused(report("allocations", *args)))


def test_an_unknown_kind_lists_those_that_there_are(tmp_path):
    called = report("pie", "--from", SNAPSHOT, "--out", tmp_path / "x.html")
    assert called.code == 2
    assert all(kind in called.err for kind in ("allocations", "fragmentation", "timeline", "compare", "site"))
