"""An ingress in a thread of the test, for clients of gRPC: index and Kafka are doubles, the rest is real."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import uvicorn

from lakerunner_ingress.app import DrainingServer, create_app
from resources.grpc.server import bind
from resources.http_server import server_options
from resources.settings import Settings
from tests.support.ingress.doubles import FakeProducer, FlakyIndex
from tests.support.ingress.push_fakes import index_with
from tests.support.patience import PATIENCE_S

SERVICE = "/opentelemetry.proto.collector.{0}.v1.{1}Service/Export"
EXPORTS = {name: SERVICE.format(name, name.capitalize()) for name in ("logs", "metrics", "trace")}
KEY = (("authorization", "Bearer acme-write"),)


@dataclass
class Door:
    """A running ingress: its ports, its doubles, its bucket."""

    port: int
    http_port: int
    server: DrainingServer
    app: Any
    index: FlakyIndex
    producer: FakeProducer
    bucket: Path

    def channel(self, port: int = 0, *options: tuple[str, Any]) -> grpc.Channel:
        return grpc.insecure_channel(f"127.0.0.1:{port or self.port}", options)

    def export(self, body: bytes, name: str = "logs", **call: Any) -> bytes:
        """Make one call over a connection of its own."""
        with self.channel() as channel:
            return bytes(channel.unary_unary(EXPORTS[name])(body, **{"metadata": KEY, **call}))


@contextmanager
def open_door(folder: Path, **settings: Any) -> Iterator[Door]:
    known = Settings(**{"receiver_batch_age_s": 0.02, "log_level": "WARNING", **settings})
    index, producer = index_with(folder), FakeProducer()
    app = create_app(known, index, producer)  # type: ignore[arg-type]
    listener = bind("127.0.0.1", 0)
    config = uvicorn.Config(app, **server_options(known, app.state.grpc))
    server = DrainingServer(config, app.state.receivers, app.state.grpc)
    server.grpc_socket = bind("127.0.0.1", 0)
    port, http_port = (one.getsockname()[1] for one in (server.grpc_socket, listener))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Door(port, http_port, server, app, index, producer, folder)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


def status_of(error: grpc.RpcError) -> tuple[str, str]:
    """Return code and text of a failed call."""
    return error.code().name, error.details()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S)
