"""Server-sent events: one `data:` line of JSON each, and a heartbeat while nothing happens.

Written as bytes rather than event objects, because rows arrive as finished JSON fragments.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

HEARTBEAT_S = 15.0
MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def event(kind: str, data: object = None) -> bytes:
    """
    >>> event("heartbeat")
    b'data: {"type":"heartbeat","data":null}\\n\\n'
    """
    return b"data: " + msgspec.json.encode({"type": kind, "data": data}) + b"\n\n"


async def with_heartbeats(
    events: AsyncGenerator[bytes, None], every_s: float = HEARTBEAT_S
) -> AsyncIterator[bytes]:
    """`events`, with a heartbeat whenever `every_s` pass without one; closing closes `events`."""
    upcoming: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            upcoming = upcoming or asyncio.ensure_future(anext(events, None))
            done, _ = await asyncio.wait({upcoming}, timeout=every_s)
            if not done:
                yield event("heartbeat")
                continue
            found, upcoming = upcoming.result(), None
            if found is None:
                return
            yield found
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.wait({upcoming})
        await events.aclose()
