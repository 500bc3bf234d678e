import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.scan import JsonPlaces, ScanError, check_characters, json_events, number, resolve, yaml_events
from planner.tree import grow

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text(max_size=6))
MAPPINGS = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        SCALARS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
        max_leaves=12,
    ),
    max_size=4,
)


def walk(value, loc=()):
    """Yield every place in plain data."""
    yield loc
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from walk(inner, (*loc, key))


@given(MAPPINGS, st.sampled_from([None, 0, 1, 3]), st.booleans())
def test_json_by_events_is_what_the_standard_parser_reads(data, indent, ascii_only):
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    assert grow(json_events(text)).root == data


@given(MAPPINGS, st.sampled_from([None, 0, 2]))
def test_jumping_finds_what_reading_everything_finds(data, indent):
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    tree, jumps = grow(json_events(text)), JsonPlaces(text)
    for loc in walk(data):
        assert jumps.locate(loc) == tree.locate(loc)
        assert jumps.locate((*loc, "no such key", 3)) == tree.locate(loc)


@given(MAPPINGS)
def test_a_place_in_json_is_where_its_key_is_written(data):
    text = json.dumps(data, indent=1, ensure_ascii=False)
    lines, jumps = text.split("\n"), JsonPlaces(text)
    for loc in walk(data):
        line, column = jumps.locate(loc)
        if loc and isinstance(loc[-1], str):
            assert lines[line - 1][column - 1 :].startswith(json.dumps(loc[-1], ensure_ascii=False))


@given(st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True), st.integers(0, 99), max_size=5))
def test_yaml_and_json_agree_where_a_file_is_both(data):
    text = json.dumps(data, indent=2)
    from_json, from_yaml = grow(json_events(text)), grow(yaml_events(text))
    assert from_yaml.root == from_json.root
    assert [from_yaml.locate((key,)) for key in data] == [from_json.locate((key,)) for key in data]


@pytest.mark.parametrize(
    "text", [
        "no", "yes", "on", "off", "y", "n", "No", "NULL", "True", "1:30", "12:30:00", "010", "0o10",
        "0x1F", "1_000", "+5", ".5", "5.", "1e", "2026-10-09", "2026-10-09T15:20:00Z", ".nan", ".inf",
        "NaN", "Infinity", "=", "<<", "1e999", "1" * 65, "1e-999999999999"
    ]
)  # fmt: skip
def test_text_that_other_readers_would_turn_into_something_stays_text(text):
    assert resolve(text) == text
    assert isinstance(resolve(text), str)


@pytest.mark.parametrize(
    ("text", "value"),
    [("", None), ("~", None), ("null", None), ("true", True), ("false", False), ("0", 0), ("-7", -7)],
)
def test_plain_words_of_json_mean_what_they_do_there(text, value):
    assert resolve(text) is value or resolve(text) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4))
def test_decimals_keep_every_digit(value):
    assert number(f"{value:f}") == value
    assert isinstance(number(f"{value:f}"), Decimal)


@pytest.mark.parametrize("character", ["\0", "\x07", "\x7f", "\x9f", "\ud800", "\uffff"])
def test_characters_that_nobody_can_see_are_located(character):
    with pytest.raises(ScanError) as caught:
        check_characters(f"a: 1\nbc{character}")
    assert (caught.value.line, caught.value.column) == (2, 3)


def test_ordinary_text_passes():
    check_characters("größe: 東京\t\r\n\u2028\x85🦆")
