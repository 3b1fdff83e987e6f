"""Both query processes watch for callers who leave, share one error envelope, and count requests.

The API process adds the error forms of its dialects (`api/*/render.py`); the worker uses the plain one.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec
from litestar import MediaType, Request, Response
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from lakerunner_query.errors import QueryError
from resources.exposition import families, render
from resources.objects.latency import LatencyTable

Answer = TypeVar("Answer")


class ClientGoneError(Exception):
    """Nobody is waiting for this answer any more."""


async def watch(request: Request[Any, Any, Any], gone: Callable[[], object]) -> None:
    """Call `gone` when the connection closes; the request's body must have been read before."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            gone()
            return


async def unless_gone(request: Request[Any, Any, Any], work: Coroutine[Any, Any, Answer]) -> Answer:
    """Return the result of `work`; cancel it when the connection closes first."""
    task = asyncio.ensure_future(work)
    watcher = asyncio.create_task(watch(request, task.cancel))
    try:
        return await task
    except asyncio.CancelledError:
        if watcher.done():
            raise ClientGoneError from None
        raise
    finally:
        watcher.cancel()
        task.cancel()


_log = logging.getLogger(__name__)


class Place(msgspec.Struct):
    line: int
    column: int


class Failure(msgspec.Struct, omit_defaults=True):
    """The error envelope of Lakerunner's own API."""

    status: int
    code: str
    message: str
    position: Place | None = None


def envelope(error: Exception) -> Failure:
    """Describe `error` to a caller; log a failure that nobody foresaw."""
    if isinstance(error, QueryError):
        at = error.position
        return Failure(error.status, error.code, error.message, Place(at.line, at.column) if at else None)
    if isinstance(error, HTTPException):
        return Failure(error.status_code, _code(error.status_code), _detail(error))
    _log.error("unforeseen failure", exc_info=error)
    return Failure(500, "internal", "internal error; the log of the query API has the details")


def _code(status: int) -> str:
    names = {400: "invalid_request", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}
    return names.get(status, "http_error")


def _detail(error: HTTPException) -> str:
    """Join the message with `extra`, where Litestar names the fields that did not validate."""
    extra = error.extra if isinstance(error.extra, list) else []
    parts = [f"{e.get('key', '')}: {e.get('message', '')}".strip(": ") for e in extra if isinstance(e, dict)]
    return with_nearest_field("; ".join([error.detail, *parts]))


FIELDS = ("q", "s", "e", "limit", "reverse", "fields", "step", "summary", "metric", "tag", "spans")
"""Fields of requests to Lakerunner's own API."""
OTHER_NAMES: Mapping[str, str] = {
    "query": "q", "expr": "q", "selector": "q", "match": "q", "start": "s", "from": "s", "begin": "s",
    "since": "s", "end": "e", "to": "e", "until": "e", "interval": "step", "resolution": "step",
    "direction": "reverse", "order": "reverse", "max": "limit", "columns": "fields", "name": "metric",
    "label": "tag", "tag_name": "tag",
}  # fmt: skip
"""Names that other APIs have for them."""
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]{1,64})`")


def with_nearest_field(message: str) -> str:
    """Name the nearest field that there is behind a complaint about one that there is not.

    >>> with_nearest_field("Object contains unknown field `query`")
    'Object contains unknown field `query`; did you mean `q`?'
    """
    found = _UNKNOWN_FIELD.search(message)
    if found is None:
        return message
    name = found[1].lower()
    nearest = OTHER_NAMES.get(name) or next(iter(difflib.get_close_matches(name, FIELDS, 1)), "")
    return f"{message}; did you mean `{nearest}`?" if nearest else f"{message}; there are {', '.join(FIELDS)}"


def respond_plain(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Answer an exception with the envelope; a caller who left gets an empty body."""
    del request
    if isinstance(error, ClientGoneError):
        return Response(b"", status_code=499)
    failure = envelope(error)
    headers = {"WWW-Authenticate": "Bearer"} if failure.status == 401 else {}
    if isinstance(error, HTTPException) and error.headers:
        headers |= error.headers
    return Response(failure, status_code=failure.status, media_type=MediaType.JSON, headers=headers)


Respond = Callable[[Request[Any, Any, Any], Exception], Response[Any]]
Handlers = dict[int | type[Exception], Callable[[Request[Any, Any, Any], Any], Response[Any]]]


def handlers(respond: Respond) -> Handlers:
    """Route every exception to one function."""
    return {Exception: respond, HTTPException: respond, QueryError: respond}


class Counters:
    """Counters by series, and the latency of requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: defaultdict[str, float] = defaultdict(float)
        self.requests = LatencyTable("lakerunner_http_request_seconds", ("route", "status"))

    def add(self, series: str, amount: float = 1) -> None:
        """Add to a counter; `series` is its name, with labels as they appear in the exposition."""
        with self._lock:
            self._values[series] += amount

    def render(self, gauges: Mapping[str, float] | None = None) -> str:
        with self._lock:
            found = dict(self._values)
        return render(families({**found, **(gauges or {})})) + self.requests.render()


def count_requests(app: ASGIApp, counters: Counters) -> ASGIApp:
    """Measure requests to their last byte, by status and route (the template, never the path itself)."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return
        status, began = 500, time.perf_counter()

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await app(scope, receive, send_and_note)
        finally:
            seconds = time.perf_counter() - began
            counters.requests.add(scope.get("path_template", "?"), str(status), seconds)

    return handle
