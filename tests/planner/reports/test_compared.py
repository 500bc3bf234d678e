"""Policies side by side: sums over seeds, and figures that are those of the summaries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from planner.errors import InputError
from planner.reports.frames import compared as frames
from planner.reports.frames.compared import BANDS, Compared
from planner.reports.pages import compare
from tests.planner.cli.calling import gangplan
from tests.planner.simulation.comparing import write_inputs


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Compared:
    folder = tmp_path_factory.mktemp("compared")
    write_inputs(folder, seeds=(1, 2), length=24)
    inputs = ("--site", folder / "site.yaml", "--trace", f"{folder}/work-{{seed}}.csv", "--days", "0.3")
    called = gangplan(
        "compare", *inputs, "--policy", "budget-greedy", "--policy", "fifo", "--seed", "1", "--seed", "2",
        "--period", "5m", "--jobs", "1", "--out", folder / "out",
    )  # fmt: skip
    assert called.code == 0, called
    return Compared(folder / "out")


def test_variants_are_policies_and_cases_their_seeds(found):
    assert found.names == ["budget-greedy", "fifo"]
    assert [len(found.cases(name)) for name in found.names] == [2, 2]


def test_figures_are_means_over_the_seeds(found):
    table = frames.figures(found).set_index("variant")
    for name in found.names:
        mine = [case.summary["occupancy"] for case in found.cases(name)]
        assert table.loc[name, "occupancy"] == pytest.approx(np.mean(mine))


def test_bands_add_up_to_the_capacity(found):
    assert frames.bands(found)[list(BANDS)].sum(axis=1).tolist() == pytest.approx([1.0, 1.0])


def test_waits_rise_with_the_share_and_their_quantiles_are_those_of_all_seeds(found):
    frame = frames.waits(found)
    for (variant, kind), rows in frame.groupby(["variant", "class"]):
        assert rows["wait_s"].is_monotonic_increasing
        waits = np.concatenate(
            [
                case.workloads.query("occupancy == 'allocated' and state != 'refused'")
                .pipe(lambda jobs, kind=kind: jobs if kind == "all" else jobs[jobs[kind]])["wait_s"]
                .to_numpy(dtype=float)
                for case in found.cases(variant)
            ]
        )
        assert rows["wait_s"].iloc[-1] == waits.max()
        middle = rows[np.isclose(rows["share"], 0.5)]["wait_s"].iloc[0]
        assert middle == pytest.approx(np.median(waits))


def test_kept_promises_are_sums_over_seeds(found):
    frame = frames.kept(found)
    for variant, rows in frame.groupby("variant"):
        hours = [case.allocations for case in found.cases(variant)]
        assert rows["owed"].sum() == pytest.approx(sum(h["owed"].sum() for h in hours))
        assert rows["delivered"].sum() == pytest.approx(sum(h["delivered_allocated"].sum() for h in hours))


def test_the_matrix_holds_all_that_the_summaries_say_was_lost(found):
    frame = frames.matrix(found)
    assert len(frame), "a comparison without preemptions shows too little"
    for variant in found.names:
        rows = frame[frame["variant"] == variant]
        cases = [case.summary for case in found.cases(variant)]
        assert rows["lost_gpu_hours"].sum() == pytest.approx(
            sum(c["preempted_gpu_hours_lost"] for c in cases)
        )
        assert rows["preemptions"].sum() == pytest.approx(sum(c["preemptions"] for c in cases))


def test_a_folder_without_a_comparison_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"compare\.parquet: is not there"):
        _ = Compared(tmp_path).rows


@pytest.mark.parametrize(
    ("idle", "sentence"),
    [
        ((0.0011, 0.0012), "All left the same part of the GPUs idle, 0.1%"),
        ((0.011, 0.012), "a left 1.1% of the GPUs idle, b 1.2%"),
    ],
)
def test_the_headline_of_idle_gpus_tells_a_difference_only_where_it_shows_one(
    found, monkeypatch, idle, sentence
):
    rows = pd.DataFrame({"variant": ["a", "b"], **dict.fromkeys(BANDS, 0.0)}).assign(idle=idle)
    monkeypatch.setattr(frames, "bands", lambda _: rows)
    charts = {part.name: part for part in compare.page(found, "").parts}
    assert charts["bands"].sentence == sentence
