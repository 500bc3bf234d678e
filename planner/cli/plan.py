"""`gangplan plan`: one round, nothing applied."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import click

from planner.atomic import write_atomic
from planner.cli import options
from planner.cli.table import table
from planner.errors import InputError
from planner.hostlist import fold
from planner.model.plan import Decision, Plan
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.planfile import plan_to_dict
from planner.round import plan_round
from planner.site import BACKENDS, load_site
from planner.snapshot import load_snapshot
from planner.story import advice_text
from planner.units import format_time, parse_time
from planner.words import count


@click.command(name="plan")
@options.site
@options.snapshot
@click.option("--now", help="Plan as of this time (ISO 8601 with offset) instead of the snapshot's.")
@click.option("--backend", type=click.Choice(BACKENDS), help="Solver to use instead of the site's.")
@click.option("--out", type=options.PATH, help="Also write the plan there, as JSON.")
@options.ledger
@options.output
def command(
    site_path: Path,
    snapshot_path: Path,
    now: str | None,
    backend: str | None,
    out: Path | None,
    ledger_url: str | None,
    output: str,
) -> None:
    """Plan one round; nothing is applied."""
    site = load_site(site_path)
    snapshot = load_snapshot(snapshot_path, site)
    if now is not None:
        snapshot = replace(snapshot, time_s=_at(now, snapshot.time_s))
    plan = _planned(site, snapshot, backend, ledger_url)
    data = plan_to_dict(plan)
    if out is not None:
        write_atomic(out, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    options.show(data, output, lambda: summary(plan))


def _planned(site: Site, snapshot: Snapshot, backend: str | None, ledger_url: str | None) -> Plan:
    """Plan a round, by the usage of the snapshot or by that of a ledger."""
    if ledger_url is None:
        return plan_round(site, snapshot, backend)
    from planner.account import into_rows, with_ledger  # SQLAlchemy is loaded where it is needed
    from planner.ledger.store import open_ledger

    site, snapshot, account = with_ledger(site, snapshot, open_ledger(ledger_url))
    plan = plan_round(site, snapshot, backend)
    return replace(plan, shares=into_rows(plan.shares, account))


def _at(now: str, snapshot_s: int) -> int:
    try:
        now_s = parse_time(now)
    except ValueError as e:
        raise InputError([f"--now: {e}"]) from None
    if now_s < snapshot_s:
        raise InputError([f"--now: {now} is before the snapshot, write {format_time(snapshot_s)} or later"])
    return now_s


def summary(plan: Plan) -> str:
    """Return a plan for people: what happens, to whom, and why."""
    order = {"start": 0, "preempt": 1, "wait": 2, "reject": 3, "keep": 4}
    rows = [
        (
            d.action,
            d.workload,
            d.allocation,
            d.gpus,
            _when(d),
            fold([p.node for p in d.placement]),
            d.reason.text,
        )
        for d in sorted(plan.decisions, key=lambda d: order[d.action])
        if d.action != "keep"
    ]
    header = ("ACTION", "WORKLOAD", "ALLOCATION", "GPUS", "UNTIL/FROM", "NODES", "REASON")
    lines = [table(header, rows), ""] if rows else []
    lines += [f"warning: {w}" for w in plan.warnings]
    lines += [f"note: {n}" for n in plan.solver.notes]
    lines += [f"advice: {a.workload} could start {advice_text(a)}" for a in plan.defragmentation]
    return "\n".join([*lines, _totals(plan)])


def _when(d: Decision) -> str:
    time_s = d.protected_until_s if d.action == "start" else d.expected_start_s
    return format_time(time_s) if time_s is not None else ""


def _totals(plan: Plan) -> str:
    many, gpus = Counter[str](), Counter[str]()
    for d in plan.decisions:
        many[d.action] += 1
        gpus[d.action] += d.gpus
    actions = ("start", "keep", "preempt", "wait", "reject")
    parts = [f"{many[a]} {a} ({count(gpus[a], 'GPU')})" for a in actions]
    s = plan.solver
    proof = f"within {s.gap:.3%} of the bound" if s.gap is not None else "no bound"
    worth = f"{s.objective:.2f} GPU-hours" + (f" and {s.promised:.2f} promised" if plan.reservations else "")
    free = count(plan.fragmentation["free_gpus"], "GPU")
    return (
        f"{format_time(plan.time_s)}: {', '.join(parts)}; {free} left free\n"
        f"solver: {s.backend}, {s.status}, objective {worth}, {proof}, {s.seconds:.2f} s"
    )
