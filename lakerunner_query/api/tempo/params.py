"""Parameters are read and refused as Tempo does it; unknown names are ignored."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakerunner_query.api.shared.requests import RequestFields, allows_rewriting
from lakerunner_query.api.shared.times import MAX_NS
from lakerunner_query.errors import InvalidRequestError, ParseError
from lakerunner_query.gotext.durations import go_nanoseconds
from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.plan.traceql import TraceMetricsRequest, TraceSearchRequest
from lakerunner_query.traceql.lang.ast import Pipeline, SpansetFilter
from lakerunner_query.traceql.lang.parser import parse
from resources.lake.timecut import SECOND_NS, from_datetime

MOST_TRACES = 262_144
MOST_POINTS = 10_000
LIMIT, SPANS_PER_SET = 20, 3
RECENT_S = 3600
"""Range of searches and metrics that name no time."""
INSTANT_EXEMPLARS = 0
"""Exemplars of a metric at one time: Tempo sends none, and Grafana refuses unknown fields."""
_UNSIGNED = re.compile(r"\d{1,20}")
_DECIMAL = re.compile(r"-?\d{1,20}(\.\d{1,9})?")
_TAG = re.compile(r"""\s*([^\s="]+)=("(?:[^"\\]|\\.)*"|[^\s="]*)""")


@dataclass(frozen=True, slots=True)
class Window:
    """Bounds in nanoseconds, both included."""

    start_ns: int
    end_ns: int


def seconds_window(fields: RequestFields, now_ns: int) -> Window:
    """Read bounds in whole seconds; without them the last hour is searched."""
    start, end = _unsigned(fields, "start", 32), _unsigned(fields, "end", 32)
    if not start and not end:
        return Window(now_ns - RECENT_S * SECOND_NS, now_ns)
    if start >= end:
        raise InvalidRequestError(
            f"http parameter start must be before end. received start={start} end={end}"
        )
    return Window(start * SECOND_NS, end * SECOND_NS)


def signed_window(fields: RequestFields) -> Window | None:
    """Read bounds in whole seconds that may be left out."""
    bounds = []
    for name in ("start", "end"):
        text = fields.text(name)
        if text and not re.fullmatch(r"-?\d{1,18}", text):
            raise InvalidRequestError(
                f"invalid {name}: strconv.ParseInt: parsing {LOGQL.quote(text[:64])}: invalid syntax"
            )
        bounds.append(int(text or 0))
    start, end = bounds
    if not start and not end:
        return None
    if start >= end:
        raise InvalidRequestError(
            f"http parameter start must be before end. received start={start} end={end}"
        )
    return Window(start * SECOND_NS, end * SECOND_NS)


def tag_condition(text: str) -> str:
    """Return a query that narrows lists of tags; as in Tempo, only a single filter does."""
    try:
        query = parse(text) if text.strip() else None
    except ParseError:
        return ""
    stages = query.body.stages if query is not None and isinstance(query.body, Pipeline) else ()
    return text if len(stages) == 1 and isinstance(stages[0], SpansetFilter) else ""


def search_request(fields: RequestFields, org: str, now_ns: int) -> TraceSearchRequest:
    window = seconds_window(fields, now_ns)
    limit = _unsigned(fields, "limit", 32) if fields.text("limit") else LIMIT
    if limit <= 0:
        raise InvalidRequestError("invalid limit: must be a positive number")
    if limit > MOST_TRACES:
        raise InvalidRequestError(f"limit {limit} exceeds max limit {MOST_TRACES}")
    spans = _unsigned(fields, "spss", 32) if fields.text("spss") else SPANS_PER_SET
    return TraceSearchRequest(org, window.start_ns, window.end_ns, limit, spans)


def search_text(fields: RequestFields) -> str:
    """Return the query; tags and bounds of durations of older clients become one."""
    text, tags = fields.text("q"), fields.text("tags")
    if text:
        if tags:
            raise InvalidRequestError("invalid request: can't specify tags and q in the same query")
        return text
    filters = [f"{{ {_tag_condition(name, value)} }}" for name, value in _tags(tags)]
    conditions = []
    least, most = _duration(fields, "minDuration"), _duration(fields, "maxDuration")
    if least and most and most <= least:
        raise InvalidRequestError("invalid maxDuration: must be greater than minDuration")
    if least:
        conditions.append(f"traceDuration >= {least}ns")
    if most:
        conditions.append(f"traceDuration <= {most}ns")
    if conditions or not filters:
        filters.append("{ " + " && ".join(conditions) + " }")
    return " && ".join(filters)


def _tags(text: str) -> list[tuple[str, str]]:
    """Read `name=value` pairs; values with spaces are quoted."""
    found, at = [], 0
    while text[at:].strip():
        pair = _TAG.match(text, at)
        if pair is None or (pair.end() < len(text) and not text[pair.end()].isspace()):
            at = pair.end() if pair else at
            raise InvalidRequestError(f"invalid tags: unexpected {LOGQL.quote(text[at])} at pos {at + 1}")
        name, value = pair.groups()
        found.append((name, value[1:-1] if value.startswith('"') else value))
        at = pair.end()
    return found


def _tag_condition(name: str, value: str) -> str:
    """Return a condition of TraceQL; values are texts, but for those of statuses and kinds."""
    field = {"root.service.name": "rootServiceName", "root.name": "rootName"}.get(name, name)
    if field == name and name not in {"name", "status", "kind"}:
        field = f".{LOGQL.quote(name)}"
    return f"{field} = {value if name in {'status', 'kind'} else LOGQL.quote(value)}"


def metrics_request(fields: RequestFields, org: str, now_ns: int, *, is_instant: bool) -> TraceMetricsRequest:
    """Read range, step and exemplars; ranges reach to whole steps on both sides."""
    window = _metrics_window(fields, now_ns)
    if window.end_ns <= window.start_ns:
        raise InvalidRequestError("end must be greater than start")
    if is_instant:
        width = window.end_ns - window.start_ns
        return TraceMetricsRequest(
            org, window.end_ns, width, 1, INSTANT_EXEMPLARS, rewrite=allows_rewriting(fields)
        )
    width = window.end_ns - window.start_ns
    step = _step(fields, width)
    least = width // MOST_POINTS
    if step < least or step <= 0:
        raise InvalidRequestError(
            f"step of {step / SECOND_NS:g}s is too small, "
            f"minimum step for given range is {least // 1_000_000}ms"
        )
    first, last = window.start_ns // step * step, -(-window.end_ns // step) * step
    steps, exemplars = (last - first) // step + 1, _exemplars(fields)
    return TraceMetricsRequest(
        org, first, step, steps, exemplars,
        rewrite=allows_rewriting(fields),
    )  # fmt: skip


def metrics_text(fields: RequestFields) -> str:
    return fields.text("q") or fields.text("query")


def _metrics_window(fields: RequestFields, now_ns: int) -> Window:
    end = _moment(fields, "end", now_ns)
    if fields.text("since"):
        since = go_nanoseconds(fields.text("since"))
        if since is None:
            raise InvalidRequestError(f"could not parse 'since' parameter: {fields.text('since')!r}")
        return Window(end - since, end)
    return Window(_moment(fields, "start", end - RECENT_S * SECOND_NS), end)


def _moment(fields: RequestFields, name: str, default: int) -> int:
    """Read a time: whole seconds, or nanoseconds if it is long, or with a fraction, or RFC 3339."""
    text = fields.text(name)
    if not text:
        return default
    if _DECIMAL.fullmatch(text):
        whole, _, fraction = text.partition(".")
        if not fraction and len(whole.lstrip("-")) > 10:
            return min(int(whole), MAX_NS)
        return int(whole) * SECOND_NS + int(fraction.ljust(9, "0") or 0)
    moment = _rfc3339(text)
    if moment is None:
        raise InvalidRequestError(
            f"could not parse '{name}' parameter: "
            f"strconv.ParseInt: parsing {LOGQL.quote(text[:64])}: invalid syntax"
        )
    return moment


def _rfc3339(text: str) -> int | None:
    import datetime as dt

    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else from_datetime(moment)


def _step(fields: RequestFields, width: int) -> int:
    text = fields.text("step")
    if not text:
        return default_step(width)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return int(float(text) * SECOND_NS)
    found = go_nanoseconds(text)
    if found is None:
        raise InvalidRequestError(f"cannot parse {LOGQL.quote(text[:64])} to a valid duration")
    if found < 0:
        raise InvalidRequestError(f"cannot parse {LOGQL.quote(text[:64])}: step must be positive")
    return found


def default_step(width_ns: int) -> int:
    """Return a step for some 240 points, of whole seconds, or of five where that is more.

    >>> default_step(3600 * SECOND_NS) // SECOND_NS, default_step(600 * SECOND_NS) // SECOND_NS
    (15, 2)
    """
    seconds = width_ns // 240 // SECOND_NS
    return max(1, seconds // 5 * 5 if seconds >= 5 else seconds) * SECOND_NS


def _exemplars(fields: RequestFields) -> int:
    return min(_unsigned(fields, "exemplars", 32), 1000) if fields.text("exemplars") else 100


def _unsigned(fields: RequestFields, name: str, bits: int) -> int:
    text = fields.text(name)
    if not text:
        return 0
    if not _UNSIGNED.fullmatch(text):
        raise InvalidRequestError(
            f"invalid {name}: strconv.ParseUint: parsing {LOGQL.quote(text[:64])}: invalid syntax"
        )
    if int(text) >= 1 << bits:
        raise InvalidRequestError(
            f"invalid {name}: strconv.ParseUint: parsing {LOGQL.quote(text)}: value out of range"
        )
    return int(text)


def _duration(fields: RequestFields, name: str) -> int:
    text = fields.text(name)
    if not text:
        return 0
    found = go_nanoseconds(text)
    if found is None or found < 0:
        raise InvalidRequestError(f"invalid {name}: time: invalid duration {LOGQL.quote(text[:64])}")
    return found
