"""The query API process wires everything once, then serves it.

`create_app` takes the index as an argument, so that tests give it the one in memory; `serve` opens the real
one. `lakerunner query-api` calls `serve`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from litestar import Litestar, Request, Response
from litestar.di import Provide
from litestar.middleware import DefineMiddleware
from litestar.openapi import OpenAPIConfig

from lakerunner_query.api.lakerunner.logs import logql_router, logs_router
from lakerunner_query.api.lakerunner.metrics import metrics_router, promql_router
from lakerunner_query.api.loki.queries import loki_router
from lakerunner_query.api.loki.render import respond_like_loki
from lakerunner_query.api.loki.tail import tail
from lakerunner_query.api.prometheus.queries import prometheus_router
from lakerunner_query.api.prometheus.render import respond_like_prometheus
from lakerunner_query.api.prometheus.status import healthy, ready_like_prometheus
from lakerunner_query.api.shared.health import alive, asset, metrics, page, ping, ready
from lakerunner_query.api.shared.requests import compress_answers
from lakerunner_query.api.shared.services import Services, provide_services
from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.engine import Admission, Engine, Limits
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.serving import Counters, Respond, count_requests, handlers, respond_plain
from resources.index.contract import QueryIndex
from resources.settings import Settings

INDEX_WAIT_S = 3.0
"""Seconds of one attempt; a query is refused with 503 after two."""
INDEX_CONNECTIONS = 4
"""Connections that are open from the start: a query asks several questions at once."""
HANDLERS = (
    page, asset, alive, ready, metrics, ping, logs_router, logql_router, loki_router, tail, metrics_router,
    promql_router, prometheus_router, healthy, ready_like_prometheus,
)  # fmt: skip

DIALECTS: Mapping[str, Respond] = {"/loki/": respond_like_loki, "/prometheus/": respond_like_prometheus}
"""Forms of errors by prefix, for paths and methods that no router has; routers bring their own handlers."""


def create_app(settings: Settings, index: QueryIndex) -> Litestar:
    """Make the ASGI application over an index."""
    counters = Counters()

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        app.state.services = _services(settings, index, counters)
        try:
            yield
        finally:
            await app.state.services.dispatcher.close()

    return Litestar(
        route_handlers=HANDLERS,
        lifespan=[lifespan],
        dependencies={"services": Provide(provide_services, sync_to_thread=False)},
        exception_handlers=handlers(respond),
        middleware=[DefineMiddleware(count_requests, counters=counters), compress_answers],
        openapi_config=OpenAPIConfig(title="Lakerunner query API", version="0.1.0", path="/schema"),
    )


def serve(settings: Settings) -> int:
    """Run the process until it is stopped."""
    from resources.index.postgres import PostgresIndex

    index = PostgresIndex(
        settings.require("index_dsn"), min_connections=INDEX_CONNECTIONS, wait_s=INDEX_WAIT_S
    )
    try:
        uvicorn.run(
            create_app(settings, index),
            host=settings.query_host,
            port=settings.query_port,
            log_level=settings.log_level.lower(),
            access_log=False,
            timeout_graceful_shutdown=5,
        )
    finally:
        index.close()
    return 0


def worker_urls(settings: Settings) -> tuple[str, ...]:
    """Return the configured workers, else the one that runs with the default settings."""
    configured = tuple(url.strip().rstrip("/") for url in settings.worker_urls.split(",") if url.strip())
    return configured or (f"http://{settings.worker_host}:{settings.worker_port}",)


def _services(settings: Settings, index: QueryIndex, counters: Counters) -> Services:
    locator = Locator(index)
    dispatcher = Dispatcher(worker_urls(settings), settings.require("internal_token"))
    admission = Admission(settings.query_max_concurrency)
    limits = Limits(
        settings.query_timeout_s,
        max_rows=settings.query_max_limit,
        max_points=settings.query_max_samples,
        max_series=settings.query_max_series,
        features=tuple(name.strip() for name in settings.query_features.split(",") if name.strip()),
    )
    return Services(settings, locator, dispatcher, Engine(locator, dispatcher, admission, limits), counters)


def respond(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Answer an exception that no router saw in the form of the dialect that the path belongs to."""
    path = request.url.path
    dialect = next((one for prefix, one in DIALECTS.items() if path.startswith(prefix)), respond_plain)
    return dialect(request, error)
