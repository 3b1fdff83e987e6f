"""The gRPC server towards clients that read slowly, not at all, or leave; h2 plays the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RemoteSettingsChanged, ResponseReceived, TrailersReceived
from h2.settings import SettingCodes

from resources.grpc import connection
from resources.grpc.calls import Call, Method
from resources.grpc.health import describe
from resources.grpc.server import GrpcServer, bind

pytestmark = pytest.mark.integration
MESSAGE = bytes(range(256)) * 1024


class Client:
    """One connection; it grants room for answers only when told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1000})
        self.data, self.status = b"", ""
        self.reads = False

    async def ask(self, path: str) -> None:
        """Send an empty message once the server knows the window."""
        self.flush()
        while not any(isinstance(one, RemoteSettingsChanged) for one in await self._events()):
            pass
        fields = {":method": "POST", ":path": path, ":scheme": "http", ":authority": "localhost"}
        self.h2.send_headers(1, [*fields.items(), ("content-type", "application/grpc"), ("te", "trailers")])
        self.h2.send_data(1, bytes(5), end_stream=True)
        self.flush()

    def give(self, size: int) -> None:
        """Make room for so many bytes."""
        self.h2.increment_flow_control_window(size, 1)
        self.h2.increment_flow_control_window(size)
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    async def _events(self) -> list[Any]:
        data = await self._reader.read(65_536)
        assert data, "the server has closed the connection"
        found = self.h2.receive_data(data)
        self.flush()
        return found

    async def take(self, size: int) -> None:
        """Read until there are `size` bytes, or the status."""
        while len(self.data) < size and not self.status:
            before = len(self.data)
            for event in await self._events():
                if isinstance(event, DataReceived):
                    self.data += event.data or b""
                elif isinstance(event, ResponseReceived | TrailersReceived):
                    self.status = dict(event.headers).get("grpc-status", "")
            if self.reads and not self.status and len(self.data) > before:
                self.give(len(self.data) - before)


@asynccontextmanager
async def serving(handle: Any) -> AsyncIterator[tuple[GrpcServer, Client]]:
    server = GrpcServer({"/x/Y": Method(handle, describe, is_cancellable=True)}, idle_s=60.0, elsewhere="")
    bound = bind("127.0.0.1", 0)
    await server.listen(bound)
    client = Client(*await asyncio.open_connection(*bound.getsockname()))
    try:
        yield server, client
    finally:
        client.writer.close()
        await server.close(0.0)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def send_twice(call: Call) -> None:
    await call.message(100)
    await call.send(MESSAGE)
    await call.send(b"end")


def test_an_answer_goes_on_as_its_client_makes_room() -> None:
    async def work() -> None:
        async with serving(send_twice) as (_, client):
            await client.ask("/x/Y")
            await client.take(1000)
            assert len(client.data) == 1000
            client.give(700)
            await client.take(1700)
            assert (len(client.data), client.status) == (1700, "")
            client.reads = True
            client.give(7000)
            await client.take(len(MESSAGE) + 1000)
            assert client.status == "0"
            assert client.data[5 : 5 + len(MESSAGE)] == MESSAGE
            assert client.data.endswith(b"\0\0\0\0\3end")

    run(work())


def test_a_client_that_makes_no_room_loses_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STALL_S", 0.05)

    async def work() -> None:
        async with serving(send_twice) as (_, client):
            await client.ask("/x/Y")
            await client.take(2000)
            assert (len(client.data), client.status) == (1000, "1")

    run(work())


@pytest.mark.parametrize("ending", ["reset", "disconnect", "close"])
def test_a_call_ends_with_its_client_and_with_the_server(ending: str) -> None:
    async def work() -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def wait(call: Call) -> None:
            await call.message(100)
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with serving(wait) as (server, client):
            await client.ask("/x/Y")
            await began.wait()
            if ending == "reset":
                client.h2.reset_stream(1)
                client.flush()
            elif ending == "disconnect":
                client.writer.close()
            else:
                await server.close(0.0)
            await ended.wait()

    run(work())


def test_an_idle_connection_is_closed_gently() -> None:
    async def work() -> None:
        async with serving(send_twice) as (server, client):
            server.idle_s = 0.0
            client.flush()
            await client.ask("/x/Z")
            await client.take(1)
            assert client.status == "12"
            while not client._reader.at_eof():
                await client._reader.read(65_536)

    run(work())
