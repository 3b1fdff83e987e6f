"""`/api/v1/service-map` says which service calls which, how often, how fast and with how many errors."""

from __future__ import annotations

import time
from typing import Any

from litestar import HttpMethod, Request, Router, route

from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import missing_warnings, read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.api.shared.times import moment_ns
from lakerunner_query.coordinator.service_map import QUANTILES, Load, ServiceMap, read_service_map
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.serving import unless_gone
from resources.settings import Settings

NS_PER_MS = 1_000_000


@route("/", http_method=[HttpMethod.GET, HttpMethod.POST], status_code=200)
async def service_map(request: Request[Any, Any, Any], services: Services) -> dict[str, object]:
    """Return the services and the requests between them, of an interval."""
    fields = await read_fields(request)
    start_ms, end_ms = interval_ms(fields.text("start"), fields.text("end"), services.settings)
    org = caller(request.state).org
    with services.watch("lakerunner-service-map") as watch:
        found = await unless_gone(request, read_service_map(services.engine, org, start_ms, end_ms))
        watch.end(partial=bool(found.missing))
    return as_json(found)


def interval_ms(start: str, end: str, settings: Settings) -> tuple[int, int]:
    """Return the asked interval in milliseconds; the default is the usual window up to now."""
    now = time.time_ns()
    end_ns = moment_ns(end or "now", now)
    start_ns = moment_ns(start or f"e-{settings.query_default_window_s}s", now, end_ns)
    if start_ns >= end_ns:
        raise InvalidRequestError("start is not before end")
    return start_ns // NS_PER_MS, -(-end_ns // NS_PER_MS)


def as_json(found: ServiceMap) -> dict[str, object]:
    seconds = (found.end_ms - found.start_ms) / 1000
    nodes = [
        {"name": name, "kind": kind, **_load(load, seconds)} for (name, kind), load in found.nodes.items()
    ]
    edges = [
        {"client": client, "server": server, "connection_type": connection, **_load(load, seconds)}
        for (client, server, connection), load in found.edges.items()
    ]
    return {
        "status": "partial" if found.missing else "complete",
        "start": str(found.start_ms),
        "end": str(found.end_ms),
        "nodes": nodes,
        "edges": edges,
        "unpaired_spans": found.unpaired,
        **({"warnings": missing_warnings(found.missing)} if found.missing else {}),
    }


def _load(load: Load, seconds: float) -> dict[str, object]:
    quantiles = {f"p{round(q * 100)}": value for q, value in zip(QUANTILES, load.quantiles, strict=True)}
    return {"requests": load.requests, "rate": load.requests / seconds, "errors": load.errors, **quantiles}


service_map_router = Router(
    "/api/v1/service-map", route_handlers=[service_map], guards=[require_reader], tags=["traces"]
)
