"""The gRPC server of a process: its methods, its connections, its port, and its gentle end.

Connections come from a port of its own, or from the port of an HTTP server that hands over those which begin
with HTTP/2.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping

from resources.grpc.calls import Call, CallError, Code, Method
from resources.grpc.connection import Connection

BACKLOG = 1024


class GrpcServer:
    """The server; for one event loop."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        *,
        idle_s: float,
        elsewhere: str,
        knows_host: Callable[[str], bool] = lambda _authority: True,
    ) -> None:
        """Serve methods by path; `elsewhere` tells callers of other methods where to go."""
        self.idle_s = idle_s
        self.connections: set[Connection] = set()
        self._methods = methods
        self._elsewhere = elsewhere
        self._knows_host = knows_host
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    def connect(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self)

    async def listen(self, bound: socket.socket) -> None:
        """Take connections from a bound socket."""
        self._listener = await asyncio.get_running_loop().create_server(
            self.connect, sock=bound, backlog=BACKLOG
        )

    def drain(self) -> None:
        """Take no further connections and calls; those under way go on."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self.connections):
            connection.drain()

    async def close(self, grace_s: float) -> None:
        """Drain, wait for calls under way, and cancel those that take longer."""
        self.drain()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        for connection in list(self.connections):
            connection.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def note(self, task: asyncio.Task[None]) -> None:
        """Keep a call's task, also when its connection is lost."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def method_of(self, path: str, authority: str) -> Method:
        """Return a method, or one that refuses the call."""
        if not self._knows_host(authority):
            text = f"this server does not answer for the host {authority[:100]!r}"
            return _refusal(Code.PERMISSION_DENIED, f"{text}; name it in LAKERUNNER_ALLOWED_HOSTS")
        found = self._methods.get(path)
        return found or _refusal(Code.UNIMPLEMENTED, f"no method {path[:200]}: {self._elsewhere}")


def bind(host: str, port: int) -> socket.socket:
    """Bind a port before anything else starts, so that one that is taken ends the start."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def _refusal(code: Code, text: str) -> Method:
    error = CallError(code, text)

    async def refuse(call: Call) -> None:
        del call
        raise error

    return Method(refuse, lambda _error: error, is_cancellable=True)
