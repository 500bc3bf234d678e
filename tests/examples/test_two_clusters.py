"""The small example is valid input and shows all that a site, a snapshot and a contract can say."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.benchmarks.format_rules import WORKLOAD_KEYS, broken, nodes, over_limit, seat_faults, seconds, when

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "two-clusters"
SITE: dict[str, Any] = yaml.safe_load((FOLDER / "site.yaml").read_text(encoding="utf-8"))
SNAPSHOT: dict[str, Any] = yaml.safe_load((FOLDER / "snapshot.yaml").read_text(encoding="utf-8"))
WORKLOADS = {w["id"]: w for w in SNAPSHOT["workloads"]}
NOW = when(SNAPSHOT["time"])


def test_the_example_obeys_the_format_and_its_limit():
    assert broken(SITE, SNAPSHOT) == []
    assert over_limit(SITE, SNAPSHOT) == []


def test_it_is_small_enough_to_read():
    assert len(nodes(SNAPSHOT)) == 6
    assert len(WORKLOADS) <= 10


def test_every_key_of_a_workload_is_shown():
    assert {key for w in WORKLOADS.values() for key in w} == set(WORKLOAD_KEYS)


def test_every_state_of_work_is_shown():
    assert {w["state"] for w in WORKLOADS.values()} == {"pending", "running", "stopping"}
    left = {k: protected_until(w) - NOW for k, w in WORKLOADS.items() if w["state"] == "running"}
    assert left["101"] == timedelta(hours=2)
    assert left["102"] < timedelta(0)
    assert left["104"] == timedelta(hours=1)
    assert WORKLOADS["103"]["min_runtime"] == "0s"


def protected_until(w: dict[str, Any]) -> Any:
    """When the protection of a running workload ends."""
    return when(w["started"]) + timedelta(seconds=seconds(w["min_runtime"]))


def test_its_promise_is_kept_by_what_is_protected():
    (promise,) = SNAPSHOT["reservations"]
    fleet, start = nodes(SNAPSHOT), when(promise["start_at"])
    assert list(seat_faults(WORKLOADS[promise["workload"]], promise["placement"], fleet)) == []
    there = {p["node"] for p in promise["placement"]}
    for w in WORKLOADS.values():
        if there & {p["node"] for p in w.get("placement", [])}:
            assert protected_until(w) <= start


def test_what_is_entitled_adds_up_to_the_week():
    charge = {name: entry["charge"] for name, entry in SITE["gpu_types"].items()}
    a_week = sum(n["gpus"] * charge[n["gpu_type"]] for n in nodes(SNAPSHOT).values()) * 168
    assert a_week == 10_752
    assert abs(sum(SNAPSHOT["entitled"].values()) - a_week) < 1
