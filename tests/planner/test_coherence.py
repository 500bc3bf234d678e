import json
import time
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.coherence import MAX_CPU_REPLICAS
from planner.hostlist import MAX_HOSTS
from planner.inventory import MAX_LEVELS, MAX_NODES
from planner.site import parse_site
from planner.snapshot import parse_snapshot
from planner.strict import MAX_FAULTS
from tests.planner.faults import places, refusal
from tests.planner.snapshots import NODES, PENDING, RUNNING, faults, read, refused, world


@pytest.mark.parametrize(
    ("workload", "key", "fix"),
    [
        (PENDING | {"min_runtime": 0}, "min_runtime", "write 0s"),
        (PENDING | {"min_runtime": 8}, "min_runtime", "8h"),
        (PENDING | {"min_runtime": "-1h"}, "min_runtime", "negative"),
        (PENDING | {"time_limit": "0s"}, "time_limit", "at least 1s"),
        (PENDING | {"submitted": "2026-10-09T12:00:00"}, "submitted", "2026-10-09T12:00:00Z"),
        (PENDING | {"submitted": "2026-10-09T15:20:01Z"}, "submitted", "at most 2026-10-09T15:20:00Z"),
        (PENDING | {"replicas": 0}, "replicas", "at least 1"),
        (PENDING | {"replicas": -1}, "replicas", "at least 1"),
        (PENDING | {"replicas": 1.5}, "replicas", "whole number"),
        (PENDING | {"replicas": "2"}, "replicas", "whole number"),
        (PENDING | {"gpus_per_replica": -1}, "gpus_per_replica", "at least 0"),
        (PENDING | {"cpus_per_replica": -1}, "cpus_per_replica", "from 0"),
        (PENDING | {"memory_per_replica": "lots"}, "memory_per_replica", "512G"),
        (PENDING | {"priority": 1.5}, "priority", "whole number"),
        (PENDING | {"resumable": "yes"}, "resumable", "write true"),
        (PENDING | {"state": "queued"}, "state", "pending"),
        (PENDING | {"id": ""}, "id", "empty"),
        (PENDING | {"id": True}, "id", "quotes"),
        (PENDING | {"gpu_types": "h100"}, "gpu_types", "list"),
        (PENDING | {"topology": {"segment": 2}}, "topology.segment", "required"),
        (PENDING | {"topology": {"required": "leaf", "segment": 0}}, "topology.segment", "at least 1"),
        (PENDING | {"topology": "leaf"}, "topology", "required, preferred, segment"),
        (PENDING | {"started": "2026-10-09T13:00:00Z"}, "started", "leave it out"),
        (PENDING | {"placement": RUNNING["placement"]}, "placement", "leave it out"),
        (PENDING | {"occupancy": "allocated"}, "occupancy", "leave it out"),
        (PENDING | {"gpu_per_replica": 8}, "gpu_per_replica", "write gpus_per_replica"),
        (RUNNING | {"started": None}, "started", "is missing"),
        (RUNNING | {"placement": []}, "placement", "is missing"),
        (RUNNING | {"state": "stopping", "started": None}, "started", "stopping"),
        (RUNNING | {"started": "2026-10-09T15:20:01Z"}, "started", "at most"),
        (RUNNING | {"occupancy": "free"}, "occupancy", "allocated"),
        (RUNNING | {"replicas": 3}, "placement", "2 of 3"),
        (RUNNING | {"placement": [{"node": "n1", "gpus": 4}]}, "placement", "1 of 2"),
        (RUNNING | {"placement": [{"node": "n1", "gpus": 6}]}, "placement[0].gpus", "multiple of 4"),
        (RUNNING | {"placement": [{"node": "n1", "gpus": 0}]}, "placement[0].gpus", "multiple of 4"),
        (RUNNING | {"placement": [{"node": "x", "gpus": 8}]}, "placement[0].node", "inventory"),
        (RUNNING | {"placement": [{"node": "n1"}]}, "placement[0].gpus", "is missing"),
    ],
)
def test_a_workload_that_cannot_be_is_refused_for_one_reason(workload, key, fix):
    (message,) = refused(workload)
    assert f": workloads[0].{key}: " in message
    assert fix in message


def test_each_missing_key_is_named():
    assert faults({}) == [
        f"workloads[0].{key}"
        for key in sorted(("id", "allocation", "replicas", "gpus_per_replica", "submitted", "state"))
    ]


def test_duplicate_ids_are_refused_however_they_are_written():
    messages = refused(PENDING | {"id": "7"}, PENDING | {"id": 8}, PENDING | {"id": 7})
    assert places(messages)[0][1] == "workloads[2].id"
    assert "workloads[0]" in messages[0]


@pytest.mark.parametrize(
    ("nodes", "levels", "key"),
    [
        ([{"names": "n[1-4]", "gpus": 8}, {"name": "n3", "gpus": 8}], (), "nodes[1].name"),
        ([{"names": "n[1-4]", "gpus": 8}, {"names": "n[4-6]", "gpus": 8}], (), "nodes[1].names"),
        ([{"names": "n[1-4,2]", "gpus": 8}], (), "nodes[0].names"),
        ([{"names": "n[1-999999999]", "gpus": 8}], (), "nodes[0].names"),
        ([{"names": "n[1-2", "gpus": 8}], (), "nodes[0].names"),
        ([{"name": "n[1-2]", "gpus": 8}], (), "nodes[0].name"),
        ([{"name": "n1", "names": "n[2-3]", "gpus": 8}], (), "nodes[0]"),
        ([{"gpus": 8}], (), "nodes[0]"),
        ([{"name": "n1"}], (), "nodes[0].gpus"),
        ([{"name": "n1", "gpus": -8}], (), "nodes[0].gpus"),
        ([{"name": 1, "gpus": 8}], (), "nodes[0].name"),
        ([{"name": "n1", "gpus": 8, "state": "idle"}], (), "nodes[0].state"),
        ([{"name": "n1", "gpus": 8, "memory": -1}], (), "nodes[0].memory"),
        ([{"name": "n1", "gpus": 8, "location": ["b", "l"]}], ("leaf",), "nodes[0].location"),
        ([], ("leaf", "leaf"), "levels[1]"),
        ([], ("node",), "levels[0]"),
        ([], ("cluster",), "levels[0]"),
    ],
)
def test_an_inventory_that_cannot_be_is_refused_for_one_reason(nodes, levels, key):
    assert faults(nodes=nodes, levels=levels) == [f"clusters[0].{key}"]


def test_nodes_and_clusters_are_unique_over_everything():
    cluster = {"name": "c", "nodes": [{"name": "n", "gpus": 8}]}
    text = json.dumps({"time": "2026-10-09T15:20:00Z", "clusters": [cluster, cluster]})
    found = places(refusal(parse_snapshot, text, "snap.json"))
    assert [path for _, path in found] == ["clusters[1].name", "clusters[1].nodes[0].name"]


def test_a_location_may_stop_short_of_the_levels():
    assert read(levels=("block", "leaf")).clusters[0].nodes[0].location == ("l1",)


@pytest.mark.parametrize("state", ["up", "draining", "down"])
@pytest.mark.parametrize("of", ["running", "stopping"])
def test_a_node_over_capacity_is_refused_whatever_its_state(state, of):
    nodes = [{"name": "n1", "gpus": 15, "state": state}]
    (message,) = refused(RUNNING, RUNNING | {"id": "v", "state": of}, nodes=nodes)
    assert ": workloads[1].placement[0]: " in message
    assert "15 GPUs" in message
    assert "16" in message
    assert read(RUNNING, RUNNING | {"id": "v", "state": of}, nodes=[nodes[0] | {"gpus": 16}])


@pytest.mark.parametrize(
    ("of_node", "of_replica", "word"),
    [
        ({"cpus": 95.5}, {"cpus_per_replica": 48}, "CPUs"),
        ({"memory": "1023G"}, {"memory_per_replica": "512G"}, "GiB"),
    ],
)
def test_cpus_and_memory_are_counted_where_a_node_has_them(of_node, of_replica, word):
    node = {"name": "n1", "gpus": 8}
    assert read(RUNNING | of_replica, nodes=[node])
    assert read(RUNNING | of_replica, nodes=[node | of_node | dict.fromkeys(of_node, 0)])
    (message,) = refused(RUNNING | of_replica, nodes=[node | of_node])
    assert word in message


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 8)), max_size=8), st.integers(0, 12))
def test_capacity_is_broken_exactly_where_adding_up_says_so(parts, gpus):
    held = {f"n{k}": sum(g for n, g in parts if n == k) for k in range(3)}
    workloads = [
        RUNNING | {"id": i, "replicas": g, "gpus_per_replica": 1, "placement": [{"node": f"n{n}", "gpus": g}]}
        for i, (n, g) in enumerate(parts)
    ]
    nodes = [{"names": "n[0-2]", "gpus": gpus}]
    over = sorted(name for name, total in held.items() if total > gpus)
    if over:
        messages = refused(*workloads, nodes=nodes)
        assert sorted(m.split(": ")[2].split(" ")[0] for m in messages) == over
    else:
        assert read(*workloads, nodes=nodes)


def test_history_is_no_longer_than_the_sites_window():
    site = parse_site("budgets: [{name: a}]\nfair_share: {lookback: {window: 2d}}", "site.yaml")
    text = world(history="3d")
    assert places(refusal(parse_snapshot, text, "snap.json", site))[0][1] == "history"
    assert parse_snapshot(text, "snap.json").history_s == 259_200
    assert faults(history="0s") == ["history"]
    assert faults(history=7) == ["history"]


@pytest.mark.parametrize("value", ["-1", "NaN", "Infinity", "1e12", '"5"', "true"])
@pytest.mark.parametrize("key", ["usage", "entitled"])
def test_use_is_a_finite_amount(key, value):
    text = world()[:-2] + f', "{key}": {{"a": {value}}}}}'
    assert [path for _, path in places(refusal(parse_snapshot, text, "snap.json"))] == [f"{key}.a"]


# -- all at once -------------------------------------------------------------------------------------


def test_malformed_and_contradictory_entries_are_reported_together():
    found = faults(
        PENDING | {"id": "a", "min_runtime": 0},
        PENDING | {"id": "b", "replicas": 0},
        RUNNING | {"id": "c", "placement": [{"node": "x", "gpus": 8}]},
        RUNNING | {"id": "c", "oops": 1},
        nodes=[*NODES, {"name": "n1", "gpus": 8}, {"name": "m", "gpus": 8, "state": "idle"}],
    )
    assert found == [
        "clusters[0].nodes[1].name",
        "clusters[0].nodes[2].state",
        "workloads[0].min_runtime",
        "workloads[1].replicas",
        "workloads[2].placement[0].node",
        "workloads[3].id",
        "workloads[3].oops",
    ]


def test_entries_that_fall_out_one_after_another_do_not_shift_the_rest():
    half = {"placement": [{"node": "n2", "gpus": 4}]}
    found = faults(
        5, RUNNING | {"replicas": 3}, PENDING | {"id": "v", "replicas": 0}, RUNNING | half | {"id": "u"}
    )
    assert found == [
        "workloads[0]",
        "workloads[1].placement",
        "workloads[2].replicas",
        "workloads[3].placement",
    ]


def test_without_a_time_the_rest_is_still_looked_at():
    text = json.dumps(
        {"workloads": [RUNNING | {"replicas": 5}, PENDING | {"submitted": "2030-01-01T00:00:00Z"}]}
    )
    found = [path for _, path in places(refusal(parse_snapshot, text, "snap.json"))]
    assert sorted(found) == ["clusters", "time", "workloads[0].placement", "workloads[1].id"]


def test_a_node_that_could_not_be_read_makes_no_other_unknown():
    nodes = [{"names": "n[1-", "gpus": 8}]
    assert faults(RUNNING, nodes=nodes) == ["clusters[0].nodes[0].names"]


def test_lines_are_those_of_the_file():
    text = world(PENDING, PENDING | {"id": "v", "min_runtime": 5})
    (line, _), *_ = places(refusal(parse_snapshot, text, "snap.json"))
    assert '"min_runtime": 5' in text.split("\n")[line - 1]


# -- size --------------------------------------------------------------------------------------------


def test_an_inventory_of_too_many_nodes_is_refused_before_they_are_written_out():
    many = [{"names": f"n{i}-[1-{MAX_HOSTS}]", "gpus": 8} for i in range(500)]
    begin = time.process_time()
    (message,) = refused(nodes=many)
    assert time.process_time() - begin < 2
    assert f": clusters[0].nodes[1]: brings the inventory to {2 * MAX_HOSTS} nodes" in message
    assert f"at most {MAX_NODES}" in message


def test_levels_of_all_clusters_together_are_bounded():
    def clusters(*counts: int) -> list[dict]:
        names = (f"l{i}" for i in range(1000))
        return [
            {"name": f"c{k}", "levels": list(islice(names, n)), "nodes": []} for k, n in enumerate(counts)
        ]

    text = json.dumps({"time": "2026-10-09T15:20:00Z", "clusters": clusters(MAX_LEVELS - 1, 1)})
    assert parse_snapshot(text, "snap.json")
    text = json.dumps({"time": "2026-10-09T15:20:00Z", "clusters": clusters(MAX_LEVELS, 1, 1)})
    (message,) = refusal(parse_snapshot, text, "snap.json")
    assert f"clusters[1].levels: brings the levels of all clusters to {MAX_LEVELS + 1}" in message


def test_a_gang_without_gpus_is_no_larger_than_its_placement_may_be():
    cpu = PENDING | {"gpus_per_replica": 0}
    assert read(cpu | {"replicas": MAX_CPU_REPLICAS})
    assert read(PENDING | {"replicas": MAX_CPU_REPLICAS + 1})
    assert faults(cpu | {"replicas": MAX_CPU_REPLICAS + 1}) == ["workloads[0].replicas"]


def test_a_large_snapshot_with_a_contradiction_in_every_workload_is_refused_in_seconds():
    """Each way that many faults can take: all contradictions, and contradictions beside malformed entries."""
    wrong = [PENDING | {"id": i, "started": "2026-10-09T13:00:00Z"} for i in range(20_000)]
    bad = [PENDING | {"id": i, "replicas": 0} for i in range(20_000, 21_500)]
    for workloads in (wrong, bad + wrong):
        text = world(*workloads)
        begin = time.process_time()
        messages = refusal(parse_snapshot, text, "snap.json")
        assert time.process_time() - begin < 10
        assert len(messages) == MAX_FAULTS + 1
