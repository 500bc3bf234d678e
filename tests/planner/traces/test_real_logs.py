"""Imports of the real logs, where they are here: their published sizes, and what they ask of a cluster."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.simulation.tracefile import read_trace, write_trace
from planner.traces.convert import Converted, Wishes, convert
from planner.traces.formats import read_log
from planner.traces.log import Log
from planner.traces.overlay import overlay
from planner.traces.quota import is_quota, read_quota
from planner.traces.summary import gang_gpus, offered_gpus
from tests.planner.simulation.traces import same
from tests.realdata import LOGS, needs_logs

pytestmark = needs_logs

PHILLY = LOGS / "philly_vc" / "philly.csv.gz"
KALOS = LOGS / "acme_kalos_converted" / "kalos_completed_decoded.csv"
EARTH = LOGS / "helios_vc_quota" / "Earth_gpu_number.csv"
CERIT = LOGS / "cerit_wagap_2013" / "wagap-2013.swf.gz"


def itp(cluster: int) -> Path:
    return LOGS / "itp_elasticflow" / f"cluster{cluster:02d}.csv.gz"


cached = cache(read_log)


def imported(form: str, *paths: Path, **wishes: Any) -> tuple[Log, Converted]:
    log = cached(form, paths)
    return log, convert(log, Wishes(**wishes))


def work_gpus(log: Log, rows: list[int], days: float) -> float:
    """Return the GPUs that jobs keep busy on average, by the log's own counts and without whole nodes."""
    return sum(log.gpus[i] * (log.runtime_s[i] or 0) for i in rows) / (days * 86_400)


def test_philly_has_82_247_jobs_of_15_virtual_clusters():
    log, _ = imported("philly", PHILLY)
    assert len(log.id) == 82_247
    assert len(set(log.labels["vc"])) == 15
    runs = np.array(log.runtime_s)
    assert np.percentile(runs, (50, 90, 99)).round().astype(int).tolist() == [1144, 11265, 254758]


def test_philly_offers_637_gpus_over_30_days_from_28_september():
    log, found = imported("philly", PHILLY, begin="2017-09-28T00:00:00Z", days=30)
    trace = found.trace
    assert trace.count == 47_294
    inside = [i for i, s in enumerate(log.submitted_s) if 0 <= s - found.begin_s < 30 * 86_400]
    assert work_gpus(log, inside, 30) == pytest.approx(637, abs=0.5)
    offered = offered_gpus(trace, 30)
    assert sum(offered.values()) == pytest.approx(637, abs=0.5)
    assert [round(x) for x in list(offered.values())[:3]] == [135, 128, 78]
    assert sum(log.gpus[i] >= 16 for i in inside) == 71
    grown = [note for note in found.notes if note.startswith("changed: rounded up")]
    assert [found.notes[note] for note in grown] == [int((gang_gpus(trace) >= 16).sum()) - 71]


def test_itp_cluster_04_offers_568_gpus_over_its_first_30_days():
    _, found = imported("itp", itp(4), begin="0s", days=30)
    assert found.trace.count == 11_741
    assert sum(offered_gpus(found.trace, 30).values()) == pytest.approx(568, abs=0.5)


def test_itp_cluster_04_from_day_26_on_is_another_window():
    """The figures above are those of the days from 0, whatever is written elsewhere of day 26."""
    _, found = imported("itp", itp(4), begin="26d", days=30)
    assert found.trace.count == 5_586
    assert sum(offered_gpus(found.trace, 30).values()) == pytest.approx(463, abs=0.5)


def test_itp_clusters_offer_what_is_known_of_them_over_61_days():
    log, found = imported("itp", *(itp(k) for k in range(1, 7)))
    offered = offered_gpus(found.trace, 61)
    assert [round(offered[f"cluster{k:02d}"]) for k in range(1, 7)] == [16, 85, 113, 482, 10, 85]
    widest = {
        k: max(g for g, c in zip(log.gpus, log.labels["cluster"], strict=True) if c == k) for k in offered
    }
    assert widest == {f"cluster{k:02d}": 8 if k == 5 else 64 for k in range(1, 7)}


def test_kalos_has_319_jobs_of_which_177_ask_for_256_gpus_or_more():
    log, found = imported("kalos", KALOS)
    trace = found.trace
    gpus = gang_gpus(trace)
    assert trace.count == 319
    assert gpus.tolist() == [log.gpus[int(i)] for i in trace.id]
    assert (int((gpus >= 256).sum()), int((gpus == 1024).sum())) == (177, 38)
    assert trace.allocation.count("Pretrain") == 183
    assert np.percentile(trace.runtime_s, (50, 90, 99)).round().astype(int).tolist() == [310, 36979, 221412]
    pretrain = np.array(trace.allocation) == "Pretrain"
    assert np.median(gpus[pretrain]) == 512


def test_kalos_gangs_on_itp_cluster_04_scale_with_the_cluster():
    _, ground = imported("itp", itp(4), begin="0s", days=30)
    _, gangs = imported("kalos", KALOS)
    both = overlay(ground.trace, gangs.trace, Fraction(256, 2416), ["cluster04"], of=["Pretrain"])
    assert (both.taken, both.taken + both.too_late) == (43, 183)
    added = [i for i, name in enumerate(both.trace.id) if name.startswith("gang-")]
    assert int(gang_gpus(both.trace)[added].max()) <= 14 * 8


def test_openb_has_the_requests_that_are_known_of_it():
    log, found = imported("openb", LOGS / "openb_2023" / "openb_pod_list_default.csv.gz")
    assert log.notes == {"left out: a fraction of a GPU": 3078}
    assert len(log.id) == 8152 - 3078
    sizes = {n: log.gpus.count(n) for n in (0, 1, 2, 4, 8)}
    assert sizes == {0: 1088, 1: 3911, 2: 16, 4: 15, 8: 44}
    assert found.notes["left out: no run on record"] == 392
    assert found.trace.count == 3630


def test_openb_with_type_constraints_keeps_them_if_asked():
    path = LOGS / "openb_2023" / "openb_pod_list_gpuspec33.csv.gz"
    _, found = imported("openb", path, keep_types=True)
    constrained = sum(map(bool, found.trace.gpu_types))
    assert 0 < constrained <= 2388


def test_cerit_has_17_898_usable_jobs_of_75_users():
    log, found = imported("swf", CERIT, gpus_per_node=80)
    trace = found.trace
    assert (trace.count, found.notes["left out: no run on record"]) == (17_898, 2)
    assert len(set(trace.user)) == 75
    assert np.percentile(trace.runtime_s, (50, 90, 99)).round(-1).astype(int).tolist() == [
        2370,
        117780,
        604820,
    ]
    assert np.median(trace.time_limit_s[trace.time_limit_s > 0]) == 86_400
    assert log.calendar


def test_helios_earth_was_given_784_to_1_232_gpus():
    assert is_quota(EARTH)
    quota = read_quota(EARTH)
    totals = [sum(weights.values()) for weights in quota.weights]
    assert (len(quota.weights[0]), len(totals), min(totals), max(totals)) == (25, 181, 784, 1232)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_real_trace_is_written_and_read_as_it_is(tmp_path, suffix):
    _, found = imported("itp", itp(4))
    write_trace(found.trace, tmp_path / f"t.{suffix}")
    assert same(read_trace(tmp_path / f"t.{suffix}"), found.trace)
