"""Times of foreign data: against Python's datetime, and what is no time."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.decode.foreign.time_kernels import ABSENT, EXACT, ROUNDED, UNREADABLE
from lakerunner_assets.decode.foreign.times import TIME, of_doubles, of_integers, read_times

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MOMENTS = st.integers(-9_214_560_000, 9_214_646_400).flatmap(
    lambda seconds: st.integers(0, 999_999).map(
        lambda micros: EPOCH + dt.timedelta(seconds=seconds, microseconds=micros)
    )
)
"""The years 1678 to 2261."""
ZONES = st.integers(-23 * 60 - 59, 23 * 60 + 59)


def ns_of(moment: dt.datetime) -> int:
    """Of a time in UTC."""
    return (moment - EPOCH) // dt.timedelta(microseconds=1) * 1000


def read(text: str | None) -> tuple[int, int]:
    ns, states = read_times("string", pa.array([text], pa.string()))
    return int(ns[0]), int(states[0])


@settings(max_examples=100, deadline=None)
@given(MOMENTS, ZONES, st.integers(0, 999), st.sampled_from("T t_"), st.sampled_from(".,"))
def test_any_written_time_is_what_datetime_says(
    moment: dt.datetime, zone: int, nanos: int, separator: str, point: str
) -> None:
    hours, minutes = divmod(abs(zone), 60)
    sign = "-" if zone < 0 else "+"
    body = f"{moment:%Y-%m-%d}{separator}{moment:%H:%M:%S}{point}{moment.microsecond:06d}{nanos:03d}"
    shifted = ns_of(moment) + nanos - zone * 60 * 10**9
    assert read(body) == (ns_of(moment) + nanos, EXACT)
    assert read(f"{body}Z") == (ns_of(moment) + nanos, EXACT)
    for offset in (f"{sign}{hours:02d}:{minutes:02d}", f" {sign}{hours:02d}{minutes:02d}"):
        assert read(body + offset) == (shifted, EXACT)


@settings(max_examples=100, deadline=None)
@given(MOMENTS, st.integers(0, 9))
def test_a_fraction_may_have_any_number_of_digits(moment: dt.datetime, digits: int) -> None:
    fraction = f"{moment.microsecond:06d}000"[:digits]
    text = f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{fraction}" if digits else "")
    whole = ns_of(moment.replace(microsecond=0))
    assert read(text) == (whole + int((fraction or "0").ljust(9, "0")), EXACT)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 4_102_444_800 * 10**9), st.sampled_from([9, 6, 3, 0]))
def test_epoch_numbers_are_read_by_their_size(ns: int, digits: int) -> None:
    """From 1973-03-03 on, where milliseconds pass 1e11."""
    ns += 100_000_000 * 10**9
    whole, fraction = divmod(ns, 10**digits)
    assert read(f"{whole}.{fraction:0{digits}d}" if digits else str(whole)) == (ns, EXACT)
    found, states = of_integers(np.array([whole]))
    assert (int(found[0]), int(states[0])) == (whole * 10**digits, EXACT)


@settings(max_examples=100, deadline=None)
@given(st.integers(10**9, 4 * 10**9), st.integers(0, 999_999))
def test_a_double_of_seconds_keeps_its_microseconds(seconds: int, micros: int) -> None:
    found, states = of_doubles(np.array([float(f"{seconds}.{micros:06d}")]))
    assert (int(found[0]), int(states[0])) == (seconds * 10**9 + micros * 1000, EXACT)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01", 0),
        ("1970/01/02", 86_400 * 10**9),
        ("1970-01-01 01:00", 3600 * 10**9),
        ("1970-01-01T00:00:00 UTC", 0),
        ("1970-01-01T02:00:00+02", 0),
        ("1970-01-01 02:00:00.5 +0200 CEST", 5 * 10**8),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2016-12-31T23:59:60Z", 1483228800 * 10**9),
        ("  1767323045  ", 1767323045 * 10**9),
        ("-1.5", -15 * 10**8),
        ("1767323045123456789", 1767323045123456789),
        ("1767323045123456.5", 1767323045123456500),
        ("+5", 5 * 10**9),
    ],
)
def test_spellings(text: str, ns: int) -> None:
    assert read(text) == (ns, EXACT)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "soon", "2026-13-01", "2026-02-29", "2026-00-10", "2026-01-32", "2026-1-2", "2026-01-02T",
        "2026-01-02T24:00:00Z", "2026-01-02T03:60:00Z", "2026-01-02T03:04:61Z", "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05X", "2026-01-02T03:04:05+2", "2026-01-02T03:04:05+25:00", "2026-01-02 03",
        "2026-01/02", "2026-01-02T03:04:05Z and more", "1.2.3", "12e3", "--1", ".5", "NaN",
        "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "99999999999999999999", "99999999999",
        "2026-01-02T03:04:05+02:", "x026-01-02",
    ],
)  # fmt: skip
def test_what_is_no_time(text: str) -> None:
    assert read(text) == (0, UNREADABLE)


def test_more_digits_than_nanoseconds_are_cut_and_said() -> None:
    assert read("2026-01-02T03:04:05.1234567891Z") == (1767323045123456789, ROUNDED)
    assert read("2026-01-02T03:04:05.1234567890Z") == (1767323045123456789, EXACT)
    assert read("1767323045.1234567891") == (1767323045123456789, ROUNDED)


def test_null_is_absent_and_not_unreadable() -> None:
    assert read(None) == (0, ABSENT)
    for kind, column in (
        ("int", pa.array([None, 5], pa.int64())),
        ("double", pa.array([None, 5.0])),
        (TIME, pa.array([None, 5 * 10**9])),
        ("string", pa.array([None, "5"]).dictionary_encode()),
    ):
        ns, states = read_times(kind, column)
        assert states.tolist() == [ABSENT, EXACT]
        assert ns.tolist()[1] == 5 * 10**9


def test_numbers_that_are_no_time() -> None:
    assert of_doubles(np.array([np.nan, np.inf, -np.inf, 1e300]))[1].tolist() == [UNREADABLE] * 4
    assert of_integers(np.array([99_999_999_999, -99_999_999_999]))[1].tolist() == [UNREADABLE] * 2
    assert read_times("bool", pa.array([True]))[1].tolist() == [UNREADABLE]


def test_slices_of_arrays_are_read_where_they_start() -> None:
    column = pa.array(["x", "5", "6"]).slice(1)
    assert read_times("string", column)[0].tolist() == [5 * 10**9, 6 * 10**9]
    assert read_times("string", column.dictionary_encode().slice(1))[0].tolist() == [6 * 10**9]
