"""Every endpoint reads times and durations alike.

Epoch numbers are seconds, milliseconds, microseconds or nanoseconds by magnitude, RFC 3339 keeps all nine
decimals, and `now-1h` or `e-1h` are relative to now or to the end of the range. Integers throughout: a float
cannot hold a nanosecond of this century.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.gotext.durations import NANOSECONDS
from resources.lake.timecut import SECOND_NS, from_datetime

_EPOCH = re.compile(r"[+-]?\d+(\.\d+)?([eE]\+?\d{1,2})?$")
_RELATIVE = re.compile(r"(now|e)(?:([+-])(.+))?$")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d|w|y)")
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)$")
MAX_NS = 2**63 - 1
MAX_TEXT = 64
"""Characters of a time or duration; numbers of megabytes would hold up the event loop."""


def moment_ns(value: str | float, now_ns: int, end_ns: int | None = None) -> int:
    """Return nanoseconds since epoch.

    >>> moment_ns("1700000000", 0), moment_ns("1700000000123", 0)
    (1700000000000000000, 1700000000123000000)
    >>> moment_ns("1970-01-01T00:00:00.000000007Z", 0)
    7
    >>> moment_ns("now-1m30s", 100 * SECOND_NS), moment_ns("e-5s", 0, 10 * SECOND_NS)
    (10000000000, 5000000000)
    """
    text = _short(str(value).strip())
    if _EPOCH.match(text):
        return _in_range(text, _epoch(Decimal(text)))
    relative = _RELATIVE.match(text)
    if relative:
        return _in_range(text, _relative(text, relative, now_ns, end_ns))
    return _in_range(text, _rfc3339(text))


def duration_ns(text: str) -> int:
    """Return the nanoseconds of a Go-like duration; a bare number is seconds.

    >>> duration_ns("1h30m"), duration_ns("15")
    (5400000000000, 15000000000)
    """
    if re.fullmatch(r"\d+(\.\d+)?", _short(text)):
        return int(Decimal(text) * SECOND_NS)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidRequestError(f"{text!r} is not a duration; expected e.g. 15s, 5m, 1h30m, 7d")
    return sum(int(Decimal(number) * NANOSECONDS[unit]) for number, unit in parts)


def _short(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise InvalidRequestError(f"a time of {len(text)} characters; expected at most {MAX_TEXT}")
    return text


def _epoch(number: Decimal) -> int:
    size = abs(number)
    for bound, factor in ((10**11, SECOND_NS), (10**14, 1_000_000), (10**17, 1000)):
        if size < bound:
            return int(number * factor)
    return int(number)


def _relative(text: str, found: re.Match[str], now_ns: int, end_ns: int | None) -> int:
    base, sign, shift = found.groups()
    if base == "e" and end_ns is None:
        raise InvalidRequestError(f"{text!r}: relative to the end, so it can only be a start")
    origin = now_ns if base == "now" or end_ns is None else end_ns
    return origin + (duration_ns(shift) * (-1 if sign == "-" else 1) if shift else 0)


def _rfc3339(text: str) -> int:
    found = _RFC3339.match(text)
    if not found:
        raise InvalidRequestError(
            f"{text!r} is not a time; expected epoch s/ms/ns, RFC 3339, now, now-1h or e-1h"
        )
    date, fraction, zone = found.groups()
    try:
        whole = dt.datetime.fromisoformat(date.upper() + zone.upper().replace("Z", "+00:00"))
    except ValueError as error:
        raise InvalidRequestError(f"{text!r} is not a time: {error}") from error
    return from_datetime(whole) + int((fraction or "").ljust(9, "0"))


def _in_range(text: str, ns: int) -> int:
    if abs(ns) > MAX_NS:
        raise InvalidRequestError(f"{text!r} is outside the years 1678 to 2262")
    return ns
