"""The site that cron refreshes: a folder of pages that any web server can serve, made from a plan.

No page needs a script to be read, and none loads anything: charts that need plotly are left to the reports.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from planner.ledger.store import Ledger
from planner.model.plan import Plan
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.planfile import plan_to_dict
from planner.reports.frames import queue
from planner.reports.frames.books import Books, of_shares
from planner.reports.frames.fragmentation import by_level, by_node
from planner.reports.frames.obstacles import unhealthy_gpus
from planner.reports.frames.scene import Scene, scene_of
from planner.reports.frames.timeline import of_scene
from planner.reports.pages import allocations, timeline
from planner.reports.pages.clock import at, clock, clocks
from planner.reports.pages.document import Cells, Grid, Name, Page, Part, Prose, number, render
from planner.reports.palette import colours
from planner.words import count

PAGES = {
    "index.html": "Overview",
    "queue.html": "Queue",
    "allocations.html": "Allocations",
    "nodes.html": "Nodes",
    "plan.html": "This round",
    "rounds.html": "Last rounds",
    "timeline.html": "Timeline",
}

PLAIN = re.compile(r"[A-Za-z0-9._-]+")
LONGEST_NAME = 100

STALE_AFTER_S = 900
"""Age at which pages say that they are stale, unless told otherwise."""


@dataclass(frozen=True)
class Contents:
    """What a site is made of.

    Attributes
    ----------
    rounds : DataFrame or None
        The last rounds; None where no ledger was named.
    made_s : int, epoch seconds
        When the pages are made: they are stale `stale_after_s` later.
    """

    scene: Scene
    books: Books
    rounds: pd.DataFrame | None
    made_s: int
    stale_after_s: int


def pages_of(
    site: Site,
    snapshot: Snapshot,
    plan: Plan | None,
    ledger: Ledger | None,
    stale_after_s: int = STALE_AFTER_S,
) -> dict[str, str]:
    """Return all files of a site by their names, the plan among them; where there is none, one is made."""
    return pages_of_scene(scene_of(site, snapshot, plan), ledger, stale_after_s)


def pages_of_scene(scene: Scene, ledger: Ledger | None, stale_after_s: int = STALE_AFTER_S) -> dict[str, str]:
    """Return all files of the site of a snapshot and its plan by their names, the plan among them."""
    rounds = None if ledger is None else queue.last_rounds(ledger)
    contents = Contents(scene, of_shares(scene.plan.shares), rounds, int(time.time()), stale_after_s)
    text = json.dumps(plan_to_dict(scene.plan), indent=1, ensure_ascii=False) + "\n"
    return {**pages(contents), "plan.json": text}


def pages(contents: Contents) -> dict[str, str]:
    """Return all pages by the names of their files."""
    scene = contents.scene
    found = {
        "index.html": _index(contents),
        "queue.html": _queue(contents),
        "allocations.html": _allocations(contents),
        "nodes.html": _nodes(scene),
        "plan.html": _plan(scene),
        "rounds.html": _rounds(contents.rounds),
        "timeline.html": timeline.page(of_scene(scene), _names(scene), ""),
    }
    found |= {address_of(row.allocation): _allocation(contents, row.allocation) for row in scene.plan.shares}
    return {name: render(_dressed(page, contents)) for name, page in found.items()}


def address_of(allocation: str) -> str:
    """Return the name of an allocation's page: plain letters, whatever the allocation is called."""
    name = allocation.replace("/", "--")
    if not PLAIN.fullmatch(name) or "--" in allocation or len(name) > LONGEST_NAME:
        digest = hashlib.sha256(allocation.encode()).hexdigest()[:12]
        name = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:80] + "-" + digest
    return f"allocation-{name}.html"


def _dressed(page: Page, contents: Contents) -> Page:
    """Return a page with what all of them have: the links, the time, and when they are stale."""
    scene = contents.scene
    return replace(
        page,
        links=tuple(PAGES.items()),
        source=f"As of {at(scene.now_s)} UTC, made {at(contents.made_s)} UTC.",
        made_s=contents.made_s,
        stale_after_s=contents.stale_after_s,
    )


def _names(scene: Scene) -> list[str]:
    return [row.allocation for row in scene.plan.shares]


# -- pages --------------------------------------------------------------------------------------------


def _index(contents: Contents) -> Page:
    scene, books = contents.scene, contents.books
    waits, runs = queue.waiting(scene), queue.running(scene)
    held, free = int(scene.held_gpus.sum()), int(scene.free_gpus.sum())
    largest = by_level(scene).iloc[-1]
    facts = [
        (number(held), "GPUs held"),
        (number(free), "GPUs free"),
        (number(runs.shape[0]), "workloads run"),
        (number(waits.shape[0]), f"wait, for {number(waits['gpus'].sum())} GPUs"),
        (number(largest["now_or_interrupting_gpus"]), "GPUs: the largest gang that could start now"),
        (number(unhealthy_gpus(scene)), "GPUs on nodes draining or down"),
    ]
    solver = scene.plan.solver
    proof = "no bound was computed" if solver.gap is None else f"proven within {solver.gap:.2%} of the best"
    how = solver.backend if solver.backend == solver.status else f"{solver.backend} ({solver.status})"
    lede = f"As of {at(scene.now_s)} UTC. The round was decided by {how}, {proof}."
    parts: list[Part] = [_linked(allocations.tree_of(books, colours(_names(scene))))]
    if len(waits):
        parts.append(_waits(waits.head(10), scene, "Next in the queue", "next"))
    if scene.plan.warnings:
        parts.append(Prose("Warnings", [clocks(text) for text in scene.plan.warnings]))
    return Page("Overview", lede, parts, facts)


def _queue(contents: Contents) -> Page:
    frame = queue.waiting(contents.scene)
    known = int(frame["expected_start"].notna().sum())
    gpus = number(frame["gpus"].sum())
    lede = f"{len(frame)} workloads wait, for {gpus} GPUs. {known} have an expected start."
    sentence = "Who waits, since when, until when, and why"
    return Page("Queue", lede, [_waits(frame, contents.scene, sentence, "queue")])


def _allocations(contents: Contents) -> Page:
    books, shades = contents.books, colours(_names(contents.scene))
    return Page("Allocations", allocations.lede_of(books), [_linked(allocations.tree_of(books, shades))])


def _allocation(contents: Contents, allocation: str) -> Page:
    """Return the page of one allocation: its standing, what it runs, what it waits for."""
    scene = contents.scene
    row = next(row for row in scene.plan.shares if row.allocation == allocation)
    waits, runs = queue.waiting(scene), queue.running(scene)
    waits, runs = waits[waits["allocation"] == allocation], runs[runs["allocation"] == allocation]
    facts = [
        (
            number(row.ratio, 2),
            f"of its share used; number {row.rank} of {len(scene.plan.shares)} in the queue",
        ),
        (f"{row.share:.1%}", "of the clusters is its share"),
        (number(row.delivered), f"budget units delivered in the window, {number(row.owed)} owed"),
        (number(row.running_gpus), f"GPUs allocated, {number(row.unallocated_gpus)} unallocated"),
        (number(row.pending_gpus), "GPUs waited for"),
    ]
    kept = row.delivered / row.owed if row.owed > 0 else None
    lede = (
        "Nothing is owed to it: it asked for nothing."
        if kept is None
        else f"It got {kept:.0%} of what it was owed in the lookback window."
    )
    parts = [_waits(waits, scene, f"{len(waits)} workloads wait", "waits"), _running(runs, scene)]
    return Page(allocation, lede, parts, facts)


def _nodes(scene: Scene) -> Page:
    frame = by_node(scene)
    rows = []
    for (cluster, place), group in frame.groupby(["cluster", "place"], sort=False):
        cells = [
            (
                n["state"] if n["state"] != "up" else 1 - n["open_gpus"] / n["gpus"] if n["gpus"] else 0.0,
                f"{n['node']}, {n['state']}: {n['free_gpus']} of {n['gpus']} free, {n['open_gpus']} open. "
                f"{n['held_by']}",
            )
            for n in group.to_dict("records")
        ]
        ailing = group[group["state"] != "up"]
        told = ", ".join(f"{n} {s}" for n, s in zip(ailing["node"], ailing["state"], strict=True))
        totals = [number(group[name].sum()) for name in ("gpus", "free_gpus", "open_gpus")]
        rows.append((str(cluster), str(place), Cells(cells), *totals, told or "-"))
    header = ("Cluster", "Domain", "Nodes", "GPUs", "Free", "Open", "Not up")
    about = (
        "Each square is a node, filled by what is protected on it; dashed: draining or down. Open: free or "
        "interruptible."
    )
    up = int((frame["state"] == "up").sum())
    opened, free = (number(frame[name].sum()) for name in ("open_gpus", "free_gpus"))
    lede = f"{up} of {len(frame)} nodes are up; {opened} GPUs are open, {free} of them free."
    leaving = pd.DataFrame(
        [(n.node, n.state, None if n.empty_at_s is None else at(n.empty_at_s)) for n in scene.plan.nodes],
        columns=["node", "state", "empty_at"],
        dtype=object,
    )
    parts: list[Part] = [Grid("nodes", "Nodes by domain", header, rows, frame, about)]
    if len(leaving):
        cells_of = [(r.node, r.state, r.empty_at or "-") for r in leaving.itertuples()]
        sentence = f"{len(leaving)} nodes leave service"
        parts.append(Grid("leaving", sentence, ("Node", "State", "Empty at"), cells_of, leaving))
    return Page("Nodes", lede, parts)


def _plan(scene: Scene) -> Page:
    frame, promises = queue.changes(scene), queue.promised(scene)
    starts, victims = frame[frame["action"] == "start"], frame[frame["action"] == "preempt"]
    kept = [(r["workload"], clock(r["start"]), r["nodes"]) for r in promises.to_dict("records")]
    parts = [
        _changes("starts", f"{count(len(starts), 'workload')} start", starts, scene),
        _changes("victims", f"{count(len(victims), 'workload')} make room", victims, scene),
        Grid("promises", f"{len(kept)} starts are promised", ("Workload", "Start", "Nodes"), kept, promises),
    ]
    return Page(
        "This round", f"What the round of {at(scene.now_s)} UTC decided; plan.json holds it all.", parts
    )


def _changes(name: str, sentence: str, frame: pd.DataFrame, scene: Scene) -> Grid:
    """Return the starts with their nodes, or the victims with whom they make room for."""
    shades = colours(_names(scene))
    detail, header = ("nodes", "Nodes") if name == "starts" else ("made_room_for", "Makes room for")
    rows = [
        (
            row["workload"],
            _payer(row["allocation"], shades),
            number(row["gpus"]),
            row[detail] or "-",
            *([] if name == "starts" else [number(row["lost_gpu_hours"], 1)]),
            clocks(row["reason"]),
        )
        for row in frame.to_dict("records")
    ]
    lost = [] if name == "starts" else ["Lost GPU-hours"]
    return Grid(name, sentence, ("Workload", "Allocation", "GPUs", header, *lost, "Why"), rows, frame)


def _rounds(frame: pd.DataFrame | None) -> Page:
    if frame is None:
        return Page("Last rounds", "No ledger was named, so rounds are not remembered: give --ledger.", [])
    rows = [
        (
            number(r["fence"]),
            clock(r["time"]),
            r["backend"],
            r["status"],
            number(r["objective"], 1),
            number(r["starts"]),
            number(r["preemptions"]),
        )
        for r in frame.to_dict("records")
    ]
    header = ("Round", "Time", "Back end", "Status", "Objective, GPU-hours", "Starts", "Preemptions")
    lede = f"The last {len(frame)} rounds of the ledger, the newest first." if len(frame) else "No round yet."
    return Page("Last rounds", lede, [Grid("rounds", "Rounds", header, rows, frame)])


# -- tables -------------------------------------------------------------------------------------------


def _payer(allocation: str, shades: dict[str, str]) -> Name:
    known = allocation in shades
    return Name(allocation, shades.get(allocation, ""), href=address_of(allocation) if known else "")


def _linked(grid: Grid) -> Grid:
    """Return the tree with each allocation leading to its page."""
    paths = grid.table["budget"].tolist()
    known = grid.table["is_allocation"].tolist()
    rows: list[Sequence[object]] = []
    for row, path, leaf in zip(grid.rows, paths, known, strict=True):
        name = row[0]
        assert isinstance(name, Name)
        rows.append((replace(name, href=address_of(path) if leaf else ""), *row[1:]))
    return replace(grid, rows=rows)


def _waits(frame: pd.DataFrame, scene: Scene, sentence: str, name: str) -> Grid:
    shades = colours(_names(scene))
    rows = [
        (
            row["workload"],
            _payer(row["allocation"], shades),
            number(row["gpus"]),
            clock(row["submitted"]),
            clock(row["expected_start"]) + (" (promised)" if row["promised"] else ""),
            clocks(row["reason"]),
        )
        for row in frame.to_dict("records")
    ]
    header = ("Workload", "Allocation", "GPUs", "Submitted", "Expected start", "Why it waits")
    return Grid(name, sentence, header, rows, frame)


def _running(frame: pd.DataFrame, scene: Scene) -> Grid:
    rows = [
        (
            row["workload"],
            number(row["gpus"]),
            row["occupancy"],
            clock(row["started"]),
            clock(row["protected_until"]) if row["protected_until"] else "may be interrupted",
            row["nodes"],
        )
        for row in frame.to_dict("records")
    ]
    header = ("Workload", "GPUs", "Occupancy", "Started", "Protected until", "Nodes")
    return Grid("running", f"{len(rows)} workloads run", header, rows, frame)
