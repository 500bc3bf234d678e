import json
import time
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given

from planner.model.workload import Placement, Topology
from planner.schema.types import plain
from planner.site import parse_site
from planner.snapshot import load_snapshot, load_workload, parse_snapshot, parse_workload, schema
from planner.strict import parse
from tests.planner.damage import mutations, parsed_or_refused, revaluations
from tests.planner.faults import assert_explained, places, refusal
from tests.planner.samples import SITE, SNAPSHOT
from tests.planner.snapshots import PENDING, RUNNING, faults, read, world

SCHEMAS = Path(__file__).parents[2] / "configs" / "schema"
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
