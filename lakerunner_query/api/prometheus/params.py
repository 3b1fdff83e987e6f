"""Parameters are read and refused as Prometheus does it, to the word.

A parameter that Prometheus does not know is ignored, as there. The first of repeated values counts, a form
before the address; only `match[]` is a list.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime

from lakerunner_query.api.shared.requests import RequestFields, allows_rewriting
from lakerunner_query.coordinator.promql import LOOKBACK_MS, PromQLRequest
from lakerunner_query.errors import InvalidRequestError, Position, QueryError
from lakerunner_query.gotext.durations import milliseconds
from lakerunner_query.gotext.numbers import ConversionError
from lakerunner_query.gotext.regexp import full_matches
from lakerunner_query.gotext.strconv import PROMQL
from lakerunner_query.promql.lang.parser import parse_selector
from lakerunner_query.syntax import Matcher

NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000
MAX_POINTS = 11_000
FOREVER_MS = 2**62
"""Milliseconds beyond every time that is queried; the sum of two still fits into 64 bits."""
MIN_TIME, MAX_TIME = "-292273086-05-16T16:47:06Z", "292277025-08-18T07:12:54.999999999Z"
"""Beginning and end of time, as Prometheus spells them."""
_FLOAT = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_LONGEST = 64
"""Characters of a time or duration; errors repeat no more of it."""


class BadParameterError(InvalidRequestError):
    """A parameter is wrong; the text is Prometheus'."""

    def __init__(self, name: str, reason: str, position: Position | None = None) -> None:
        super().__init__(f'invalid parameter "{name}": {reason}', position)


def instant_request(fields: RequestFields, org: str, now_ns: int) -> PromQLRequest:
    """Read the parameters of `query`, at the present time by default."""
    at = optional_time(fields, "time", now_ns // NS_PER_MS)
    timeout = _timeout(fields)
    return PromQLRequest(org, at, at, 0, _lookback(fields), timeout, rewrite=allows_rewriting(fields))


def range_request(fields: RequestFields, org: str) -> PromQLRequest:
    """Read the parameters of `query_range`, where nothing has a default."""
    start, end = _required(fields, "start"), _required(fields, "end")
    if end < start:
        raise BadParameterError("end", "end timestamp must not be before start time")
    try:
        step = duration_ns(fields.text("step"))
    except ValueError as error:
        raise BadParameterError("step", str(error)) from error
    if step < NS_PER_MS:
        reason = "zero or negative query resolution step widths are not accepted. Try a positive integer"
        raise BadParameterError("step", reason)
    if (end - start) * NS_PER_MS // step > MAX_POINTS:
        raise InvalidRequestError(
            "exceeded maximum resolution of 11,000 points per timeseries. "
            "Try decreasing the query resolution (?step=XX)"
        )
    timeout = _timeout(fields)
    return PromQLRequest(
        org, start, end, step // NS_PER_MS, _lookback(fields), timeout, rewrite=allows_rewriting(fields)
    )


def optional_time(fields: RequestFields, name: str, default_ms: int) -> int:
    text = fields.text(name)
    if not text:
        return default_ms
    try:
        return time_ms(text)
    except ValueError as error:
        raise BadParameterError(name, f"invalid time value for '{name}': {error}") from error


def limit(fields: RequestFields) -> int:
    """Read the upper bound of entries; 0: all."""
    text = fields.text("limit")
    if not text:
        return 0
    if not _INTEGER.fullmatch(text):
        raise BadParameterError(
            "limit", f"strconv.Atoi: parsing {PROMQL.quote(text[:_LONGEST])}: invalid syntax"
        )
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise BadParameterError(
            "limit", f"strconv.Atoi: parsing {PROMQL.quote(text[:_LONGEST])}: value out of range"
        )
    if int(text) < 0:
        raise BadParameterError("limit", "limit must be non-negative")
    return int(text)


def selectors(texts: Sequence[str]) -> tuple[tuple[Matcher, ...], ...]:
    """Parse the selectors of `match[]`; refuse those that would match everything there is."""
    found: list[tuple[Matcher, ...]] = []
    for text in texts:
        try:
            found.append(parse_selector(text))
        except QueryError as error:
            raise BadParameterError("match[]", error.message, error.position) from error
    if not all(any(not matches_nothing(one) for one in matchers) for matchers in found):
        raise BadParameterError("match[]", "match[] must contain at least one non-empty matcher")
    return tuple(found)


def matches_nothing(matcher: Matcher) -> bool:
    """Tell whether a series without the label satisfies the matcher."""
    hit = full_matches(matcher.value, [""])[0] if matcher.op.is_regex else not matcher.value
    return hit != matcher.op.is_negative


def time_ms(text: str) -> int:
    """Read Unix seconds or RFC 3339 as whole milliseconds.

    >>> time_ms("1767225600.123"), time_ms("-1.5"), time_ms("2026-01-01T01:00:00.5+01:00")
    (1767225600123, -1500, 1767225600500)
    """
    if len(text) > _LONGEST:
        raise ValueError(f"cannot parse {PROMQL.quote(text[:_LONGEST])}... to a valid timestamp")
    if _FLOAT.fullmatch(text):
        part, whole = math.modf(float(text))
        if math.isinf(whole):
            raise ValueError(f"cannot parse {PROMQL.quote(text)} to a valid timestamp")
        rounded = math.copysign(math.floor(abs(part) * 1000 + 0.5) / 1000, part)
        found = (int(whole) * NS_PER_S + int(rounded * NS_PER_S)) // NS_PER_MS
        return max(-FOREVER_MS, min(FOREVER_MS, found))
    if text in {MIN_TIME, MAX_TIME}:
        return -FOREVER_MS if text == MIN_TIME else FOREVER_MS
    calendar = _RFC3339.fullmatch(text)
    if calendar is None:
        raise ValueError(f"cannot parse {PROMQL.quote(text)} to a valid timestamp")
    date, fraction, zone = calendar.groups()
    try:
        at = datetime.fromisoformat(date + zone.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"cannot parse {PROMQL.quote(text)} to a valid timestamp") from None
    return int(at.timestamp()) * 1000 + int((fraction or "0").ljust(3, "0")[:3])


def duration_ns(text: str) -> int:
    """Read seconds, or a duration such as `1h30m`, as nanoseconds.

    >>> duration_ns("0.5"), duration_ns("1m30s")
    (500000000, 90000000000)
    """
    if len(text) > _LONGEST:
        raise ValueError(f"cannot parse {PROMQL.quote(text[:_LONGEST])}... to a valid duration")
    if _FLOAT.fullmatch(text):
        nanoseconds = float(text) * NS_PER_S
        if abs(nanoseconds) > 2**63:
            raise ValueError(f"cannot parse {PROMQL.quote(text)} to a valid duration. It overflows int64")
        return int(nanoseconds)
    try:
        return (0 if text == "0" else milliseconds(text)) * NS_PER_MS
    except ConversionError:
        raise ValueError(f"cannot parse {PROMQL.quote(text)} to a valid duration") from None


def unescape_label(name: str) -> str:
    """Decode a label name of an address, where names beyond the old alphabet are in hexadecimal.

    >>> [unescape_label(name) for name in ("U__http_2e_status__code", "U__bad_zz_", "job")]
    ['http.status_code', 'U__bad_zz_', 'job']
    """
    if not name.startswith("U__"):
        return name
    body = name[3:]
    parts = re.split(r"(__|_[0-9a-fA-F]{1,6}_)", body)
    found: list[str] = []
    for place, part in enumerate(parts):
        if place % 2 == 0:
            if "_" in part:
                return name
            found.append(part)
        elif part == "__":
            found.append("_")
        else:
            code = int(part[1:-1], 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                return name
            found.append(chr(code))
    return "".join(found)


def _required(fields: RequestFields, name: str) -> int:
    try:
        return time_ms(fields.text(name))
    except ValueError as error:
        raise BadParameterError(name, str(error)) from error


def _timeout(fields: RequestFields) -> float:
    """Read seconds; 0: the limit."""
    text = fields.text("timeout")
    if not text:
        return 0.0
    try:
        return max(duration_ns(text) / NS_PER_S, 1e-9)
    except ValueError as error:
        raise BadParameterError("timeout", str(error)) from error


def _lookback(fields: RequestFields) -> int:
    text = fields.text("lookback_delta")
    try:
        found = duration_ns(text) // NS_PER_MS if text else 0
    except ValueError as error:
        raise InvalidRequestError(f"error parsing lookback delta duration: {error}") from error
    return found if found > 0 else LOOKBACK_MS
