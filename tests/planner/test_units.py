import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.units import (
    MAX_DURATION_S,
    MAX_TIME_S,
    format_duration,
    format_time,
    parse_cpus,
    parse_duration,
    parse_memory,
    parse_number,
    parse_percent,
    parse_time,
)

UNIT = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}


def refused(read, value) -> str:
    with pytest.raises(ValueError, match=r", write ") as caught:
        read(value)
    assert type(caught.value) is ValueError
    return str(caught.value)


@given(st.integers(0, MAX_DURATION_S))
@example(0)
@example(604_800)
def test_every_duration_is_read_as_it_was_written(seconds):
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.dictionaries(st.sampled_from("wdhms"), st.integers(0, 999), min_size=1))
def test_suffixed_parts_add_up_as_timedeltas_do(parts):
    text = "".join(f"{parts[unit]}{unit}" for unit in "wdhms" if unit in parts)
    expected = sum((n * UNIT[unit] for unit, n in parts.items()), timedelta())
    assert parse_duration(text) == expected.total_seconds()


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_slurms_forms_read_as_slurm_means_them(days, hours, minutes, seconds):
    clock = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds}

    def meant(*keys):
        return timedelta(**{key: clock[key] for key in keys}).total_seconds()

    h, m, s = f"{hours:02d}", f"{minutes:02d}", f"{seconds:02d}"
    assert parse_duration(f"{days}-{h}:{m}:{s}") == meant("days", "hours", "minutes", "seconds")
    assert parse_duration(f"{days}-{h}:{m}") == meant("days", "hours", "minutes")
    assert parse_duration(f"{days}-{h}") == meant("days", "hours")
    assert parse_duration(f"{h}:{m}:{s}") == meant("hours", "minutes", "seconds")


def test_hours_alone_may_pass_a_day():
    assert parse_duration("48:00:00") == 2 * 86_400


def test_fractions_are_taken_where_whole_seconds_result():
    assert parse_duration("1.5h") == 5_400
    assert parse_duration("0.25m") == 15
    assert "2s" in refused(parse_duration, "1.5s")


@pytest.mark.parametrize("value", [8, "8", 28_800, 1.5, Decimal("0.5")])
def test_a_bare_number_is_refused_for_want_of_a_unit(value):
    assert "has no unit" in refused(parse_duration, value)


def test_the_units_are_offered_for_a_bare_number():
    assert "8s, 8m or 8h" in refused(parse_duration, 8)


@pytest.mark.parametrize("zero", [0, "0"])
def test_a_bare_zero_is_told_to_write_0s(zero):
    assert refused(parse_duration, zero).endswith("write 0s")


def test_minutes_and_seconds_are_ambiguous_and_both_readings_are_offered():
    message = refused(parse_duration, "1:30")
    readings = message.split("write ")[1].split(" or ")
    assert [parse_duration(text) for text in readings] == [90, 5_400]


@pytest.mark.parametrize("value", [-1, "-5m", "-1-00:00:00", "-0s"])
def test_negative_durations_are_refused(value):
    assert "negative" in refused(parse_duration, value)


@pytest.mark.parametrize(
    "value",
    ["", " ", "h", "1", "1x", "1h2", "8 hours", "8H", "1e3s", "nan", "UNLIMITED", "1-24:00:00", "0:60:00",
     "1-", "1:2:3:4", "1m1h", "1h1h", "٣h", "1h\n1m", "9" * 100 + "s", "36501d", None, True, [], {}, math.nan,
     math.inf, Decimal("nan"), Decimal("inf"), -Decimal("inf")],
)  # fmt: skip
def test_what_is_no_duration_is_refused(value):
    refused(parse_duration, value)


@given(st.one_of(st.text(max_size=12), st.text("0123456789wdhms-:. ", max_size=14)))
def test_any_text_is_a_duration_or_a_refusal(text):
    try:
        seconds = parse_duration(text)
    except ValueError:
        refused(parse_duration, text)
    else:
        assert 0 <= seconds <= MAX_DURATION_S


@given(st.integers(0, MAX_TIME_S))
def test_every_time_is_read_as_it_was_written(time_s):
    assert parse_time(format_time(time_s)) == time_s


def test_times_are_written_as_the_interface_has_them():
    assert format_time(1_791_559_200) == "2026-10-09T15:20:00Z"


@given(
    st.datetimes(datetime(1970, 1, 3), datetime(8999, 12, 29)),  # noqa: DTZ001
    st.integers(-23 * 60, 23 * 60),
)
def test_offsets_are_applied_and_parts_of_a_second_dropped(naive, offset_minutes):
    aware = naive.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    expected = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    assert parse_time(aware.isoformat()) == expected
    assert parse_time(str(aware)) == expected


def test_a_naive_time_is_refused_and_shown_with_its_zone():
    message = refused(parse_time, "2026-10-09T15:20:00")
    assert "no time zone" in message
    assert "2026-10-09T15:20:00Z" in message


@pytest.mark.parametrize(
    "value",
    ["2026-10-09", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-10-09T24:00:01Z", "2026-W41-5",
     "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "20261009T152000Z", "now", "", "15:20",
     "2026-10-09T15:20:00+99:00", 1_791_559_200, -5, True, None, math.nan],
)  # fmt: skip
def test_what_is_no_moment_is_refused(value):
    refused(parse_time, value)


def test_a_bare_number_is_shown_as_the_time_it_may_mean():
    assert refused(parse_time, 1_791_559_200).endswith("write 2026-10-09T15:20:00Z")


@given(st.integers(0, 10**6), st.sampled_from(["", "K", "M", "G", "T"]), st.sampled_from(["", "B", "iB"]))
def test_memory_suffixes_are_binary(number, prefix, tail):
    power = ["", "K", "M", "G", "T"].index(prefix)
    if number << (10 * power) <= 1 << 60:
        assert parse_memory(f"{number}{prefix}{tail}") == number << (10 * power)


def test_a_whole_number_is_bytes_and_halves_are_fine():
    assert parse_memory(4096) == 4096
    assert parse_memory("1.5T") == 3 << 39


@pytest.mark.parametrize(
    "value", [-1, "-1G", 1.5, "1.5", "G", "12 G", "1X", "0.3K", "2000P", None, True, "\u212a1", "1\u212a"]
)
def test_what_is_no_memory_is_refused(value):
    refused(parse_memory, value)


@given(st.integers(0, 10**8))
def test_cpus_are_exact_to_a_thousandth(milli):
    assert parse_cpus(Decimal(milli) / 1000) == milli
    assert parse_cpus(milli / 1000) == milli


@pytest.mark.parametrize("value", [-1, Decimal("0.0001"), math.nan, math.inf, "96", None, True, 10**7])
def test_what_is_no_number_of_cpus_is_refused(value):
    refused(parse_cpus, value)


def test_percentages_are_exact():
    assert parse_percent("0.1%") == Fraction(1, 1000)
    assert parse_percent("100%") == 1


@pytest.mark.parametrize("value", [4, "4", 0.001, "0.001", "-1%", "101%", "%", "4 %", None, "nan%"])
def test_a_percentage_needs_its_sign_and_its_bounds(value):
    refused(parse_percent, value)


def test_numbers_are_taken_as_written():
    assert parse_number(Decimal("0.1")) == parse_number(0.1) == Fraction(1, 10)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, Decimal("1e999999999"), Decimal("1e-999999999"), "1", None, False]
)
def test_what_cannot_be_reckoned_with_is_no_number(value):
    refused(parse_number, value)
