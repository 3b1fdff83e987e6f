"""A server that empties the receivers before it waits for the requests in flight.

Without it, SIGTERM would leave requests waiting for the age of their batch, or for the server to cancel them.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import uvicorn


class DrainingServer(uvicorn.Server):
    """`drain` is called once, when the server stops accepting connections."""

    def __init__(self, config: uvicorn.Config, drain: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._drain = drain

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._drain()
        await super().shutdown(sockets)
