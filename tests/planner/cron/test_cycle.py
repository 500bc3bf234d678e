"""A round carries out what it planned, records it, and leaves behind what people look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cli.plan import summary
from planner.cron.loop import rehearse
from planner.planfile import load_plan
from planner.snapshot import load_snapshot
from planner.verify import verify
from tests.planner.cron.town import Town, town


@pytest.fixture
def here(tmp_path: Path) -> Town:
    return town(tmp_path)


def test_jobs_start_exactly_where_the_plan_says(here: Town) -> None:
    jobs = [here.slurm.submit(2, 8, contract={"min_runtime": "1h"}) for _ in range(3)]
    plan = here.round().plan
    placed = {d.workload: sorted(p.node for p in d.placement) for d in plan.decisions if d.action == "start"}
    assert placed.keys() == set(jobs)
    assert {job: here.slurm.nodes_of(job) for job in jobs} == placed


def test_what_is_left_behind_is_a_snapshot_and_a_plan_that_holds_for_it(here: Town) -> None:
    for _ in range(5):
        here.slurm.submit(2, 8, contract={"min_runtime": "1h"})
    here.round()
    state = here.home / "state"
    snapshot, plan = load_snapshot(state / "snapshot.json", here.site), load_plan(state / "plan.json")
    assert verify(snapshot, plan, here.site) == []
    assert len(plan.decisions) == 5


def test_a_victim_is_requeued_held_and_resumes_under_its_first_submit(here: Town) -> None:
    free = here.slurm.submit(8, 8)
    submitted_s = here.slurm.job(free)["submit_time"]
    here.round()
    here.slurm.sleep(60)
    paid = here.slurm.submit(8, 8, contract={"min_runtime": "1h"})
    here.round()
    assert here.slurm.nodes_of(paid)
    assert here.slurm.job(free)["priority"] == 0
    here.slurm.finish(paid)
    here.slurm.sleep(5)
    done = here.round()
    assert here.slurm.nodes_of(free)
    assert {w.submitted_s for w in done.snapshot.workloads if w.id == free} == {submitted_s}


def test_a_protected_run_is_never_touched(here: Town) -> None:
    protected = here.slurm.submit(8, 8, contract={"min_runtime": "1h"})
    here.round()
    here.slurm.submit(1, 8, account="vision", contract={"min_runtime": "1h"})
    here.rounds(5)
    assert here.slurm.nodes_of(protected)
    assert here.slurm.job(protected)["restart_cnt"] == 0


def test_what_others_released_is_held_before_it_starts_by_itself(here: Town) -> None:
    here.slurm.submit(8, 8, contract={"min_runtime": "1h"})
    here.round()
    job = here.slurm.submit(1, 8)
    here.slurm.loosen(job)
    here.round()
    assert here.slurm.job(job)["priority"] == 0


def test_runs_are_charged_to_the_second_and_once(here: Town) -> None:
    for lasts_s in (7, 11, 40):
        here.slurm.submit(1, 8, lasts_s, contract={"min_runtime": "1s"})
    here.slurm.submit(1, 4, 3)
    here.rounds(15)
    assert here.charged() == here.accounted()
    assert len(here.charged()) == 4


def test_a_free_run_stays_free_though_the_site_changes_its_mind(here: Town, tmp_path: Path) -> None:
    job = here.slurm.submit(1, 8)
    here.rounds(2)
    changed = here.site.contract
    here.site = town(tmp_path).site
    object.__setattr__(here.site, "contract", type(changed)(default_min_runtime_s=3600))
    here.rounds(2)
    assert here.kinds()[job] == "unallocated"


def test_a_dry_run_changes_nothing(here: Town) -> None:
    here.slurm.loosen(here.slurm.submit(9, 8))
    here.slurm.submit(1, 8, contract={"min_runtime": "1h"})
    here.ledger_made = here.round()  # type: ignore[attr-defined]
    job = here.slurm.submit(1, 8, contract={"min_runtime": "1h"})
    before, charged = here.slurm.job(job), here.charged()
    files = {p: p.read_bytes() for p in (here.home / "state").iterdir() if p.name != "lock"}
    told = len(here.slurm.told)
    plan = rehearse(here.site, here.source())
    assert {d.action for d in plan.decisions if d.workload == job} == {"start"}
    assert job in summary(plan)
    assert here.slurm.job(job) == before
    assert here.charged() == charged
    assert {p: p.read_bytes() for p in files} == files
    changing = {"hold", "release", "requeuehold", "update", "scancel"}
    assert not [t for t in here.slurm.told[told:] if changing & set(t) or t == ["scontrol"]]


def test_a_dry_run_before_the_first_round_leaves_nothing_behind(here: Town) -> None:
    job = here.slurm.submit(1, 8, contract={"min_runtime": "1h"})
    there = sorted(here.home.iterdir())
    plan = rehearse(here.site, here.source())
    assert [(d.workload, d.action) for d in plan.decisions] == [(job, "start")]
    assert sorted(here.home.iterdir()) == there


def test_metrics_say_what_was_decided(here: Town) -> None:
    here.slurm.submit(2, 8, contract={"min_runtime": "1h"})
    here.round()
    lines = (here.home / "metrics.prom").read_text().splitlines()
    assert 'gangplan_decisions{action="start"} 1.0' in lines
    assert 'gangplan_decided_gpus{action="start"} 16.0' in lines
    assert "gangplan_round_exit_code 0.0" in lines
    assert 'gangplan_nodes{state="up"} 8.0' in lines
    assert 'gangplan_allocation_share{allocation="nlp"} 0.5' in lines


def test_a_job_that_never_starts_is_tried_less_and_less_often(here: Town) -> None:
    job = here.slurm.submit(1, 8, contract={"min_runtime": "1h"}, stuck=True)
    tried = []
    for _ in range(12):
        told = len(here.slurm.told)
        here.round()
        tried.append(["scontrol"] in here.slurm.told[told:])
        here.slurm.sleep(20)
    assert tried[:2] == [True, True]
    assert sum(tried) < 6
    assert here.slurm.job(job)["job_state"] == "PENDING"
    assert any(f"{job} is not planned before" in w for w in here.left("plan.json")["warnings"])


def test_the_static_site_is_that_of_the_newest_round(tmp_path: Path) -> None:
    here = town(tmp_path, more=f"pages: {tmp_path}/pages")
    here.round()
    job = here.slurm.submit(2, 8, contract={"min_runtime": "1h"})
    here.slurm.sleep(5)
    here.round()
    assert "<html" in (tmp_path / "pages" / "index.html").read_text()
    assert any(job in page.read_text() for page in (tmp_path / "pages").rglob("*.html"))


def test_what_cannot_be_published_spoils_no_round(tmp_path: Path) -> None:
    here = town(tmp_path, more=f"pages: {tmp_path}/slurm.json/pages")
    job = here.slurm.submit(1, 8, contract={"min_runtime": "1h"})
    here.round()
    assert here.slurm.nodes_of(job)
