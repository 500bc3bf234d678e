"""From what is asked for to the page: which source, which frames, which page."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from planner.errors import InputError, PlanRejectedError, SourceError
from planner.ledger.store import Ledger, open_ledger
from planner.model.site import Site
from planner.planfile import load_plan
from planner.reports.frames import books
from planner.reports.frames.compared import Compared
from planner.reports.frames.moment import most_waited_for_s, simulated_site, snapshot_at
from planner.reports.frames.scene import Scene, scene_of
from planner.reports.frames.simulated import DAY_S, Simulated, open_simulation
from planner.reports.frames.timeline import of_scene, of_simulation
from planner.reports.pages import allocations, compare, fragmentation, timeline
from planner.reports.pages.document import render
from planner.reports.pages.site import pages_of_scene
from planner.site import load_site
from planner.snapshot import load_snapshot
from planner.units import format_time, parse_duration, parse_time
from planner.verify import verify

OF_SUBTREES = ("allocations", "timeline")
"""Kinds that can keep to one subtree of the budgets."""

_SOURCES = "name a snapshot, the folder of a simulation or comparison, or the URL of a ledger"


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    kind: str
    source: str
    site_path: Path | None = None
    plan_path: Path | None = None
    under: str | None = None
    ledger_url: str | None = None
    now: str | None = None
    stale_after: str = "15m"

    @property
    def is_ledger(self) -> bool:
        """Whether the source is a database."""
        return "://" in self.source

    @property
    def path(self) -> Path:
        """The source as a file or folder."""
        return Path(self.source)

    def check(self) -> None:
        """Raise InputError where the source is not there, or the kind takes no `--under`."""
        if not self.source:
            raise InputError([f"--from: is empty, {_SOURCES}"])
        if not self.is_ledger and not self.path.exists():
            raise InputError([f"{self.source}: is not there, {_SOURCES}"])
        if self.under is not None and self.kind not in OF_SUBTREES:
            fix = f"leave it out; {' and '.join(OF_SUBTREES)} take it"
            raise InputError([f"--under: {self.kind} shows all allocations, {fix}"])

    def site(self) -> Site:
        """Read the site file; InputError where none was named."""
        if self.site_path is None:
            raise InputError([f"{self.source}: needs the budgets beside it, write --site FILE"])
        return load_site(self.site_path)


def make(request: Request) -> str:
    """Return the page; InputError with all that is wrong with its inputs."""
    request.check()
    return KINDS[request.kind](request)


def _allocations(request: Request) -> str:
    if request.is_ledger:
        site, now_s = request.site(), _now_s(request.now)
        found = books.of_ledger(site, _ledger(request.source), now_s)
        source = f"Ledger {request.source.rpartition('@')[2]}, at {format_time(now_s)}. Times are UTC."
    elif request.path.is_dir():
        simulated = open_simulation(request.path)
        window_s = (
            books.WINDOW_S if request.site_path is None else request.site().fair_share.lookback.window_s
        )
        found = books.of_simulation(simulated, window_s)
        source = f"Simulation: {simulated.title}"
    else:
        scene = _scene(request)
        found = books.of_shares(scene.plan.shares)
        source = f"Snapshot of {format_time(scene.now_s)}."
    return render(allocations.page(found, request.under, source))


def _fragmentation(request: Request) -> str:
    simulated = _simulated(request)
    if simulated is None:
        scene = _scene(request)
        source = f"Snapshot of {format_time(scene.now_s)}, as the round leaves it. Times are UTC."
        return render(fragmentation.page(scene, source))
    site = simulated_site(simulated) if request.site_path is None else request.site()
    at_s = most_waited_for_s(simulated)
    scene = scene_of(site, snapshot_at(simulated, at_s))
    source = f"Simulation: {simulated.title}; the moment shown is day {at_s / DAY_S:.2f}"
    return render(fragmentation.page(scene, source, simulated))


def _timeline(request: Request) -> str:
    simulated = _simulated(request)
    if simulated is not None:
        found, names = of_simulation(simulated), list(simulated.shares)
        return render(timeline.page(found, names, f"Simulation: {simulated.title}", request.under))
    scene = _scene(request)
    names = [row.allocation for row in scene.plan.shares]
    source = f"Snapshot of {format_time(scene.now_s)} and its plan. "
    source += "What runs is drawn on as if it stayed. Times are UTC."
    return render(timeline.page(of_scene(scene), names, source, request.under))


def _compare(request: Request) -> str:
    if request.is_ledger:
        raise InputError([f"{request.source}: a ledger compares nothing, write the folder of a comparison"])
    found = Compared(request.path)
    return render(compare.page(found, f"Comparison: {request.path.name}, {len(found.rows)} simulations"))


def site_of(request: Request) -> dict[str, str]:
    """Return the files of a site, by name; InputError with all that is wrong with its inputs."""
    request.check()
    if request.is_ledger or request.path.is_dir():
        raise InputError([f"{request.source}: a site shows the present, write a snapshot file"])
    try:
        stale_after_s = parse_duration(request.stale_after)
    except ValueError as error:
        raise InputError([f"--stale-after: {error}"]) from None
    scene = _scene(request)
    ledger = None if request.ledger_url is None else _ledger(request.ledger_url)
    return pages_of_scene(scene, ledger, stale_after_s)


def _simulated(request: Request) -> Simulated | None:
    """Return the simulation asked for; None where it is a snapshot, InputError where it is a ledger."""
    if request.is_ledger:
        fix = "write a snapshot, or the folder of a simulation"
        raise InputError([f"{request.source}: a ledger knows no nodes, {fix}"])
    return open_simulation(request.path) if request.path.is_dir() else None


def _scene(request: Request) -> Scene:
    """Return a snapshot with its plan; PlanRejectedError where a plan that was named breaks a rule."""
    site = request.site()
    snapshot = load_snapshot(request.path, site)
    if request.plan_path is None:
        return scene_of(site, snapshot)
    scene = scene_of(site, snapshot, load_plan(request.plan_path))
    broken = verify(snapshot, scene.plan, site)
    if broken:
        raise PlanRejectedError([f"{request.plan_path}: {fault}" for fault in broken])
    return scene


def _ledger(url: str) -> Ledger:
    """Open a ledger; InputError where its file is something else."""
    try:
        return open_ledger(url)
    except SourceError as error:
        if "not a database" not in str(error):
            raise
        fix = "name the database of a ledger; a snapshot is named by its path, a plan by --plan"
        raise InputError([f"{error}, {fix}"]) from None


def _now_s(now: str | None) -> int:
    if now is None:
        return int(time.time())
    try:
        return parse_time(now)
    except ValueError as error:
        raise InputError([f"--now: {error}"]) from None


KINDS: dict[str, Callable[[Request], str]] = {
    "allocations": _allocations,
    "fragmentation": _fragmentation,
    "timeline": _timeline,
    "compare": _compare,
}
