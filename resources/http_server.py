"""HTTP servers share settings, the check of hosts, and gRPC.

Senders and load balancers keep connections for a minute or so. A server that closes an idle connection sooner
meets a request that is already on its way, which its sender counts as failed: Prometheus' remote write sends
every five seconds. A page of the web can give its own name the address 127.0.0.1, and a browser then takes
the answers of a local server for those of that page; the name in the request tells them apart.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from resources.grpc.server import GrpcServer
from resources.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[..., Awaitable[None]]
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "host.docker.internal"})
"""Names that no page of the web can have; the last one is the host as containers on it call it."""
PREFACE = b"PRI * HTTP/2.0"
"""First bytes of a connection of HTTP/2, which no other request begins with."""


def server_options(settings: Settings, grpc: GrpcServer | None = None) -> dict[str, Any]:
    """Return the options of uvicorn; with `grpc` its port takes clients of gRPC, too."""
    return {
        **({"http": speaks_grpc(grpc)} if grpc else {}),
        "log_level": settings.log_level.lower(),
        "access_log": False,
        "timeout_keep_alive": settings.http_keep_alive_s,
    }


def speaks_grpc(server: GrpcServer) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol, which hands connections that begin with HTTP/2 over to `server`.

    gRPC clients begin with HTTP/2 at once, since they know that their server speaks it.
    """

    class SpeaksGrpc(HttpToolsProtocol):
        def data_received(self, data: bytes) -> None:
            started: object = self.cycle  # None before the first request, whatever uvicorn's types say
            if started is None and data.startswith(PREFACE):
                self.connections.discard(self)
                self._unset_keepalive_if_required()
                connection = server.connect()
                self.transport.set_protocol(connection)
                connection.connection_made(self.transport)
                connection.data_received(data)
            else:
                super().data_received(data)

    return SpeaksGrpc


def host_check(app: ASGIApp, settings: Settings, bound: str) -> ASGIApp:
    """Refuse requests for other hosts than loopback and `allowed_hosts`, if the server is bound to loopback.

    A server bound to another address is asked for by names that only its operator knows: it refuses others if
    `allowed_hosts` names some.
    """
    allowed = allowed_hosts(settings, bound)
    if not allowed:
        return app

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or is_allowed(host := asked_host(scope), allowed):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _refuse(host, send)

    return checked


def allowed_hosts(settings: Settings, bound: str) -> frozenset[str]:
    """Return the hosts that a server answers for; empty is any."""
    named = frozenset(name.strip().lower() for name in settings.allowed_hosts.split(",") if name.strip())
    return named | LOOPBACK if named or bound in LOOPBACK else frozenset()


def authority_check(settings: Settings, bound: str) -> Callable[[str], bool]:
    """Return the same check for the authority that gRPC clients ask for."""
    allowed = allowed_hosts(settings, bound)
    return lambda authority: not allowed or is_allowed(host_of(authority), allowed)


def asked_host(scope: Scope) -> str:
    """Return the name in the Host header; empty if there is none."""
    return host_of(next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), ""))


def host_of(authority: str) -> str:
    """Return the name in an authority, without the port and in lower case.

    >>> [host_of(text) for text in ("LocalHost:4300", "[::1]:4300", "::1", "a.b")]
    ['localhost', '::1', '::1', 'a.b']
    """
    text = authority.lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text if text.count(":") > 1 else text.partition(":")[0]


def is_allowed(host: str, allowed: frozenset[str]) -> bool:
    """Tell if a host is known; browsers resolve names below `localhost` themselves, to this machine.

    >>> [is_allowed(host, LOOPBACK) for host in ("127.0.0.1", "lake.localhost", "localhost.evil.example", "")]
    [True, True, False, False]
    """
    return host in allowed or host.endswith(".localhost")


async def _refuse(host: str, send: Send) -> None:
    text = f"this server does not answer for the host {host[:100]!r}; name it in LAKERUNNER_ALLOWED_HOSTS"
    body = json.dumps({"status": 421, "code": "MISDIRECTED_REQUEST", "message": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 421, "headers": headers})
    await send({"type": "http.response.body", "body": body})
