"""`gangplan explain`: why this workload waits, runs or was preempted, and what would change that."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli import options
from planner.cli.table import table
from planner.planfile import load_plan
from planner.site import load_site
from planner.snapshot import load_snapshot, load_workload
from planner.story import story
from planner.units import format_duration, format_time
from planner.whatif import Trial, what_if


@click.command(name="explain")
@click.argument("workload", required=False)
@click.option("--plan", "plan_path", type=options.PATH, help="The plan that decided on WORKLOAD.")
@click.option(
    "--workload", "file", type=options.PATH, help="A workload (YAML or JSON) that is not submitted yet."
)
@click.option("--site", "site_path", type=options.PATH, help="Site file, with --workload.")
@click.option("--snapshot", "snapshot_path", type=options.PATH, help="Snapshot, with --workload.")
@options.output
def command(
    workload: str | None,
    plan_path: Path | None,
    file: Path | None,
    site_path: Path | None,
    snapshot_path: Path | None,
    output: str,
) -> None:
    """Explain the decision on WORKLOAD, or with --workload when a new one would start if submitted now."""
    if file is not None:
        if site_path is None or snapshot_path is None or workload is not None:
            raise click.UsageError("--workload needs --site and --snapshot, and names the workload itself")
        site = load_site(site_path)
        snapshot = load_snapshot(snapshot_path, site)
        trials = what_if(site, snapshot, load_workload(file, snapshot.time_s))
        options.show([_trial(t) for t in trials], output, lambda: _trials(trials))
        return
    if workload is None or plan_path is None:
        raise click.UsageError("name a workload and a --plan, or give a new one by --workload FILE")
    lines = story(load_plan(plan_path), workload)
    width = max(len(label) for label, _ in lines)
    options.show(
        [{"about": label, "text": text} for label, text in lines],
        output,
        lambda: "\n".join(f"{label.ljust(width)}  {text}" for label, text in lines),
    )


def _trial(t: Trial) -> dict[str, object]:
    d = t.decision
    return {
        "min_runtime": format_duration(t.min_runtime_s),
        "topology": _topology(t),
        "action": d.action,
        "expected_start": None if d.expected_start_s is None else format_time(d.expected_start_s),
        "nodes": [p.node for p in d.placement],
        "reason": {"code": d.reason.code, "text": d.reason.text},
    }


def _topology(t: Trial) -> str | None:
    """Return what is required, in words; None if nothing is."""
    if t.topology.required is None or t.topology.segment is None:
        return t.topology.required
    return f"{t.topology.required}, in segments of {t.topology.segment}"


def _trials(trials: list[Trial]) -> str:
    rows = [
        (
            format_duration(t.min_runtime_s),
            _topology(t) or "any",
            "starts now" if t.decision.action == "start" else t.decision.action,
            "" if t.decision.expected_start_s is None else format_time(t.decision.expected_start_s),
            t.decision.reason.text,
        )
        for t in trials
    ]
    return table(("MIN RUNTIME", "TOPOLOGY", "IF SUBMITTED NOW", "EXPECTED", "BECAUSE"), rows)
