"""Durations, byte sizes and numbers as LogQL writes them.

>>> nanoseconds("1h30m"), nanoseconds("1d"), nanoseconds("1.5s"), byte_count("1.5KiB")
(5400000000000, 86400000000000, 1500000000, 1536)
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from lakerunner_query.lang.promql import durations, numbers
from lakerunner_query.lang.promql.strings import quote

_GO_UNITS = {
    "ns": 1,
    **dict.fromkeys(("us", "µs", "μs"), 1_000),
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_GO_PART = re.compile(r"(\d+\.?\d*|\.\d+)([^\d.]+)")
_GO = re.compile(r"([-+]?)((?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+|0)")
_LARGEST = 2**63
_PART = re.compile(r"[0-9]+([^0-9]+)")
_MOST_DIGITS = 100
"""Of one part of a duration; what is longer is too large or too exact to mean anything."""
_BYTES = re.compile(r"([0-9.]+) *([a-zA-Z]*)")
_BYTE_UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}{end}": 1000**power for power, letter in enumerate("kmgtpe", 1) for end in ("", "b")},
    **{f"{letter}{end}": 1024**power for power, letter in enumerate("kmgtpe", 1) for end in ("i", "ib")},
}
_SHOWN_SIZES = [
    (f"{letter}{end}", base**power)
    for end, base, letters in (("B", 1000, "kMGT"), ("iB", 1024, "KMGT"))
    for power, letter in reversed(list(enumerate(letters, 1)))
]
"""No more than that: `1PB` and `1EB` would be the beginning of a number with an exponent."""
_DIGITS = r"[0-9](?:_?[0-9])*"
_DECIMAL = re.compile(rf"(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX = re.compile(
    r"0[xX]_?(?:[0-9a-fA-F](?:_?[0-9a-fA-F])*)?\.?(?:[0-9a-fA-F](?:_?[0-9a-fA-F])*)?[pP][+-]?[0-9_]+"
)


class InvalidLiteralError(ValueError):
    """The message says what is wrong, as Go or Prometheus say it."""


def nanoseconds(text: str) -> int:
    """A duration of Go (`1.5h`, `-5m`), else one of Prometheus (`1d`, `1w2d`)."""
    found = go_nanoseconds(text)
    return found if found is not None else range_nanoseconds(text)


def range_nanoseconds(text: str) -> int:
    """A duration of Prometheus."""
    if not text:
        raise InvalidLiteralError("empty duration string")
    unit = next((part[1] for part in _PART.finditer(text) if part[1] not in durations.UNITS), None)
    if unit is not None and text[0].isdigit():
        raise InvalidLiteralError(f"unknown unit {quote(unit)} in duration {quote(text)}")
    try:
        return durations.milliseconds(text) * 1_000_000
    except durations.InvalidDurationError as error:
        raise InvalidLiteralError(str(error)) from error


def go_nanoseconds(text: str) -> int | None:
    """A duration of Go, with its sign."""
    found = _GO.fullmatch(text)
    if found is None:
        return None
    parts = list(_GO_PART.finditer(found[2]))
    if any(len(part[1]) > _MOST_DIGITS for part in parts):
        return None
    total = sum(int(Fraction(part[1]) * _GO_UNITS[part[2]]) for part in parts)
    if total >= _LARGEST:
        return None
    return -total if found[1] == "-" else total


def byte_count(text: str) -> int:
    """A size such as `42MB` (thousands) or `42MiB` (1024s)."""
    found = _BYTES.fullmatch(text)
    if found is None or found[1].count(".") > 1 or found[1] == "." or found[2].lower() not in _BYTE_UNITS:
        raise InvalidLiteralError(f"not a size: {quote(text)}")
    size = float(found[1]) * _BYTE_UNITS[found[2].lower()]
    if size >= 2**64:
        raise InvalidLiteralError(f"too large: {text}")
    return int(size)


def number(text: str) -> float:
    """A literal without sign, decimal or hexadecimal with an exponent of two; infinite if it is too large."""
    if _HEX.fullmatch(text):
        value = _hexadecimal(text)
    elif _DECIMAL.fullmatch(text):
        value = float(text)
    else:
        raise InvalidLiteralError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax")
    return value


def finite_number(text: str) -> float:
    value = number(text)
    if math.isinf(value):
        raise InvalidLiteralError(f"strconv.ParseFloat: parsing {quote(text)}: value out of range")
    return value


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text.replace("_", ""))
    except OverflowError:
        return math.inf


def duration_text(nanos: int) -> str:
    """As Go writes it: `1h30m0s`, `-1.5ms`."""
    if nanos < 0:
        return "-" + duration_text(-nanos)
    if nanos < _GO_UNITS["s"]:
        unit = next((unit for unit in ("ms", "µs", "ns") if nanos >= _GO_UNITS[unit]), "s")
        return _decimal(nanos, _GO_UNITS[unit]) + unit
    hours, rest = divmod(nanos, _GO_UNITS["h"])
    minutes, rest = divmod(rest, _GO_UNITS["m"])
    longer = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{longer}{_decimal(rest, _GO_UNITS['s'])}s"


def _decimal(nanos: int, unit: int) -> str:
    whole, rest = divmod(nanos, unit)
    places = len(str(unit)) - 1
    return f"{whole}.{rest:0{places}}".rstrip("0") if rest else str(whole)


def size_text(size: int) -> str:
    """In the largest unit of which it is a whole number.

    >>> size_text(42_000_000), size_text(1536), size_text(2048)
    ('42MB', '1536B', '2KiB')
    """
    for unit, factor in _SHOWN_SIZES:
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B" if size else "0kB"  # `0b` begins a binary number


def number_text(value: float) -> str:
    """A literal that reads back as this number; what has none is the operation that gives it."""
    if math.isnan(value):
        return "(0 / 0)"
    if value == 0 and math.copysign(1, value) < 0:
        return "(0 * -1)"
    if math.isinf(value):
        return "(10 ^ 400)" if value > 0 else "(-10 ^ 401)"
    return numbers.general_text(value)
