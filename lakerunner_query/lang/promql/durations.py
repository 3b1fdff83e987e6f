"""Duration literals, in milliseconds.

>>> milliseconds("1h30m"), text(5_400_000), text(-1_500)
(5400000, '1h30m', '-1s500ms')
"""

from __future__ import annotations

import math
import re

from lakerunner_query.lang.promql.strings import quote

_SECOND = 1_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
UNITS = {"y": 365 * _DAY, "w": 7 * _DAY, "d": _DAY, "h": _HOUR, "m": _MINUTE, "s": _SECOND, "ms": 1}
"""Largest first: the order in which they must stand."""
_ORDER = list(UNITS)
_PART = re.compile(r"([0-9]+)([^0-9]+)")
_PARTS = re.compile(r"(?:[0-9]+[^0-9]+)+")
_LIMIT_NS = 2**63
_NS = 1_000_000


class InvalidDurationError(ValueError):
    """The message is Prometheus'."""


def milliseconds(literal: str) -> int:
    """The value of a literal such as `1h30m`; only 0 needs no unit."""
    if literal == "0":
        return 0
    total, last = 0, -1
    if not _PARTS.fullmatch(literal):
        raise InvalidDurationError(f"not a valid duration string: {quote(literal)}")
    for part in _PART.finditer(literal):
        digits, unit = part[1].lstrip("0"), part[2]
        count = int(digits[:21] or "0")
        if count >= 2**64:
            raise InvalidDurationError(f"not a valid duration string: {quote(literal)}")
        if unit not in UNITS:
            raise InvalidDurationError(f"unknown unit {quote(unit)} in duration {quote(literal)}")
        if _ORDER.index(unit) <= last:
            raise InvalidDurationError(f"not a valid duration string: {quote(literal)}")
        last = _ORDER.index(unit)
        total += count * UNITS[unit]
        if count > _LIMIT_NS // (UNITS[unit] * _NS) or total * _NS >= _LIMIT_NS:
            raise InvalidDurationError("duration out of range")
    return total


def seconds(literal: str) -> float:
    whole, rest = divmod(milliseconds(literal), _SECOND)
    return whole + rest / _SECOND


def from_seconds(value: float) -> int:
    """Rounded to whole nanoseconds first, as Prometheus holds them, then cut to milliseconds."""
    nanoseconds = math.floor(abs(value) * 1e9 + 0.5)
    return int(math.copysign(nanoseconds // _NS, value))


def is_out_of_range(value: float) -> bool:
    """Whether so many seconds are no duration; NaN is none."""
    return not abs(value) <= _LIMIT_NS / 1e9


def text(value_ms: int) -> str:
    """Years and weeks only where nothing remains: `90d` reads better than `12w6d`."""
    if value_ms == 0:
        return "0s"
    shown, rest = "-" if value_ms < 0 else "", abs(value_ms)
    for unit, size in UNITS.items():
        if rest >= size and (unit not in {"y", "w"} or rest % size == 0):
            shown += f"{rest // size}{unit}"
            rest %= size
    return shown
