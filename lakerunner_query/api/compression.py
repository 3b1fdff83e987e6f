"""Answers as gzip for whoever takes it; streams of events stay as they are, so that each arrives at once."""

from __future__ import annotations

import gzip

from anyio.to_thread import run_sync
from litestar.datastructures import Headers, MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES = 1024
LEVEL = 1
"""Repeated labels and digits shrink well at any level; higher ones cost seconds for large answers."""


def gzipped(app: ASGIApp) -> ASGIApp:
    """Bodies that are sent in one piece, compressed off the event loop."""

    async def compressed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or not takes_gzip(Headers.from_scope(scope)):
            await app(scope, receive, send)
            return
        start: Message | None = None

        async def sent(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    message = await _packed(start, message)
                first, start = start, None
                await send(first)
            await send(message)

        await app(scope, receive, sent)

    return compressed


def takes_gzip(headers: Headers) -> bool:
    """Whether `Accept-Encoding` names it, not with a weight of zero."""
    for part in headers.get("accept-encoding", "").split(","):
        coding, _, weight = part.strip().partition(";")
        if coding.strip().lower() in {"gzip", "*"}:
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


async def _packed(start: Message, message: Message) -> Message:
    body = message.get("body", b"")
    headers = MutableScopeHeaders(start)  # type: ignore[arg-type]
    if not isinstance(body, bytes) or len(body) < MIN_BYTES or "content-encoding" in headers:
        return message
    packed = await run_sync(lambda: gzip.compress(body, LEVEL, mtime=0))
    headers["content-encoding"] = "gzip"
    headers["content-length"] = str(len(packed))
    headers.add("vary", "Accept-Encoding")
    return {**message, "body": packed}  # type: ignore[return-value]
