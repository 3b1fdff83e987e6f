"""The live tail of Loki sends lines over a websocket as they become known.

    {"streams":[{"stream":{"app":"web"},"values":[["1767225600000000000","GET /"]]}],"dropped_entries":[…]}

Lines are known once their segment is published, which takes as long as ingestion does; the next poll finds
them. More lines than a browser can show at once are not sent: the newest are listed as dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from anyio.to_thread import run_sync
from litestar import WebSocket
from litestar.exceptions import WebSocketDisconnect
from litestar.handlers import WebsocketRouteHandler

from lakerunner_query.api.loki.params import limit, query_text, time_range
from lakerunner_query.api.loki.render import CATEGORIZE, FLAGS, entry_labels, runs_of
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import RequestFields, first_of_each
from lakerunner_query.api.shared.services import QueryWatch, Services
from lakerunner_query.api.shared.times import duration_ns
from lakerunner_query.coordinator.logql_lines import is_log_query
from lakerunner_query.coordinator.tail import Tail
from lakerunner_query.errors import (
    IndexUnavailableError,
    InvalidRequestError,
    QueryError,
    TooManyQueriesError,
)
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.protocol.tables import ROWS
from resources.lake.timecut import SECOND_NS

HOUR_S = 3600
POLL_S = 1.0
LONGEST_S = HOUR_S
"""Seconds of one connection; clients connect anew."""
MAX_DELAY_S = 5
SENT, DROPPED = 1000, 1000
"""Lines of one poll that are sent, and further ones that are listed as dropped."""
SENT_BYTES = 16 * 1024 * 1024
NORMAL, TOO_LONG, FAILED = 1000, 1001, 1011


@dataclass(frozen=True, slots=True)
class TailRequest:
    """A tail and its parameters."""

    tail: Tail
    delay_ns: int
    categorize: bool


@WebsocketRouteHandler("/loki/api/v1/tail")
async def tail(socket: WebSocket[Any, Any, Any], services: Services) -> None:
    """Send lines of a query as they come; parameters are `query`, `start`, `limit`, `delay_for`."""
    with services.watch("loki-tail") as watch:
        try:
            await require_reader(socket, socket.route_handler)
            wanted = await _read_request(socket, services)
        except QueryError as error:
            watch.fail(error)
            await refuse(socket, error)
            return
        try:
            with services.engine.admission.tail(wanted.tail.request.org):
                await socket.accept()
                await _serve(socket, wanted, watch)
        except TooManyQueriesError as error:
            watch.fail(error)
            await refuse(socket, error)


async def messages(wanted: TailRequest) -> AsyncGenerator[bytes, None]:
    """Yield one message per poll that finds lines; lines wait until they are as old as the delay."""
    waiting = None
    ends = time.monotonic() + LONGEST_S
    while time.monotonic() < ends:
        now = time.time_ns()
        try:
            found = await wanted.tail.poll(now, SENT + DROPPED)
        except IndexUnavailableError:
            found = ROWS.empty_table()  # lines wait until the index answers; none is lost
        rows = found if waiting is None else pa.concat_tables([waiting, found]).sort_by("tsns")
        ripe = pc.sum(pc.less_equal(rows["tsns"], now - wanted.delay_ns)).as_py() or 0
        ripe = ripe if wanted.delay_ns else rows.num_rows
        waiting = rows.slice(ripe)
        if ripe:
            yield await run_sync(message, rows.slice(0, ripe), wanted.categorize)
        await asyncio.sleep(POLL_S)


def message(rows: pa.Table, categorize: bool) -> bytes:
    """Render the oldest lines, and list the others as dropped."""
    count = count_fitting(rows)
    streams = b",".join(one.rendered for one in runs_of(rows.slice(0, count), categorize))
    dropped = [
        {"labels": labels, "timestamp": str(at)}
        for at, labels in zip(rows["tsns"][count:].to_pylist(), entry_labels(rows.slice(count)), strict=True)
    ]
    flags = b',"encodingFlags":["categorize-labels"]' if categorize else b""
    listed = b',"dropped_entries":' + msgspec.json.encode(dropped) if dropped else b""
    return b'{"streams":[' + streams + b"]" + listed + flags + b"}"


def count_fitting(rows: pa.Table) -> int:
    """Count the rows that fit into one message, by their number and by the size of their lines."""
    sizes = np.cumsum(pc.binary_length(rows["line"]).to_numpy())
    room = int(np.searchsorted(sizes, SENT_BYTES, side="right"))
    return min(SENT, int(rows.num_rows), max(1, room))


async def refuse(socket: WebSocket[Any, Any, Any], error: QueryError) -> None:
    """Answer the handshake over HTTP where the server can, else close the connection."""
    if "websocket.http.response" not in (socket.scope.get("extensions") or {}):
        await socket.close(code=4000 + error.status, reason=error.message[:120])
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    start: Any = {"type": "websocket.http.response.start", "status": error.status, "headers": headers}
    body: Any = {"type": "websocket.http.response.body", "body": error.message.encode()}
    await socket.send(start)
    await socket.send(body)


async def _read_request(socket: WebSocket[Any, Any, Any], services: Services) -> TailRequest:
    pairs = tuple(socket.query_params.multi_items())
    fields = RequestFields(first_of_each(pairs), pairs)
    text = query_text(fields)
    if not await run_sync(is_log_query, text):
        raise InvalidRequestError("only log selector is supported")
    start, _ = time_range(fields, time.time_ns(), HOUR_S)
    most = min(limit(fields, services.settings.query_default_limit), SENT)
    within = LogLinesRequest(caller(socket.state).org, start, start, most)
    flags = socket.headers.get(FLAGS, "").replace(" ", "").split(",")
    return TailRequest(Tail(services.engine, text, within), _delay_ns(fields), CATEGORIZE in flags)


def _delay_ns(fields: RequestFields) -> int:
    delay = duration_ns(fields.text("delay_for") or "0")
    if delay > MAX_DELAY_S * SECOND_NS:
        raise InvalidRequestError(f"delay_for can't be greater than {MAX_DELAY_S}")
    return delay


async def _serve(socket: WebSocket[Any, Any, Any], wanted: TailRequest, watch: QueryWatch) -> None:
    sending = asyncio.create_task(_send(socket, wanted))
    leaving = asyncio.create_task(_wait_for_leaving(socket))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            watch.end(partial=False)
            return
        await sending
        watch.end(partial=False)
        await socket.close(code=TOO_LONG, reason="reached tail max duration limit")
    except QueryError as error:
        watch.fail(error)
        await socket.close(code=FAILED, reason=error.message[:120])
    finally:
        sending.cancel()
        leaving.cancel()


async def _send(socket: WebSocket[Any, Any, Any], wanted: TailRequest) -> None:
    async for each in messages(wanted):
        await socket.send_data(each.decode(), mode="text")


async def _wait_for_leaving(socket: WebSocket[Any, Any, Any]) -> None:
    """Wait until the client goes; ignore what it sends."""
    try:
        while True:
            await socket.receive_data(mode="text")
    except WebSocketDisconnect:
        return
