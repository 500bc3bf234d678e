"""What is written as a snapshot is read back the same, and so plans the same."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
import yaml

from benchmarks.random_snapshots import random_case
from planner.model.snapshot import Snapshot
from planner.snapshot import parse_snapshot
from planner.snapshotfile import snapshot_to_dict


@pytest.mark.parametrize("seed", range(30))
def test_what_is_written_is_read_back_the_same(seed: int) -> None:
    _, data = random_case(seed)
    first = parse_snapshot(yaml.safe_dump(data, sort_keys=False), "first.yaml")
    text = json.dumps(snapshot_to_dict(first))
    assert _rounded(parse_snapshot(text, "second.json")) == _rounded(first)


def _rounded(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with its units as floats hold them, and nothing of what was dropped on reading."""
    units = {path: Fraction(float(u)) for path, u in snapshot.usage.items()}
    entitled = snapshot.entitled
    if entitled is not None:
        entitled = {path: Fraction(float(u)) for path, u in entitled.items()}
    return replace(snapshot, usage=units, entitled=entitled, warnings=())
