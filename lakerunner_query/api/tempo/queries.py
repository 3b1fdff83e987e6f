"""Searches and metrics of Tempo's API, and the router of all its endpoints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from litestar import MediaType, Request, Response, Router, get, route

from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.health import readiness
from lakerunner_query.api.shared.requests import read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.api.tempo.diff import trace_diff
from lakerunner_query.api.tempo.params import metrics_request, metrics_text, search_request, search_text
from lakerunner_query.api.tempo.render import (
    NS_PER_MS,
    instant_json,
    range_json,
    reply,
    respond_like_tempo,
    search_json,
    search_metrics,
)
from lakerunner_query.api.tempo.traces import TRACE_HANDLERS
from lakerunner_query.coordinator.languages import TRACE_METRICS, TRACE_SEARCH
from lakerunner_query.coordinator.traceql import TraceMetrics, TraceMetricsQuery, label_set, series_of
from lakerunner_query.plan.traceql import TraceMetricsRequest
from lakerunner_query.protocol.traces import TraceExemplar
from lakerunner_query.serving import handlers, unless_gone
from lakerunner_query.traceql.series import LabelSet, Series, share_exemplars

METHODS = ["GET", "POST"]
VERSION = "2.9.0"


@route("/search", http_method=METHODS, status_code=200)  # type: ignore[arg-type]
async def search(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return the newest traces that match a TraceQL query."""
    fields = await read_fields(request)
    asked = search_request(fields, caller(request.state).org, time.time_ns())
    with services.watch("tempo") as watch:
        del watch
        prepared = await services.engine.prepare(TRACE_SEARCH, search_text(fields), asked)
        found = await unless_gone(request, services.engine.collect(prepared))
        return reply(fields, search_json(found, shows_spans=bool(fields.text("q"))), found.missing)


@route("/metrics/query_range", http_method=METHODS, status_code=200)  # type: ignore[arg-type]
async def query_range(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return series of a TraceQL metrics query, at multiples of the step."""
    return await _metrics(request, services, is_instant=False)


@route("/metrics/query", http_method=METHODS, status_code=200)  # type: ignore[arg-type]
async def query(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return one value for each series, over the whole range."""
    return await _metrics(request, services, is_instant=True)


async def _metrics(
    request: Request[Any, Any, Any], services: Services, *, is_instant: bool
) -> Response[bytes]:
    fields = await read_fields(request)
    org = caller(request.state).org
    asked = metrics_request(fields, org, time.time_ns(), is_instant=is_instant)
    with services.watch("tempo") as watch:
        del watch
        prepared = await services.engine.prepare(TRACE_METRICS, metrics_text(fields), asked)
        found = await unless_gone(request, services.engine.collect(prepared))
        return reply(fields, metrics_json(prepared, found, is_instant=is_instant), found.missing)


def metrics_json(prepared: TraceMetricsQuery, found: TraceMetrics, *, is_instant: bool) -> dict[str, Any]:
    """Return series with their exemplars, and what reading took."""
    asked, series = prepared.request, series_of(prepared, found)
    if is_instant:
        return {"series": instant_json(series), "metrics": search_metrics(found)}
    exemplars = exemplars_of(series, found, asked)
    times = (np.arange(asked.steps) * asked.step_ns + asked.start_ns) // NS_PER_MS
    return {"series": range_json(series, times.tolist(), exemplars), "metrics": search_metrics(found)}


def exemplars_of(
    series: Sequence[Series], found: TraceMetrics, asked: TraceMetricsRequest
) -> dict[LabelSet, list[TraceExemplar]]:
    """Return the spans that stand for each series."""
    samples: dict[LabelSet, list[TraceExemplar]] = {}
    for one in found.functions:
        for named, group in one.items():
            samples.setdefault(label_set(named), []).extend(group.exemplars)
    return share_exemplars(series, samples, asked.exemplars)


@get("/status/buildinfo", sync_to_thread=False)
def buildinfo() -> dict[str, str]:
    """Return the version of Tempo whose API this is; Grafana chooses features by it."""
    empty = dict.fromkeys(("branch", "buildUser", "buildDate", "goVersion"), "")
    return {"version": VERSION, "revision": "lakerunner", **empty}


@get("/tempo/ready")
async def ready_like_tempo(services: Services) -> Response[str]:
    """Answer like `/readyz`, in Tempo's word."""
    is_ready, found = await readiness(services)
    text = "ready" if is_ready else found
    return Response(text, status_code=200 if is_ready else 503, media_type=MediaType.TEXT)


@route("/echo", http_method=METHODS, status_code=200, media_type=MediaType.TEXT)  # type: ignore[arg-type]
async def echo() -> str:
    """Answer the health check of Grafana's data source."""
    return "echo"


tempo_router = Router(
    "/tempo/api",
    route_handlers=[search, query_range, query, echo, buildinfo, trace_diff, *TRACE_HANDLERS],
    guards=[require_reader],
    exception_handlers=handlers(respond_like_tempo),
    tags=["tempo"],
)
