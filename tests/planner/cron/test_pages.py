"""Rounds draw the static site into `run.pages`, and a folder that cannot be had spoils none."""

from __future__ import annotations

import json
from pathlib import Path

from tests.planner.cron.town import town


def test_a_round_leaves_pages_of_its_own_plan(tmp_path: Path) -> None:
    here = town(tmp_path, more=f"pages: {tmp_path}/www")
    job = here.slurm.submit(1, 8, contract={"min_runtime": "1h"})
    here.round()
    pages = tmp_path / "www"
    assert json.loads((pages / "plan.json").read_text()) == json.loads(
        (tmp_path / "state" / "plan.json").read_text()
    )
    assert job in (pages / "plan.html").read_text()
    assert "The last 1 rounds" in (pages / "rounds.html").read_text()
    before = pages.resolve()
    here.round()
    assert pages.resolve() != before
    assert "The last 2 rounds" in (pages / "rounds.html").read_text()


def test_a_folder_of_somebody_else_is_left_and_the_round_is_done(tmp_path: Path) -> None:
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "mine").write_text("x")
    here = town(tmp_path, more=f"pages: {tmp_path}/www")
    here.slurm.submit(1, 8, contract={"min_runtime": "1h"})
    assert here.round().outcome.failed == {}
    assert [p.name for p in (tmp_path / "www").iterdir()] == ["mine"]
