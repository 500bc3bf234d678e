"""The contract is read in comments that hold it; all other comments say nothing and stop nobody."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.comment import LONGEST
from planner.simulation.trace import UNSAID
from planner.traces.comment import Contract, contract_of

NOTHING = Contract()
FAULTY = Contract(faulty=True)


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ('{"min_runtime": "4h", "resumable": true, "allocation": "a/b"}', Contract(14_400, True)),
        ('{"min_runtime": "1-00:00:00"}', Contract(86_400)),
        (' {"min_runtime": "0s"} ', Contract(0)),
        ('{"resumable": false}', Contract(resumable=False)),
        ('{"priority": 3}', NOTHING),
        ("{}", NOTHING),
        ("", NOTHING),
        ("see ticket {7}", NOTHING),
        ("{not json", NOTHING),
        ('["min_runtime", "4h"]', NOTHING),
        ('{"min_runtime": 240}', FAULTY),
        ('{"min_runtime": null}', Contract()),
        ('{"min_runtime": "four hours"}', FAULTY),
        ('{"min_runtime": "-4h", "resumable": true}', Contract(resumable=True, faulty=True)),
        ('{"min_runtime": "4h", "resumable": "yes"}', Contract(14_400, faulty=True)),
        ('{"resumable": 1}', FAULTY),
    ],
)
def test_a_comment_says_what_it_holds_of_the_contract(comment: str, said: Contract):
    assert contract_of(comment) == said


@pytest.mark.parametrize(
    "comment",
    [
        "{" * 4000,
        '{"a": ' * 600 + "1" + "}" * 600,
        '{"min_runtime": ' + "[" * 1900 + "]" * 1900 + "}",
        '{"resumable": ' + "9" * 4000 + "}",
        '{"min_runtime": "4h", "x": "' + "y" * LONGEST + '"}',
    ],
)
def test_what_nobody_should_write_is_no_contract(comment: str):
    assert not contract_of(comment).says


@given(
    st.dictionaries(
        st.sampled_from(["min_runtime", "resumable", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=4
        ),
    )
)
def test_any_object_is_read_and_what_it_says_is_a_duration_and_a_truth_value(said: dict[str, object]):
    found = contract_of(json.dumps(said))
    assert found.min_runtime_s >= UNSAID
    assert found.resumable == (said["resumable"] if isinstance(said.get("resumable"), bool) else None)
