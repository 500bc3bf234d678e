import json
import time
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.model.workload import Placement, Topology
from planner.schema.types import plain
from planner.site import parse_site
from planner.snapshot import load_snapshot, load_workload, parse_snapshot, parse_workload, schema
from planner.strict import parse
from tests.planner.damage import mutations, parsed_or_refused, revaluations
from tests.planner.faults import assert_explained, places, refusal
from tests.planner.samples import SITE, SNAPSHOT

SCHEMAS = Path(__file__).parents[2] / "configs" / "schema"
PENDING = {
    "id": "w",
    "allocation": "a",
    "replicas": 2,
    "gpus_per_replica": 4,
    "submitted": "2026-10-09T12:00:00Z",
    "state": "pending",
}
RUNNING = PENDING | {
    "state": "running",
    "started": "2026-10-09T13:00:00Z",
    "placement": [{"node": "n1", "gpus": 8}],
}
NODES = [{"names": "n[1-4]", "gpus": 8, "location": ["l1"]}]


def world(*workloads: dict, nodes=NODES, levels=("leaf",), **other) -> str:
    """Return a snapshot in JSON, one line for each value."""
    clusters = [{"name": "c", "levels": list(levels), "nodes": nodes}]
    data = {"time": "2026-10-09T15:20:00Z", "clusters": clusters, "workloads": list(workloads), **other}
    return json.dumps(data, indent=1)


def read(*args, **kwargs):
    return parse_snapshot(world(*args, **kwargs), "snap.json")


def refused(*args, **kwargs) -> list[str]:
    return refusal(parse_snapshot, world(*args, **kwargs), "snap.json")


def faults(*args, **kwargs) -> list[str]:
    """Return the key paths that are refused."""
    return [path for _, path in places(refused(*args, **kwargs))]


# -- reading -----------------------------------------------------------------------------------------


def test_the_interfaces_snapshot_is_read_in_full():
    snapshot = parse_snapshot(SNAPSHOT, "snap.yaml", parse_site(SITE, "site.yaml"))
    (cluster,) = snapshot.clusters
    assert [node.name for node in cluster.nodes] == [f"saturn-{n:03d}" for n in range(1, 66)]
    assert cluster.nodes[64].memory_bytes == 2 << 40
    assert cluster.nodes[64].cpus_milli == 192_000
    assert cluster.nodes[64].state == "draining"
    first, second = snapshot.workloads
    assert (first.min_runtime_s, first.time_limit_s) == (14_400, 172_800)
    assert first.started_s - first.submitted_s == 7_200
    assert first.topology == Topology("leaf", None, 2)
    assert first.placement == (Placement("saturn-001", 8), Placement("saturn-002", 8))
    assert (second.id, second.min_runtime_s, second.started_s, second.occupancy) == ("1230", None, None, None)
    assert snapshot.usage == {"language/pretraining": Fraction(16_247, 2)}
    assert snapshot.history_s == 604_800
    assert snapshot.reservations[0].workload == "1230"
    assert snapshot.warnings == ()


def test_yaml_and_json_say_the_same():
    as_json = json.dumps(plain(parse(SNAPSHOT, "snap.yaml").data))
    assert parse_snapshot(as_json, "snap.json") == parse_snapshot(SNAPSHOT, "snap.yaml")


def test_the_smallest_snapshot_is_read():
    snapshot = parse_snapshot("time: 2026-10-09T12:00:00Z\nclusters: []\nworkloads:\nusage:\n", "s.yaml")
    assert (snapshot.clusters, snapshot.workloads, snapshot.usage, snapshot.entitled) == ((), (), {}, None)


def test_a_null_is_as_good_as_absent():
    empty = dict.fromkeys(
        (
            "min_runtime",
            "time_limit",
            "priority",
            "topology",
            "started",
            "placement",
            "occupancy",
            "gpu_types",
        )
    )
    assert read(PENDING | empty) == read(PENDING)


def test_ids_may_be_numbers_and_are_text():
    snapshot = read(PENDING | {"id": 1201}, reservations=[])
    assert snapshot.workloads[0].id == "1201"


def test_parts_on_one_node_are_added_up():
    parts = [{"node": "n1", "gpus": 4}, {"node": "n1", "gpus": 4}]
    assert read(RUNNING | {"placement": parts}).workloads[0].placement == (Placement("n1", 8),)


def test_a_replica_of_cpus_is_one_entry_of_its_placement():
    cpu = RUNNING | {"gpus_per_replica": 0, "placement": [{"node": "n1", "gpus": 0}] * 2}
    assert read(cpu).workloads[0].placement == (Placement("n1", 0), Placement("n1", 0))
    assert faults(cpu | {"replicas": 3}) == ["workloads[0].placement"]
    assert faults(cpu | {"placement": [{"node": "n1", "gpus": 4}] * 2}) == [
        "workloads[0].placement[0].gpus",
        "workloads[0].placement[1].gpus",
    ]


def test_wishes_that_the_planner_will_judge_are_no_input_errors():
    wishes = {"allocation": "nobody", "gpu_types": ["none"], "clusters": ["none"], "replicas": 999}
    assert read(PENDING | wishes | {"topology": {"required": "row", "preferred": "hall", "segment": 7}})


def test_files_are_read_and_called_by_their_path(tmp_path):
    path = tmp_path / "snap.json"
    path.write_text(world(PENDING))
    assert load_snapshot(path) == read(PENDING)
    path.write_text("{}")
    assert all(message.startswith(f"{path}:1:1: ") for message in refusal(load_snapshot, path))


# -- contradictions ----------------------------------------------------------------------------------


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
    found = faults(5, RUNNING | {"replicas": 3}, PENDING | {"id": "v", "replicas": 0}, RUNNING | {"id": "w"})
    assert found == ["workloads[0]", "workloads[1].placement", "workloads[2].replicas", "workloads[3].id"] + [
        "workloads[3].placement[0]"
    ] * ("workloads[3].placement[0]" in found)


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


# -- what is dropped ---------------------------------------------------------------------------------


def test_use_of_unknown_allocations_is_dropped_with_a_warning():
    site = parse_site("budgets: [{name: a, children: [{name: b}]}]", "site.yaml")
    text = world(usage={"a/b": 1, "a": 2, "gone": 3}, entitled={"a/b": 4, "gone": 5})
    snapshot = parse_snapshot(text, "snap.json", site)
    assert (snapshot.usage, snapshot.entitled) == ({"a/b": 1}, {"a/b": 4})
    assert len(snapshot.warnings) == 3
    assert all("dropped" in warning for warning in snapshot.warnings)
    assert parse_snapshot(text, "snap.json").warnings == ()


def promise(workload="w", **other) -> dict:
    return {
        "workload": workload,
        "start_at": "2026-10-09T16:00:00Z",
        "placement": [{"node": "n2", "gpus": 8}],
    } | other


@pytest.mark.parametrize(
    ("second", "word"), [(promise("gone"), "workload has left"), (promise("w"), "before")]
)
def test_promises_to_nobody_are_dropped_with_a_warning(second, word):
    snapshot = read(PENDING, reservations=[promise("w"), second])
    assert [r.workload for r in snapshot.reservations] == ["w"]
    (warning,) = snapshot.warnings
    assert word in warning


@pytest.mark.parametrize("parts", [[("x", 8)], [("n2", 4)], [("n2", 6), ("n3", 2)]])
def test_promises_of_places_that_are_no_more_are_kept_for_the_round_to_explain(parts):
    placement = [{"node": node, "gpus": gpus} for node, gpus in parts]
    snapshot = read(PENDING, reservations=[promise("w", placement=placement)])
    assert snapshot.reservations[0].placement == tuple(Placement(*part) for part in parts)
    assert snapshot.warnings == ()


def test_a_promise_that_was_taken_up_is_done_without_a_word():
    snapshot = read(RUNNING, reservations=[promise("w")])
    assert (snapshot.reservations, snapshot.warnings) == ((), ())
    assert read(RUNNING | {"state": "stopping"}, reservations=[promise("w")]).reservations


def test_a_malformed_promise_is_refused():
    bad = promise(start_at="16:00", placement=[{"node": "n2", "gpus": -1}])
    assert faults(PENDING, reservations=[bad]) == [
        "reservations[0].placement[0].gpus",
        "reservations[0].start_at",
    ] or faults(PENDING, reservations=[bad]) == [
        "reservations[0].start_at",
        "reservations[0].placement[0].gpus",
    ]


# -- one workload ------------------------------------------------------------------------------------


def test_a_workload_by_itself_is_pending_from_now_on(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text("{id: w, allocation: a, replicas: 2, gpus_per_replica: 4}")
    now_s = read(PENDING).workloads[0].submitted_s
    assert load_workload(path, now_s) == read(PENDING).workloads[0]


@pytest.mark.parametrize(
    ("other", "keys"),
    [
        ({"replicas": 0}, ["replicas"]),
        ({"state": "running"}, ["placement", "started", "state"]),
        ({"topology": {"segment": 2}}, ["topology.segment"]),
        ({"submitted": "2026-10-09T12:00:01Z"}, ["submitted"]),
        ({"nodes": 3}, ["nodes"]),
    ],
)
def test_a_workload_by_itself_that_cannot_be_is_refused(other, keys):
    now_s = read(PENDING).workloads[0].submitted_s
    messages = refusal(parse_workload, json.dumps(PENDING | other), "w.json", now_s)
    assert sorted(path for _, path in places(messages)) == keys


# -- size --------------------------------------------------------------------------------------------


def test_a_large_snapshot_is_read_and_searched_in_seconds():
    nodes = [{"names": f"n{b:03d}-[01-64]", "gpus": 8, "location": [f"l{b}"]} for b in range(200)]
    workloads = [PENDING | {"id": i, "min_runtime": "4h"} for i in range(4_000)]
    workloads += [
        RUNNING | {"id": i, "placement": [{"node": f"n{i // 64:03d}-{i % 64 + 1:02d}", "gpus": 8}]}
        for i in range(4_000, 10_000)
    ]
    text = world(*workloads, nodes=nodes)
    begin = time.process_time()
    snapshot = parse_snapshot(text, "snap.json")
    assert time.process_time() - begin < 5
    assert (len(snapshot.clusters[0].nodes), len(snapshot.workloads)) == (12_800, 10_000)
    workloads[9_999] = workloads[9_999] | {"started": 5}
    broken = world(*workloads, nodes=nodes)
    begin = time.process_time()
    (message,) = refusal(parse_snapshot, broken, "snap.json")
    assert time.process_time() - begin < 10
    assert "workloads[9999].started" in message


# -- mutations ---------------------------------------------------------------------------------------


@given(mutations(SNAPSHOT))
def test_a_damaged_snapshot_is_read_or_refused_line_by_line(text):
    parsed_or_refused(parse_snapshot, text, "snap.yaml", parse_site(SITE, "site.yaml"))


@given(mutations(world(PENDING, RUNNING | {"id": "v"}, usage={"a": 1.5}, reservations=[promise()])))
def test_damaged_json_is_read_or_refused_line_by_line(text):
    parsed_or_refused(parse_snapshot, text, "snap.json")


@given(revaluations(SNAPSHOT))
def test_a_snapshot_with_other_values_is_read_or_refused_line_by_line(text):
    parsed_or_refused(parse_snapshot, text, "snap.json")


# -- JSON Schema -------------------------------------------------------------------------------------


def test_the_committed_schema_is_the_current_one():
    assert json.loads((SCHEMAS / "snapshot.schema.json").read_text()) == schema()


def test_the_interfaces_snapshot_keeps_the_schema():
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(plain(parse(SNAPSHOT, "snap.yaml").data), schema())


def test_every_key_of_the_schema_is_explained():
    assert_explained(schema())
