"""What a simulation depends on, and one case of a comparison: in its own folder, on whatever machine."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import planner
import solver
from planner.atomic import write_atomic
from planner.errors import InputError
from planner.model.site import Site
from planner.simulation import session
from planner.simulation.engine import Options, Outages
from planner.simulation.knobs import Knob, site_with
from planner.simulation.node_events import draw, may_last_s, read_node_events
from planner.simulation.output import SUMMARY, write
from planner.simulation.tracefile import read_trace

CASE = "case.json"
"""In the folder of a case: what is simulated there, and the digest of it."""

STOP = "stop"
"""A file of this name beside the cases has all of them stop at their next round."""

LOOK_EVERY_S = 1.0
"""Wall seconds between two looks for it: the folder may be on a slow file system."""

LONGEST_NAME = 120


@dataclass(frozen=True)
class Case:
    """One simulation by its inputs; in a comparison paths mean the same on every machine that may run it.

    Attributes
    ----------
    events_path : Path or None
        Failures and repairs of nodes.
    failures : (int, int) or None
        Mean seconds between two failures of a node, and to its repair: they are drawn by the seed.
    folder : Path
        Where its results go.
    program : str
        Digest of the code that was there as all this began: figures of two programs do not compare, and one
        does not go on from the checkpoint of another.
    """

    site_path: Path
    trace_path: Path
    knobs: tuple[Knob, ...]
    options: Options
    events_path: Path | None
    failures: tuple[int, int] | None
    folder: Path
    program: str

    @property
    def name(self) -> str:
        """Return the name of the case, which is that of its folder."""
        return self.folder.name

    def digest(self) -> str:
        """Return the digest of all that the results depend on, the contents of files included."""
        files = [self.site_path, self.trace_path, *([] if self.events_path is None else [self.events_path])]
        return session.digest_of(files, self.knobs, self.options, self.failures, self.program)


def name_of(policy: str, knobs: tuple[Knob, ...], seed: int) -> str:
    """Return a name that can be a folder's, one for each case: `budget,fair_share.band=0.1,seed=1`."""
    said = ",".join([policy, *map(str, knobs), f"seed={seed}"])
    plain = re.sub(r"[^A-Za-z0-9.,=_\[\]+-]", "_", said)[:LONGEST_NAME]
    return plain if plain == said else f"{plain}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"


@cache
def program() -> str:
    """Return a digest of the code that simulates, which is all but the commands."""
    packages = [Path(str(package.__file__)).parent for package in (planner, solver)]
    files = [path for package in packages for path in sorted(package.rglob("*.py"))]
    commands = packages[0] / "cli"
    return session.digest_of([f for f in files if commands not in f.parents], version("gangplan"))


def read_world(case: Case) -> tuple[Site, Outages]:
    """Read the site of a case, and what is known to fail there."""
    site = site_with(case.site_path, case.knobs)
    if not site.clusters:
        raise InputError(
            [f"{case.site_path}: clusters: is empty, list the inventory that a simulation runs on"]
        )
    if case.events_path is None:
        return site, Outages()
    return site, read_node_events(case.events_path, _node_names(site))


def read_case(case: Case) -> session.Case:
    """Read all that a simulation is made of; outages that are drawn, by its seed."""
    site, outages = read_world(case)
    trace = read_trace(case.trace_path)
    if case.failures is not None:
        end_s = case.options.end_s or may_last_s(trace)
        outages = draw(_node_names(site), *case.failures, end_s, case.options.seed)
    return session.Case(site, trace, case.options, outages, case.digest())


def run_case(case: Case) -> Path | None:
    """Simulate a case, unless it is done; return its folder, or None if it was told to stop.

    Goes on from its checkpoint if it has one. What the folder holds of other inputs is given up.
    """
    go_on = _until(case.folder.parent / STOP)
    if is_done(case):
        return case.folder
    if not go_on(0):
        return None
    whole = read_case(case)
    _claim(case, whole.digest)
    engine, over = session.simulate(whole, case.folder, resume=True, go_on=go_on)
    if not over:
        return None
    write(engine.history(), case.folder, _inputs(case))
    session.forget(case.folder)
    return case.folder


def is_done(case: Case) -> bool:
    """Tell whether the folder of a case holds its results, and not those of other inputs."""
    return (case.folder / SUMMARY).exists() and _digest_in(case.folder) == case.digest()


def _claim(case: Case, digest: str) -> None:
    """Make the folder one of these inputs."""
    record = {"digest": digest, **_inputs(case)}
    try:
        case.folder.mkdir(parents=True, exist_ok=True)
        if _digest_in(case.folder) == digest:
            return
        for name in (SUMMARY, session.CHECKPOINT):
            (case.folder / name).unlink(missing_ok=True)
    except OSError as error:
        why = f"cannot be written to ({error.strerror}), name a folder that you may write to"
        raise InputError([f"{case.folder}: {why}"]) from None
    write_atomic(case.folder / CASE, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def _digest_in(folder: Path) -> object:
    """Return the digest of the inputs that a folder is of; None where it says nothing."""
    try:
        record = json.loads((folder / CASE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return record.get("digest") if isinstance(record, dict) else None


def _inputs(case: Case) -> dict[str, Any]:
    """Say for people what is simulated."""
    return {
        "site": str(case.site_path),
        "trace": str(case.trace_path),
        "policy": case.options.policy,
        "seed": case.options.seed,
        "knobs": {knob.key: knob.said for knob in case.knobs},
        "period_s": case.options.period_s,
        "end_s": case.options.end_s,
        "sample_s": case.options.sample_s,
        "node_events": None if case.events_path is None else str(case.events_path),
        "mtbf_s": case.failures and case.failures[0],
        "mttr_s": case.failures and case.failures[1],
    }


def _node_names(site: Site) -> list[str]:
    return [node.name for cluster in site.clusters for node in cluster.nodes]


def _until(stop: Path) -> Callable[[int], bool]:
    """Return what says, round by round, whether to go on: not once the file `stop` is there."""
    looked_at, stopped = float("-inf"), False

    def go_on(now_s: int) -> bool:
        nonlocal looked_at, stopped
        if time.monotonic() - looked_at > LOOK_EVERY_S:
            looked_at, stopped = time.monotonic(), stop.exists()
        return not stopped

    return go_on
