"""`gangplan slurm`: what a Slurm needs, what it shows, and what it did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from planner.cli import slurm as module
from planner.snapshot import load_snapshot
from planner.sources.slurm import source
from tests.planner.cli.calling import gangplan, refused
from tests.planner.sources.slurm.fake import EPOCH_S, FakeSlurm

SITE = """
budgets: [{{name: nlp}}, {{name: vision}}]
ledger: sqlite:///{home}/ledger.db
source: {{type: slurm, partitions: [main]}}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    path.write_text(SITE.format(home=tmp_path))
    return path


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[FakeSlurm]:
    """A Slurm behind the commands."""
    fake = FakeSlurm(tmp_path / "slurm.json")
    with (
        patch.object(source, "commands_of", lambda _: fake),
        patch.object(module, "commands_of", lambda _: fake),
    ):
        yield fake


def test_the_gate_is_printed_for_this_site_and_user(site: Path) -> None:
    called = gangplan("slurm", "gate", "--site", site, "--uid", "64030")
    assert called.code == 0
    assert "JobSubmitPlugins=lua" in called.out
    assert "{[0] = true, [64030] = true}" in called.out
    assert '{["main"] = true}' in called.out


def test_the_lua_can_be_had_alone(site: Path) -> None:
    whole = gangplan("slurm", "gate", "--site", site).out
    alone = gangplan("slurm", "gate", "--site", site, "--lua").out
    assert alone.startswith("-- gangplan's gate")
    assert whole.endswith(alone)


def test_a_gate_that_is_open_is_told_with_what_to_write(site: Path, slurm: FakeSlurm) -> None:
    errors = refused(gangplan("slurm", "gate", "--check", "--site", site))
    assert any("JobSubmitPlugins is not set, write JobSubmitPlugins=lua" in e for e in errors)


def test_a_look_is_a_snapshot_that_can_be_planned(site: Path, slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.submit(2, 8, contract={"min_runtime": "1h"})
    slurm.submit(1, 8, features="ib")
    out = tmp_path / "now.json"
    called = gangplan("slurm", "observe", "--site", site, "--out", out)
    assert called.out == f"{out}: 8 nodes, 1 workload\n"
    assert called.err == "warning: 2: asks for constraint ib, submit it without\n"
    assert [w.id for w in load_snapshot(out).workloads] == ["1"]
    planned = gangplan("plan", "--site", site, "--snapshot", out, "--backend", "greedy")
    assert (planned.code, "start" in planned.out) == (0, True)


def test_history_is_imported_once(site: Path, slurm: FakeSlurm, tmp_path: Path) -> None:
    for _ in range(3):
        slurm.loosen(slurm.submit(1, 8, 1800))
    slurm.sleep(1)
    slurm.sleep(4000)
    span = ("--site", site, "--from", "2026-11-01T00:00:00Z")
    assert gangplan("slurm", "history", *span).out == "3 runs: 3 new, 0 corrected, 0 known\n"
    assert gangplan("slurm", "history", *span).out == "3 runs: 0 new, 0 corrected, 3 known\n"
    shown = gangplan("ledger", "export", "--ledger", f"sqlite:///{tmp_path}/ledger.db", "--from",
                     "2026-11-01T00:00:00Z", "--to", "2027-01-01T00:00:00Z")  # fmt: skip
    assert shown.out.count("slurm,") == 3
    assert str(EPOCH_S) in shown.out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("budgets: [{name: a}]", "source.type: is not slurm"),
        ("budgets: [{name: a}]\nsource: {type: slurm}", "ledger: is missing"),
    ],
)
def test_a_site_without_what_history_needs_is_refused(site: Path, text: str, told: str) -> None:
    site.write_text(text)
    errors = refused(gangplan("slurm", "history", "--site", site, "--from", "2026-11-01T00:00:00Z"))
    assert errors[0].startswith(f"{site}: {told}")


@pytest.mark.parametrize("rest", [("gate",), ("gate", "--check"), ("observe", "--out", "never.json")])
def test_a_site_without_slurm_is_refused_by_its_file(site: Path, rest: tuple[str, ...]) -> None:
    site.write_text("budgets: [{name: a}]")
    (error,) = refused(gangplan("slurm", *rest, "--site", site))
    assert error.startswith(f"{site}: source.type: is not slurm")


@pytest.mark.parametrize(
    ("options", "told"), [(("--check", "--lua"), "give one of them"), (("--uid", "-5"), "x>=0")]
)
def test_a_gate_that_cannot_be_meant_is_refused(site: Path, options: tuple[str, ...], told: str) -> None:
    assert told in "\n".join(refused(gangplan("slurm", "gate", "--site", site, *options)))


def test_a_time_without_a_zone_is_refused(site: Path, slurm: FakeSlurm) -> None:
    (error,) = refused(gangplan("slurm", "history", "--site", site, "--from", "2026-11-01T00:00:00"))
    assert error.startswith("--from: ")
