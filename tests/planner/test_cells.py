"""Cells: what is read is what was meant, and what is refused is refused with words."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cells import epoch, name, names, number, optional, seconds, truth, utc, whole, within

READERS = {
    "seconds": seconds,
    "epoch": epoch,
    "signed": whole(-5, 5),
    "number": number,
    "within": within(0, 1),
    "name": name,
    "names": names,
    "truth": truth,
    "utc": utc,
    "optional": optional(seconds, -1, "None"),
}


@given(st.integers(0, 10**9), st.sampled_from(["", ".", ".0", ".000"]))
def test_a_whole_number_may_be_written_with_zeros_after_the_point(value, tail):
    assert seconds(f"{value}{tail}") == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("-1", '"-1" is negative'),
        ("-0.5", '"-0.5" is negative'),
        ("1.5", '"1.5" is not whole'),
        ("1e3", '"1e3" is not plain digits'),
        ("9" * 30, "is too large"),
        ("3153600001", "is too large"),
        ("1e400", "is not a number"),
        ("nan", "is not a number"),
        ("inf", "is not a number"),
        ("8h", "is not a number"),
        (" 8", "is not a number"),
        ("\uff18", "is not a number"),
        ("9" * 5000, "is not a number"),
    ],
)
def test_what_is_no_number_of_seconds_is_refused_with_the_reason(text, why):
    with pytest.raises(ValueError, match="write whole seconds from 0 to 3153600000") as caught:
        seconds(text)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 200


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_finite_number_is_read_as_it_was_written(value):
    assert number(repr(value)) == value


@pytest.mark.parametrize("yes", ["true", "True", "TRUE", "yes", "1"])
@pytest.mark.parametrize("no", ["false", "False", "FALSE", "no", "0"])
def test_truth_values_have_the_usual_spellings(yes, no):
    assert truth(yes) is True
    assert truth(no) is False


@given(st.datetimes(datetime(1970, 1, 2), datetime(2999, 1, 1)), st.sampled_from("T "))  # noqa: DTZ001
def test_a_time_without_a_zone_is_utc_and_one_with_a_zone_is_taken_at_its_word(moment, mark):
    moment = moment.replace(microsecond=0)
    expected = int(moment.replace(tzinfo=UTC).timestamp())
    text = moment.isoformat(mark)
    assert utc(text) == expected
    assert utc(f"{text}+08:00") == expected - 8 * 3600


def test_names_in_a_list_count_once_in_their_order():
    assert names("b|a|b") == ("b", "a")
    assert names("") == ()


def test_an_empty_cell_or_a_blank_is_the_default_and_nothing_else_is():
    read = optional(seconds, -1, "None")
    assert [read(text) for text in ("", "None", "0")] == [-1, -1, 0]
    with pytest.raises(ValueError, match="none"):
        read("none")


@given(st.sampled_from(sorted(READERS)), st.text(max_size=80))
def test_whatever_a_cell_holds_it_is_read_or_refused_on_one_line(reader, text):
    fault = None
    try:
        value = READERS[reader](text)
    except ValueError as error:
        fault = str(error)
    if fault is None:
        assert not (isinstance(value, float) and math.isnan(value))
    else:
        assert fault.isprintable()
        assert "write " in fault
