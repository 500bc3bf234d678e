"""What a plan says, as tables: who waits and why, who runs, what this round changes, and the last rounds."""

from __future__ import annotations

import pandas as pd
from sqlalchemy import select

from planner.hostlist import fold
from planner.ledger.schema import rounds
from planner.ledger.store import Ledger
from planner.reports.frames.scene import Scene
from planner.units import format_time

LAST = 200
"""Rounds that are shown, the newest first."""


def waiting(scene: Scene) -> pd.DataFrame:
    """Return who waits or is refused: promised starts first, then forecasts, then by rank and submit."""
    names = scene.encoded.names
    rank = {row.allocation: row.rank for row in scene.plan.shares}
    promised = {r.workload for r in scene.plan.reservations}
    rows = []
    for d in scene.plan.decisions:
        if d.action not in ("wait", "reject"):
            continue
        w = names.workloads[names.index[d.workload]]
        start_s = d.expected_start_s
        turn = (
            d.action == "reject",
            start_s is None,
            start_s or 0,
            rank.get(d.allocation, 10**6),
            w.submitted_s,
        )
        rows.append(
            {
                "turn": turn,
                "workload": d.workload,
                "allocation": d.allocation,
                "gpus": d.gpus,
                "submitted": format_time(w.submitted_s),
                "expected_start": None if start_s is None else format_time(start_s),
                "promised": d.workload in promised,
                "code": d.reason.code,
                "reason": d.reason.text,
            }
        )
    rows.sort(key=lambda row: (row["turn"], row["workload"]))
    columns = (
        "workload", "allocation", "gpus", "submitted", "expected_start", "promised", "code", "reason",
    )  # fmt: skip
    return pd.DataFrame(
        [{name: row[name] for name in columns} for row in rows], columns=columns, dtype=object
    )


def running(scene: Scene) -> pd.DataFrame:
    """Return who stands once the plan is carried out, the longest protected first."""
    names = scene.encoded.names
    rows = []
    for d in scene.plan.decisions:
        if d.action not in ("start", "keep"):
            continue
        w = names.workloads[names.index[d.workload]]
        began_s = w.started_s if d.action == "keep" and w.started_s is not None else scene.now_s
        until_s = d.protected_until_s
        rows.append(
            {
                "workload": d.workload,
                "allocation": d.allocation,
                "gpus": d.gpus,
                "occupancy": d.occupancy,
                "started": format_time(began_s),
                "protected_until": None
                if until_s is None or until_s <= scene.now_s
                else format_time(until_s),
                "nodes": fold([p.node for p in d.placement]),
            }
        )
    columns = ("workload", "allocation", "gpus", "occupancy", "started", "protected_until", "nodes")
    frame = pd.DataFrame(rows, columns=columns, dtype=object)
    frame = frame.assign(late=frame["protected_until"].fillna(""))
    return (
        frame.sort_values(["late", "workload"], ascending=[False, True])
        .drop(columns="late")
        .reset_index(drop=True)
    )


def changes(scene: Scene) -> pd.DataFrame:
    """Return what the round changes: starts, then preemptions with whom they make room for."""
    rows = [
        {
            "action": d.action,
            "workload": d.workload,
            "allocation": d.allocation,
            "gpus": d.gpus,
            "nodes": fold([p.node for p in d.placement]),
            "made_room_for": ", ".join(d.victims_for),
            "lost_gpu_hours": d.lost_gpu_hours,
            "reason": d.reason.text,
        }
        for d in sorted(scene.plan.decisions, key=lambda d: (d.action != "start", d.workload))
        if d.action in ("start", "preempt")
    ]
    columns = (
        "action", "workload", "allocation", "gpus", "nodes", "made_room_for", "lost_gpu_hours", "reason",
    )  # fmt: skip
    return pd.DataFrame(rows, columns=columns, dtype=object)


def promised(scene: Scene) -> pd.DataFrame:
    """Return the reservations, the earliest first."""
    rows = [
        {
            "workload": r.workload,
            "start": format_time(r.start_s),
            "nodes": fold([p.node for p in r.placement]),
        }
        for r in sorted(scene.plan.reservations, key=lambda r: (r.start_s, r.workload))
    ]
    return pd.DataFrame(rows, columns=("workload", "start", "nodes"), dtype=object)


def last_rounds(ledger: Ledger) -> pd.DataFrame:
    """Return the newest rounds of a ledger, the newest first."""
    columns = ("fence", "time", "backend", "status", "objective", "starts", "preemptions")
    with ledger.read() as connection:
        found = connection.execute(select(rounds).order_by(rounds.c.fence.desc()).limit(LAST)).all()
    rows = [
        (r.fence, format_time(r.time_s), r.backend, r.status, r.objective, r.starts, r.preemptions)
        for r in found
    ]
    return pd.DataFrame(rows, columns=columns, dtype=object)
