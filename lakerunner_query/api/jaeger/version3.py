"""Newer versions of Jaeger's UI ask version 3 of its API: summaries of traces, and OTLP.

Parameters are spelled `query.serviceName` or, by older clients, `query.service_name`.
"""

from __future__ import annotations

import re
import time
from typing import Any

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from litestar import Request, Response, get
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from lakerunner_query.api.jaeger.conditions import MISSING_SERVICE, search_text
from lakerunner_query.api.jaeger.names import operations_of, services_of
from lakerunner_query.api.jaeger.params import LOOKBACK_NS, NOT_FOUND, duration, limit_of, read_tags, trace_id
from lakerunner_query.api.jaeger.render import send
from lakerunner_query.api.shared.auth import caller
from lakerunner_query.api.shared.requests import RequestFields, read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.api.shared.times import moment_ns
from lakerunner_query.coordinator.languages import TRACE, TRACE_SEARCH
from lakerunner_query.coordinator.spans import TraceRequest
from lakerunner_query.errors import InvalidRequestError, NotFoundError
from lakerunner_query.plan.traceql import MAX_NS, MIN_NS, TraceSearchRequest
from lakerunner_query.protocol.traces import FoundTrace
from lakerunner_query.serving import unless_gone

IDS = ("traceId", "spanId", "parentSpanId")


@get("/v3/services")
async def services_v3(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List the services of the last two days."""
    fields = await read_fields(request)
    names, found = await services_of(request, services)
    return send(fields, {"services": names}, found.missing)


@get("/v3/operations")
async def operations_v3(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List the operations of a service by name and kind."""
    fields = await read_fields(request)
    service = _required(fields, "service")
    pairs, found = await operations_of(request, services, service, _text(fields, "spanKind"))
    shown = [{"name": name, "spanKind": kind or "internal"} for name, kind in pairs]
    return send(fields, {"operations": shown}, found.missing)


@get("/v3/trace-summaries")
async def trace_summaries(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return what the newest matching traces are, without their spans."""
    fields = await read_fields(request)
    text, asked = _search(fields, caller(request.state).org, time.time_ns())
    with services.watch("jaeger") as watch:
        prepared = await services.engine.prepare(TRACE_SEARCH, text, asked)
        found = await unless_gone(request, services.engine.collect(prepared))
        watch.end(partial=found.is_partial)
    return send(fields, {"summaries": [_summary(one) for one in found.traces]}, found.missing)


@get("/v3/traces/{trace:str}")
async def trace_v3(request: Request[Any, Any, Any], services: Services, trace: str) -> Response[bytes]:
    """Return a trace as OTLP, or 404."""
    fields = await read_fields(request)
    now = time.time_ns()
    start, end = _moment(fields, "startTime", now, MIN_NS), _moment(fields, "endTime", now, MAX_NS)
    asked = TraceRequest(caller(request.state).org, (trace_id(trace),), max(start, MIN_NS), min(end, MAX_NS))
    with services.watch("jaeger") as watch:
        found = await unless_gone(request, services.engine.ask(TRACE, asked))
        watch.end(partial=found.is_partial)
    if not found.data.resource_spans:
        raise NotFoundError(NOT_FOUND)
    return send(fields, {"result": otlp_json(found.data)}, found.missing)


def _search(fields: RequestFields, org: str, now_ns: int) -> tuple[str, TraceSearchRequest]:
    """Return the question for traces that have a span as it is asked for."""
    end = _moment(fields, "query.startTimeMax", now_ns, now_ns)
    start = _moment(fields, "query.startTimeMin", now_ns, end - LOOKBACK_NS)
    if start > end:
        raise InvalidRequestError("invalid parameter: start time must be before end time")
    limit = limit_of(_text(fields, "query.searchDepth") or _text(fields, "query.numTraces"))
    text = search_text(
        _required(fields, "query.serviceName"),
        _text(fields, "query.operationName") or _text(fields, "query.spanName"),
        read_tags((), (_text(fields, "query.attributes"),)),
        duration(_text(fields, "query.durationMin"), "query.durationMin"),
        duration(_text(fields, "query.durationMax"), "query.durationMax"),
    )
    return text, TraceSearchRequest(org, start, end, limit, spans_per_set=1)


def _text(fields: RequestFields, name: str) -> str:
    """Return a parameter by its name, or by its older one."""
    return fields.text(name) or fields.text(older(name))


def older(name: str) -> str:
    """Spell a name as older clients do.

    >>> older("query.startTimeMin")
    'query.start_time_min'
    """
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _required(fields: RequestFields, name: str) -> str:
    if not _text(fields, name):
        raise InvalidRequestError(f"parameter '{name}' is required")
    return _text(fields, name)


def _moment(fields: RequestFields, name: str, now_ns: int, default_ns: int) -> int:
    text = _text(fields, name)
    return moment_ns(text, now_ns) if text else default_ns


def _summary(one: FoundTrace) -> dict[str, Any]:
    """Describe a trace; the versions of the UI differ in how they spell its id."""
    counts = list(one.services.values())
    return {
        "traceId": one.trace_id,
        "traceID": one.trace_id,
        "rootServiceName": one.root_service,
        "rootOperationName": one.root_name,
        "minStartTimeUnixNano": str(one.start_ns),
        "maxEndTimeUnixNano": str(one.end_ns),
        "spanCount": sum(each.spans for each in counts),
        "errorSpanCount": sum(each.errors for each in counts),
        "orphanSpanCount": 0,
        "services": [
            {"name": name or MISSING_SERVICE, "spanCount": each.spans, "errorSpanCount": each.errors}
            for name, each in sorted(one.services.items())
        ],
    }


def otlp_json(data: TracesData) -> dict[str, Any]:
    """Return spans in OTLP's JSON, in which ids are hexadecimal."""
    body: dict[str, Any] = MessageToDict(data, use_integers_for_enums=True)
    for group, sent in zip(body["resourceSpans"], data.resource_spans, strict=True):
        for part, of in zip(group["scopeSpans"], sent.scope_spans, strict=True):
            for span, one in zip(part["spans"], of.spans, strict=True):
                _spell_ids(span, (one.trace_id, one.span_id, one.parent_span_id))
                for link, to in zip(span.get("links", ()), one.links, strict=True):
                    _spell_ids(link, (to.trace_id, to.span_id, b""))
    return body


def _spell_ids(shown: dict[str, Any], ids: tuple[bytes, bytes, bytes]) -> None:
    for name, each in zip(IDS, ids, strict=True):
        if each:
            shown[name] = each.hex()


VERSION3_HANDLERS: tuple[Any, ...] = (services_v3, operations_v3, trace_summaries, trace_v3)
