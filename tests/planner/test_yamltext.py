"""YAML that gangplan writes is read again as what it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.strict import parse
from planner.yamltext import to_yaml

TEXT = st.text(st.characters(categories=("L", "N", "P", "S", "Zs"), max_codepoint=0x2FF))
NUMBERS = st.integers(-(10**12), 10**12).flatmap(lambda n: st.sampled_from([n, n / 4]))
DATA = st.recursive(
    TEXT | NUMBERS | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "text", ["6214e9", "1.", "0x10", "on", "~", "null", "", "2026-11-30", "12:30", "1_000"]
)
def test_text_stays_text(text):
    assert parse(to_yaml({"name": text, "of": [text]}), "a.yaml").data == {"name": text, "of": [text]}


@given(st.dictionaries(TEXT, DATA, min_size=1, max_size=3))
def test_what_is_written_is_read_again(data):
    assert parse(to_yaml(data), "a.yaml").data == data
