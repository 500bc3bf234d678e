"""`gangplan report`: a page from each source, and errors that say what to write and leave no file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from planner.ledger.demand import observe_stretch
from planner.ledger.store import connect
from planner.reports.frames.simulated import open_simulation
from planner.reports.frames.subtree import within
from planner.reports.frames.timeline import of_simulation
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


def test_a_timeline_of_a_subtree_tells_of_no_other(simulated, tmp_path):
    shares = pd.read_parquet(simulated / "shares.parquet")["allocation"].tolist()
    top = shares[0].partition("/")[0]
    others = [a for a in shares if a.partition("/")[0] != top]
    assert others
    found = open_simulation(simulated)
    whole = of_simulation(found)
    mine = whole.of(within(top, shares))
    kept = whole.runs[whole.runs["allocation"].str.partition("/")[0] == top]
    assert 0 < len(kept) < len(whole.runs)
    assert mine.runs.to_dict("list") == kept.to_dict("list")
    drawn = whole.bars.assign(who=whole.runs["workload"][whole.bars["run"]].to_numpy())
    again = mine.bars.assign(who=mine.runs["workload"][mine.bars["run"]].to_numpy())
    columns = ["who", "row", "rows"]
    assert again[columns].to_numpy().tolist() == (
        drawn[drawn["who"].isin(kept["workload"])][columns].to_numpy().tolist()
    )
    out = tmp_path / "page.html"
    assert report("timeline", "--from", simulated, "--under", top, "--out", out).code == 0
    assert f"<h1>Timeline of {top}</h1>" in out.read_text()


@pytest.mark.parametrize("kind", ["allocations", "fragmentation", "timeline", "site"])
def test_a_plan_that_breaks_a_rule_is_not_drawn(tmp_path, kind):
    plan = tmp_path / "plan.json"
    inputs = ("--site", SITE, "--snapshot", SNAPSHOT, "--backend", "greedy")
    assert gangplan("plan", *inputs, "--out", plan).code == 0
    data = json.loads(plan.read_text())
    start = next(d for d in data["decisions"] if d["action"] == "start")
    start["placement"] = [{**start["placement"][0], "gpus": 1}]
    plan.write_text(json.dumps(data))
    args = ("--from", SNAPSHOT, "--site", SITE, "--plan", plan, "--out", tmp_path / "out")
    errors = refused(report(kind, *args), 3)
    assert any(start["workload"] in error for error in errors)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_a_simulation_of_one_day_is_called_one_day(tmp_path):
    write_inputs(tmp_path, length=1)
    inputs = ("--site", tmp_path / "site.yaml", "--trace", tmp_path / "work-0.csv", "--days", "1")
    assert gangplan("simulate", *inputs, "--policy", "fifo", "--out", tmp_path / "out").code == 0
    for kind in ("allocations", "timeline"):
        assert report(kind, "--from", tmp_path / "out", "--out", tmp_path / "page.html").code == 0
        text = (tmp_path / "page.html").read_text()
        assert "1 days" not in text
        assert "1.0 days" not in text


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
        ("timeline", ["--from", SNAPSHOT, "--site", SITE, "--under", "nobody"], "no allocation is nobody"),
        *(
            (kind, ["--from", SNAPSHOT, "--site", SITE, "--under", path], "allocations and timeline take it")
            for kind in ("fragmentation", "compare", "site")
            for path in ("nobody", "language")
        ),
        ("allocations", ["--from", ""], "--from: is empty, name a snapshot"),
        ("allocations", ["--from", f"sqlite:///{SNAPSHOT}", "--site", SITE], "name the database of a ledger"),
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
