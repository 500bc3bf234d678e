"""Worlds from the benchmarks' generators, in the solver's arrays."""

from __future__ import annotations

import json
from functools import cache

from benchmarks.instances import instance
from benchmarks.random_snapshots import random_case
from planner.encode import encode
from planner.site import parse_site
from planner.snapshot import parse_snapshot
from solver import backends
from solver.state import State

GAP = 1e-6


@cache
def random_state(seed: int) -> State:
    """Return a small world with something of everything."""
    return _encoded(*random_case(seed))


@cache
def instance_state(nodes: int, pending: int, seed: int) -> State:
    """Return a cluster in mid-flight."""
    return _encoded(*instance(nodes, pending, seed))


def _encoded(site: dict, snapshot: dict) -> State:
    read = parse_site(json.dumps(site), "site")
    return encode(read, parse_snapshot(json.dumps(snapshot), "snapshot", read)).state


def back_end(name: str, seen: list | None = None):
    """Return a back end in this process, to the gap of the tests; models that it solves are noted."""

    def solve(model, time_limit_s, gap, start=None):
        if seen is not None:
            seen.append(model)
        return backends.solve(model, name, 20.0, min(gap, GAP), start, isolated=False)

    return solve
