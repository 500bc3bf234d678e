"""What `benchmarks.fuzz` throws its inputs at, and what must hold for each: the claims about bad input.

An input is one file, or several with a line between them (`benchmarks.mutate.BETWEEN`). It is read or
refused: a refusal is an InputError whose lines name file, line and column and say what to write. What is read
goes on to what the commands do with it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import yaml
from sqlalchemy import delete, func, select

from benchmarks.claims import BrokenClaimError, judge
from benchmarks.mutate import BETWEEN, Mutator
from benchmarks.random_snapshots import random_case
from benchmarks.stress import Verify
from planner.encode import encode
from planner.errors import InputError
from planner.ledger.csvfile import HEADER, import_csv
from planner.ledger.schema import hourly, hours, intervals
from planner.ledger.store import Ledger, connect
from planner.model.budget import leaf_shares
from planner.model.plan import Plan
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.place import Standing
from planner.planfile import decision_to_dict, load_plan, parse_plan, plan_to_dict
from planner.round import plan_round
from planner.schema.types import plain
from planner.site import load_site, parse_site
from planner.snapshot import load_snapshot, load_workload, parse_snapshot
from planner.story import story
from planner.strict import parse
from planner.verify import verify
from planner.whatif import what_if

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL_WORLDS = (1, 4, 5, 9, 11, 14, 20, 23)
"""Seeds of random worlds to begin with."""

MAX_NODES = 2_000
"""Larger worlds are read, but not planned: they are slow, and no fault of an input."""

Read = TypeVar("Read")


@dataclass(frozen=True)
class Target:
    """Something that takes inputs.

    Attributes
    ----------
    seeds : tuple of bytes
        Inputs to begin with; all of them are read.
    names : tuple of str
        What the files of an input are called, without their endings.
    check : callable
        Takes the files; raises where a claim is broken. Returns whether the input was read.
    mutator : Mutator
    """

    seeds: tuple[bytes, ...]
    names: tuple[str, ...]
    check: Callable[..., bool]
    mutator: Mutator

    def files(self, data: bytes, folder: Path) -> list[Path]:
        """Write the files of an input; what begins like JSON is called so, and now and then what does not."""
        for old in folder.iterdir():
            old.unlink()
        parts = data.split(BETWEEN) + [b""] * len(self.names)
        paths = []
        for name, part in zip(self.names, parts, strict=False):
            odd = zlib.crc32(part) % 1000 < 100 * self.mutator.rough
            json_like = (part.lstrip()[:1] in (b"{", b"[")) != odd
            ending = "csv" if self.mutator.table else "json" if json_like else "yaml"
            paths.append(folder / f"{name}.{ending}")
            paths[-1].write_bytes(part)
        return paths


def answer(load: Callable[..., Read], path: Path, *rest: Any) -> Read | None:
    """Return what a file holds; None where it is refused as it should be."""
    try:
        return load(path, *rest)
    except InputError as error:
        for message in error.messages:
            judge(message, path)
        return None


def planned(site: Site, snapshot: Snapshot) -> Plan | None:
    """Return the plan of the greedy rung, None where the input is refused after all."""
    try:
        return plan_round(site, snapshot, "greedy")
    except InputError as error:
        for message in error.messages:
            judge(message)
        return None


# -- the targets -------------------------------------------------------------------------------------


def _site(path: Path) -> bool:
    """Read a site, and divide it."""
    site = answer(load_site, path)
    return site is not None and all(0 <= float(s) <= 1 for s in leaf_shares(site.budgets).values())


def _snapshot(path: Path, *, site: Site) -> bool:
    """Read a snapshot, and encode it."""
    snapshot = answer(load_snapshot, path, site)
    if snapshot is not None and sum(len(c.nodes) for c in snapshot.clusters) <= MAX_NODES:
        encode(site, snapshot)
    return snapshot is not None


def _plan(path: Path, *, site: Site, snapshot: Snapshot) -> bool:
    """Read a plan, write it again, explain from it, verify it; if it holds, let it stand."""
    plan = answer(load_plan, path)
    if plan is None:
        return False
    if parse_plan(json.dumps(plan_to_dict(plan)), "again.json") != plan:
        raise BrokenClaimError("a plan is another one after it was written and read")
    for decision in plan.decisions[:3]:
        story(plan, decision.workload)
    verify(snapshot, plan)
    if not verify(snapshot, plan, site):
        Standing(site, snapshot, plan)
    return True


def _workload(path: Path, *, site: Site, snapshot: Snapshot, standing: Standing) -> bool:
    """Read a workload and place it; for one in four, ask also what if it were submitted."""
    workload = answer(load_workload, path, snapshot.time_s)
    if workload is None:
        return False
    try:
        result = standing.place(workload)
        json.dumps([decision_to_dict(d) for d in (result.decision, *result.preempted)])
        if zlib.crc32(path.read_bytes()) % 4 == 0:
            what_if(site, snapshot, workload)
    except InputError as error:
        for message in error.messages:
            judge(message)
    return True


def _ledger(path: Path, *, ledger: Ledger) -> bool:
    """Import a file into an empty ledger: all of it or nothing."""
    counts = answer(partial(import_csv, ledger), path)
    with ledger.write() as connection:
        known = connection.execute(select(func.count()).where(intervals.c.current)).scalar_one()
        for table in (intervals, hourly, hours):
            connection.execute(delete(table))
    if known != (counts.new if counts else 0):
        raise BrokenClaimError(f"{known} statements are known after an import of {counts}")
    return counts is not None


def _round(site_path: Path, snapshot_path: Path, *, outside: Verify | None) -> bool:
    """Plan what can be read; the plan must pass the check, and the outside one."""
    site = answer(load_site, site_path)
    snapshot = answer(load_snapshot, snapshot_path, site)
    if site is None or snapshot is None or sum(len(c.nodes) for c in snapshot.clusters) > MAX_NODES:
        return False
    plan = planned(site, snapshot)
    if plan is None:
        return False
    broken = [note for note in plan.solver.notes if "cut by the clock" not in note]
    written = json.dumps(plan_to_dict(plan))
    broken += verify(snapshot, parse_plan(written, "plan.json"), site)
    if outside is not None and _plain(site, snapshot):
        broken += outside(_data(site_path), _data(snapshot_path), json.loads(written))
    if broken:
        raise BrokenClaimError("\n".join(["a plan breaks a rule", *broken]))
    return True


def _plain(site: Site, snapshot: Snapshot) -> bool:
    """Say whether an outside checker may be asked that lets gangs mix GPU types and takes contracts as asked.

    Gangplan never mixes types, raises the shortest min runtimes, and protects nothing that has no share.
    """
    types = {n.gpu_type for c in snapshot.clusters for n in c.nodes}
    waiting = [w for w in snapshot.workloads if w.state == "pending" and w.replicas > 1]
    mixed = any(len(types.intersection(w.gpu_types or types)) > 1 for w in waiting)
    raised = any(0 < (w.min_runtime_s or 0) < site.contract.min_min_runtime_s for w in snapshot.workloads)
    return not mixed and not raised and all(leaf_shares(site.budgets).values())


def _data(path: Path) -> dict[str, Any]:
    """Return a file's data as an outside checker takes them: nulls left out, ids text."""
    data = plain(parse(path.read_text(), str(path)).data)
    return dict(_bare(data))


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        inner = {key: _bare(x) for key, x in value.items() if x is not None}
        return {k: str(x) if k in ("id", "workload") and isinstance(x, int) else x for k, x in inner.items()}
    return [_bare(x) for x in value] if isinstance(value, list) else value


# -- what they begin with ----------------------------------------------------------------------------


def _worlds() -> Iterator[tuple[bytes, bytes]]:
    """Yield sites and snapshots: the examples, and small random worlds, in turn as YAML and as JSON."""
    two = EXAMPLES / "two-clusters"
    yield (two / "site.yaml").read_bytes(), (two / "snapshot.yaml").read_bytes()
    for i, seed in enumerate(SMALL_WORLDS):
        site, snapshot = random_case(seed)
        snapshot["workloads"] = snapshot["workloads"][:10]
        kept = {w["id"] for w in snapshot["workloads"]}
        snapshot["reservations"] = [r for r in snapshot["reservations"] if r["workload"] in kept]
        site["solver"] = {"backend": "greedy"}
        types = sorted({n["gpu_type"] for c in snapshot["clusters"] for n in c["nodes"] if "gpu_type" in n})
        for w in snapshot["workloads"]:
            if w["replicas"] > 1 and types:  # or an outside checker would not be asked, see `_plain`
                w["gpu_types"] = w.get("gpu_types", types)[:1]
        if i % 2:
            yield json.dumps(site).encode(), json.dumps(snapshot, indent=1).encode()
        else:
            yield _yaml(site), _yaml(snapshot)


def _yaml(data: Any) -> bytes:
    text: str = yaml.safe_dump(data, sort_keys=False, width=10_000)
    return text.encode()


def _standing_world() -> tuple[Site, Snapshot]:
    """Return the world that plans and workloads are read beside."""
    site = parse_site((EXAMPLES / "two-clusters" / "site.yaml").read_text(), "site.yaml")
    text = (EXAMPLES / "two-clusters" / "snapshot.yaml").read_text()
    return replace(site, solver=replace(site.solver, backend="greedy")), parse_snapshot(text, "s.yaml", site)


def _plan_seeds() -> Iterator[bytes]:
    """Yield the plan of the standing world and those of random ones; they carry no times of this run."""
    worlds = [_standing_world()]
    for site_text, snapshot_text in list(_worlds())[1:5]:
        site = parse_site(site_text.decode(), "site")
        worlds.append((site, parse_snapshot(snapshot_text.decode(), "snapshot", site)))
    for i, (site, snapshot) in enumerate(worlds):
        data = plan_to_dict(plan_round(site, snapshot, "greedy"))
        data["solver"]["seconds"] = 0.25
        yield json.dumps(data, indent=1).encode() if i % 2 else _yaml(data)


def _workload_seeds() -> Iterator[bytes]:
    """Yield the pending workloads of some worlds, each by itself."""
    yield (EXAMPLES / "new-workload.yaml").read_bytes()
    for site, snapshot in _worlds():
        del site
        pending = [w for w in yaml.safe_load(snapshot)["workloads"] if w["state"] == "pending"]
        for i, w in enumerate(pending[:4]):
            rest = {key: value for key, value in w.items() if key not in ("state", "submitted")}
            yield _yaml(rest) if i % 2 else json.dumps(rest).encode()


def _ledger_seeds() -> Iterator[bytes]:
    """Yield files of a few statements."""
    head = ",".join(HEADER)
    for seed in range(6):
        rng, lines = Random(seed), [head]
        for _ in range(rng.choice((1, 2, 5, 20))):
            start = 1_760_000_000 + rng.randrange(0, 90_000)
            begin, end = start + rng.choice((0, 60, 4000)), start + rng.choice((4000, 9000, 90_000))
            name, kind = rng.choice(("7", "8", "w-1")), rng.choice(("h100", "", "b200"))
            pays = f"{rng.choice(('vision', 'language/base'))},{rng.choice(('allocated', 'unallocated'))}"
            state = rng.choice(("running", "ended"))
            lines.append(
                f"slurm,{name},{start},{pays},saturn,{kind},{rng.randint(1, 16)},{begin},{end},{state}"
            )
        yield ("\n".join(lines) + "\n").encode()


# -- by name -----------------------------------------------------------------------------------------


def _target(
    name: str, check: Callable[..., bool], seeds: Iterable[bytes], *more: str, **mutator: Any
) -> Target:
    begin = tuple(seeds)
    return Target(begin, (name, *more), check, Mutator(begin, **mutator))


def target(name: str, folder: Path, outside: Verify | None = None) -> Target:
    """Return a target of `benchmarks.fuzz`, which may write to `folder` and ask the checker `outside`."""
    if name == "site":
        return _target(name, _site, (site for site, _ in _worlds()))
    if name == "round":
        seeds = (site + BETWEEN + snapshot for site, snapshot in _worlds())
        return _target("site", partial(_round, outside=outside), seeds, "snapshot", rough=0.02)
    if name == "ledger":
        ledger = connect(f"sqlite:///{folder}/ledger.db")
        ledger.upgrade()
        return _target(name, partial(_ledger, ledger=ledger), _ledger_seeds(), table=True, rough=0.2)
    site, snapshot = _standing_world()
    if name == "snapshot":
        return _target(name, partial(_snapshot, site=site), (snapshot for _, snapshot in _worlds()))
    standing = Standing(site, snapshot, plan_round(site, snapshot))
    if name == "plan":
        return _target(name, partial(_plan, site=site, snapshot=snapshot), _plan_seeds())
    check = partial(_workload, site=site, snapshot=snapshot, standing=standing)
    return _target(name, check, _workload_seeds())
