"""`gangplan simulate` and `gangplan snapshot`: files in, whole files out, and errors in a line each."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.simulation import cases, output
from planner.simulation.metrics.measure import Measured
from planner.simulation.output import read_summary
from planner.simulation.policies.base import Round, Verdict
from planner.simulation.policies.budget import BudgetGreedy
from planner.simulation.tables import COLUMNS
from tests.planner.cli.calling import gangplan, refused

SITE = """
budgets: [{name: a, weight: 1}, {name: b, weight: 1}]
clusters: [{name: c, levels: [leaf], nodes: [{names: "n[1-4]", gpus: 8, gpu_type: h100, location: [l1]}]}]
"""
TRACE = """id,allocation,submitted_s,replicas,gpus_per_replica,runtime_s,min_runtime_s
w0,a,0,2,8,7200,3600
w1,b,90,4,8,3600,3600
w2,b,100,1,4,600,0
"""


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").write_text(SITE)
    (tmp_path / "trace.csv").write_text(TRACE)
    return tmp_path


def simulate(*more: str):
    policy = () if "--policy" in more else ("--policy", "budget-greedy")
    inputs = ("--site", "site.yaml", "--trace", "trace.csv", "--out", "out")
    return gangplan("simulate", *inputs, *policy, *more)


def test_the_summary_on_stdout_is_that_of_the_folder(inputs: Path):
    called = simulate("-o", "json")
    assert (called.code, called.err) == (0, "")
    assert (
        json.loads(called.out)
        == read_summary(inputs / "out")
        == json.loads((inputs / "out" / "summary.json").read_text())
    )


def test_days_cut_the_simulation(inputs: Path):
    assert json.loads(simulate("-o", "json", "--days", "0.01").out)["end_s"] == 864


def test_failures_may_be_listed_or_drawn_but_not_both(inputs: Path):
    (inputs / "events.csv").write_text("time_s,node,state\n600,n1,down\n1200,n1,up\n")
    assert json.loads(simulate("-o", "json", "--node-events", "events.csv").out)["availability"] < 1
    assert json.loads(simulate("-o", "json", "--mtbf", "1h", "--mttr", "30m").out)["availability"] < 1
    assert "one of the two" in refused(simulate("--mtbf", "1h", "--node-events", "events.csv"))[0]


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--period", "60", "write 60s"),
        ("--period", "0s", "1s"),
        ("--policy", "lottery", "budget-greedy"),
        ("--days", "0", "days"),
        ("--days", "nan", "not a number of days"),
        ("--days", "inf", "36500"),
        ("--node-events", "none.csv", "none.csv"),
        ("--seed", "-1", "seed"),
    ],
)
def test_a_wrong_option_says_what_to_write(inputs: Path, option: str, value: str, says: str):
    called = simulate(option, value)
    assert called.code == 2
    assert says in called.err
    assert "Traceback" not in called.err


def test_a_site_without_an_inventory_is_refused(inputs: Path):
    (inputs / "site.yaml").write_text("budgets: [{name: a, weight: 1}]\n")
    assert "clusters" in refused(simulate())[0]


def test_a_summary_that_no_simulation_wrote_is_not_written_over(inputs: Path):
    (inputs / "out").mkdir()
    (inputs / "out" / "summary.json").write_text("root:x:0:0")
    assert "no summary of a simulation" in refused(simulate())[0]
    assert (inputs / "out" / "summary.json").read_text() == "root:x:0:0"


def test_a_folder_that_cannot_be_made_is_refused(inputs: Path):
    (inputs / "out").write_text("in the way")
    assert "out: cannot be made" in refused(simulate())[0]


def test_a_snapshot_of_a_moment_can_be_planned(inputs: Path):
    called = gangplan(
        "snapshot", "--site", "site.yaml", "--trace", "trace.csv", "--at", "120", "--policy", "budget-greedy",
        "--out", "cut.json",
    )  # fmt: skip
    assert (called.code, called.out, called.err) == (0, "", "")
    cut = json.loads((inputs / "cut.json").read_text())
    states = {w["id"]: w["state"] for w in cut["workloads"]}
    assert (states["w0"], states["w1"]) == ("running", "pending")
    planned = gangplan("plan", "--site", "site.yaml", "--snapshot", "cut.json", "--backend", "greedy")
    assert planned.code == 0


def test_a_moment_after_more_than_the_window_can_be_planned(inputs: Path):
    window = 7 * 86400
    gangplan(
        "snapshot",
        "--site",
        "site.yaml",
        "--trace",
        "trace.csv",
        "--at",
        str(window + 60),
        "--out",
        "cut.json",
    )
    planned = gangplan("plan", "--site", "site.yaml", "--snapshot", "cut.json", "--backend", "greedy")
    assert (planned.code, planned.err) == (0, "")


@pytest.fixture
def ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Ctrl-C come in the fourth of all rounds."""
    rounds, decide = itertools.count(), BudgetGreedy.decide

    def interrupted(self: BudgetGreedy, round_: Round) -> Verdict:
        if next(rounds) == 3:
            signal.raise_signal(signal.SIGINT)
        return decide(self, round_)

    monkeypatch.setattr(BudgetGreedy, "decide", interrupted)


def test_ctrl_c_leaves_whole_files_and_the_rest_can_be_resumed(inputs: Path, ctrl_c: None):
    stopped = simulate("-o", "json")
    assert stopped.code == 130
    assert "--resume" in stopped.err
    summary = read_summary(inputs / "out")
    assert 0 < summary["stopped_s"] == summary["end_s"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    resumed = simulate("--resume", "-o", "json")
    assert resumed.code == 0
    whole = json.loads(simulate("-o", "json", "--out", "whole").out)
    assert summary["end_s"] < whole["end_s"]
    assert timeless(json.loads(resumed.out)) == timeless(whole)
    assert not (inputs / "out" / "checkpoint.pickle").exists()


def test_one_program_does_not_go_on_from_the_checkpoint_of_another(
    inputs: Path, ctrl_c: None, monkeypatch: pytest.MonkeyPatch
):
    assert simulate().code == 130
    with monkeypatch.context() as patch:
        patch.setattr(cases, "program", lambda: "another")
        assert "another version of gangplan" in refused(simulate("--resume"))[0]
    assert simulate("--resume").code == 0


def at_the_first_table(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """Have this happen while results are written, once the first table is there."""
    wrote = output._write_table

    def then(measured: Measured, table: str, folder: Path) -> None:
        wrote(measured, table, folder)
        if table == next(iter(COLUMNS)):
            happens()

    monkeypatch.setattr(output, "_write_table", then)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_while_results_are_written_waits_for_them(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
):
    whole = json.loads(simulate("-o", "json", "--out", "whole").out)
    at_the_first_table(monkeypatch, lambda: signal.raise_signal(number))
    called = simulate("-o", "json")
    assert (called.code, called.err) == (0, "")
    assert timeless(json.loads(called.out)) == timeless(whole)
    names = {path.name for path in (inputs / "whole").iterdir()}
    assert {path.name for path in (inputs / "out").iterdir()} == names


def test_what_ends_while_results_are_written_is_not_simulated_again(
    inputs: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = json.loads(simulate("-o", "json").out)

    def out_of_patience() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        at_the_first_table(patch, out_of_patience)
        assert simulate().code == 130
    assert not (inputs / "out" / "summary.json").exists()
    monkeypatch.setattr(BudgetGreedy, "decide", None)  # no round is left
    resumed = simulate("--resume", "-o", "json")
    assert resumed.code == 0
    assert timeless(json.loads(resumed.out)) == timeless(whole)


def test_a_simulation_that_is_over_is_not_resumed_but_kept(inputs: Path):
    simulate()
    before = (inputs / "out" / "summary.json").read_bytes()
    assert refused(simulate("--resume"))[0].startswith("out: this simulation is over")
    assert (inputs / "out" / "summary.json").read_bytes() == before


def timeless(figures: dict[str, object]) -> dict[str, object]:
    """Return a summary without what the clock has to say."""
    return {k: v for k, v in figures.items() if "seconds" not in k}


def test_what_site_and_trace_have_changed_is_said(inputs: Path):
    (inputs / "site.yaml").write_text(SITE + "contract: {max_min_runtime: 30m}\n")
    said = simulate().err.splitlines()
    assert len(said) == 2
    assert all(line.startswith(f"warning: w{i} asked ") and "30m" in line for i, line in enumerate(said))


def test_of_many_warnings_the_first_few_are_said(inputs: Path):
    (inputs / "site.yaml").write_text(SITE + "contract: {max_min_runtime: 30m}\n")
    (inputs / "trace.csv").write_text(TRACE + "".join(f"x{i},a,0,1,1,9000,7200\n" for i in range(8)))
    assert simulate().err.splitlines()[-1] == "warning: 5 more like these"


def test_a_debt_that_a_half_life_forgets_is_said_and_nothing_of_a_ledger(inputs: Path):
    fair = "fair_share: {carry_overdraft: true, lookback: {half_life: 1d}}\n"
    (inputs / "site.yaml").write_text(SITE + fair)
    assert simulate().err == (
        "warning: fair_share.carry_overdraft does nothing beside a half-life, which forgets by design\n"
    )
    (inputs / "site.yaml").write_text(SITE + "fair_share: {carry_overdraft: true}\n")
    assert simulate().err == ""


def test_who_fails_without_an_end_is_repaired_and_may_fail_again(inputs: Path):
    row = f"long,a,0,1,8,{8 * 86400},0"
    (inputs / "trace.csv").write_text(TRACE.splitlines()[0] + "\n" + row + "\n")
    assert simulate("--mtbf", "6h", "--mttr", "3h", "--period", "1h").code == 0
    outages = (inputs / "out" / "outages.csv").read_text().splitlines()[1:]
    times = [int(line.split(",")[0]) for line in outages]
    assert max(times) > 7 * 86400
    for node in ("n1", "n2", "n3", "n4"):
        mine = [line for line in outages if f'"{node}"' in line]
        assert len(mine) > 10
