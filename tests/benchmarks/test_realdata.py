"""Snapshots cut from real logs are valid input, true to the log, and account for every row they leave out."""

from __future__ import annotations

import gzip
from collections import Counter
from typing import Any

import pytest

from tests import realdata
from tests.benchmarks.format_rules import broken, nodes, when
from tests.realdata import Cut, cerit, needs_logs, openb

pytestmark = needs_logs

QUANTILES = (0.1, 0.5, 0.9)


@pytest.mark.parametrize("at", QUANTILES)
def test_cerit_cuts_obey_the_format(at: float):
    cut = cerit(at)
    assert broken(cut.site, cut.snapshot) == []
    assert len(cut.site["budgets"]) <= 15


@pytest.mark.parametrize("at", QUANTILES)
def test_cerit_cuts_hold_every_job_that_ran_or_waited_then(at: float):
    cut = cerit(at)
    now = int(when(cut.snapshot["time"]).timestamp())
    cores, waiting, mixed = raw_cerit(now)
    state = Counter(w["state"] for w in cut.snapshot["workloads"])
    placed = Counter()
    for w in cut.snapshot["workloads"]:
        placed.update({p["node"]: p["gpus"] for p in w.get("placement", [])})
    assert placed == cores
    assert state["pending"] == waiting
    assert cut.counts.get("dropped: runs on both node families", 0) == mixed


def raw_cerit(now: int) -> tuple[Counter[str], int, int]:
    """Cores in use by node, jobs waiting, and jobs on both families, straight from the log."""
    cores, waiting, mixed = Counter(), 0, 0
    path = realdata.LOGS / "cerit_wagap_2013" / "wagap-2013.swf.gz"
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        f = line.split()
        begin = int(f[1]) + int(f[2])
        if float(f[3]) < 0:
            continue
        waiting += int(f[1]) <= now < begin
        if begin <= now < begin + float(f[3]):
            ids = f[18].strip("{}").split(",")
            both = min(ids) < "1250" <= max(ids)
            mixed += both
            cores.update([] if both else [f"n{k}" for k in ids])
    return cores, waiting, mixed


def test_cerit_nodes_have_eighty_and_twelve_cores():
    sizes = Counter(n["gpus"] for n in nodes(cerit(0.5).snapshot).values())
    assert sizes == {80: 18, 12: 26}


def test_cerit_can_be_cut_at_a_second():
    assert when(cerit(1_360_000_000).snapshot["time"]).timestamp() == 1_360_000_000


def test_cerit_pending_beyond_the_limit_is_counted():
    whole, part = cerit(0.75), cerit(0.75, pending_limit=50)
    pending = [sum(w["state"] == "pending" for w in c.snapshot["workloads"]) for c in (whole, part)]
    assert pending[1] == 50
    assert part.counts["dropped: pending beyond the limit"] == pending[0] - 50


def test_cerit_cuts_of_one_seed_agree_about_the_contract_of_a_job():
    early, late = (contracts(cerit(at, seed=4)) for at in (0.5, 0.51))
    both = early.keys() & late.keys()
    assert len(both) > 20
    assert {k: early[k] for k in both} == {k: late[k] for k in both}
    assert contracts(cerit(0.5, seed=5)) != early


def contracts(cut: Cut) -> dict[str, tuple[str, bool]]:
    """Min runtime and resumability by workload."""
    return {w["id"]: (w["min_runtime"], w["resumable"]) for w in cut.snapshot["workloads"]}


@pytest.mark.parametrize("pods", [300, 6000])
@pytest.mark.parametrize("log", ["gpuspec33", "default"])
def test_openb_cuts_obey_the_format(pods: int, log: str):
    cut = openb(pods, log=log)
    assert broken(cut.site, cut.snapshot) == []
    assert len(cut.snapshot["workloads"]) == pods
    assert sum(n["gpus"] for n in nodes(cut.snapshot).values()) == 6212


def test_openb_leaves_out_only_what_is_not_whole_gpus():
    counts = openb(3986).counts
    assert counts["dropped: no GPU"] + counts["dropped: a fraction of a GPU"] + 3986 == 8152
    assert "added: a pod of the log once more" not in counts


def test_openb_is_contended_when_more_pods_come_than_fit():
    cut = openb(9000, running=1.0)
    pending = [w for w in cut.snapshot["workloads"] if w["state"] == "pending"]
    assert cut.counts["changed: arrived in time, fitted nowhere, waits"] == len(pending) > 1000
    assert any("gpu_types" in w for w in pending)


def test_openb_pods_that_came_in_time_wait_only_when_no_node_has_room():
    cut = openb(6000, running=1.0)
    fleet = nodes(cut.snapshot)
    room = {name: [n["gpus"], n["cpus"], mib(n)] for name, n in fleet.items()}
    for w in cut.snapshot["workloads"]:
        for p in w.get("placement", []):
            room[p["node"]] = [have - want for have, want in zip(room[p["node"]], ask_of(w), strict=True)]
    waiting = [w for w in cut.snapshot["workloads"] if w["state"] == "pending"]
    alike = {(*ask_of(w), tuple(w.get("gpu_types", ()))) for w in waiting}
    assert len(alike) > 10
    for *ask, types in alike:
        for name, n in fleet.items():
            fits = all(have >= want - 1e-9 for have, want in zip(room[name], ask, strict=True))
            assert not (fits and (not types or n["gpu_type"] in types)), (ask, types, name)


def ask_of(w: dict[str, Any]) -> tuple[float, float, float]:
    """GPUs, CPUs and MiB of a pod."""
    return w["gpus_per_replica"], w.get("cpus_per_replica", 0), mib(w, "memory_per_replica")


def mib(entry: dict[str, Any], key: str = "memory") -> int:
    """Memory of an entry, in MiB."""
    return int(str(entry.get(key, "0M")).removesuffix("M"))
