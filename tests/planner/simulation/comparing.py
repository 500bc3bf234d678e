"""A small site and small traces in files, and cases made of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.simulation.cases import Case
from planner.simulation.engine import Options
from planner.simulation.knobs import read_knobs
from planner.simulation.tracefile import write_trace
from tests.planner.simulation.small import HOUR, trace

SITE = """\
budgets:
  - {name: a, weight: 3}
  - {name: b, weight: 1}
fair_share: {carry_overdraft: false}
clusters:
  - {name: c, levels: [leaf], nodes: [{names: "n[1-2]", gpus: 8, location: [l1]}]}
"""


def write_inputs(folder: Path, seeds: tuple[int, ...] = (0,), length: int = 12) -> None:
    """Write `site.yaml`, and `work-SEED.csv` for each seed: more work than the site has room for."""
    (folder / "site.yaml").write_text(SITE)
    for seed in seeds:
        rows = [
            {
                "allocation": "ab"[(k + seed) % 2],
                "submitted_s": 900 * k,
                "replicas": 1 + (k + seed) % 2,
                "runtime_s": HOUR + 60 * ((k * 7 + seed) % 11),
                "min_runtime_s": (0, 600, HOUR)[k % 3],
            }
            for k in range(length)
        ]
        write_trace(trace(*rows), folder / f"work-{seed}.csv")


def case(folder: Path, settings: tuple[str, ...] = (), **options: Any) -> Case:
    """Return a case of the inputs in a folder; its own is `out/case` there."""
    how = Options(**{"policy": "fifo", "period_s": 300, "end_s": 4 * HOUR, **options})
    (knobs,) = read_knobs(settings)
    inputs = (folder / "site.yaml", folder / f"work-{how.seed}.csv")
    return Case(*inputs, knobs, how, None, None, folder / "out" / "case", "program")


def named(of: Case, name: str, **changes: Any) -> Case:
    """Return a case under another name, changed."""
    return replace(of, folder=of.folder.with_name(name), **changes)


def tables(folder: Path) -> dict[str, bytes]:
    """Return the tables of a simulation: all that does not depend on the clock."""
    found = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    assert "events.csv" in found
    return found
