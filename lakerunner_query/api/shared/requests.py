"""Request fields are read as Go reads them; answers are compressed on demand.

The first of repeated fields counts, a form before the address, as in Prometheus and Loki.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from anyio.to_thread import run_sync
from litestar import Request
from litestar.datastructures import Headers, MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.protocol.units import INDEX, Missing

FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 1000
REWRITE = "rewrite"
"""Parameter that switches answers from derived metrics off."""


@dataclass(frozen=True, slots=True)
class RequestFields:
    """Parameters of a form and of the address, before any of them is understood."""

    first: Mapping[str, str]
    fields: tuple[tuple[str, str], ...]

    def text(self, name: str) -> str:
        return self.first.get(name, "")

    def all(self, *names: str) -> tuple[str, ...]:
        """Return every value of a parameter that is a list, under any of its names."""
        return tuple(value for name, value in self.fields if name in names)


async def read_fields(request: Request[Any, Any, Any]) -> RequestFields:
    """Read all fields; the body goes first even for GET, so that `unless_gone` can watch the connection."""
    body = await request.body()
    form = form_fields(body) if request.method != "GET" and request.content_type[0] == FORM else []
    fields = [*form, *request.query_params.multi_items()]
    return RequestFields(first_of_each(fields), tuple(fields))


def form_fields(body: bytes) -> list[tuple[str, str]]:
    """Decode a form as UTF-8, also where nothing is escaped; the framework reads that as Latin-1."""
    try:
        return parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InvalidRequestError(f"a form of more than {MAX_FIELDS} fields") from error


def allows_rewriting(fields: RequestFields) -> bool:
    """Tell if derived metrics may answer the query; by default they may."""
    text = fields.text(REWRITE)
    if text not in {"", "true", "false", "1", "0"}:
        raise InvalidRequestError(f"{REWRITE} is true or false, not {text[:64]!r}")
    return text not in {"false", "0"}


def first_of_each(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in fields:
        found.setdefault(name, value)
    return found


def missing_warnings(missing: Mapping[str, Missing]) -> list[str]:
    """Return the warnings about an index that is away, and about segments that could not be read."""
    unreadable = [one for one in missing.values() if one.segment_id != INDEX]
    texts = [f"partial: {missing[INDEX].reason}"] if INDEX in missing else []
    if unreadable:
        first = unreadable[0]
        texts.append(
            f"partial: {len(unreadable)} segments unreadable, e.g. {first.segment_id}: {first.reason}"
        )
    return texts


EVENT_STREAMS = ("/api/v1/logs/query", "/api/v1/metrics/query", "/api/v1/spans/query")
MIN_BYTES = 1024
LEVEL = 1
"""Level of gzip: labels and digits shrink well at any, higher ones cost seconds for large answers."""


def compress_answers(app: ASGIApp) -> ASGIApp:
    """Compress bodies that are sent in one piece, off the event loop.

    Streams of events stay as they are, so that each arrives at once.
    """

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or not takes_gzip(Headers.from_scope(scope)):
            await app(scope, receive, send)
            return
        start: Message | None = None

        async def send_packed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    message = await _pack(start, message)
                first, start = start, None
                await send(first)
            await send(message)

        await app(scope, receive, send_packed)

    return handle


def drop_stalled(app: ASGIApp, stall_s: float) -> ASGIApp:
    """Leave clients of streams that take nothing for so long; they can go on behind the last event.

    A piece that is not taken holds a query of the organisation, though no worker.
    """

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or scope["path"] not in EVENT_STREAMS or stall_s <= 0:
            await app(scope, receive, send)
            return
        is_stalled = asyncio.Event()

        async def send_in_time(message: Message) -> None:
            if is_stalled.is_set():
                return
            try:
                async with asyncio.timeout(stall_s):
                    await send(message)
            except TimeoutError:
                is_stalled.set()

        async def receive_or_leave() -> Any:
            arriving, leaving = asyncio.ensure_future(receive()), asyncio.ensure_future(is_stalled.wait())
            try:
                await asyncio.wait({arriving, leaving}, return_when=asyncio.FIRST_COMPLETED)
                return {"type": "http.disconnect"} if is_stalled.is_set() else arriving.result()
            finally:
                arriving.cancel()
                leaving.cancel()
                await asyncio.gather(arriving, leaving, return_exceptions=True)

        await app(scope, receive_or_leave, send_in_time)

    return handle


def takes_gzip(headers: Headers) -> bool:
    """Tell whether `Accept-Encoding` names gzip with a weight above zero."""
    for part in headers.get("accept-encoding", "").split(","):
        coding, _, weight = part.strip().partition(";")
        if coding.strip().lower() in {"gzip", "*"}:
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


async def _pack(start: Message, message: Message) -> Message:
    body = message.get("body", b"")
    headers = MutableScopeHeaders(start)  # type: ignore[arg-type]
    if not isinstance(body, bytes) or len(body) < MIN_BYTES or "content-encoding" in headers:
        return message
    packed = await run_sync(lambda: gzip.compress(body, LEVEL, mtime=0))
    headers["content-encoding"] = "gzip"
    headers["content-length"] = str(len(packed))
    headers.add("vary", "Accept-Encoding")
    return {**message, "body": packed}  # type: ignore[return-value]
