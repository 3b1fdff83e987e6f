"""Go's numbers, texts, times and durations, where there is something to compare them with."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.gotext.conversions import to_float, to_int
from lakerunner_query.gotext.durations import GO, duration_text
from lakerunner_query.gotext.fmt_print import sprintf
from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.gotext.strconv import quote, unquote
from lakerunner_query.gotext.time import (
    SECOND,
    UTC_ZONE,
    Time,
    civil_date,
    days_of,
    format_time,
    time_text,
    zone,
)
from lakerunner_query.gotext.time_parse import TimeParseError, parse_time
from lakerunner_query.rules.templates import AlertTemplate, expand
from tests.support.query.logql.template_frames import text_of

finite = st.floats(allow_nan=False, allow_infinity=False)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
moments = st.integers(-5_000_000_000, 20_000_000_000)
ZONES = ["UTC", "America/New_York", "Asia/Kolkata", "Europe/Berlin", "Australia/Lord_Howe"]


@given(finite, st.sampled_from("gefx"))
def test_shortest_floats_can_be_read_again(value: float, verb: str) -> None:
    text = format_float(value, verb, None)
    assert (float.fromhex(text) if verb == "x" else float(text)) == value


@given(finite, st.integers(0, 20), st.sampled_from("efg"))
def test_floats_of_given_precision_are_those_of_c(value: float, precision: int, verb: str) -> None:
    assert format_float(value, verb, precision) == f"%.{precision}{verb}" % value


@given(int64s, st.integers(0, 30), st.sampled_from(["", "-", "0", "+", " "]))
def test_integers_are_those_of_c(value: int, width: int, flag: str) -> None:
    assert sprintf(f"%{flag}{width or ''}d", [value]) == f"%{flag}{width or ''}d" % value


@given(st.text(), st.integers(0, 20), st.integers(0, 9))
def test_texts_are_padded_and_cut_by_characters(text: str, width: int, precision: int) -> None:
    assert sprintf(f"%{width or ''}.{precision}s", [text]) == text[:precision].rjust(width)
    assert sprintf(f"%-{width or ''}s", [text]) == text.ljust(width)


@given(st.binary(max_size=20))
def test_quoted_texts_can_be_read_again(raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    assert unquote(quote(text)) == text
    assert unquote(quote(text, is_ascii=True)) == text
    assert quote(text, is_ascii=True).isascii()


@given(st.integers(-4_000_000, 4_000_000))
def test_days_and_dates(days: int) -> None:
    assert days_of(*civil_date(days)) == days


@given(moments, st.sampled_from(ZONES))
def test_times_are_written_as_the_calendar_has_them(seconds: int, name: str) -> None:
    where = zone(name)
    assert where is not None
    local = datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
    expected = local.astimezone(where.info or UTC).strftime("%Y-%m-%d %H:%M:%S %a %b %j %I%p %y")
    text = format_time(Time(seconds * SECOND, where), "2006-01-02 15:04:05 Mon Jan 002 03PM 06")
    assert text == expected.rjust(len(text), "0")


@given(st.integers(-(1 << 62), 1 << 62), st.sampled_from(ZONES))
def test_times_can_be_read_again(ns: int, name: str) -> None:
    where = zone(name)
    assert where is not None
    layout = "Monday, January 2, 2006 3:04:05.999999999PM -07:00:00"
    assert parse_time(layout, format_time(Time(ns, where), layout), UTC_ZONE).ns == ns


@given(int64s)
def test_durations_can_be_read_again(ns: int) -> None:
    assert GO.parse(duration_text(ns)) == ns


@given(int64s, int64s)
def test_arithmetic_wraps_in_64_bits(left: int, right: int) -> None:
    for name, exact in (("add", left + right), ("sub", left - right), ("mul", left * right)):
        wrapped = (exact + (1 << 63)) % (1 << 64) - (1 << 63)
        assert text_of(f"{{{{{name} .a .b}}}}", a=str(left), b=str(right)) == str(wrapped)


@given(int64s, int64s.filter(bool))
def test_division_is_toward_zero(left: int, right: int) -> None:
    text = text_of("{{div .a .b}} {{mod .a .b}}", a=str(left), b=str(right))
    quotient, rest = map(int, text.split())
    assert (quotient * right + rest - left) % (1 << 64) == 0
    assert abs(rest) < abs(right)
    assert rest == 0 or (rest < 0) == (left < 0)


@given(st.text(max_size=12))
def test_numbers_out_of_any_text(text: str) -> None:
    assert -(1 << 63) <= to_int(text) < 1 << 63
    assert isinstance(to_float(text), float)


@pytest.mark.parametrize(
    ("layout", "value", "said"),
    [
        ("2006-01-02", "x", 'parsing time "x" as "2006-01-02": cannot parse "x" as "2006"'),
        ("2006-01-02", "2020-13-01", 'parsing time "2020-13-01": month out of range'),
        ("2006-01-02", "2021-02-29", 'parsing time "2021-02-29": day out of range'),
        ("15:04", "12:60", 'parsing time "12:60": minute out of range'),
        ("2006", "2020x", 'parsing time "2020x": extra text: "x"'),
        ("Jan", "Foo", 'parsing time "Foo" as "Jan": cannot parse "Foo" as "Jan"'),
    ],
)
def test_times_that_are_none(layout: str, value: str, said: str) -> None:
    with pytest.raises(TimeParseError) as raised:
        parse_time(layout, value, UTC_ZONE)
    assert str(raised.value) == said


def test_the_zero_time() -> None:
    assert text_of('{{toDate "2006" "x"}}') == "0001-01-01 00:00:00 +0000 UTC"
    assert text_of('{{(toDate "2006" "x").IsZero}}') == "true"
    assert time_text(Time(0)) == "1970-01-01 00:00:00 +0000 UTC"


def test_what_is_no_number() -> None:
    assert text_of('{{addf (float64 "nan") 1}}').endswith("Cannot create a Decimal from NaN")
    assert math.isinf(to_float("-inf"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{{ query "up" | first }}', "{map[job:a] 2}"),
        ('{{ range query "up" }}{{ . }}{{ end }}', "{map[job:a] 2}"),
        ('{{ printf "%v" (query "up" | first) }}', "&{map[job:a] 2}"),
        ("{{ . }}", "{map[job:b] map[] http://lake 1.5}"),
    ],
)
def test_structures_are_written_with_their_fields(text: str, expected: str) -> None:
    data = AlertTemplate("A", {"job": "b"}, 1.5, 0, external_url="http://lake")
    assert expand(text, data, lambda _: [({"job": "a"}, 2.0)]) == expected
