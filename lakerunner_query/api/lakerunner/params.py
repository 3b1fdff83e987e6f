"""Parameters of Lakerunner's own API, and the requests that they become.

Steps are whole multiples of the step, so that the same query a second later has the same steps, and so
that rollups can serve it: `s` and `e` are cut down to one, and the answer names them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
from litestar import Request

from lakerunner_query.api.shared.requests import first_of_each
from lakerunner_query.api.shared.times import duration_ns, moment_ns
from lakerunner_query.coordinator.engine import MAX_STEPS, step_count
from lakerunner_query.coordinator.logql_samples import LogSamplesRequest
from lakerunner_query.coordinator.names import SeriesRequest, StreamsRequest
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.coordinator.spans import SpanTagsRequest
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.logql.lang.parser import parse_selector as parse_streams
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.plan.traceql import MAX_NS, MIN_NS, TraceMetricsRequest, TraceSearchRequest
from lakerunner_query.promql.lang.parser import parse_selector
from lakerunner_query.protocol.units import SeriesSelector
from lakerunner_query.serving import with_nearest_field
from lakerunner_query.traceql.lang.ast import Pipeline
from lakerunner_query.traceql.lang.parser import parse as parse_traces
from lakerunner_query.traceql.lang.parser import parse_field
from resources.settings import Settings

NS_PER_MS = 1_000_000
HOUR_MS = 3_600_000
STEPS = (
    (HOUR_MS, 10_000), (12 * HOUR_MS, 60_000), (24 * HOUR_MS, 300_000), (72 * HOUR_MS, 1_200_000),
)  # fmt: skip
"""Default steps by the longest range they are for; beyond that it is an hour."""
SPANS_PER_SET, MOST_EXEMPLARS = 3, 100
FIELD = "last_event_id"
"""Id of the event behind which a stream is to go on."""
Moment = str | int | float | None


class MetricsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """PromQL over a time range; `s` and `e` are times (default: the last hour), both included."""

    q: str
    s: Moment = None
    e: Moment = None
    step: str | int | float | None = None
    limit: int = 0
    """Upper bound of series; 0: all."""
    summary: bool = False
    """True for sums by series at the end."""
    rewrite: bool = True
    """False leaves derived metrics out."""


class MetricsNames(msgspec.Struct, forbid_unknown_fields=True):
    """A question about metrics, tags or values; `q` is a selector of series, `metric` the name of one."""

    s: Moment = None
    e: Moment = None
    q: str = ""
    metric: str = ""
    tag: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True)
class AlignedRequest:
    """A request whose times are whole multiples of the step."""

    request: PromQLRequest

    def at(self, start_ms: int, end_ms: int, step_ms: int) -> AlignedRequest:
        return AlignedRequest(replace(self.request, start_ms=start_ms, end_ms=end_ms, step_ms=step_ms))

    def as_json(self) -> dict[str, object]:
        return {"s": str(self.request.start_ms), "e": str(self.request.end_ms), "step": self.request.step_ms}


def align(data: MetricsQuery, org: str, settings: Settings) -> AlignedRequest:
    start_ms, end_ms = _range_ms(data.s, data.e, settings)
    if data.limit < 0:
        raise InvalidRequestError("limit must not be negative")
    step_ms = default_step(end_ms - start_ms)
    if data.step is not None:
        step_ms = duration_ns(str(data.step)) // NS_PER_MS
        if step_ms <= 0:
            raise InvalidRequestError("step must be at least a millisecond")
    first, last = start_ms // step_ms * step_ms, end_ms // step_ms * step_ms
    return AlignedRequest(PromQLRequest(org, first, last, step_ms, rewrite=data.rewrite))


def default_step(range_ms: int) -> int:
    """
    >>> default_step(HOUR_MS), default_step(30 * HOUR_MS)
    (10000, 1200000)
    """
    return next((step for width, step in STEPS if range_ms <= width), HOUR_MS)


def question(data: MetricsNames, org: str, settings: Settings) -> SeriesRequest:
    start_ms, end_ms = _range_ms(data.s, data.e, settings)
    if data.limit < 0:
        raise InvalidRequestError("limit must not be negative")
    if data.q and data.metric:
        raise InvalidRequestError("either q or metric, not both")
    text = data.q or (f"{{__name__={msgspec.json.encode(data.metric).decode()}}}" if data.metric else "")
    chosen = (SeriesSelector(parse_selector(text), start_ms - 1, end_ms),) if text else ()
    return SeriesRequest(org, start_ms - 1, end_ms, chosen, data.limit)


def _range_ms(s: Moment, e: Moment, settings: Settings) -> tuple[int, int]:
    start, end = _range_ns(s, e, settings)
    return start // NS_PER_MS, end // NS_PER_MS


def _range_ns(s: Moment, e: Moment, settings: Settings) -> tuple[int, int]:
    now = time.time_ns()
    end = now if e is None else moment_ns(e, now)
    start = moment_ns(f"e-{settings.query_default_window_s}s" if s is None else s, now, end)
    if start > end:
        raise InvalidRequestError("s is after e")
    return start, end


class LogsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """LogQL over a time range; `s` and `e` are times (default: the last hour).

    A query for lines has its `limit` in lines, `reverse` (newest first) and `fields`; one for samples has its
    `limit` in series, `step` and `summary`.
    """

    q: str
    s: Moment = None
    e: Moment = None
    limit: int | None = None
    reverse: bool = True
    fields: list[str] = msgspec.field(default_factory=list)
    step: str | int | float | None = None
    summary: bool = False
    rewrite: bool = True
    """False leaves derived metrics out."""


class SpansQuery(msgspec.Struct, forbid_unknown_fields=True):
    """TraceQL over a time range; `s` and `e` are times (default: the last hour), both included.

    A search has its `limit` in traces, and shows at most `spans` (0: all) of each span set; a query for
    series has its `limit` in series, and `step`.
    """

    q: str
    s: Moment = None
    e: Moment = None
    limit: int | None = None
    spans: int | None = None
    step: str | int | float | None = None
    rewrite: bool = True
    """False leaves derived metrics out."""


class SpansNames(msgspec.Struct, forbid_unknown_fields=True):
    """A question about attributes of spans; `q` is a filter, `{ … }`, that spans have to pass."""

    s: Moment = None
    e: Moment = None
    q: str = ""
    tag: str = ""
    limit: int = 0


class TraceQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A trace by id, which is looked for in all time unless `s` and `e` name bounds."""

    s: Moment = None
    e: Moment = None
    limit: int = 10_000
    """Upper bound of spans that are returned; all are counted and assembled."""
    logs: int = 500
    """Upper bound of log lines; 0: none."""
    exemplars: bool = True


class LogsNames(msgspec.Struct, forbid_unknown_fields=True):
    """A question about streams, tags or values; `q` is a selector of streams."""

    s: Moment = None
    e: Moment = None
    q: str = ""
    tag: str = ""
    limit: int = 0


QueryT = TypeVar("QueryT", MetricsQuery, LogsQuery, SpansQuery, TraceQuery)


async def read_query(request: Request[Any, Any, Any], kind: type[QueryT]) -> QueryT:
    """Read a query from the address, for clients that cannot POST; `fields` may repeat."""
    await request.body()
    given: dict[str, Any] = dict(first_of_each(request.query_params.multi_items()))
    given.pop(FIELD, None)
    if "fields" in given:
        given["fields"] = request.query_params.getall("fields")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequestError(with_nearest_field(str(error))) from error


def lines(data: LogsQuery, org: str, settings: Settings) -> LogLinesRequest:
    """Make the request of a query for lines."""
    if data.step is not None or data.summary:
        raise InvalidRequestError("step and summary are of queries for samples; this one gives log lines")
    start, end = _range_ns(data.s, data.e, settings)
    limit = settings.query_default_limit if data.limit is None else data.limit
    if limit < 0:
        raise InvalidRequestError("limit must not be negative")
    return LogLinesRequest(org, start, end, limit, data.reverse)


def samples(data: LogsQuery, org: str, settings: Settings) -> tuple[AlignedRequest, LogSamplesRequest]:
    """Make the request of a query for samples, with times in whole steps as for metrics."""
    if data.fields:
        raise InvalidRequestError("fields are of queries for lines; this one gives samples")
    times = align(MetricsQuery(data.q, data.s, data.e, data.step, data.limit or 0), org, settings)
    request = times.request
    within = LogSamplesRequest(
        org,
        request.start_ms * NS_PER_MS,
        request.end_ms * NS_PER_MS,
        request.step_ms * NS_PER_MS,
        rewrite=data.rewrite,
    )
    return times, within


def trace_search(data: SpansQuery, org: str, settings: Settings) -> TraceSearchRequest:
    """Make the request of a search for traces."""
    if data.step is not None:
        raise InvalidRequestError("step is of queries for series; this one searches traces")
    start, end = _range_ns(data.s, data.e, settings)
    limit = settings.query_default_limit if data.limit is None else data.limit
    spans = SPANS_PER_SET if data.spans is None else data.spans
    if limit <= 0 or spans < 0:
        raise InvalidRequestError("limit must be positive, and spans must not be negative")
    return TraceSearchRequest(org, start, end, limit, spans)


def trace_metrics(data: SpansQuery, org: str, settings: Settings) -> TraceMetricsRequest:
    """Make the request of a query for series: times in whole steps, so that the last one holds `e`."""
    if data.spans is not None:
        raise InvalidRequestError("spans is of searches for traces; this query gives series")
    times = align(MetricsQuery(data.q, data.s, data.e, data.step, data.limit or 0), org, settings).request
    _, end = _range_ns(data.s, data.e, settings)
    step_ns = times.step_ms * NS_PER_MS
    steps = step_count(
        times.start_ms * NS_PER_MS, -(-end // step_ns) * step_ns, step_ns,
        backwards="s is after e", too_many=f"more than {MAX_STEPS} steps: raise step, or narrow the range",
    )  # fmt: skip
    return TraceMetricsRequest(
        org, times.start_ms * NS_PER_MS, step_ns, steps, MOST_EXEMPLARS, rewrite=data.rewrite
    )


def trace_bounds(data: TraceQuery, settings: Settings) -> tuple[int, int]:
    """Return the bounds within which a trace is looked for; all time unless one is named."""
    if min(data.limit, data.logs) < 0:
        raise InvalidRequestError("limit and logs must not be negative")
    if data.s is None and data.e is None:
        return MIN_NS, MAX_NS
    return _range_ns(data.s, data.e, settings)


def span_question(data: SpansNames, org: str, settings: Settings) -> SpanTagsRequest:
    """Make the request of a question about attributes."""
    if data.limit < 0:
        raise InvalidRequestError("limit must not be negative")
    start, end = _range_ns(data.s, data.e, settings)
    if data.q.strip() and not isinstance(parse_traces(data.q).body, Pipeline):
        raise InvalidRequestError("q selects spans here: a query for series selects none")
    if data.tag:
        parse_field(data.tag)
    return SpanTagsRequest(org, start, end, data.tag, data.q.strip(), data.limit)


NamesT = TypeVar("NamesT", MetricsNames, LogsNames, SpansNames)


async def read_names(request: Request[Any, Any, Any], kind: type[NamesT]) -> NamesT:
    """Read a JSON body, or the same names from the address, where `tag` may be called `tagName`."""
    body = await request.body()
    fields = {**request.query_params}
    tag = fields.pop("tagName", "")
    try:
        found = msgspec.json.decode(body, type=kind) if body else msgspec.convert(fields, kind, strict=False)
        return msgspec.structs.replace(found, tag=tag) if tag and not found.tag else found
    except msgspec.ValidationError as error:
        raise InvalidRequestError(with_nearest_field(str(error))) from error
    except msgspec.DecodeError as error:
        raise InvalidRequestError(f"the body is not JSON: {error}") from error


def stream_question(data: LogsNames, org: str, settings: Settings) -> StreamsRequest:
    if data.limit < 0:
        raise InvalidRequestError("limit must not be negative")
    start, end = _range_ns(data.s, data.e, settings)
    chosen = (parse_streams(data.q),) if data.q.strip() else ()
    return StreamsRequest(org, start, end, chosen, data.limit)
