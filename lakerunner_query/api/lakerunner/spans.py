"""Endpoints under `/api/v1/spans` stream TraceQL and list attributes; `/api/v1/traceql` validates.

    {"type":"result","data":{"trace_id":"4bf9…","root_service":"web","root_name":"GET /","sets":[…],…}}
    {"type":"result","data":{"labels":{"name":"GET /"},"values":[[1767225600,"0.5"]]}}

Found traces go out as soon as no newer one can be found; series go out once every span was read.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

import msgspec
import numpy as np
from anyio.to_thread import run_sync
from litestar import HttpMethod, MediaType, Request, Router, get, post, route
from litestar.response import Stream

from lakerunner_query.api.lakerunner import events, resume
from lakerunner_query.api.lakerunner.logs import check_body
from lakerunner_query.api.lakerunner.params import (
    NS_PER_MS,
    SpansNames,
    SpansQuery,
    read_names,
    read_query,
    span_question,
    trace_metrics,
    trace_search,
)
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import missing_warnings
from lakerunner_query.api.shared.services import QueryWatch, Services
from lakerunner_query.api.tempo.queries import exemplars_of
from lakerunner_query.coordinator.languages import SPAN_TAGS, TRACE_METRICS, TRACE_SEARCH
from lakerunner_query.coordinator.spans import SpanTags
from lakerunner_query.coordinator.traceql import (
    Collected,
    FoundTraces,
    TraceMetrics,
    TraceMetricsQuery,
    TraceSearchQuery,
    series_of,
)
from lakerunner_query.errors import CannotResumeError, InvalidRequestError, ParseError, QueryError
from lakerunner_query.gotext.durations import duration_text
from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.logql.lang.check import selectors as log_selectors
from lakerunner_query.logql.lang.parser import parse_cached as parse_logql
from lakerunner_query.protocol.traces import FoundSet, FoundTrace, Named, TraceExemplar, TypedValue
from lakerunner_query.serving import Failure, envelope, unless_gone
from lakerunner_query.syntax import Matcher
from lakerunner_query.traceql.lang.ast import (
    Attribute,
    CompareOp,
    Comparison,
    Literal,
    Logical,
    LogicalOp,
    Pipeline,
    Query,
    Scope,
    SpansetFilter,
    Type,
)
from lakerunner_query.traceql.lang.intrinsics import TAG_NAMES
from lakerunner_query.traceql.lang.parser import parse_cached
from lakerunner_query.traceql.lang.printer import field_text, print_query
from lakerunner_query.traceql.series import LabelSet, Series

METHODS = [HttpMethod.GET, HttpMethod.POST]
API = "lakerunner-spans"
SERVICE_LABEL = "service_name"
"""Label of log streams that is the service of spans."""
COUNTS = ("segments_opened", "rows_considered", "bytes_considered", "bytes_fetched", "requests")


@post("/query", status_code=200, media_type=events.MEDIA_TYPE)
async def query(data: SpansQuery, request: Request[Any, Any, Any], services: Services) -> Stream:
    """Stream traces or series as events `{"type","data"}`: result, heartbeat, error, done."""
    return await _stream(data, request, services)


@get("/query", media_type=events.MEDIA_TYPE)
async def query_by_address(request: Request[Any, Any, Any], services: Services) -> Stream:
    """Stream like the POST, for clients that know nothing else."""
    return await _stream(await read_query(request, SpansQuery), request, services)


async def _stream(data: SpansQuery, request: Request[Any, Any, Any], services: Services) -> Stream:
    org, settings, engine = caller(request.state).org, services.settings, services.engine
    with services.watch(API) as watch:
        if resume.last_event_id(request):
            raise CannotResumeError(f"events of TraceQL have no ids: {resume.ANEW}")
        if await run_sync(_is_search, data.q):
            asked = trace_search(data, org, settings)
            answers = _found(services, await engine.prepare(TRACE_SEARCH, data.q, asked), watch)
        else:
            wanted = trace_metrics(data, org, settings)
            prepared = await engine.prepare(TRACE_METRICS, data.q, wanted)
            answers = _series(services, prepared, data.limit or 0, watch)
        watch.hand_over()
    alive = events.with_heartbeats(_guarded(answers))
    return Stream(alive, media_type=events.MEDIA_TYPE, headers=events.HEADERS)


def _is_search(text: str) -> bool:
    return isinstance(_parsed(text).body, Pipeline)


def _parsed(text: str) -> Query:
    """Parse a query; of LogQL, say how TraceQL spells its selector."""
    try:
        return parse_cached(text)
    except ParseError as error:
        spelled = spelled_for_spans(text)
        if not spelled:
            raise
        advice = f"this is LogQL: for spans write {spelled}, for log lines ask /api/v1/logs/query"
        raise ParseError(advice, error.position) from error


def spelled_for_spans(text: str) -> str:
    """Return the spanset for the first selector of a LogQL query; empty: the text is no LogQL either.

    >>> spelled_for_spans('{service_name="cart", level=~"warn|error"} |= "paid"')
    '{ (resource.service.name = `cart`) && (.level =~ `warn|error`) }'
    """
    try:
        first, _ = next(log_selectors(parse_logql(text)))
    except (QueryError, StopIteration):
        return ""
    conditions = tuple(_condition(one) for one in first.matchers)
    whole = conditions[0] if len(conditions) == 1 else Logical(LogicalOp.AND, conditions)
    return print_query(Query(Pipeline((SpansetFilter(whole),))))


def _condition(matcher: Matcher) -> Comparison:
    is_service = matcher.name == SERVICE_LABEL
    field = Attribute("service.name", Scope.RESOURCE) if is_service else Attribute(matcher.name, Scope.NONE)
    return Comparison(CompareOp(matcher.op.value), field, Literal(Type.STRING, matcher.value))


async def _guarded(answers: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Turn what fails into the last events, since the response has begun."""
    try:
        async with aclosing(answers):
            async for chunk in answers:
                yield chunk
    except Exception as error:  # noqa: BLE001 -- an event is the only way left to say it
        yield events.event("error", envelope(error))
        yield events.event("done", {"status": "error"})


async def _found(
    services: Services, prepared: TraceSearchQuery, watch: QueryWatch
) -> AsyncGenerator[bytes, None]:
    with watch:
        found = FoundTraces(limit=prepared.request.limit, missing=prepared.missing)
        async with aclosing(services.engine.run(prepared, found)) as pieces:
            async for traces in pieces:
                if traces:
                    yield b"".join(events.event("result", trace_json(one)) for one in traces)
        watch.end(partial=found.is_partial)
        yield events.event("done", {**_state(found), "traces": len(found.traces), "stats": _stats(found)})


async def _series(
    services: Services, prepared: TraceMetricsQuery, limit: int, watch: QueryWatch
) -> AsyncGenerator[bytes, None]:
    with watch:
        found = await services.engine.collect(prepared)
        request, points = prepared.request, 0
        series = await asyncio.to_thread(series_of, prepared, found)
        exemplars = exemplars_of(series, found, request)
        shown = series[:limit] if limit else series
        times = (np.arange(request.steps) * request.step_ns + request.start_ns) // NS_PER_MS
        for one in shown:
            values = _samples(one, times.tolist())
            points += len(values)
            spans = [_exemplar(each) for each in exemplars.get(one.labels, ())]
            facts = {"labels": _labels(one.labels), "values": values}
            yield events.event("result", facts | ({"exemplars": spans} if spans else {}))
        watch.end(partial=found.is_partial, points=points)
        yield events.event(
            "done",
            {
                **_state(found),
                "s": str(request.start_ns // NS_PER_MS),
                "e": str(request.end_ns // NS_PER_MS),
                "step": request.step_ns // NS_PER_MS,
                "series": len(shown),
                "points": points,
                "truncated": len(shown) < len(series),
                "infos": [],
                "stats": _stats(found),
            },
        )


def _samples(one: Series, times_ms: Iterable[int]) -> list[tuple[float, str]]:
    return [
        (time_ms / 1000, format_float(value))
        for time_ms, value in zip(times_ms, one.values.tolist(), strict=True)
        if not math.isnan(value)
    ]


def _exemplar(one: TraceExemplar) -> dict[str, object]:
    return {"trace_id": one.trace_id, "timestamp": str(one.time_ms), "value": one.value}


def _labels(labels: LabelSet) -> dict[str, str]:
    return {name: _text(TypedValue(kind, value)) for name, kind, value in labels}  # type: ignore[arg-type]


def _state(found: Collected) -> dict[str, object]:
    return {
        "status": "partial" if found.is_partial else "complete",
        "warnings": missing_warnings(found.missing),
        "missing": list(found.missing.values()),
    }


def _stats(found: FoundTraces | TraceMetrics) -> dict[str, int]:
    numbers = {name: getattr(found.report, name) for name in COUNTS}
    return {"units": found.units, "traces_read": found.traces_read, "spans_read": found.spans_read} | numbers


def trace_json(one: FoundTrace) -> dict[str, object]:
    """Return a found trace as JSON: times in nanoseconds since epoch as text, durations as numbers."""
    return {
        "trace_id": one.trace_id,
        "root_service": one.root_service,
        "root_name": one.root_name,
        "start": str(one.start_ns),
        "duration_ns": one.end_ns - one.start_ns,
        "services": {
            name: {"spans": each.spans, "errors": each.errors} for name, each in one.services.items()
        },
        "sets": [_set(each) for each in one.sets],
    }


def _set(one: FoundSet) -> dict[str, object]:
    spans = [
        {
            "span_id": each.span_id,
            "name": each.name,
            "start": str(each.start_ns),
            "duration_ns": each.duration_ns,
            "attributes": _values(each.attributes),
        }
        for each in one.spans
    ]
    return {"matched": one.matched, "attributes": _values(one.attributes), "spans": spans}


def _values(named: Named) -> dict[str, object]:
    return {name: _plain(value) for name, value in named}


def _plain(one: TypedValue) -> object:
    """Return numbers and booleans as such, all else as text."""
    if isinstance(one.value, list | tuple):
        return [_plain(TypedValue(one.type, value)) for value in one.value]
    is_number = one.type == "int" or (isinstance(one.value, float) and math.isfinite(one.value))
    return one.value if one.value is None or is_number or isinstance(one.value, bool) else _text(one)


def _text(one: TypedValue) -> str:
    """Return a value as TraceQL writes it, texts without quotes."""
    if one.value is None:
        return "nil"
    if isinstance(one.value, bool):
        return str(one.value).lower()
    if one.type == "duration" and isinstance(one.value, int):
        return duration_text(one.value)
    return format_float(one.value) if isinstance(one.value, float) else str(one.value)


@post("/explain", status_code=200, media_type=MediaType.TEXT)
async def explain(data: SpansQuery, request: Request[Any, Any, Any], services: Services) -> str:
    """Explain what the index pruned."""
    org, settings, engine = caller(request.state).org, services.settings, services.engine
    if await run_sync(_is_search, data.q):
        asked = trace_search(data, org, settings)
        return engine.explain(await engine.prepare(TRACE_SEARCH, data.q, asked, is_explained=True)) + "\n"
    wanted = trace_metrics(data, org, settings)
    return engine.explain(await engine.prepare(TRACE_METRICS, data.q, wanted, is_explained=True)) + "\n"


@route("/tags", http_method=METHODS, status_code=200)
async def tags(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """List attributes and intrinsics as TraceQL writes them."""
    data = await read_names(request, SpansNames)
    if data.tag:
        raise InvalidRequestError("tag is of tagvalues; tags lists all there are")
    found = await _ask(request, services, data)
    names = sorted(
        field_text(Attribute(name, Scope(scope))) for scope, each in found.names.items() for name in each
    )
    shown = names[: data.limit] if data.limit else names
    return {
        **_state(found),
        "tags": shown,
        "intrinsics": sorted(TAG_NAMES),
        "truncated": len(shown) < len(names),
    }


@route("/tagvalues", http_method=METHODS, status_code=200)
async def tagvalues(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """List the values of the field `tag`, with their types."""
    data = await read_names(request, SpansNames)
    if not data.tag:
        raise InvalidRequestError(
            "tag says which field's values, such as resource.service.name; it is missing"
        )
    found = await _ask(request, services, data)
    values = sorted({(_text(one), one.type) for one in found.values})
    shown = values[: data.limit] if data.limit else values
    return {
        **_state(found),
        "values": [text for text, _ in shown],
        "types": [kind for _, kind in shown],
        "truncated": found.is_full or len(shown) < len(values),
    }


async def _ask(request: Request[Any, Any, Any], services: Services, data: SpansNames) -> SpanTags:
    asked = span_question(data, caller(request.state).org, services.settings)
    with services.watch(API) as watch:
        found = await unless_gone(request, services.engine.ask(SPAN_TAGS, asked))
        watch.end(partial=found.is_partial)
    return found


spans_router = Router(
    "/api/v1/spans",
    route_handlers=[query, query_by_address, explain, tags, tagvalues],
    guards=[require_reader],
    before_request=check_body,
    tags=["spans"],
)


class TraceQLText(msgspec.Struct, forbid_unknown_fields=True):
    q: str


class TraceQLVerdict(msgspec.Struct, omit_defaults=True):
    """Either `error`, or the type and the plain form of a query."""

    valid: bool
    type: str = ""
    """Type: `traces` or `series`."""
    formatted: str = ""
    error: Failure | None = None


@post("/validate", status_code=200)
async def validate(data: TraceQLText) -> TraceQLVerdict:
    """Check a query without running it."""
    return await run_sync(_verdict, data.q)


def _verdict(text: str) -> TraceQLVerdict:
    try:
        parsed = _parsed(text)
    except (ParseError, QueryError) as error:
        return TraceQLVerdict(False, error=envelope(error))
    kind = "traces" if isinstance(parsed.body, Pipeline) else "series"
    return TraceQLVerdict(True, kind, print_query(parsed))


traceql_router = Router(
    "/api/v1/traceql",
    route_handlers=[validate],
    guards=[require_reader],
    before_request=check_body,
    tags=["spans"],
)
