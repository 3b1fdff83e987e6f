"""Lengths of spans: a number in the unit its column's name says, or text with units as Go and Java write it.

    duration_ms: 12.5        durationMicros: 12500        elapsed: "12.5ms", "1m2.5s"

A plain number in a column whose name says no unit is nanoseconds.
"""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.foreign.mapping import Mask, comparable
from lakerunner_assets.decode.foreign.numbers import read_numbers
from lakerunner_assets.decode.foreign.values import coded
from resources.arrays import Int64s

_UNITS = {
    1: ("ns", "nano", "nanos", "nanoseconds"),
    1000: ("us", "µs", "micro", "micros", "microseconds"),
    1_000_000: ("ms", "milli", "millis", "milliseconds"),
    1_000_000_000: ("s", "sec", "secs", "seconds"),
}
_NS = {word: factor for factor, words in _UNITS.items() for word in words}
_LONG = {"m": 60 * 10**9, "h": 3600 * 10**9}
_NAMED = re.compile(rf"(?:_|^duration)({'|'.join(_NS)})$")
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h)\s*")
_MAX_TEXT = 64
_LAST = 2**63 - 1


def unit_of(name: str) -> int | None:
    """Nanoseconds per unit that a column's name says.

    >>> unit_of("duration_ms"), unit_of("durationMicros"), unit_of("duration"), unit_of("http.seconds")
    (1000000, 1000, None, 1000000000)
    """
    found = _NAMED.search(comparable(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)))
    return _NS[found.group(1)] if found else None


def read_durations(kind: str, column: pa.Array, unit: int) -> tuple[Int64s, Mask]:
    """Nanoseconds, and which rows say a duration that is not negative and fits."""
    numbers = read_numbers(kind, column)
    scaled = numbers.double * unit
    known = numbers.known & (numbers.double >= 0) & (scaled < float(_LAST))
    exact = np.where(numbers.is_int & known, numbers.integer, 0) * unit
    ns = np.where(numbers.is_int, exact, np.rint(np.where(known, scaled, 0.0)).astype(np.int64))
    if kind != "string" or numbers.known.all():
        return ns, known
    texts = coded(column)
    parsed = [_parsed(word) for word in texts.dictionary.to_pylist()]
    values = np.array([*(-1 if value is None else value for value in parsed), -1], np.int64)
    written = values[texts.indices.fill_null(len(parsed)).to_numpy()]
    return np.where(written >= 0, written, ns), known | (written >= 0)


def _parsed(text: str) -> int | None:
    """
    >>> _parsed("1m2.5s"), _parsed("12 ms"), _parsed("12"), _parsed("soon")
    (62500000000, 12000000, None, None)
    """
    text = text.strip()
    parts = _PART.findall(text) if len(text) <= _MAX_TEXT else []
    if not parts or not re.fullmatch(rf"(?:{_PART.pattern})+", text):
        return None
    factors = {**_NS, **_LONG, "μs": 1000}
    total = int(sum(Decimal(number) * factors[unit] for number, unit in parts))
    return total if total <= _LAST else None
