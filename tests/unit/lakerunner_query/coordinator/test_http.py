"""The coordinator's HTTP: connections kept, broken ones told from idle ones, nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from lakerunner_query.coordinator.http import Reply, Wire, WireError
from tests.support.patience import PATIENCE_S

Told = TypeVar("Told")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def with_server(serve: Serve, ask: Callable[[Wire], Awaitable[Told]]) -> Told:
    async def run() -> Told:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            wire = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", {"x-token": "t"})
            try:
                return await asyncio.wait_for(ask(wire), PATIENCE_S)
            finally:
                wire.close()
                await asyncio.sleep(0.02)  # the server hears of it

    return asyncio.run(run())


def answering(text: bytes, after: int = 1_000) -> tuple[Serve, list[bytes], list[int]]:
    """A server that answers the same, closes after so many answers, and notes requests and connections."""
    requests: list[bytes] = []
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        try:
            for _ in range(after):
                requests.append(await request(reader))
                writer.write(text)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        await closed(writer)

    return serve, requests, connections


def test_requests_carry_body_and_headers_and_share_a_connection() -> None:
    serve, requests, connections = answering(OK)

    async def ask(wire: Wire) -> list[Reply]:
        return [await wire.ask("POST", "/work", b"body") for _ in range(3)]

    assert with_server(serve, ask) == [Reply(200, b"ok")] * 3
    assert len(connections) == 1
    assert requests[0].startswith(b"POST /work HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nx-token: t\r\n" in requests[0]
    assert requests[0].endswith(b"\r\ncontent-length: 4\r\n\r\nbody")


def test_requests_at_one_time_have_a_connection_each() -> None:
    serve, requests, connections = answering(OK)

    async def ask(wire: Wire) -> list[Reply]:
        return await asyncio.gather(*(wire.ask("GET", "/") for _ in range(5)))

    assert with_server(serve, ask) == [Reply(200, b"ok")] * 5
    assert (len(requests), len(connections)) == (5, 5)


def test_a_connection_that_was_closed_while_idle_is_replaced() -> None:
    serve, requests, connections = answering(OK, after=1)

    async def ask(wire: Wire) -> list[Reply]:
        found = []
        for pause in (0.0, 0.0, 0.05):
            await asyncio.sleep(pause)
            found.append(await wire.ask("GET", "/"))
        return found

    assert with_server(serve, ask) == [Reply(200, b"ok")] * 3
    assert (len(requests), len(connections)) == (3, 3)


def test_an_answer_may_close_its_connection() -> None:
    serve, _, connections = answering(b"HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    async def ask(wire: Wire) -> list[Reply]:
        return [await wire.ask("GET", "/"), await wire.ask("GET", "/")]

    assert with_server(serve, ask) == [Reply(503, b"")] * 2
    assert len(connections) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "the connection closed"),
        (b"HTTP/1.1 200", "the connection closed"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "the answer broke off"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "not an answer of a worker"),
        (b"SSH-2.0-x\r\n\r\n", "not an answer of a worker: 'SSH-2.0-x'"),
        (b"x" * 3_000_000, "the head of an answer does not end"),
    ],
)
def test_what_is_no_answer_is_an_error(text: bytes, said: str) -> None:
    serve, requests, _ = answering(text, after=1)
    with pytest.raises(WireError, match=said):
        with_server(serve, lambda wire: wire.ask("POST", "/work", b"b"))
    assert len(requests) == 1


def test_nobody_listens() -> None:
    with pytest.raises(WireError, match="cannot connect"):
        asyncio.run(Wire("http://127.0.0.1:9", {}).ask("GET", "/"))


def test_who_gives_up_closes_the_connection() -> None:
    was_asked, was_closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        was_asked.set()
        await reader.read()
        was_closed.set()
        await closed(writer)

    async def ask(wire: Wire) -> bool:
        task = asyncio.create_task(wire.ask("POST", "/work"))
        await was_asked.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await was_closed.wait()

    assert with_server(serve, ask)
