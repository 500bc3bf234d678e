import copy
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.holes import Holes
from planner.snapshot import parse_snapshot
from planner.strict import MAX_FAULTS, key_path, parse, read_text
from planner.tree import MAX_DEPTH
from tests.planner.faults import places, refusal


def read(text: str, name: str = "site.yaml"):
    document = parse(text, name)
    document.finish()
    return document.data


# -- YAML 1.1 ----------------------------------------------------------------------------------------


def test_words_times_octals_and_dates_stay_as_typed():
    text = "a: no\nb: 1:30\nc: 010\nd: 2026-10-09\ne: 1e3x\nf: on\n"
    assert read(text) == {"a": "no", "b": "1:30", "c": "010", "d": "2026-10-09", "e": "1e3x", "f": "on"}


def test_keys_are_text_whatever_they_look_like():
    assert read("1: a\ntrue: b\nnull: c\n010: d\n") == {"1": "a", "true": "b", "null": "c", "010": "d"}


def test_a_duplicate_key_is_refused_with_both_lines():
    (message,) = refusal(read, "a:\n  b: 1\n  c: 2\n  b: 3\n")
    assert message.startswith("site.yaml:4:3: a.b: ")
    assert "line 2" in message


def test_duplicate_keys_of_json_are_refused_too():
    (message,) = refusal(read, '{"a": {"b": 1,\n "b": 2}}', "snap.json")
    assert message.startswith("snap.json:2:2: a.b: ")


def test_aliases_tags_and_merge_keys_are_refused_together():
    text = "a: &x {p: 1}\nb: *x\nc:\n  <<: *x\nd: !!python/object:os.system {}\ne: !!int '3'\n"
    assert places(refusal(read, text)) == [(2, "b"), (4, "c.<<"), (4, "c.<<"), (5, "d"), (6, "e")]


def test_a_billion_laughs_do_not_laugh():
    text = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))
    assert "alias" in refusal(read, text)[0]


def test_a_tab_that_indents_is_named():
    (message,) = refusal(read, "a:\n\tb: 1\n")
    assert message.startswith("site.yaml:2:1: ")
    assert "tab" in message


def test_tabs_are_fine_in_json():
    assert read('{\n\t"a":\t[1,\t2]\n}', "snap.json") == {"a": [1, 2]}


@pytest.mark.parametrize(
    "text", [
        "a: [1", "a: b: c", "a: 'x", "}", "a: 1\n b: 2", "%", "? [a]\n: b", "{[a]: b}",
        "a: 1\n---\nb: 2\n", "[a, b]", "a", "- a", '"a"', "a: |1x\n", "@a: 1", "`"
    ]
)  # fmt: skip
def test_what_is_no_mapping_is_refused_at_its_place(text):
    (message,) = refusal(read, text)
    assert message.startswith("site.yaml:")


@pytest.mark.parametrize("text", ["", " \n\n", "# nothing\n", "---\n", "---\n...\n", "\ufeff", "null"])
@pytest.mark.parametrize("name", ["site.yaml", "-"])
def test_an_empty_file_is_called_empty(text, name):
    (message,) = refusal(read, text, name)
    assert "is empty" in message


def test_an_empty_json_file_is_called_empty():
    assert "is empty" in refusal(read, " ", "snap.json")[0]


# -- JSON --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["NaN", "-Infinity", "1e309", "-1e400", "1e999999999", "1" * 5000])
def test_numbers_beyond_reckoning_are_refused_in_json(word):
    messages = refusal(read, '{"a": [1,\n ' + word + "]}", "snap.json")
    assert places(messages) == [(2, "a[1]")]


def test_half_a_character_is_refused_and_a_whole_one_is_not():
    assert read('{"a": "\\ud83e\\udd86"}', "snap.json") == {"a": "🦆"}
    assert places(refusal(read, '{"a": "\\ud83e"}', "snap.json")) == [(1, "a")]


def test_half_a_character_in_a_key_is_one_fault_at_its_place():
    text = '{"time": "2026-10-09T12:00:00Z", "clusters": [],\n"usage": {"a\\ud83e": 1}, "\\udd86": 2}'
    messages = refusal(parse_snapshot, text, "snap.json")
    assert places(messages) == [(2, "usage.a\\ud83e"), (2, "\\udd86")]
    assert all("half a character, write" in message for message in messages)


def test_a_json_file_is_nothing_but_json():
    assert read("{a: 1,}", "snap.yaml") == {"a": 1}
    (message,) = refusal(read, '{"a": 1,\n }', "snap.json")
    assert message.startswith("snap.json:2:2: ")
    assert "JSON" in message


@pytest.mark.parametrize("name", ["snap.json", "snap.yaml"])
def test_the_fast_way_and_the_slow_way_agree_on_places(name):
    data = {"a": [{"b": 1}, {"c": [1, 2, {"d": "\u00e9"}]}], "e": {}}
    fast, slow = (json.dumps(data, indent=1, ensure_ascii=a) for a in (False, True))
    slow = slow.replace("\\u00e9", "\\ud83e\\udd86")  # a pair of escapes takes the slow way
    for loc in [(), ("a",), ("a", 1, "c", 2, "d"), ("e",), ("e", "x"), ("a", 9)]:
        assert parse(fast, name).locate(loc) == parse(slow, name).locate(loc)


# -- files -------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_named(tmp_path):
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(InputError) as caught:
            read_text(path)
        assert str(path) in str(caught.value)
        assert "cannot be read" in str(caught.value)


@pytest.mark.parametrize("raw", [b"ab\nc\xff", b"ab\nc\xc3", "ab\ncd".encode("utf-16")])
def test_what_is_not_utf8_is_refused_with_its_place(tmp_path, raw):
    path = tmp_path / "site.yaml"
    path.write_bytes(raw)
    (message,) = refusal(read_text, path)
    line, column = (1, 1) if raw[0] > 127 else (2, 2)
    assert message.startswith(f"{path}:{line}:{column}: ")
    assert "UTF-8" in message


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = tmp_path / "site.yaml"
    path.write_bytes("a: 1\nb: 2\nb: 3".encode("utf-8-sig"))
    (message,) = refusal(read, read_text(path))
    assert message.startswith("site.yaml:3:1: ")
    path.write_bytes('{"a": 1}'.encode("utf-8-sig"))
    assert read(read_text(path), "snap.json") == {"a": 1}


@pytest.mark.parametrize("name", ["site.yaml", "snap.json"])
def test_a_nul_is_refused_with_its_place(name):
    (message,) = refusal(read, '{"a":\n"\0"}', name)
    assert message.startswith(f"{name}:2:2: ")


def test_a_strange_key_stays_on_one_line():
    (message,) = refusal(read, '"a\\nb": 1\n"a\\nb": 2\n')
    assert "a\\nb" in message


# -- size --------------------------------------------------------------------------------------------

TEN_MB = 10_000_000
NONSENSE = {
    "brackets": "[" * TEN_MB,
    "json brackets": "[" * TEN_MB,
    "nested keys": '{"a":' * (TEN_MB // 5),
    "nested lines": "[\n" * (TEN_MB // 2),
    "one word": "a" * TEN_MB,
    "dashes": "- " * (TEN_MB // 2),
    "newlines": "\n" * TEN_MB,
    "keys": "".join(f"k{i}: x\n" for i in range(TEN_MB // 15)),
    "json keys": "{" + ",".join(f'"k{i}":1' for i in range(TEN_MB // 11)) + "}",
    "one json key": "{" + ",".join(['"a":1'] * (TEN_MB // 6)) + "}",
    "json list": '{"a":[' + "1," * (TEN_MB // 2) + "1]}",
    "digits": '{"a": ' + "1" * TEN_MB + "}",
    "quotes": '"' * TEN_MB,
    "json nul": "\0" * TEN_MB,
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_ten_megabytes_of_nonsense_are_refused_in_seconds(kind):
    begin = time.process_time()
    messages = refusal(read, NONSENSE[kind], "snap.json" if "json" in kind else "site.yaml")
    assert time.process_time() - begin < 10
    assert all(len(message) < 500 for message in messages)


def test_depth_has_a_limit_and_what_keeps_it_is_read():
    for name in ("site.yaml", "snap.json"):
        fits = '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH
        assert read(fits, name)
        (message,) = refusal(read, '{"a":' + fits + "}", name)
        assert f"deeper than {MAX_DEPTH}" in message


# -- faults ------------------------------------------------------------------------------------------


def test_faults_come_in_the_order_of_the_file_and_each_place_once():
    document = parse("a: 1\nb: [x, y]\nc: 3\n", "f.yaml")
    for loc in [("c",), ("b", 1), ("a",), ("b", 0), ("b", 1), ("d",)]:
        document.fault(loc, "is wrong, write it right")
    assert places(refusal(document.finish)) == [(1, "a"), (1, "d"), (2, "b[0]"), (2, "b[1]"), (3, "c")]


def test_a_flood_of_faults_is_cut_and_counted():
    document = parse("\n".join(f"k{i}: 1" for i in range(500)), "f.yaml")
    for i in range(500):
        document.fault((f"k{i}",), "is wrong, write it right")
    messages = refusal(document.finish)
    assert len(messages) == MAX_FAULTS + 1
    assert str(500 - MAX_FAULTS) in messages[-1]


def test_a_contradiction_of_something_malformed_is_not_reported():
    document = parse("a: {b: 1, c: 2}\nd: {e: 3}\n", "f.yaml")
    document.fault(("a", "b"), "is wrong, write it right")
    document.contradiction(("a",), "hangs on b")
    document.contradiction(("a", "b"), "is b")
    document.contradiction(("a", "b", "x"), "is in b")
    document.contradiction(("d",), "hangs on b too", ("a", "b"))
    document.contradiction(("a", "c"), "stands beside b")
    document.contradiction(("d", "e"), "stands elsewhere")
    assert places(refusal(document.finish)) == [(1, "a.b"), (1, "a.c"), (2, "d.e")]


def test_key_paths_are_written_as_people_do():
    assert key_path(("budgets", 1, "children", 0, "weight")) == "budgets[1].children[0].weight"
    assert key_path(()) == "file"


@pytest.mark.parametrize("key", ["", " ", " a", "a ", "a: b", 'a"b', "a\nb", "a" * 200])
def test_a_key_that_could_be_misread_stands_in_quotes_on_one_line(key):
    path = key_path(("a", key, 0))
    assert path.startswith("a.")
    assert path.endswith("[0]")
    assert path.isprintable()
    assert len(path) < 100
    plain = key.strip() == key and key.isalpha()
    assert ('"' in path) != plain


def test_a_nameless_key_at_the_top_is_not_the_file():
    document = parse("'': 1\n", "f.yaml")
    document.fault(("",), "is wrong, write it right")
    assert places(refusal(document.finish)) == [(1, '""')]


# -- holes -------------------------------------------------------------------------------------------

DATA = st.recursive(
    st.integers(0, 9),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(st.sampled_from("abc"), inner)),
    max_leaves=20,
)


def leaves(value, loc=()):
    """Yield place and value of everything that is no container."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*loc, key))
    else:
        yield loc, value


@given(st.dictionaries(st.sampled_from("abc"), DATA), st.data())
def test_what_is_left_beside_holes_knows_where_it_came_from(data, draw):
    everywhere = [loc[:i] for loc, _ in leaves(data) for i in range(1, len(loc) + 1)]
    gone = draw.draw(st.lists(st.sampled_from(everywhere), max_size=4)) if everywhere else []
    before, holes = copy.deepcopy(data), Holes()
    holes.add(gone)
    left = {holes.original(loc): value for loc, value in leaves(holes.cut(data))}
    cut = {loc[:i] for loc in gone for i in [len(loc)]}
    expected = {
        loc: value for loc, value in leaves(data) if not any(loc[:i] in cut for i in range(len(loc) + 1))
    }
    assert left == expected
    assert data == before
