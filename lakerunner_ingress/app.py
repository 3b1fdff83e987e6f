"""The ingress process: notification adapters and push receivers over one pipeline.

It writes raw objects, Kafka, the outbox and dead letters, and reads keys and the registry. Route handlers are
thin; whatever blocks runs in worker threads.
"""

from __future__ import annotations

import socket
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide

from lakerunner_ingress.auth import Secrets
from lakerunner_ingress.errors import answer
from lakerunner_ingress.health import live, metrics, ready
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.notifications.webhooks import notify_azure, notify_gcs, notify_s3
from lakerunner_ingress.openapi import OPENAPI
from lakerunner_ingress.pipeline_metrics import PipelineMetrics
from lakerunner_ingress.receivers.otlp_grpc import open_grpc
from lakerunner_ingress.receivers.receive import Receivers, open_receivers
from lakerunner_ingress.receivers.routes import push_routes
from lakerunner_ingress.registry import RegistryCache
from lakerunner_ingress.telemetry import PushTelemetry
from lakerunner_ingress.threads import WorkerThreads
from resources.grpc.server import GrpcServer, bind
from resources.http_server import host_check, server_options
from resources.index.contract import IngressIndex
from resources.kafka.producer import Producer
from resources.settings import Settings, SettingsError

if TYPE_CHECKING:
    from resources.index.postgres import PostgresIndex

BUSY, WAITING, TIMEOUT_S = 16, 128, 30.0
INDEX_WAIT_S, INDEX_ANSWER_S = 3.0, 10.0
"""Seconds for a connection, and for the answer to one statement."""
HEALTH_TIMEOUT_S = 4.0
GRACE_S = 10
"""Seconds for requests and calls in flight at the end."""
SWITCH_S = 0.001
"""Seconds after which a thread that checks a body lets the event loop go on; Python waits five times that."""


def create_app(settings: Settings, index: IngressIndex, producer: Producer) -> Litestar:
    telemetry = PushTelemetry()
    pipeline = Pipeline(index, producer, RegistryCache(index), telemetry)
    receivers = open_receivers(settings, pipeline, telemetry)
    return Litestar(
        [notify_s3, notify_gcs, notify_azure, push_routes(), live, ready, metrics],
        dependencies={
            "pipeline": _provide(pipeline),
            "pipeline_metrics": _provide(PipelineMetrics(index)),
            "webhook_secrets": _provide(Secrets(settings.webhook_token, settings.webhook_hmac_key)),
            "receivers": _provide(receivers),
            "workers": _provide(WorkerThreads(BUSY, WAITING, TIMEOUT_S)),
            "health_workers": _provide(WorkerThreads(4, WAITING, HEALTH_TIMEOUT_S)),
        },
        exception_handlers={Exception: answer},
        on_startup=[partial(_connect, producer)],
        on_shutdown=[receivers.close, producer.close],
        state=State(
            {
                "receivers": receivers,
                "grpc": open_grpc(settings, receivers),
                "query_port": settings.query_port,
            }
        ),
        openapi_config=OPENAPI,
    )


class DrainingServer(uvicorn.Server):
    """A server that empties the receivers before it waits for the requests in flight.

    Without it, SIGTERM would leave requests waiting for the age of their batch, or for the server to cancel
    them.
    """

    def __init__(self, config: uvicorn.Config, receivers: Receivers, grpc: GrpcServer) -> None:
        super().__init__(config)
        self._receivers = receivers
        self._grpc = grpc
        self.grpc_socket: socket.socket | None = None
        """Bound socket of OTLP/gRPC, if it has a port of its own."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.grpc_socket is not None and self.started:
            await self._grpc.listen(self.grpc_socket)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        self._grpc.drain()
        await self._receivers.drain()
        await self._grpc.close(GRACE_S)
        await super().shutdown(sockets)


def open_index(settings: Settings) -> PostgresIndex:
    """Make the index of this process; it connects on first use."""
    from resources.index.postgres import PostgresIndex

    return PostgresIndex(
        settings.require("index_dsn"), max_connections=BUSY, wait_s=INDEX_WAIT_S, answer_s=INDEX_ANSWER_S
    )


def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; then finish requests in flight and write the pushes in memory."""
    sys.setswitchinterval(SWITCH_S)
    index = open_index(settings)
    app = create_app(settings, index, Producer(settings.require("kafka_bootstrap")))
    config = uvicorn.Config(
        host_check(app, settings, settings.ingress_host),
        host=settings.ingress_host,
        port=settings.ingress_port,
        timeout_graceful_shutdown=GRACE_S,
        **server_options(settings, app.state.grpc),
    )
    server = DrainingServer(config, app.state.receivers, app.state.grpc)
    if settings.ingress_grpc_port:
        server.grpc_socket = _bind(settings.ingress_host, settings.ingress_grpc_port)
    server.run()
    index.close()
    return 0 if server.started else 1


def _bind(host: str, port: int) -> socket.socket:
    """Bind the port of OTLP/gRPC; one that is taken ends the start before it begins."""
    try:
        return bind(host, port)
    except OSError as error:
        raise SettingsError(
            f"{host}:{port} (LAKERUNNER_INGRESS_GRPC_PORT) cannot be bound: {error}; 0 leaves it out"
        ) from error


def _connect(producer: Producer) -> None:
    """Connect to Kafka beside the start: while the first push waits for it, an SDK's queue runs full."""
    threading.Thread(target=producer.check, name="kafka-connect", daemon=True).start()


def _provide(value: Any) -> Provide:
    return Provide(lambda: value, sync_to_thread=False)
