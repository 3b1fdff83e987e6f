"""Which streams, label names and label values there are, as Loki's API tells them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from litestar import Request, Response, get, route

from lakerunner_query.api.auth import caller
from lakerunner_query.api.disconnect import unless_gone
from lakerunner_query.api.forms import Given, given
from lakerunner_query.api.loki_params import RECENT_S, selector, time_range
from lakerunner_query.api.loki_replies import JSON, METHODS, reply
from lakerunner_query.api.prometheus_json import series as series_json
from lakerunner_query.api.services import Services
from lakerunner_query.coordinator.names import StreamQuestion
from lakerunner_query.errors import InvalidRequestError


@route(["/labels", "/label"], http_method=METHODS, status_code=200, media_type=JSON)
async def labels(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Names of stream labels."""
    asked = await given(request)
    wanted = question(asked, caller(request.state).org, *asked.all("query"))
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.streams.label_names(wanted))
        watch.ended(partial=bool(found.missing))
    return reply(asked, msgspec.json.encode(found.texts), found.missing)


@get("/label/{name:str}/values", media_type=JSON)
async def label_values(name: str, request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Values of one stream label."""
    asked = await given(request)
    wanted = question(asked, caller(request.state).org, *asked.all("query"))
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.streams.label_values(wanted, name))
        watch.ended(partial=bool(found.missing))
    return reply(asked, msgspec.json.encode(found.texts), found.missing)


@route("/series", http_method=METHODS, status_code=200, media_type=JSON)
async def series(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Label sets of the streams that match."""
    asked = await given(request)
    wanted = question(asked, caller(request.state).org, *asked.all("match[]", "match"))
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.streams.series(wanted))
        watch.ended(partial=bool(found.missing))
    return reply(asked, await asyncio.to_thread(series_json, found.series), found.missing)


def question(asked: Given, org: str, *selectors: str) -> StreamQuestion:
    """Of the last hours, unless the request says otherwise."""
    start, end = time_range(asked, time.time_ns(), RECENT_S)
    if end < start:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    return StreamQuestion(org, start, end, tuple(selector(text) for text in selectors if text.strip()))
