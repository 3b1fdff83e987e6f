"""HTTP servers: idle connections are kept as the setting says, and other hosts are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import uvicorn

from lakerunner_ingress import app as ingress
from lakerunner_query import app as query_api
from lakerunner_query import worker_app
from resources.grpc.server import GrpcServer
from resources.http_server import server_options
from resources.settings import Settings

ANYWHERE = "0.0.0.0"  # noqa: S104 - nothing is bound here


def test_senders_that_come_every_minute_find_their_connection_open() -> None:
    assert server_options(Settings())["timeout_keep_alive"] == 120


@pytest.mark.parametrize("serve", [ingress.serve, query_api.serve, worker_app.serve])
def test_every_process_keeps_connections(
    serve: Callable[[Settings], int], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    found: list[uvicorn.Config] = []
    monkeypatch.setattr("resources.index.postgres.PostgresIndex", _NoIndex)
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, *_: found.append(self.config))
    monkeypatch.setattr(worker_app, "create_worker_app", lambda _: _no_app)
    monkeypatch.setattr(ingress, "Producer", lambda _: None)
    monkeypatch.setattr(ingress, "create_app", lambda *_: _NoApp())
    monkeypatch.setattr(query_api, "create_app", lambda *_: _NoApp())
    monkeypatch.setattr(ingress, "bind", lambda *_: None)
    known = Settings(data_dir=tmp_path, index_dsn="x", kafka_bootstrap="x", http_keep_alive_s=77)
    with suppress(SystemExit):  # uvicorn.run: the server never started
        serve(known)
    assert [config.timeout_keep_alive for config in found] == [77]


@pytest.mark.parametrize("serve", [ingress.serve, query_api.serve])
@pytest.mark.parametrize(
    ("bound", "allowed", "host", "status"),
    [
        ("127.0.0.1", "", "localhost:4381", 200),
        ("127.0.0.1", "", "[::1]:4381", 200),
        ("127.0.0.1", "", "rebound.example:4381", 421),
        ("127.0.0.1", "", "127.0.0.1.rebound.example", 421),
        ("127.0.0.1", "", "", 421),
        ("127.0.0.1", "lake.example, other.example", "LAKE.example", 200),
        (ANYWHERE, "", "lake.example", 200),
        (ANYWHERE, "lake.example", "rebound.example", 421),
        (ANYWHERE, "lake.example", "127.0.0.1:4381", 200),
    ],
)
def test_pages_of_the_web_reach_no_server_under_a_name_of_their_own(
    serve: Callable[[Settings], int],
    bound: str,
    allowed: str,
    host: str,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[uvicorn.Config] = []
    monkeypatch.setattr("resources.index.postgres.PostgresIndex", _NoIndex)
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, *_: found.append(self.config))
    monkeypatch.setattr(ingress, "Producer", lambda _: None)
    monkeypatch.setattr(ingress, "create_app", lambda *_: _NoApp())
    monkeypatch.setattr(query_api, "create_app", lambda *_: _NoApp())
    monkeypatch.setattr(ingress, "bind", lambda *_: None)
    known = Settings(
        index_dsn="x", kafka_bootstrap="x", allowed_hosts=allowed, query_host=bound, ingress_host=bound
    )
    with suppress(SystemExit):  # uvicorn.run: the server never started
        serve(known)
    assert asyncio.run(_status(found[0].app, host)) == status


async def _status(app: Any, host: str) -> int:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app({"type": "http", "headers": [(b"host", host.encode())]}, None, send)
    return int(sent[0]["status"])


async def _no_app(*_: Any) -> None: ...


class _NoApp:
    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    class state:  # noqa: N801 - Litestar's name
        receivers = None
        grpc = GrpcServer({}, idle_s=1.0, elsewhere="")


class _NoIndex:
    def __init__(self, *_: Any, **__: Any) -> None: ...

    def close(self) -> None: ...
