"""Texts as numbers, durations and sizes: what Go would say of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.gotext.conversions import (
    ConversionError,
    convert_values,
    duration_ns,
    duration_seconds,
    number,
    size,
)
from lakerunner_query.logql.lang.ast import Conversion, Unwrap
from lakerunner_query.logql.stages.formats import unwrap_numbers
from tests.support.query.logql.frames import applied, frame_of, labels_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("5.", 5),
        (".5", 0.5),
        ("+1e3", 1000),
        ("1_000", 1000),
        ("0x1p4", 16),
        ("-Inf", -math.inf),
        ("infinity", math.inf),
        ("1e1_0", 1e10),
    ],
)
def test_numbers(text: str, value: float) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["", " 5", "1__0", "_1", "1_", "0x10", "٣", "5s", "1e", "1e400", "--1"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ConversionError, match=r"strconv\.ParseFloat: parsing "):
        number(text)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("1h30m", 5400 * 10**9),
        ("-1.5ms", -1_500_000),
        ("1µs", 1000),
        ("1μs", 1000),
        ("1h1h", 7200 * 10**9),
        ("9223372036854775807ns", 2**63 - 1),
        (".5s", 500_000_000),
        ("1.2345678901234ms", 1_234_567),
    ],
)
def test_durations(text: str, nanoseconds: int) -> None:
    assert duration_ns(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("90", 'time: missing unit in duration "90"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("µs", r'time: invalid duration "\\xc2\\xb5s"'),
        ("10000000h", 'time: invalid duration "10000000h"'),
        ("1h 5m", 'time: unknown unit "h " in duration "1h 5m"'),
    ],
)
def test_what_is_no_duration(text: str, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        duration_ns(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("42kB", 42_000),
        ("2 kib", 2048),
        ("2,048", 2048),
        ("1.5B", 1),
        ("1EB", 1e18),
        ("5k", 5000),
        ("5Ki", 5120),
    ],
)
def test_sizes(text: str, count: float) -> None:
    assert size(text) == count


@pytest.mark.parametrize("text", ["", "KB", "-5KB", "5bb", "5.5.5KB", "20EB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ConversionError):
        size(text)


def test_each_distinct_value_is_converted_and_the_bad_ones_are_named() -> None:
    values = pa.array(["1s", "x", "250ms", "1.5"], pa.string())
    found = convert_values(values, duration_seconds)
    assert found.numbers.tolist() == [1, 0, 0.25, 0]
    assert found.failures == {1: 'time: invalid duration "x"', 3: 'time: missing unit in duration "1.5"'}


NUMBERS = st.from_regex(r"\A-?[0-9]{1,20}(\.[0-9]{0,20})?(e[0-9])?\Z") | st.text(max_size=3)
DURATIONS = st.from_regex(r"\A-?[0-9]{0,8}(\.[0-9]{0,12})?(ns|us|µs|ms|s|m|h|d)?\Z") | st.text(max_size=3)


@settings(deadline=None)
@given(st.lists(NUMBERS, max_size=10, unique=True), st.lists(DURATIONS, max_size=10, unique=True))
def test_many_at_once_are_what_each_is(numbers: list[str], durations: list[str]) -> None:
    for texts, convert in ((numbers, number), (durations, duration_ns), (durations, duration_seconds)):
        found = convert_values(pa.array(texts, pa.string()), convert)
        each = [said_of(text, convert) for text in texts]
        assert found.failures == {place: said for place, said in enumerate(each) if isinstance(said, str)}
        numbers_of_each = [0.0 if isinstance(said, str) else float(said) for said in each]
        np.testing.assert_array_equal(found.numbers, numbers_of_each)


def said_of(text: str, convert: Callable[[str], float]) -> float | str:
    """The number, or what is wrong."""
    try:
        return convert(text)
    except ConversionError as error:
        return str(error)


def test_unwrap_takes_the_rows_that_have_the_label_and_marks_the_bad_ones() -> None:
    frame = applied(frame_of(["v=250ms a=1", "a=2", "v=x a=3"]), "| logfmt")
    found, numbers = unwrap_numbers(frame, Unwrap("v", Conversion.DURATION))
    assert numbers.tolist() == [0.25, 0]
    assert found.tsns.tolist() == [0, 2]
    assert labels_of(found)[2]["__error__"] == "SampleExtractionErr"
    assert "__error__" not in labels_of(found)[0]


def test_unwrap_of_a_label_that_nobody_has_is_empty() -> None:
    found, numbers = unwrap_numbers(frame_of(["a"]), Unwrap("v"))
    assert (found.count, numbers.tolist()) == (0, [])
