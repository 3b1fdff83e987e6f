"""Parameters are read and refused as Jaeger does it; unknown names are ignored.

Times are microseconds, those of dependencies milliseconds; durations have units.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lakerunner_query.api.jaeger.conditions import search_text
from lakerunner_query.api.shared.requests import RequestFields
from lakerunner_query.api.shared.times import MAX_NS, duration_ns
from lakerunner_query.errors import InvalidRequestError, LimitExceededError
from lakerunner_query.gotext.durations import GO
from lakerunner_query.gotext.numbers import ConversionError
from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.plan.traceql import MAX_NS as LAST_NS
from lakerunner_query.plan.traceql import MIN_NS, TraceSearchRequest
from resources.lake.timecut import DAY_NS

NS_PER_US, NS_PER_MS = 1_000, 1_000_000
MOST_LOOKBACK_NS = 36_500 * DAY_NS
"""A century: PromQL's durations end at three."""
LIMIT, MOST_IDS = 100, 1_000
NOT_FOUND = "trace not found"
LOOKBACK_NS = 2 * DAY_NS
"""Range of searches that name no start, and of lists of services and operations."""
DEPENDENCIES_NS = DAY_NS
_INTEGER = re.compile(r"[+-]?\d{1,19}")
_HEX = re.compile(r"[0-9a-fA-F]+")
_TRUE, _FALSE = {"1", "t", "T", "TRUE", "true", "True"}, {"0", "f", "F", "FALSE", "false", "False"}


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds in nanoseconds, both included."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class TracesAsked:
    """Traces by their ids, or by what one of their spans is."""

    ids: tuple[bytes, ...]
    text: str
    """TraceQL; empty if ids are named."""
    request: TraceSearchRequest
    is_raw: bool
    """Spans are shown as sent: ids stay as they are, and nothing is warned of."""


def traces_asked(fields: RequestFields, org: str, now_ns: int) -> TracesAsked:
    """Read a request for traces; times are microseconds, durations have units."""
    during = search_range(fields, now_ns)
    tags = read_tags(fields.all("tag"), fields.all("tags"))
    limit = limit_of(fields.text("limit"))
    least, most = _duration(fields, "minDuration"), _duration(fields, "maxDuration")
    ids = _ids(fields.all("traceID"))
    is_raw = flag(fields, "raw")
    service = fields.text("service")
    if not ids and not service:
        raise InvalidRequestError("parameter 'service' is required")
    if during.start_ns > during.end_ns:
        raise InvalidRequestError("invalid parameter: start time must be before end time")
    if least and most and most < least:
        raise InvalidRequestError("'maxDuration' should be greater than 'minDuration'")
    request = TraceSearchRequest(org, during.start_ns, during.end_ns, limit, spans_per_set=1)
    text = "" if ids else search_text(service, fields.text("operation"), tags, least, most)
    return TracesAsked(ids, text, request, is_raw)


def search_range(fields: RequestFields, now_ns: int) -> Range:
    """Read `start` and `end`; without a start, `lookback` tells how far the range reaches."""
    end = _time(fields, "end", NS_PER_US, now_ns)
    back = fields.text("lookback")
    default = LOOKBACK_NS if fields.text("start") or not back else duration_ns(back)
    return Range(_time(fields, "start", NS_PER_US, end - default), end)


def trace_range(fields: RequestFields) -> Range:
    """Read the bounds within which a trace by id is looked for; without them it is everywhere."""
    start, end = _time(fields, "start", NS_PER_US, MIN_NS), _time(fields, "end", NS_PER_US, LAST_NS)
    return Range(max(start, MIN_NS), min(end, LAST_NS))


def dependencies_range(fields: RequestFields, now_ns: int) -> tuple[int, int]:
    """Read `endTs` and `lookback`; return begin and end in milliseconds, of 1970 and later."""
    end = _time(fields, "endTs", NS_PER_MS, now_ns)
    back = _time(fields, "lookback", NS_PER_MS, DEPENDENCIES_NS)
    if back < 0:
        raise InvalidRequestError(f"invalid parameter: lookback is {back // NS_PER_MS}, expected 0 or more")
    latest = max(min(end, MAX_NS - DAY_NS), 0)
    earliest = max(latest - min(back, MOST_LOOKBACK_NS), 0)
    return earliest // NS_PER_MS, latest // NS_PER_MS


def _ids(texts: Sequence[str]) -> tuple[bytes, ...]:
    """Read the ids of several traces, each once."""
    ids = dict.fromkeys(trace_id(one, "cannot parse traceID param: ") for one in texts)
    if len(ids) > MOST_IDS:
        raise LimitExceededError(f"{len(ids)} traces are asked for by id, more than {MOST_IDS}")
    return tuple(ids)


def trace_id(text: str, context: str = "") -> bytes:
    """Read an id of up to 32 hexadecimal digits."""
    if len(text) > 32:
        raise InvalidRequestError(f"{context}TraceID cannot be longer than 32 hex characters: {text[:64]}")
    halves = (text[:-16], text[-16:]) if len(text) > 16 else (text,)
    for half in halves:
        if not _HEX.fullmatch(half):
            quoted = LOGQL.quote(half)
            raise InvalidRequestError(f"{context}strconv.ParseUint: parsing {quoted}: invalid syntax")
    return bytes.fromhex(text.rjust(32, "0"))


def flag(fields: RequestFields, name: str) -> bool:
    text = fields.text(name)
    if text and text not in _TRUE | _FALSE:
        raise InvalidRequestError(
            f"unable to parse param '{name}': "
            f"strconv.ParseBool: parsing {LOGQL.quote(text[:64])}: invalid syntax"
        )
    return text in _TRUE


def read_tags(pairs: Sequence[str], objects: Sequence[str]) -> dict[str, str]:
    """Read `key:value` pairs and JSON objects of texts; the last one of a key counts."""
    tags: dict[str, str] = {}
    for pair in pairs:
        key, colon, value = pair.partition(":")
        if not colon:
            raise InvalidRequestError(
                f"malformed 'tag' parameter, expecting key:value, received: {pair[:64]}"
            )
        tags[key] = value
    for text in objects:
        try:
            found = json.loads(text or "{}")
        except (ValueError, RecursionError) as error:
            raise InvalidRequestError(
                f"malformed 'tags' parameter, cannot unmarshal JSON: {error}"
            ) from error
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise InvalidRequestError(
                "malformed 'tags' parameter, cannot unmarshal JSON: expected an object of texts"
            )
        tags |= found
    return tags


def limit_of(text: str) -> int:
    if not text:
        return LIMIT
    number = _integer(text, "")
    if number <= 0:
        raise InvalidRequestError("invalid parameter: limit must be greater than 0")
    return number


def _time(fields: RequestFields, name: str, unit_ns: int, default_ns: int) -> int:
    text = fields.text(name)
    if not text:
        return default_ns
    number = _integer(text, f"unable to parse param '{name}': ")
    return max(-MAX_NS, min(number * unit_ns, MAX_NS))


def _integer(text: str, context: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text):
        raise InvalidRequestError(
            f"{context}strconv.ParseInt: parsing {LOGQL.quote(text[:64])}: invalid syntax"
        )
    if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        raise InvalidRequestError(
            f"{context}strconv.ParseInt: parsing {LOGQL.quote(text[:64])}: value out of range"
        )
    return int(text)


def duration(text: str, name: str) -> int:
    if not text:
        return 0
    try:
        return GO.parse(text)
    except ConversionError as error:
        raise InvalidRequestError(f"unable to parse param '{name}': {error}") from error


def _duration(fields: RequestFields, name: str) -> int:
    return duration(fields.text(name), name)
