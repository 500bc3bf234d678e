"""`gangplan place`: one new workload against a standing plan, without a solver."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli import options
from planner.cli.table import table
from planner.errors import InputError, PlanRejectedError
from planner.hostlist import fold
from planner.place import Standing
from planner.planfile import decision_to_dict, load_plan
from planner.site import load_site
from planner.snapshot import load_snapshot, load_workload
from planner.verify import verify


@click.command(name="place")
@options.site
@options.snapshot
@options.plan
@click.option(
    "--workload",
    "file",
    type=options.PATH,
    required=True,
    help="The new workload (YAML or JSON).",
)
@options.output
def command(site_path: Path, snapshot_path: Path, plan_path: Path, file: Path, output: str) -> None:
    """Place one new workload beside a standing plan: no solver, and no promise broken."""
    site = load_site(site_path)
    snapshot = load_snapshot(snapshot_path, site)
    plan = load_plan(plan_path)
    workload = load_workload(file, max(plan.time_s, snapshot.time_s))
    try:
        standing = Standing(site, snapshot, plan)
    except InputError as error:
        raise InputError([f"{plan_path}: {fault}" for fault in error.messages]) from None
    under_way = plan.time_s < snapshot.time_s  # and the world has gone on since
    broken = [] if under_way else verify(snapshot, plan, site)
    if broken:
        raise PlanRejectedError([f"{plan_path}: {fault}" for fault in broken])
    result = standing.place(workload)
    decisions = [result.decision, *result.preempted]
    rows = [
        (d.action, d.workload, d.gpus, fold([p.node for p in d.placement]), d.reason.text) for d in decisions
    ]
    options.show(
        {"decisions": [decision_to_dict(d) for d in decisions]},
        output,
        lambda: table(("ACTION", "WORKLOAD", "GPUS", "NODES", "REASON"), rows),
    )
