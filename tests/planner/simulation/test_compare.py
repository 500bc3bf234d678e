"""A comparison is every combination once, and its table is made of the summaries of its cases."""

from __future__ import annotations

import csv
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.simulation.cases import STOP, run_case
from planner.simulation.compare import Comparison, cases_of, make_way, means_of, rows_of, write_rows
from planner.simulation.engine import Options
from planner.simulation.knobs import read_knobs
from planner.simulation.output import read_summary, read_table
from tests.planner.simulation.comparing import write_inputs
from tests.planner.simulation.small import HOUR


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    """Two policies, two seeds with a trace each, and two values of one knob."""
    write_inputs(tmp_path, seeds=(1, 2))
    return Comparison(
        tmp_path / "site.yaml",
        str(tmp_path / "work-{seed}.csv"),
        ("fifo", "drf"),
        (1, 2),
        tuple(read_knobs(["budgets[0].weight=1,9"])),
        Options("", 300, 2 * HOUR),
        None,
        None,
        tmp_path / "out",
    )


def test_every_combination_is_one_case(comparison: Comparison):
    cases = cases_of(comparison)
    told = Counter((c.options.policy, c.options.seed, *map(str, c.knobs)) for c in cases)
    weights = ("budgets[0].weight=1", "budgets[0].weight=9")
    assert told == Counter((p, s, w) for p in ("fifo", "drf") for s in (1, 2) for w in weights)
    assert len({c.folder for c in cases}) == len(cases)
    assert {c.folder.parent for c in cases} == {comparison.folder}


def test_what_is_asked_for_twice_is_one_case(comparison: Comparison):
    twice = replace(comparison, policies=("fifo", "drf", "fifo"), seeds=(1, 2, 1))
    assert cases_of(twice) == cases_of(comparison)


def test_each_seed_has_the_trace_of_its_name(comparison: Comparison):
    assert all(c.trace_path.name == f"work-{c.options.seed}.csv" for c in cases_of(comparison))
    (plain,) = {
        c.trace_path.name for c in cases_of(replace(comparison, trace=comparison.trace.format(seed=2)))
    }
    assert plain == "work-2.csv"


def test_cases_know_their_files_from_any_folder(comparison: Comparison, monkeypatch: pytest.MonkeyPatch):
    here = comparison.folder.parent
    monkeypatch.chdir(here)
    relative = replace(comparison, site_path=Path("site.yaml"), trace="work-{seed}.csv", folder=Path("out"))
    assert cases_of(relative) == cases_of(comparison)


def test_what_all_cases_share_reaches_each(comparison: Comparison):
    for case in cases_of(replace(comparison, failures=(5, 6))):
        assert (case.options.period_s, case.options.end_s, case.failures) == (300, 2 * HOUR, (5, 6))


def test_the_faults_of_all_inputs_come_at_once_and_before_anything_runs(comparison: Comparison):
    work = Path(comparison.trace.format(seed=2))
    work.write_text(work.read_text().replace("\nw0,a", "\nw0,", 1).replace("\nw0,b", "\nw0,", 1))
    knobs = tuple(read_knobs(["fair_share.band=0.1,-1", "budgets[1].weight=1,x"]))
    with pytest.raises(InputError) as caught:
        cases_of(replace(comparison, seeds=(1, 2, 3), knobs=knobs))
    messages = caught.value.messages
    begins = [
        "--set fair_share.band=-1: ",
        "--set budgets[1].weight=x: ",
        f"{work}:2:",
        f"{work.with_stem('work-3')}: ",
    ]
    assert len(messages) == len(begins)
    assert all(any(m.startswith(b) for m in messages) for b in begins)
    assert not comparison.folder.exists()


def test_rows_hold_the_figures_of_the_summaries(comparison: Comparison):
    cases = cases_of(comparison)[:3]
    for case in cases:
        run_case(case)
    for row, case in zip(rows_of(cases), cases, strict=True):
        summary = read_summary(case.folder)
        assert (row["case"], row["policy"], row["seed"]) == (
            case.folder.name,
            case.options.policy,
            case.options.seed,
        )
        assert row["budgets[0].weight"] == case.knobs[0].said
        figures = {
            name: v for name, v in summary.items() if not isinstance(v, str | dict) and name != "schema"
        }
        assert figures.keys() == row.keys() - {"case", "policy", "seed", "budgets[0].weight"}
        assert all(row[name] == value for name, value in figures.items())


FIGURE = st.none() | st.integers(-1000, 1000) | st.floats(-1e6, 1e6)
ROWS = st.lists(
    st.tuples(st.sampled_from("pq"), st.sampled_from("12"), st.integers(0, 99), FIGURE, FIGURE), max_size=12
)


@given(ROWS)
def test_means_are_over_the_seeds_that_say_something(told):
    rows = [
        {"case": str(n), "policy": p, "seed": s, "knob": k, "x": x, "y": y}
        for n, (p, k, s, x, y) in enumerate(told)
    ]
    means = means_of(rows, ["policy", "knob"])
    assert [(m["policy"], m["knob"]) for m in means] == list(dict.fromkeys((p, k) for p, k, *_ in told))
    for mean in means:
        mine = [row for row in rows if (row["policy"], row["knob"]) == (mean["policy"], mean["knob"])]
        assert mean.keys() == {"policy", "knob", "seeds", "x", "y"}
        assert mean["seeds"] == len(mine)
        for name in "xy":
            known = [Fraction(row[name]) for row in mine if row[name] is not None]
            if known:
                assert math.isclose(mean[name], sum(known) / len(known), rel_tol=1e-9, abs_tol=1e-9)
            else:
                assert mean[name] is None


def test_both_files_hold_every_row(tmp_path: Path):
    rows = [
        {
            "case": "fifo,seed=1",
            "policy": "fifo",
            "seed": 1,
            "k": '[1, "x"]',
            "whole": 1,
            "part": 0.5,
            "none": None,
        },
        {
            "case": "drf,seed=1",
            "policy": "drf",
            "seed": 1,
            "k": "true",
            "whole": None,
            "part": 1,
            "none": None,
        },
    ]
    write_rows(rows, tmp_path)
    frame = read_table(tmp_path, "compare")
    assert frame.astype(object).where(frame.notna(), None).to_dict("records") == rows
    with (tmp_path / "compare.csv").open(newline="") as file:
        told = list(csv.DictReader(file))
    assert told == [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compare.csv", "compare.parquet"]


def test_an_old_table_and_an_old_wish_to_stop_make_way_and_cases_stay(comparison: Comparison):
    case = cases_of(comparison)[0]
    run_case(case)
    write_rows(rows_of([case]), comparison.folder)
    (comparison.folder / STOP).touch()
    make_way(comparison.folder)
    assert list(comparison.folder.iterdir()) == [case.folder]
    assert rows_of([case])


def test_a_folder_that_cannot_be_made_is_the_users_error(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written to"):
        make_way(tmp_path / "file")
