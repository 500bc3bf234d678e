import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.hostlist import MAX_HOSTS, Hosts, expand, fold

WORD = st.text("abcxyz-._", min_size=1, max_size=3)


@st.composite
def bracket(draw) -> tuple[str, list[str]]:
    """Return the text of a bracket and the numbers in it, found by counting."""
    pieces, numbers = [], []
    for _ in range(draw(st.integers(1, 3))):
        width, low = draw(st.integers(1, 4)), draw(st.integers(0, 999))
        high = low + draw(st.integers(0, 4))
        first = f"{low:0{width}d}"
        last = f"{high:0{len(first)}d}"
        pieces.append(first if low == high else f"{first}-{last}")
        n = low
        while n <= high:
            numbers.append("0" * (len(first) - len(str(n))) + str(n))
            n += 1
    return f"[{','.join(pieces)}]", numbers


@st.composite
def hostlist(draw) -> tuple[str, list[str]]:
    """Return a hostlist and the names in it, put together one bracket at a time."""
    texts, names = [], []
    for _ in range(draw(st.integers(1, 3))):
        text, here = "", [""]
        for _ in range(draw(st.integers(1, 2))):
            head = draw(WORD)
            inner, numbers = draw(bracket())
            text += head + inner
            here = [name + head + number for name in here for number in numbers]
        tail = draw(st.sampled_from(["", "-ib", ".local"]))
        texts.append(text + tail)
        names += [name + tail for name in here]
    return ",".join(texts), names


@given(hostlist())
def test_brackets_expand_as_counting_does(pair):
    text, names = pair
    assert expand(text) == names


@given(hostlist())
def test_hosts_are_counted_and_told_apart_without_writing_them_out(pair):
    text, names = pair
    hosts = Hosts(text)
    assert len(hosts) == len(names)
    assert {digitless(p) for p in hosts.patterns} == {digitless(name) for name in names}


def digitless(name: str) -> str:
    return "".join(c for c in name if not c.isdigit())


@given(
    st.lists(
        st.one_of(st.from_regex(r"[a-c]{0,2}[0-9]{1,3}(-[a-c][0-9]{0,2})?", fullmatch=True), WORD),
        max_size=30,
    )
)
def test_folding_loses_nothing_and_adds_nothing(names):
    folded = fold(names)
    assert sorted(expand(folded) if names else []) == sorted(set(names))


@given(st.lists(st.from_regex(r"n[0-9]{1,3}", fullmatch=True), max_size=30), st.integers(0, 99))
def test_folding_does_not_depend_on_the_order(names, seed):
    shuffled = names[:]
    random.Random(seed).shuffle(shuffled)
    assert fold(shuffled) == fold(names)


@given(st.integers(0, 200), st.integers(1, 60), st.integers(1, 4))
def test_a_run_of_equal_padding_folds_into_one_range(low, count, width):
    names = [f"saturn-{n:0{width}d}" for n in range(low, low + count)]
    assert fold(names).count("-") <= 2
    assert "," not in fold(names)


def test_tables_get_what_people_write():
    assert fold(["n2", "n1", "n3", "n7", "login"]) == "login,n[1-3,7]"
    assert fold([f"saturn-{n:03d}" for n in range(1, 129)]) == "saturn-[001-128]"
    assert fold(["a1b2", "a1b3"]) == "a1b[2-3]"
    assert fold(["n7"]) == "n7"
    assert fold([]) == ""


@pytest.mark.parametrize(
    "text", ["n[1-999999999]", "[0-99]" * 40, "n[1-60000],m[1-60000]", "n[0-999999999999999999]"]
)
def test_too_many_names_are_refused_before_they_are_made(text):
    with pytest.raises(ValueError, match=rf"names \d+ hosts, write lists of at most {MAX_HOSTS}"):
        expand(text)


@pytest.mark.parametrize(
    "text",
    ["", "n[", "n]", "n[[1]]", "n[1]]", "n[]", "n[a]", "n[1-]", "n[-1]", "n[1-2-3]", "n[2-1]", "n[1-010]",
     "n[1 2]", "a,,b", ",a", "a,", "a, b", "a b", "n[1,]", "n[٣]", "n[" + "0" * 5000 + "1]",
     "x" * 300 + "[1-2]", "n[0000000000-" + "1" * 18 + "]"],
)  # fmt: skip
def test_what_is_no_hostlist_is_refused(text):
    with pytest.raises(ValueError, match=r", (write|shorten) ") as caught:
        expand(text)
    assert len(str(caught.value)) < 300


@given(st.text("n[]-,0123 ", max_size=12))
def test_any_text_is_a_hostlist_or_a_refusal(text):
    try:
        names = expand(text)
    except ValueError:
        with pytest.raises(ValueError, match=r", (write|shorten) "):
            expand(text)
    else:
        assert names
        assert all(not set(name) & set("[], ") for name in names)
