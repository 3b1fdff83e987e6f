"""Health, metrics, and whether a key works."""

from __future__ import annotations

import hashlib
from typing import Any

from litestar import MediaType, Request, Response, get

from lakerunner_query.api.auth import caller, require_reader
from lakerunner_query.api.services import Services
from lakerunner_query.errors import IndexUnavailableError
from resources.exposition import CONTENT_TYPE


@get(["/livez", "/healthz"], media_type=MediaType.TEXT, sync_to_thread=False, tags=["health"])
def alive() -> str:
    """The process answers."""
    return "ok\n"


@get(["/readyz", "/ready"], media_type=MediaType.TEXT, tags=["health"])
async def ready(services: Services) -> Response[str]:
    """The index answers and at least one query worker is ready."""
    is_ready, text = await standing(services)
    return Response(text, status_code=200 if is_ready else 503, media_type=MediaType.TEXT)


@get("/metrics", media_type=CONTENT_TYPE, sync_to_thread=False, tags=["health"])
def metrics(services: Services) -> str:
    """Prometheus text: queries by outcome, requests by route and status, rows and bytes."""
    return services.query_times.render() + services.counters.render()


@get("/api/v1/ping", guards=[require_reader], sync_to_thread=False, tags=["health"])
def ping(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Which organisation and role the presented key has."""
    found = caller(request.state)
    return {"status": "ok", "organization": found.org, "role": found.role}


async def standing(services: Services) -> tuple[bool, str]:
    """Whether queries can be answered, and what of it is there."""
    try:
        await services.locator.api_key(hashlib.sha256(b"readiness probe").digest())
        index = "ok"
    except IndexUnavailableError as error:
        index = error.message
    workers = await services.dispatcher.ready()
    return index == "ok" and workers > 0, f"index: {index}\nworkers ready: {workers}\n"
