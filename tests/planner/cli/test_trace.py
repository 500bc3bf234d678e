"""`gangplan trace`: logs in, traces and sites out, and no traceback for a user's mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.simulation.tracefile import read_trace, write_trace
from planner.site import load_site
from tests.planner.cli.calling import gangplan, refused
from tests.planner.simulation.traces import same, trace
from tests.planner.traces.logs import ITP, LOGS, PHILLY, QUOTA, put


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to an empty folder."""
    monkeypatch.chdir(tmp_path)


def put_here(name: str, text: str) -> str:
    put(Path(), name, text)
    return name


@pytest.mark.parametrize("form", sorted(LOGS))
@pytest.mark.parametrize("out", ["t.csv", "t.parquet"])
def test_every_format_becomes_a_trace_that_can_be_shown(form, out):
    name, text = next(iter(LOGS[form].items()))
    made = gangplan("trace", "import", form, put_here(name, text), "--out", out)
    assert (made.code, made.err) == (0, "")
    assert made.out.startswith(f"{out}: ")
    shown = gangplan("trace", "show", out, "-o", "json")
    assert json.loads(shown.out)["workloads"] == read_trace(Path(out)).count


def test_the_same_command_writes_the_same_files():
    call = ("trace", "import", "philly", put_here("philly.csv", PHILLY), "--seed", "7", "--nodes", "2",
            "--perturb", "0.5", "--out", "t.csv", "--site-out", "s.yaml")  # fmt: skip
    files = []
    for _ in range(2):
        assert gangplan(*call).code == 0
        files.append([Path(name).read_bytes() for name in ("t.csv", "s.yaml")])
    assert files[0] == files[1]


def test_the_rule_is_that_of_the_options():
    call = ("--short", "0s", "--min-runtimes", "3h:1", "--long", "1h", "--resumable", "100%")
    assert gangplan("trace", "import", "itp", put_here("c.csv", ITP), "--out", "t.csv", *call).code == 0
    made = read_trace(Path("t.csv"))
    assert set(made.min_runtime_s.tolist()) == {3 * 3600}
    assert made.resumable.tolist() == (made.runtime_s > 3600).tolist()


def test_a_site_has_a_budget_for_each_allocation_by_what_it_asks_for():
    call = ("--nodes", "9", "--site-out", "s.yaml", "--out", "t.csv", "--days", "30")
    made = gangplan(
        "trace", "import", "itp", put_here("c.csv", ITP), put_here("d.csv", ITP.replace("j-", "k-")), *call
    )
    assert made.code == 0
    site = load_site(Path("s.yaml"))
    offered = json.loads(gangplan("trace", "show", "t.csv", "--days", "30", "-o", "json").out)["allocations"]
    assert {b.path: float(b.weight) for b in site.budgets} == pytest.approx(
        {row["allocation"]: row["offered_gpus"] for row in offered}, abs=0.001
    )
    assert len(site.clusters[0].nodes) == 9
    assert "72 GPUs" in made.out
    assert "# Weights: GPUs that each allocation asks for on average, 30 days" in Path("s.yaml").read_text()


def test_what_is_larger_than_the_site_is_told():
    made = gangplan(
        "trace",
        "import",
        "itp",
        put_here("c.csv", ITP),
        "--nodes",
        "2",
        "--site-out",
        "s.yaml",
        "--out",
        "t.csv",
    )
    assert "larger than the site, will never run there: 1" in made.out


def test_quotas_give_the_weights_and_who_has_none_gets_0():
    quota = put_here("q.csv", "vc,nodes\nblue,3\nred,1\n")
    call = ("--nodes", "2", "--site-out", "s.yaml", "--out", "t.csv", "--quota", quota)
    assert gangplan("trace", "import", "philly", put_here("philly.csv", PHILLY), *call).code == 0
    assert {b.path: int(b.weight) for b in load_site(Path("s.yaml")).budgets} == {
        "blue": 3,
        "red": 1,
        "6214e9": 0,
    }


def test_helios_quotas_become_weights_over_time_and_a_site():
    call = ("--from", "2020-06-02T00:00:00Z", "--site-out", "s.yaml", "--out", "w.csv")
    made = gangplan("trace", "import", "helios", put_here("gpu_number.csv", QUOTA), *call)
    assert made.code == 0
    assert Path("w.csv").read_text().splitlines() == [
        "time_s,allocation,weight",
        "0,vcA,16",
        "0,vcB,48",
        "86400,vcA,0",
    ]
    site = load_site(Path("s.yaml"))
    assert {b.path: int(b.weight) for b in site.budgets} == {"vcA": 16, "vcB": 48}
    assert sum(node.gpus for node in site.clusters[0].nodes) == 64


def test_gangs_are_put_on_a_background():
    write_trace(trace([{"id": "b", "submitted_s": 100}]), Path("b.csv"))
    write_trace(trace([{"id": "g", "replicas": 128}, {"id": "h", "submitted_s": 101}]), Path("g.parquet"))
    call = ("--scale-gpus", "256/2416", "--allocation", "t", "--min-gpus", "8", "--out", "o.csv")
    made = gangplan("trace", "overlay", "b.csv", "g.parquet", *call)
    assert made.code == 0
    both = read_trace(Path("o.csv"))
    assert list(zip(both.id, both.allocation, both.replicas.tolist(), strict=True)) == [
        ("gang-g", "t", 14),
        ("b", "a", 1),
    ]
    assert "0 not asked for, 1 after the last submit" in made.out


def test_a_synthetic_trace_comes_with_its_site():
    call = ("--preset", "ai2", "--days", "1", "--seed", "5", "--out", "t.csv", "--site-out", "s.yaml")
    made = gangplan("trace", "synth", *call)
    assert (made.code, made.err) == (0, "")
    from planner.traces.synth import synth

    expected, site = synth("ai2", 1, 5, False)
    assert same(read_trace(Path("t.csv")), expected)
    assert [b.path for b in load_site(Path("s.yaml")).budgets] == [b["name"] for b in site["budgets"]]


def test_a_trace_is_shown_as_people_read_it():
    write_trace(trace([{"id": "v", "replicas": 3, "runtime_s": 86_400}, {"id": "w"}]), Path("t.csv"))
    lines = gangplan("trace", "show", "t.csv").out.splitlines()
    assert lines[0] == "2 workloads, 1 day, 24.3 GPUs offered on average"
    assert any(line.split() == ["17-32", "1", "98.6%"] for line in lines)
    assert any(line.split()[:3] == ["a", "2", "24.3"] for line in lines)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("import", "itp", "none.csv", "--out", "t.csv"), "none.csv: cannot be read"),
        (("import", "itp", "c.csv", "--out", "t.txt"), "neither CSV nor Parquet"),
        (("import", "itp", "c.csv", "--out", "no/t.csv"), "no/t.csv: cannot be written"),
        (("import", "itp", "c.csv", "--out", "t.csv", "--from", "26"), "--from: "),
        (("import", "itp", "c.csv", "--out", "t.csv", "--from", "99d"), "--from: no job"),
        (("import", "itp", "c.csv", "--out", "t.csv", "--allocation-from", "vc"), "--allocation-from: "),
        (("import", "itp", "c.csv", "--out", "t.csv", "--short", "15"), "--short"),
        (("import", "itp", "c.csv", "--out", "t.csv", "--min-runtimes", "1h"), "--min-runtimes"),
        (("import", "itp", "c.csv", "--out", "t.csv", "--resumable", "0.8"), "--resumable"),
        (("import", "itp", "c.csv", "--out", "t.csv", "--nodes", "4"), "--site-out"),
        (("import", "itp", "c.csv", "--out", "t.csv", "--site-out", "s.yaml"), "--nodes"),
        (("import", "itp", "c.csv", "--out", "t.csv", "--site-out", "t.csv", "--nodes", "4"), "two names"),
        (("import", "xyz", "c.csv", "--out", "t.csv"), "xyz"),
        (("import", "itp", "--out", "t.csv"), "FILES"),
        (("import", "philly", "c.csv", "--out", "t.csv"), "c.csv:1:1: "),
        (("import", "helios", "q.csv", "--out", "w.csv", "--quota", "q.csv"), "--quota"),
        (("overlay", "b.csv", "b.csv", "--out", "o.csv"), "--allocation"),
        (
            ("overlay", "b.csv", "b.csv", "--out", "o.csv", "--allocation", "a", "--scale-gpus", "x"),
            "--scale-gpus",
        ),
        (
            ("overlay", "b.csv", "b.csv", "--out", "o.csv", "--allocation", "a", "--min-gpus", "99"),
            "no gang is left",
        ),
        *(
            (("overlay", "b.csv", "b.csv", "--out", "o.csv", "--allocation", path), "--allocation")
            for path in ("", "a//b", "/a", "a/", " a", "a\tb", "a" * 256, "/".join(["a" * 99] * 3))
        ),
        (
            ("synth", "--days", "1", "--out", "t.csv", "--site-out", "no/s.yaml"),
            "no/s.yaml: cannot be written",
        ),
        (
            ("synth", "--days", "1", "--out", "t.csv", "--site-out", ".."),
            "cannot be written (Is a directory)",
        ),
        (
            ("synth", "--days", "1", "--out", "no/t.csv", "--site-out", "s.yaml"),
            "no/t.csv: cannot be written",
        ),
        (("import", "helios", "q.csv", "--out", "w.csv", "--site-out", "no/s.yaml"), "no/s.yaml: cannot be"),
        (("import", "helios", "q.csv", "--out", "no/w.csv", "--site-out", "s.yaml"), "no/w.csv: cannot be"),
        (
            ("import", "itp", "c.csv", "--out", "t.csv", "--site-out", "no/s.yaml", "--nodes", "4"),
            "no/s.yaml: cannot be written",
        ),
        (
            ("import", "itp", "c.csv", "--out", "no/t.csv", "--site-out", "s.yaml", "--nodes", "4"),
            "no/t.csv: cannot be written",
        ),
        (
            (
                *("import", "itp", "c.csv", "--out", "t.csv", "--site-out", "s.yaml", "--nodes", "4"),
                *("--quota", "none.csv"),
            ),
            "none.csv: cannot be read",
        ),
        (("synth", "--out", "t.csv", "--site-out", "t.csv"), "two names"),
        (("overlay", "b.csv", "c.csv", "--out", "o.csv", "--allocation", "a"), "c.csv:1:"),
        (("synth", "--preset", "moon", "--out", "t.csv"), "moon"),
        (("show", "c.csv"), "c.csv:1:"),
    ],
)
def test_a_mistake_is_refused_and_nothing_is_written(args, said):
    put_here("c.csv", ITP)
    put_here("q.csv", QUOTA)
    write_trace(trace([{}]), Path("b.csv"))
    before = sorted(Path().iterdir())
    assert any(said in line for line in refused(gangplan("trace", *args)))
    assert sorted(Path().iterdir()) == before
