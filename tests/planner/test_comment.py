"""A comment says what it holds of the contract; whatever else it is stops nobody."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.comment import LONGEST, Said, said_in
from planner.model.workload import Topology

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
KEYS = ("min_runtime", "resumable", "allocation", "priority", "topology")


def test_every_key_of_the_contract_is_read() -> None:
    comment = {
        "min_runtime": "4h",
        "resumable": False,
        "allocation": "language/pretraining",
        "priority": 3,
        "topology": {"required": "leaf", "segment": 4},
    }
    wish = Topology("leaf", None, 4)
    assert said_in(json.dumps(comment)) == Said(14_400, False, "language/pretraining", 3, wish)


@pytest.mark.parametrize(
    ("comment", "told"),
    [
        ({"min_runtime": 30}, "min_runtime: 30 has no unit, write 30s, 30m or 30h"),
        ({"resumable": "yes"}, 'resumable: "yes" is not a truth value, write true'),
        ({"priority": "high"}, 'priority: "high" is not a whole number'),
        ({"allocation": ["a"]}, "allocation: "),
        ({"topology": {"requird": "leaf"}}, "topology.requird: is no known key, write required"),
        ({"topology": {"segment": 4}}, "topology.segment: is a part of no domain"),
        ({"min_runtme": "4h"}, "min_runtme: is no known key, write min_runtime"),
    ],
)
def test_what_means_nothing_is_told_and_the_rest_counts(comment: dict[str, object], told: str) -> None:
    said = said_in(json.dumps({"allocation": "nlp", **comment} if "allocation" not in comment else comment))
    assert said.faults[0].startswith(told)
    assert said.allocation == (None if "allocation" in comment else "nlp")


@pytest.mark.parametrize("comment", ["", "train 7B", "[1]", "null", '"{}"', "{}"])
def test_what_does_not_begin_as_an_object_says_nothing(comment: str) -> None:
    assert said_in(comment) == Said()


def test_a_comment_that_is_too_long_is_not_read() -> None:
    text = '{"min_runtime": "4h"}'
    assert said_in(text.ljust(LONGEST)).min_runtime_s == 14_400
    assert said_in(text.ljust(LONGEST + 1)) == Said(faults=("is longer than 4096 characters, write less",))


@pytest.mark.parametrize("comment", ["{", '{"min_runtime": "4h"', " {min_runtime: 4h}", '{"a":' * 500])
def test_what_begins_as_an_object_and_is_none_is_told(comment: str) -> None:
    assert said_in(comment) == Said(faults=("is not JSON, check the quotes, commas and brackets",))


def test_of_many_faults_the_first_are_told() -> None:
    said = said_in(json.dumps({"min_runtime": "4h"} | {f"x{k}": k for k in range(100)}))
    assert said.min_runtime_s == 14_400
    assert [fault.partition(":")[0] for fault in said.faults] == ["x0", "x1", "x2", "x3", "x4"]


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(), JSON, max_size=5))
def test_no_comment_is_an_error(comment: dict[str, object]) -> None:
    said = said_in(json.dumps(comment))
    assert all("\n" not in fault for fault in said.faults)
    assert said.min_runtime_s is None or said.min_runtime_s >= 0
