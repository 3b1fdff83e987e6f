"""`/api/v1/logs`: which streams there are, and the names and values of their labels."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from litestar import HttpMethod, Request, route

from lakerunner_query.api.auth import caller
from lakerunner_query.api.disconnect import unless_gone
from lakerunner_query.api.log_params import names, question
from lakerunner_query.api.services import Services
from lakerunner_query.coordinator.names import Found
from lakerunner_query.errors import InvalidRequestError

METHODS = [HttpMethod.GET, HttpMethod.POST]


@route("/tags", http_method=METHODS, status_code=200)
async def tags(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """Names of stream labels."""
    wanted = question(await names(request), caller(request.state).org, services.settings)
    found = await _watched(request, services, services.streams.label_names(wanted))
    return _told("tags", found.texts, found)


@route("/tagvalues", http_method=METHODS, status_code=200)
async def tagvalues(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """Values of the stream label `tag`."""
    data = await names(request)
    if not data.tag:
        raise InvalidRequestError("tag says which label's values; it is missing")
    wanted = question(data, caller(request.state).org, services.settings)
    found = await _watched(request, services, services.streams.label_values(wanted, data.tag))
    return _told("values", found.texts, found)


@route("/series", http_method=METHODS, status_code=200)
async def series(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """Label sets of streams."""
    wanted = question(await names(request), caller(request.state).org, services.settings)
    found = await _watched(request, services, services.streams.series(wanted))
    return _told("series", [dict(labels) for labels in found.series], found)


async def _watched(
    request: Request[Any, Any, Any], services: Services, work: Coroutine[Any, Any, Found]
) -> Found:
    with services.watch("lakerunner") as watch:
        found = await unless_gone(request, work)
        watch.ended(partial=bool(found.missing))
    return found


def _told(name: str, items: object, found: Found) -> dict[str, object]:
    return {
        "status": "partial" if found.missing else "complete",
        name: items,
        "truncated": found.truncated,
        "missing": list(found.missing.values()),
    }
