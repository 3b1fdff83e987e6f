"""The query endpoints of Prometheus, and the router of all its endpoints."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import msgspec
from litestar import Request, Response, Router, route

from lakerunner_query.api.prometheus import render as answers
from lakerunner_query.api.prometheus.alerts import ALERT_HANDLERS
from lakerunner_query.api.prometheus.cardinality import tsdb
from lakerunner_query.api.prometheus.language import format_query, parse_query
from lakerunner_query.api.prometheus.names import label_values, labels, metadata, query_exemplars, series
from lakerunner_query.api.prometheus.params import BadParameterError, instant_request, limit, range_request
from lakerunner_query.api.prometheus.remote_read import read
from lakerunner_query.api.prometheus.render import JSON, METHODS, reply, respond_like_prometheus
from lakerunner_query.api.prometheus.status import STATUS_HANDLERS
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import RequestFields, missing_warnings, read_fields
from lakerunner_query.api.shared.services import QueryWatch, Services
from lakerunner_query.coordinator.languages import PROMQL
from lakerunner_query.coordinator.merge import INLINE_POINTS, SampleResult
from lakerunner_query.coordinator.promql import PromQLQuery, PromQLRequest
from lakerunner_query.errors import ParseError
from lakerunner_query.promql.lang.ast import Type
from lakerunner_query.promql.lang.check import type_of
from lakerunner_query.serving import handlers, unless_gone


@route("/query", http_method=METHODS, status_code=200, media_type=JSON)
async def query(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Evaluate an expression at one time."""
    fields = await read_fields(request)
    most = limit(fields)
    at = instant_request(fields, caller(request.state).org, time.time_ns())
    with services.watch("prometheus") as watch:
        return await unless_gone(request, _answer(services, fields, at, most, watch))


@route("/query_range", http_method=METHODS, status_code=200, media_type=JSON)
async def query_range(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Evaluate an expression at many times, both ends included."""
    fields = await read_fields(request)
    most = limit(fields)
    during = range_request(fields, caller(request.state).org)
    with services.watch("prometheus") as watch:
        return await unless_gone(request, _answer(services, fields, during, most, watch))


prometheus_router = Router(
    "/prometheus/api/v1",
    route_handlers=[
        query, query_range, series, labels, label_values, metadata, query_exemplars,
        format_query, parse_query, read, tsdb, *ALERT_HANDLERS, *STATUS_HANDLERS,
    ],
    guards=[require_reader],
    exception_handlers=handlers(respond_like_prometheus),
    tags=["prometheus"],
)  # fmt: skip


async def _answer(
    services: Services, fields: RequestFields, at: PromQLRequest, most: int, watch: QueryWatch
) -> Response[bytes]:
    began = time.perf_counter()
    text = fields.text("query")
    prepared = await _prepared(services, text, at)
    ready = time.perf_counter()
    joined = await services.engine.collect(prepared)
    done = time.perf_counter()
    watch.end(partial=bool(joined.missing), points=joined.samples)
    stats = _stats(joined, ready - began, done - ready) if fields.text("stats") else b""
    instant_ms = None if at.step_ms else at.end_ms
    render = partial(answers.result, joined, at_ms=instant_ms, limit=most, stats=stats)
    data, cut = render() if joined.samples < INLINE_POINTS else await asyncio.to_thread(render)
    warnings = [answers.TRUNCATED] if cut else []
    messages = answers.messages_of(joined.annotations, text, [*missing_warnings(joined.missing), *warnings])
    return reply(fields, data, messages, joined.missing)


async def _prepared(services: Services, text: str, at: PromQLRequest) -> PromQLQuery:
    try:
        prepared = await services.engine.prepare(PROMQL, text, at)
    except ParseError as error:
        raise BadParameterError("query", error.message, error.position) from error
    kind = type_of(prepared.plan.expr)
    if at.step_ms and kind not in {Type.SCALAR, Type.VECTOR}:
        reason = f'invalid expression type "{kind}" for range query, must be Scalar or instant Vector'
        raise BadParameterError("query", reason)
    return prepared


def _stats(joined: SampleResult, preparing_s: float, running_s: float) -> bytes:
    """Render the timings of Grafana's inspector; waiting and sorting are not timed apart."""
    timings = {
        "evalTotalTime": running_s,
        "resultSortTime": 0.0,
        "queryPreparationTime": preparing_s,
        "innerEvalTime": running_s,
        "execQueueTime": 0.0,
        "execTotalTime": preparing_s + running_s,
    }
    samples = {"totalQueryableSamples": joined.rows_considered, "peakSamples": joined.samples}
    fetched = {"bytesFetched": joined.bytes_fetched, "requests": joined.requests}
    return msgspec.json.encode({"timings": timings, "samples": samples, "objectStore": fetched})
