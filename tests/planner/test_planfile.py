import json
from dataclasses import fields
from pathlib import Path

import jsonschema
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.model.plan import Advice, Decision, Move, NodePlan, Plan, Reason, ShareRow, SolverSummary
from planner.model.snapshot import Reservation
from planner.model.workload import Placement
from planner.planfile import load_plan, parse_plan, plan_to_dict, schema
from planner.schema.types import plain
from planner.snapshot import parse_snapshot
from planner.strict import parse
from planner.units import MAX_TIME_S
from tests.planner.damage import mutations, parsed_or_refused, revaluations
from tests.planner.faults import assert_explained, places, refusal
from tests.planner.samples import PLAN

SCHEMAS = Path(__file__).parents[2] / "configs" / "schema"

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NAME = st.from_regex(r"[a-z][a-z0-9/-]{0,6}", fullmatch=True)
NUMBER = st.floats(-1e12, 1e12)
TIME = st.integers(0, MAX_TIME_S)
GPUS = st.integers(0, 10_000)
PLACEMENT = st.lists(st.builds(Placement, NAME, GPUS), max_size=3).map(tuple)


def maybe(strategy):
    return st.one_of(st.none(), strategy)


DECISION = st.builds(
    Decision,
    workload=NAME,
    action=st.sampled_from(["start", "keep", "preempt", "wait", "reject"]),
    reason=st.builds(Reason, TEXT, TEXT),
    allocation=TEXT,
    gpus=GPUS,
    occupancy=maybe(st.sampled_from(["allocated", "unallocated"])),
    placement=PLACEMENT,
    protected_until_s=maybe(TIME),
    expected_start_s=maybe(TIME),
    victims_for=st.lists(NAME, max_size=2).map(tuple),
    lost_gpu_hours=maybe(NUMBER),
)
PLANS = st.builds(
    Plan,
    time_s=TIME,
    solver=st.builds(
        SolverSummary,
        TEXT,
        TEXT,
        NUMBER,
        maybe(NUMBER),
        maybe(NUMBER),
        NUMBER,
        NUMBER,
        st.lists(TEXT, max_size=2).map(tuple),
    ),
    decisions=st.lists(DECISION, max_size=4).map(tuple),
    reservations=st.lists(st.builds(Reservation, NAME, TIME, PLACEMENT), max_size=2).map(tuple),
    nodes=st.lists(st.builds(NodePlan, NAME, NAME, maybe(TIME)), max_size=2).map(tuple),
    shares=st.lists(
        st.builds(
            ShareRow,
            TEXT,
            NUMBER,
            NUMBER,
            NUMBER,
            maybe(NUMBER),
            NUMBER,
            NUMBER,
            GPUS,
            GPUS,
            GPUS,
            st.integers(0, 99),
        ),
        max_size=2,
    ).map(tuple),
    fragmentation=st.dictionaries(
        NAME, st.one_of(GPUS, NUMBER, TEXT, st.dictionaries(NAME, GPUS, max_size=2))
    ),
    warnings=st.lists(TEXT, max_size=2).map(tuple),
    defragmentation=st.lists(
        st.builds(
            Advice,
            NAME,
            PLACEMENT,
            st.lists(st.builds(Move, NAME, PLACEMENT, NUMBER), max_size=2).map(tuple),
            NUMBER,
        ),
        max_size=2,
    ).map(tuple),
)


@given(PLANS, st.sampled_from([None, 1]))
def test_every_plan_is_read_as_it_was_written(plan, indent):
    text = json.dumps(plan_to_dict(plan), indent=indent, allow_nan=False)
    assert parse_plan(text, "plan.json") == plan


@settings(max_examples=25)
@given(PLANS)
def test_every_plan_that_is_written_keeps_the_schema(plan):
    jsonschema.Draft202012Validator(schema()).validate(json.loads(json.dumps(plan_to_dict(plan))))


def decision(action: str, **other) -> dict:
    made = Decision("w", action, Reason("c", "t"), "a", 8, **other)
    plan = Plan(0, SolverSummary("b", "s", 0.0, None, None, 0.0), (made,), (), (), (), {}, ())
    return plan_to_dict(plan)["decisions"][0]


def test_a_wait_without_a_promise_says_null():
    assert decision("wait")["expected_start"] is None
    assert decision("wait", expected_start_s=1_791_559_200)["expected_start"] == "2026-10-09T15:20:00Z"


def test_decisions_have_the_interfaces_keys():
    common = {"workload", "action", "allocation", "gpus", "reason"}
    assert decision("start").keys() == common | {"occupancy", "placement", "protected_until"}
    assert decision("preempt", victims_for=("x",)).keys() == common | {"for", "lost_gpu_hours"}
    assert decision("preempt", victims_for=("x",))["for"] == ["x"]
    assert decision("wait").keys() == common | {"expected_start"}
    assert decision("reject").keys() == common


def test_keys_come_in_the_interfaces_order():
    plan = plan_to_dict(parse_plan(PLAN, "plan.yaml"))
    assert list(plan) == [*yaml.safe_load(PLAN), "defragmentation"]
    assert list(plan["shares"][0]) == [f.name for f in fields(ShareRow)]


def test_a_plan_without_our_additions_is_read():
    plan = parse_plan(PLAN, "plan.yaml")
    assert plan.decisions[1].victims_for == ("1201",)
    assert (plan.decisions[0].allocation, plan.decisions[0].gpus) == ("", 0)
    assert plan.fragmentation["levels"]["leaf"]["largest_gang"] == 32


def test_a_snapshot_takes_a_plans_reservations_back():
    plan = parse_plan(PLAN, "plan.yaml")
    snapshot = {
        "time": "2026-10-09T15:21:00Z",
        "clusters": [{"name": "c", "nodes": [{"name": "saturn-007", "gpus": 8}]}],
        "workloads": [
            {"id": "1230", "allocation": "a", "replicas": 1, "gpus_per_replica": 4, "state": "pending",
             "submitted": "2026-10-09T15:00:00Z"},
        ],
        "reservations": plan_to_dict(plan)["reservations"],
    }  # fmt: skip
    assert parse_snapshot(json.dumps(snapshot), "s.json").reservations == plan.reservations


def test_a_plan_of_another_form_is_refused_with_every_fault(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(
        '{"time": 5,\n "solver": {"backend": "x", "gap": NaN},\n "decisions": [{"action": "go"}]}'
    )
    found = places(refusal(load_plan, path))
    assert found == [
        (1, "time"),
        (2, "solver.objective"),
        (2, "solver.seconds"),
        (2, "solver.status"),
        (2, "solver.gap"),
        (3, "decisions[0].reason"),
        (3, "decisions[0].workload"),
        (3, "decisions[0].action"),
    ]


@given(mutations(PLAN))
def test_a_damaged_plan_is_read_or_refused_line_by_line(text):
    parsed_or_refused(parse_plan, text, "plan.yaml")


@given(revaluations(PLAN))
def test_a_plan_with_other_values_is_read_or_refused_line_by_line(text):
    parsed_or_refused(parse_plan, text, "plan.json")


def test_the_committed_schema_is_the_current_one():
    assert json.loads((SCHEMAS / "plan.schema.json").read_text()) == schema()


def test_the_interfaces_plan_keeps_the_schema():
    jsonschema.validate(plain(parse(PLAN, "plan.yaml").data), schema())


def test_every_key_of_the_schema_is_explained():
    assert_explained(schema())
