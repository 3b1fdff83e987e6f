"""Live tail over a real websocket: what was there, what comes, what is refused, and what is left out."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn
import websockets

from lakerunner_query.api.loki import tail
from lakerunner_query.app import create_app
from lakerunner_query.coordinator.tail import Tail
from resources.lake.timecut import SECOND_NS
from tests.support.patience import PATIENCE_S, until
from tests.support.query.lake import BASE, Lake, Line, Stack, free_port

pytestmark = pytest.mark.integration
WEB = '{service_name="web"}'


@pytest.fixture(scope="module")
def address(lake: Lake, stack: Stack) -> Iterator[str]:
    lake.add_org("acme", "key-acme")
    lake.write("acme", [Line(n * SECOND_NS, f"old {n}", level=9 + 8 * (n % 2)) for n in range(20)])
    app = create_app(stack.settings, lake.index)
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"ws://127.0.0.1:{port}/loki/api/v1/tail"
    server.should_exit = True
    thread.join(PATIENCE_S)


def connect(address: str, query: str = WEB, key: str = "key-acme", **more: object) -> Any:
    asked = urlencode({"query": query, "start": BASE, **more})
    return websockets.connect(
        f"{address}?{asked}", additional_headers={"Api-Key": key}, open_timeout=PATIENCE_S
    )


async def received(socket: Any, seconds: float = PATIENCE_S) -> dict[str, Any]:
    async with asyncio.timeout(seconds):
        found: dict[str, Any] = json.loads(await socket.recv())
        return found


def lines(message: dict[str, Any]) -> list[str]:
    return [value[1] for stream in message["streams"] for value in stream["values"]]


def test_the_newest_of_before_then_what_comes(address: str, lake: Lake) -> None:
    async def tailed() -> None:
        async with connect(address, limit=3) as socket:
            first = await received(socket)
            assert lines(first) == ["old 17", "old 18", "old 19"]
            assert first["streams"][0]["stream"]["service_name"] == "web"
            assert first["streams"][0]["values"][0][0] == str(BASE + 17 * SECOND_NS)
            assert "dropped_entries" not in first
            # later by publication, earlier by its time
            await asyncio.to_thread(
                lake.write, "acme", [Line(5 * SECOND_NS, "late"), Line(99 * SECOND_NS, "new")]
            )
            assert lines(await received(socket)) == ["late", "new"]

    asyncio.run(tailed())


def test_rows_that_compaction_writes_anew_are_not_new(address: str, lake: Lake) -> None:
    async def tailed() -> None:
        async with connect(address, '{service_name="again"}') as socket:
            segment = await asyncio.to_thread(lake.write, "acme", [Line(0, "once", "again")])
            assert lines(await received(socket)) == ["once"]
            await asyncio.to_thread(lake.write_again, segment, 1)
            with pytest.raises(TimeoutError):
                await received(socket, 3)

    asyncio.run(tailed())


def test_stages_and_categories(address: str, lake: Lake) -> None:
    lake.write("acme", [Line(0, "a=1 b=2", "pairs")])

    async def tailed() -> None:
        asked = urlencode({"query": '{service_name="pairs"} | logfmt | a="1"', "start": BASE})
        headers = {"Api-Key": "key-acme", "X-Loki-Response-Encoding-Flags": "categorize-labels"}
        async with websockets.connect(f"{address}?{asked}", additional_headers=headers) as socket:
            message = await received(socket)
            assert message["encodingFlags"] == ["categorize-labels"]
            (stream,) = message["streams"]
            assert stream["stream"] == {"service_name": "pairs"}
            assert stream["values"][0][2]["parsed"] == {"a": "1", "b": "2"}

    asyncio.run(tailed())


def test_more_than_can_be_shown_is_told_as_dropped(
    address: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "SENT", 2)
    polls: list[str] = []

    async def counted(polling: Tail, *arguments: Any) -> Any:
        found = await poll(polling, *arguments)
        polls.append(polling.text)
        return found

    poll = Tail.poll
    monkeypatch.setattr(Tail, "poll", counted)

    async def tailed() -> None:
        async with connect(address, '{service_name="flood"}') as socket:
            many = [Line(n, f"flood {n}", "flood") for n in range(5)]
            await until(lambda: any("flood" in text for text in polls), "the poll for what was there before")
            await asyncio.to_thread(lake.write, "acme", many)
            message = await received(socket)
            assert lines(message) == ["flood 0", "flood 1"]
            assert [one["timestamp"] for one in message["dropped_entries"]] == [
                str(BASE + n) for n in (2, 3, 4)
            ]
            assert message["dropped_entries"][0]["labels"]["service_name"] == "flood"

    asyncio.run(tailed())


@pytest.mark.parametrize(
    ("query", "key", "more", "status", "text"),
    [
        ('{service_name="web"', "key-acme", {}, 400, "parse error at line 1, col 20"),
        (f"rate({WEB}[5m])", "key-acme", {}, 400, "only log selector is supported"),
        (WEB, "key-acme", {"delay_for": 6}, 400, "delay_for can't be greater than 5"),
        (WEB, "nobody's", {}, 401, "unknown, revoked or expired API key"),
    ],
)
def test_refusals_are_answers_to_the_handshake(
    address: str, query: str, key: str, more: dict[str, object], status: int, text: str
) -> None:
    async def refused() -> websockets.Response:
        with pytest.raises(websockets.InvalidStatus) as raised:
            async with connect(address, query, key, **more):
                pass
        return raised.value.response

    response = asyncio.run(refused())
    assert response.status_code == status
    assert response.body.decode().startswith(text)


def test_lines_wait_for_the_delay(address: str, lake: Lake) -> None:
    """Those of now are held back for as long, older ones are not."""

    async def tailed() -> float:
        async with connect(address, '{service_name="slow"}', delay_for=4) as socket:
            now = time.time_ns()
            await asyncio.to_thread(lake.write, "acme", [Line(now - BASE, "now", "slow")])
            assert lines(await received(socket)) == ["now"]
            return (time.time_ns() - now) / SECOND_NS

    assert asyncio.run(tailed()) >= 4
