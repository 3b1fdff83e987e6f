"""Label values convert to numbers as Go's and Loki's libraries convert them.

    durations  "1.5s" -> 1500000000 ns, "90" -> missing unit;   sizes  "2KiB" -> 2048, "2,048" -> 2048

Conversions work on the distinct values of a column; each returns the numbers and, by value, the failures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.gotext.durations import GO, NANOSECONDS, parse_size
from lakerunner_query.gotext.numbers import INT_MAX, INT_MIN, ConversionError, parse_integer, read_float
from resources.arrays import Doubles, Flags, Int64s

_PLAIN_NUMBER = r"^-?[0-9]{1,17}(\.[0-9]{1,17})?$"
_PLAIN_DURATION = r"^(?P<whole>[0-9]{1,6})(?:\.(?P<fraction>[0-9]{1,9}))?(?P<unit>ns|us|µs|ms|s|m|h)$"
_WITH_POINT = re.compile(r"([-+]?[0-9]*+)\.[0-9]*+")


def larger(one: Doubles, other: Doubles) -> Doubles:
    """Return the larger numbers as Go's `math.Max` does.

    An infinity that decides wins over NaN, any other NaN gives NaN, and -0 is below 0.

    >>> larger(np.array([np.inf, 1.0, -0.0]), np.array([np.nan, np.nan, 0.0])).tolist()
    [inf, nan, 0.0]
    """
    with np.errstate(invalid="ignore"):  # of sums that are not taken
        found: Doubles = np.where((one == 0) & (other == 0), one + other, np.maximum(one, other))
    return np.where((one == np.inf) | (other == np.inf), np.inf, found)


def smaller(one: Doubles, other: Doubles) -> Doubles:
    return -larger(-one, -other)


def to_int(value: Any) -> int:
    """Cast as Loki's arithmetic functions do; what is no number counts as 0.

    >>> to_int("0x10"), to_int("1.9"), to_int("010"), to_int("abc")
    (16, 1, 8, 0)
    """
    if isinstance(value, str):
        return _text_to_int(value)
    if isinstance(value, float):
        return truncate(value)
    return int(value) if isinstance(value, int) else 0


def to_float(value: Any) -> float:
    if isinstance(value, str):
        try:
            return read_float(value)
        except ConversionError:
            return 0.0
    return float(value) if isinstance(value, int | float) else 0.0


def truncate(value: float) -> int:
    """Cut toward zero; what does not fit into 64 bits is the smallest number, as on Go's usual processors."""
    if not -(2.0**63) <= value < 2.0**63:
        return INT_MIN
    return int(value)


def _text_to_int(text: str) -> int:
    if found := _WITH_POINT.fullmatch(text):
        text = found[1] if found[1] not in {"", "+", "-"} else "0"
    value = parse_integer(text)
    return value if value is not None and INT_MIN <= value <= INT_MAX else 0


@dataclass(frozen=True, slots=True)
class ConvertedNumbers:
    """The result of a conversion of distinct values."""

    numbers: Doubles
    """Numbers by distinct value; 0 for a failure."""
    failures: dict[int, str] = field(default_factory=dict)
    """Messages by place of the value."""


def convert_values(values: pa.StringArray, convert: Callable[[str], float]) -> ConvertedNumbers:
    """Convert plain decimals and durations of one unit all at once, the others one by one."""
    numbers, is_done = _plain(values, convert)
    failures: dict[int, str] = {}
    rest = np.flatnonzero(~is_done)
    for place, text in zip(rest.tolist(), values.take(pa.array(rest)).to_pylist(), strict=True):
        try:
            numbers[place] = convert(text)
        except ConversionError as error:
            failures[place] = str(error)
    return ConvertedNumbers(numbers, failures)


def _plain(values: pa.StringArray, convert: Callable[[str], float]) -> tuple[Doubles, Flags]:
    """Return the numbers of values written the usual way, and which values are."""
    if convert is number:
        is_done = pc.match_substring_regex(values, _PLAIN_NUMBER)
        return pc.if_else(is_done, values, "0").cast(pa.float64()).to_numpy(False).copy(), is_done.to_numpy(
            False
        )
    if convert not in {duration_ns, duration_seconds}:
        return np.zeros(len(values)), np.zeros(len(values), np.bool_)
    parts = pc.extract_regex(values, _PLAIN_DURATION)
    is_done = parts.is_valid().to_numpy(False)
    whole, fraction, unit = (parts.field(name).fill_null("") for name in range(3))
    factor = np.array([NANOSECONDS.get(one, 0) for one in pc.unique(unit).to_pylist()], np.int64)
    factor = factor[unit.dictionary_encode().indices.to_numpy(False)]
    scale = 10.0 ** pc.binary_length(fraction).to_numpy(False)
    behind = np.floor(_integers(fraction) * (factor / scale)).astype(np.int64)
    total = _integers(whole) * factor + behind
    return (total / 1e9 if convert is duration_seconds else total.astype(np.float64)), is_done


def _integers(digits: pa.StringArray) -> Int64s:
    found: Int64s = pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64()).to_numpy(False)
    return found


def number(text: str) -> float:
    """Read a float as Go's `ParseFloat` does.

    >>> number("1e3"), number("1_000"), number("0x1p4"), number("Inf")
    (1000.0, 1000.0, 16.0, inf)
    """
    return read_float(text, _as_json)


def duration_ns(text: str) -> int:
    """Read nanoseconds as Go's `ParseDuration` does.

    >>> duration_ns("1h30m"), duration_ns("-1.5ms"), duration_ns("0")
    (5400000000000, -1500000, 0)
    """
    return GO.parse(text)


def duration_seconds(text: str) -> float:
    return duration_ns(text) / 1e9


def size(text: str) -> float:
    """Read bytes: whole ones, decimal or binary units in any case, commas between digits.

    >>> size("1.5KiB"), size("2 mb"), size("2,048"), size("1.5B")
    (1536.0, 2000000.0, 2048.0, 1.0)
    """
    return parse_size(text, _as_json)


def _as_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
