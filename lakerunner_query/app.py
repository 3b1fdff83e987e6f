"""The query API process wires everything once, then serves it.

`create_app` takes the index as an argument, so that tests give it the one in memory; `serve` opens the real
one. `lakerunner query-api` calls `serve`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import uvicorn
from litestar import Litestar, Request, Response
from litestar.di import Provide
from litestar.exceptions import MethodNotAllowedException, NotFoundException
from litestar.middleware import DefineMiddleware
from litestar.openapi import OpenAPIConfig

from lakerunner_query.api.jaeger.queries import jaeger_router
from lakerunner_query.api.jaeger.render import respond_like_jaeger
from lakerunner_query.api.lakerunner.alerts import alerts_router
from lakerunner_query.api.lakerunner.logs import logql_router, logs_router
from lakerunner_query.api.lakerunner.metrics import metrics_router, promql_router
from lakerunner_query.api.lakerunner.queries import lakeql_router
from lakerunner_query.api.lakerunner.rules import rules_router
from lakerunner_query.api.lakerunner.service_map import service_map_router
from lakerunner_query.api.lakerunner.spans import spans_router, traceql_router
from lakerunner_query.api.lakerunner.traces import traces_router
from lakerunner_query.api.loki.queries import loki_router
from lakerunner_query.api.loki.render import respond_like_loki
from lakerunner_query.api.loki.tail import tail
from lakerunner_query.api.prometheus.alerts import log_alerts_router
from lakerunner_query.api.prometheus.federate import federation_router, home_router
from lakerunner_query.api.prometheus.queries import prometheus_router
from lakerunner_query.api.prometheus.render import respond_like_prometheus
from lakerunner_query.api.prometheus.ruler_config import (
    loki_rules_router,
    mimir_rules_router,
    old_loki_rules_router,
)
from lakerunner_query.api.prometheus.status import healthy, ready_like_prometheus
from lakerunner_query.api.shared import openapi
from lakerunner_query.api.shared.health import alive, asset, metrics, page, ping, ready
from lakerunner_query.api.shared.requests import compress_answers, drop_stalled
from lakerunner_query.api.shared.services import Services, provide_services
from lakerunner_query.api.shared.wrong_doors import is_of_prometheus, right_address, taken_methods
from lakerunner_query.api.tempo.queries import ready_like_tempo, tempo_router
from lakerunner_query.api.tempo.render import respond_like_tempo
from lakerunner_query.api.tempo.streaming import SERVICE, streaming_methods
from lakerunner_query.coordinator.core import open_core
from lakerunner_query.coordinator.locate import KEY_CHECKS, LOOKUPS, WATCHES
from lakerunner_query.coordinator.query_log import SENDERS
from lakerunner_query.serving import Counters, Respond, count_requests, handlers, respond_plain
from resources.grpc.health import health_methods
from resources.grpc.server import GrpcServer
from resources.http_server import authority_check, host_check, server_options
from resources.index.contract import QueryIndex
from resources.settings import Settings

if TYPE_CHECKING:
    from resources.index.postgres import PostgresIndex

INDEX_WAIT_S = 3.0
"""Seconds that one attempt waits for a connection; a query is refused with 503 after two."""
INDEX_ANSWER_S = 30.0
"""Seconds for the answer to one statement, also for that of a query which may take longer."""
INDEX_CONNECTIONS = 4
"""Connections that are open from the start."""
GRACE_S = 5
"""Seconds for requests and calls in flight at the end."""
GRPC_ELSEWHERE = "this port answers queries; telemetry goes to the ingress"
HANDLERS = (
    page, asset, alive, ready, metrics, ping, lakeql_router, logs_router, logql_router, loki_router,
    log_alerts_router, tail, metrics_router,
    promql_router, prometheus_router, federation_router, home_router, healthy, ready_like_prometheus,
    ready_like_tempo, tempo_router, jaeger_router, spans_router, traces_router, traceql_router,
    service_map_router, alerts_router, rules_router, mimir_rules_router, loki_rules_router,
    old_loki_rules_router,
)  # fmt: skip

DIALECTS: Mapping[str, Respond] = {
    "/loki/": respond_like_loki,
    "/api/prom/": respond_like_loki,
    "/prometheus/": respond_like_prometheus,
    "/tempo/": respond_like_tempo,
    "/jaeger/": respond_like_jaeger,
}
"""Forms of errors by prefix, for paths and methods that no router has; routers bring their own handlers."""


def create_app(settings: Settings, index: QueryIndex) -> Litestar:
    """Make the ASGI application over an index."""
    counters = Counters()

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        core = open_core(settings, index, "query-api")
        app.state.services = Services(
            settings, core.locator, core.dispatcher, core.engine, core.lakeql, counters
        )
        await core.open()
        try:
            async with _open_sql_doors(app.state.services):
                yield
        finally:
            await app.state.grpc.close(GRACE_S)
            await core.close()

    app = Litestar(
        route_handlers=HANDLERS,
        lifespan=[lifespan],
        dependencies={"services": Provide(provide_services, sync_to_thread=False)},
        exception_handlers=handlers(respond),
        middleware=[
            DefineMiddleware(count_requests, counters=counters),
            DefineMiddleware(drop_stalled, stall_s=settings.query_stall_s),
            compress_answers,
        ],
        openapi_config=OpenAPIConfig(title="Lakerunner query API", version="0.1.0", path="/schema"),
    )
    openapi.complete(app.openapi_schema)
    app.state.grpc = open_grpc(settings, app)
    return app


@asynccontextmanager
async def _open_sql_doors(services: Services) -> AsyncIterator[None]:
    """Listen on the ports of the settings that speak other protocols than HTTP."""
    async with AsyncExitStack() as doors:
        if services.settings.query_flight_port:
            from lakerunner_query.api.flight.server import open_door

            flight = await open_door(services)
            doors.push_async_callback(flight.stop)
        if services.settings.query_postgres_port:
            from lakerunner_query.api.postgres.door import PostgresDoor

            postgres = PostgresDoor(services)
            await postgres.open()
            doors.push_async_callback(postgres.close)
        yield


def open_index(settings: Settings) -> PostgresIndex:
    """Make the index of this process; it connects on first use."""
    from resources.index.postgres import PostgresIndex

    return PostgresIndex(
        settings.require("index_dsn"),
        min_connections=INDEX_CONNECTIONS,
        max_connections=LOOKUPS + KEY_CHECKS + WATCHES + SENDERS,
        wait_s=INDEX_WAIT_S,
        answer_s=INDEX_ANSWER_S,
    )


def serve(settings: Settings) -> int:
    """Run the process until it is stopped."""
    index = open_index(settings)
    app = create_app(settings, index)
    try:
        uvicorn.run(
            host_check(app, settings, settings.query_host),
            host=settings.query_host,
            port=settings.query_port,
            timeout_graceful_shutdown=GRACE_S,
            **server_options(settings, app.state.grpc),
        )
    finally:
        index.close()
    return 0


def open_grpc(settings: Settings, app: Litestar) -> GrpcServer:
    """Return the gRPC server on the port of the API."""
    methods = streaming_methods(lambda: app.state.services)  # they are there when the server listens
    return GrpcServer(
        {**methods, **health_methods([SERVICE], lambda: True)},
        idle_s=float(settings.http_keep_alive_s),
        elsewhere=GRPC_ELSEWHERE,
        knows_host=authority_check(settings, settings.query_host),
    )


def respond(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Answer an exception that no router saw in the form of the dialect that the path belongs to."""
    path = request.url.path
    others = respond_like_prometheus if is_of_prometheus(path) else respond_plain
    dialect = next((one for prefix, one in DIALECTS.items() if path.startswith(prefix)), others)
    return dialect(request, _explained(request, error))


def _explained(request: Request[Any, Any, Any], error: Exception) -> Exception:
    """Name the right address, or the right methods, where there is no handler."""
    settings: Settings = request.app.state.services.settings
    if type(error) is NotFoundException and error.detail == HTTPStatus.NOT_FOUND.phrase:
        hint = right_address(request.app, request.method, request.url.path, settings.ingress_port)
        return NotFoundException(hint)
    if isinstance(error, MethodNotAllowedException):
        taken = taken_methods(request.app, request.url.path)
        hint = f"{request.method} is not taken here: {' or '.join(taken)} is"
        if is_of_prometheus(request.url.path):
            hint += f"; Prometheus' API lies under /prometheus here: ask /prometheus{request.url.path}"
        return MethodNotAllowedException(hint, headers={"Allow": ", ".join(taken)})
    return error
