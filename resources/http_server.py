"""HTTP servers of all processes share settings and the check of the host asked for.

Senders and load balancers keep connections for a minute or so. A server that closes an idle connection sooner
meets a request that is already on its way, which its sender counts as failed: Prometheus' remote write sends
every five seconds. A page of the web can give its own name the address 127.0.0.1, and a browser then takes
the answers of a local server for those of that page; the name in the request tells them apart.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from resources.http2 import http1_only
from resources.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[..., Awaitable[None]]
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "host.docker.internal"})
"""Names that no page of the web can have; the last one is the host as containers on it call it."""


def server_options(settings: Settings, http2_answer: str = "") -> dict[str, Any]:
    """Return the options of uvicorn; `http2_answer` tells clients of HTTP/2 and gRPC where to go."""
    return {
        **({"http": http1_only(http2_answer)} if http2_answer else {}),
        "log_level": settings.log_level.lower(),
        "access_log": False,
        "timeout_keep_alive": settings.http_keep_alive_s,
    }


def host_check(app: ASGIApp, settings: Settings, bound: str) -> ASGIApp:
    """Refuse requests for other hosts than loopback and `allowed_hosts`, if the server is bound to loopback.

    A server bound to another address is asked for by names that only its operator knows: it refuses others if
    `allowed_hosts` names some.
    """
    named = frozenset(name.strip().lower() for name in settings.allowed_hosts.split(",") if name.strip())
    if not named and bound not in LOOPBACK:
        return app
    allowed = named | LOOPBACK

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or is_allowed(host := asked_host(scope), allowed):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _refuse(host, send)

    return checked


def asked_host(scope: Scope) -> str:
    """Return the name in the Host header, without the port and in lower case; empty if there is none.

    >>> [asked_host({"headers": [(b"host", h)]}) for h in (b"LocalHost:4300", b"[::1]:4300", b"::1", b"a.b")]
    ['localhost', '::1', '::1', 'a.b']
    """
    text = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "").lower()
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
