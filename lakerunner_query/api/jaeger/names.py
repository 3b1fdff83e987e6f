"""Handlers list services, operations and dependencies, as Jaeger's API does."""

from __future__ import annotations

import time
from typing import Any

from litestar import Request, Response, get

from lakerunner_query.api.jaeger.conditions import (
    KIND,
    MISSING_SERVICE,
    NAME,
    SERVICE,
    all_of,
    counts_text,
    of_kind,
    of_service,
)
from lakerunner_query.api.jaeger.params import LOOKBACK_NS, dependencies_range
from lakerunner_query.api.jaeger.render import JSON, refusal, reply
from lakerunner_query.api.shared.auth import caller
from lakerunner_query.api.shared.requests import RequestFields, read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.languages import TRACE_METRICS
from lakerunner_query.coordinator.service_map import dependencies as links_of
from lakerunner_query.coordinator.service_map import read_service_map
from lakerunner_query.coordinator.traceql import TraceMetrics
from lakerunner_query.errors import InvalidRequestError, NotFoundError
from lakerunner_query.plan.traceql import TraceMetricsRequest
from lakerunner_query.serving import unless_gone
from resources.lake.streams import UNKNOWN_SERVICE

NO_METRICS = "metrics querying is currently disabled"
NO_GRAPH = "no service graph is derived from spans: LAKERUNNER_SPAN_METRICS is false"
UNSPECIFIED = "unspecified"
Operation = tuple[str, str]
"""Name and kind; an unspecified kind is empty."""


@get("/services")
async def services_(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List the services of the last two days."""
    fields = await read_fields(request)
    names, found = await services_of(request, services)
    return reply(fields, names, found.missing, total=len(names))


@get("/operations")
async def operations(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """List the operations of a service by name and kind, of all kinds or one."""
    fields = await read_fields(request)
    pairs, found = await operations_of(request, services, _service(fields), fields.text("spanKind"))
    shown = [{"name": name, "spanKind": kind} for name, kind in pairs]
    return reply(fields, shown, found.missing, total=len(shown))


@get("/services/{rest:path}")
async def operation_names(request: Request[Any, Any, Any], services: Services, rest: str) -> Response[bytes]:
    """List the names of operations of a service at `/services/{service}/operations`."""
    fields = await read_fields(request)
    service, _, last = rest.removeprefix("/").rpartition("/")
    if last != "operations" or not service:
        raise NotFoundError("expected /jaeger/api/services/{service}/operations")
    pairs, found = await operations_of(request, services, service, "")
    names = sorted({name for name, _ in pairs})
    return reply(fields, names, found.missing, total=len(names))


@get("/dependencies")
async def dependencies(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return how often services call each other by the service graph, of all services or beside one."""
    fields = await read_fields(request)
    start_ms, end_ms = dependencies_range(fields, time.time_ns())
    org, name = caller(request.state).org, fields.text("service")
    with services.watch("jaeger") as watch:
        found = await unless_gone(request, read_service_map(services.engine, org, start_ms, end_ms))
        watch.end(partial=bool(found.missing))
    named = [(_named(parent), _named(child), calls) for parent, child, calls in links_of(found)]
    shown = [
        {"parent": parent, "child": child, "callCount": calls}
        for parent, child, calls in sorted(named)
        if not name or name in {parent, child}
    ]
    notes = [] if found.edges or services.settings.span_metrics else [NO_GRAPH]
    return reply(fields, shown, found.missing, warnings=notes)


def _named(service: str) -> str:
    """Name a service as Jaeger does where resources have none."""
    return MISSING_SERVICE if service == UNKNOWN_SERVICE else service


@get("/metrics/{kind:str}", status_code=501)
async def metrics(kind: str) -> Response[dict[str, Any]]:
    """Refuse as Jaeger does where it has no metrics storage: its UI then explains the Monitor tab."""
    del kind
    return Response(refusal(501, NO_METRICS), media_type=JSON, status_code=501)


def _service(fields: RequestFields) -> str:
    if not fields.text("service"):
        raise InvalidRequestError("parameter 'service' is required")
    return fields.text("service")


async def services_of(request: Request[Any, Any, Any], services: Services) -> tuple[list[str], TraceMetrics]:
    found = await _count(request, services, counts_text(None, (SERVICE,)))
    texts = {str(value.value or "") for named in found.functions[0] for _, value in named}
    return sorted(text or MISSING_SERVICE for text in texts), found


async def operations_of(
    request: Request[Any, Any, Any], services: Services, service: str, kind: str
) -> tuple[list[Operation], TraceMetrics]:
    conditions = [of_service(service), *([of_kind(kind)] if kind else [])]
    found = await _count(request, services, counts_text(all_of(conditions), (NAME, KIND)))
    pairs = [tuple(str(value.value or "") for _, value in named) for named in found.functions[0]]
    return sorted((name, "" if kind == UNSPECIFIED else kind) for name, kind in pairs), found


async def _count(request: Request[Any, Any, Any], services: Services, text: str) -> TraceMetrics:
    """Count the spans of the last two days by the fields of a query."""
    asked = TraceMetricsRequest(caller(request.state).org, time.time_ns(), LOOKBACK_NS, 1)
    with services.watch("jaeger") as watch:
        prepared = await services.engine.prepare(TRACE_METRICS, text, asked)
        found = await unless_gone(request, services.engine.collect(prepared))
        watch.end(partial=found.is_partial)
    return found


NAME_HANDLERS: tuple[Any, ...] = (services_, operations, operation_names, dependencies, metrics)
