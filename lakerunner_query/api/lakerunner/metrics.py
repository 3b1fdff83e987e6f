"""Endpoints under `/api/v1/metrics` stream queries and list metrics and tags; `/api/v1/promql` validates."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import msgspec
from anyio.to_thread import run_sync
from litestar import HttpMethod, MediaType, Request, Router, get, post, route
from litestar.response import Stream

from lakerunner_query.api.lakerunner import events, resume
from lakerunner_query.api.lakerunner.events import Progress, metric_events
from lakerunner_query.api.lakerunner.logs import check_body
from lakerunner_query.api.lakerunner.params import (
    MetricsNames,
    MetricsQuery,
    align,
    question,
    read_names,
    read_query,
)
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import missing_warnings
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.languages import LABEL_NAMES, LABEL_VALUES, METADATA, PROMQL
from lakerunner_query.coordinator.names import Listing
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.errors import InvalidRequestError, ParseError
from lakerunner_query.promql.lang.ast import Selector, walk
from lakerunner_query.promql.lang.check import type_of
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import pretty, to_text
from lakerunner_query.serving import Failure, envelope, unless_gone


class PromQLText(msgspec.Struct, forbid_unknown_fields=True):
    q: str


class Verdict(msgspec.Struct, omit_defaults=True):
    """Either `error`, or the type and selectors of a query."""

    valid: bool
    type: str = ""
    """Type: `scalar`, `string`, `instant vector` or `range vector`."""
    formatted: str = ""
    selectors: list[str] = []
    error: Failure | None = None


@post("/validate", status_code=200)
async def validate(data: PromQLText, services: Services) -> Verdict:
    """Check a query without running it."""
    return await run_sync(_verdict, data.q, services.features)


promql_router = Router(
    "/api/v1/promql",
    route_handlers=[validate],
    guards=[require_reader],
    before_request=check_body,
    tags=["metrics"],
)


def _verdict(text: str, features: Features) -> Verdict:
    try:
        expr = parse(text, features)
    except ParseError as error:
        return Verdict(False, error=envelope(error))
    found = dict.fromkeys(to_text(one) for one in walk(expr) if isinstance(one, Selector))
    return Verdict(True, type_of(expr).value, pretty(expr), list(found))


METHODS = [HttpMethod.GET, HttpMethod.POST]


@post("/query", status_code=200, media_type=events.MEDIA_TYPE)
async def query(data: MetricsQuery, request: Request[Any, Any, Any], services: Services) -> Stream:
    """Stream series as events `{"type","data"}`: result, summary, heartbeat, error, done."""
    return await _stream(data, request, services)


@get("/query", media_type=events.MEDIA_TYPE)
async def query_by_address(request: Request[Any, Any, Any], services: Services) -> Stream:
    """Stream like the POST, for clients that know nothing else."""
    return await _stream(await read_query(request, MetricsQuery), request, services)


async def _stream(data: MetricsQuery, request: Request[Any, Any, Any], services: Services) -> Stream:
    with services.watch("lakerunner-metrics") as watch:
        times = align(data, caller(request.state).org, services.settings)
        has_ids = not (data.limit or data.summary)
        place = resume.place_of(times.request, has_ids, resume.last_event_id(request), "metrics", data.q)
        times = times if place is None else times.at(place.start_ms, place.end_ms, place.step_ms)
        progress = Progress(data.limit, data.summary)

        def request_of(part_ms: tuple[int, int] | None) -> PromQLRequest:
            return replace(times.request, part_ms=part_ms)

        stream = await resume.open_samples(services.engine, PROMQL, data.q, request_of, place, progress)
        watch.hand_over()
    answers = metric_events(stream, data.q, times, progress, watch, services.engine.limits.max_points)
    return Stream(events.with_heartbeats(answers), media_type=events.MEDIA_TYPE, headers=events.HEADERS)


@post("/explain", status_code=200, media_type=MediaType.TEXT)
async def explain(data: MetricsQuery, request: Request[Any, Any, Any], services: Services) -> str:
    """Explain what each selector reads, what the index pruned, and how the range is cut."""
    times = align(data, caller(request.state).org, services.settings)
    prepared = await services.engine.prepare(PROMQL, data.q, times.request, is_explained=True)
    return services.engine.explain(prepared) + "\n"


@route("/metadata", http_method=METHODS, status_code=200)
async def metadata(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """List metrics with type, unit and description."""
    data = await read_names(request, MetricsNames)
    if data.q:
        raise InvalidRequestError("metadata is asked for by metric, not by q")
    wanted = replace(question(data, caller(request.state).org, services.settings), metric=data.metric)
    found = await _watch(request, services, services.engine.ask(METADATA, wanted))
    facts = found.facts[: data.limit] if data.limit else found.facts
    return _reply("metrics", facts, found, len(facts) < len(found.facts))


@route("/tags", http_method=METHODS, status_code=200)
async def tags(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """List the label names of metrics."""
    wanted = question(await read_names(request, MetricsNames), caller(request.state).org, services.settings)
    found = await _watch(request, services, services.engine.ask(LABEL_NAMES, wanted))
    return _reply("tags", found.texts, found, found.truncated)


@route("/tagvalues", http_method=METHODS, status_code=200)
async def tagvalues(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """List the values of the label `tag`."""
    data = await read_names(request, MetricsNames)
    if not data.tag:
        raise InvalidRequestError("tag says which label's values; it is missing")
    wanted = question(data, caller(request.state).org, services.settings)
    found = await _watch(
        request, services, services.engine.ask(LABEL_VALUES, replace(wanted, label=data.tag))
    )
    return _reply("values", found.texts, found, found.truncated)


metrics_router = Router(
    "/api/v1/metrics",
    route_handlers=[query, query_by_address, explain, metadata, tags, tagvalues],
    guards=[require_reader],
    before_request=check_body,
    tags=["metrics"],
)


async def _watch(
    request: Request[Any, Any, Any], services: Services, work: Coroutine[Any, Any, Listing]
) -> Listing:
    with services.watch("lakerunner-metrics") as watch:
        found = await unless_gone(request, work)
        watch.end(partial=bool(found.missing))
    return found


def _reply(name: str, items: object, found: Listing, truncated: bool) -> dict[str, object]:
    return {
        "status": "partial" if found.missing else "complete",
        name: items,
        "truncated": truncated,
        "missing": list(found.missing.values()),
        **({"warnings": missing_warnings(found.missing)} if found.missing else {}),
    }
