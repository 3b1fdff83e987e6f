"""Which series, label names and label values there are, as Prometheus' API tells them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, get, route

from lakerunner_query.api import prometheus_json as answers
from lakerunner_query.api.auth import caller
from lakerunner_query.api.disconnect import unless_gone
from lakerunner_query.api.forms import Given, given
from lakerunner_query.api.prometheus_params import (
    FOREVER_MS,
    limit,
    optional_time,
    selectors,
    unescaped,
)
from lakerunner_query.api.prometheus_replies import JSON, METHODS, reply
from lakerunner_query.api.services import Services
from lakerunner_query.coordinator.names import Listed, Question
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.gotext.strconv import quote_promql
from lakerunner_query.protocol.units import Selection


@route("/series", http_method=METHODS, status_code=200, media_type=JSON)
async def series(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Label sets of the series that match."""
    asked = await given(request)
    if not asked.all("match[]"):
        raise InvalidRequestError("no match[] parameter provided")
    wanted = question(asked, caller(request.state).org)
    with services.watch("prometheus") as watch:
        found = await unless_gone(request, services.series.series(wanted))
        watch.ended(partial=bool(found.missing))
    return _reply(asked, await asyncio.to_thread(answers.series, found.series), found)


@route("/labels", http_method=METHODS, status_code=200, media_type=JSON)
async def labels(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Label names."""
    asked = await given(request)
    wanted = question(asked, caller(request.state).org)
    with services.watch("prometheus") as watch:
        found = await unless_gone(request, services.series.label_names(wanted))
        watch.ended(partial=bool(found.missing))
    return _reply(asked, msgspec.json.encode(found.texts), found)


@get("/label/{name:str}/values", media_type=JSON)
async def label_values(name: str, request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Values of one label; `U__` in front marks a name that is spelled in hexadecimal."""
    asked = await given(request)
    label = unescaped(name)
    if not label:
        raise InvalidRequestError(f"invalid label name: {quote_promql(label)}")
    wanted = question(asked, caller(request.state).org)
    with services.watch("prometheus") as watch:
        found = await unless_gone(request, services.series.label_values(wanted, label))
        watch.ended(partial=bool(found.missing))
    return _reply(asked, msgspec.json.encode(found.texts), found)


def question(asked: Given, org: str) -> Question:
    """Both ends of the range included; without them, all time."""
    most = limit(asked)
    start = optional_time(asked, "start", -FOREVER_MS) - 1
    end = optional_time(asked, "end", FOREVER_MS)
    chosen = tuple(Selection(matchers, start, end) for matchers in selectors(asked.all("match[]")))
    return Question(org, start, end, chosen, most)


def _reply(asked: Given, data: bytes, found: Listed) -> Response[bytes]:
    truncated = [answers.TRUNCATED] if found.truncated else []
    return reply(asked, data, answers.Said([*answers.partial(found.missing), *truncated]), found.missing)
