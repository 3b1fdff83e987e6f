"""`Wire` is a minimal HTTP/1.1 client for query workers: bodies with a length, connections kept open.

A whole client costs more than most units of work. Redirects, cookies, chunks and proxies do not occur between
coordinator and worker, and are refused. An answer that is none becomes the error that it means.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec

from lakerunner_query.errors import (
    EvaluationError,
    LimitExceededError,
    QueryError,
    TooLargeError,
    WorkFailedError,
)
from lakerunner_query.logql.metrics.errors import PipelineError
from lakerunner_query.protocol.frames import BUSY, CPU_HEADER, CRASHED, OVER_BUDGET, UNFINISHED

CONNECT_S = 2.0
BUFFER = 1 << 20
STATUS = slice(9, 12)
"""Place of the status in `HTTP/1.1 200 OK`."""


class WireError(ConnectionError):
    """The worker cannot be reached, went away, or sent no valid answer."""


def _seconds(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdigit() else 0.0


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    cpu_s: float = 0.0
    """CPU seconds that the answer took at the worker."""


@dataclass(slots=True)
class Wire:
    """Connections to one worker, one for each request at a time."""

    url: str
    headers: Mapping[str, str]
    _idle: list[_Connection] = field(default_factory=list)

    async def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send a request; cancelling it closes the connection, which stops the worker."""
        message = self._message(method, path, body, headers or {})
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_open:
                connection.abort()
                continue
            with suppress(_ClosedWhileIdleError):
                return await self._exchange(connection, message)
        return await self._exchange(await self._connect(), message)

    def close(self) -> None:
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def _message(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        parts = urlsplit(self.url)
        lines = [f"{method} {parts.path}{path} HTTP/1.1", f"host: {parts.netloc}"]
        lines += [f"{name}: {value}" for name, value in {**self.headers, **headers}.items()]
        lines += [f"content-length: {len(body)}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + body

    async def _connect(self) -> _Connection:
        parts = urlsplit(self.url)
        secure = ssl.create_default_context() if parts.scheme == "https" else None
        port = parts.port or (443 if secure else 80)
        try:
            async with asyncio.timeout(CONNECT_S):
                opened = await asyncio.open_connection(parts.hostname, port, limit=BUFFER, ssl=secure)
        except (OSError, TimeoutError) as error:
            raise WireError(f"cannot connect: {error or 'no answer'}") from error
        return _Connection(*opened)

    async def _exchange(self, connection: _Connection, message: bytes) -> Reply:
        try:
            reply, stays = await connection.exchange(message)
        except BaseException:
            connection.abort()
            raise
        if stays:
            self._idle.append(connection)
        else:
            connection.abort()
        return reply


class _ClosedWhileIdleError(Exception):
    """The worker closed an idle connection and did not read the request: send it again."""


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    was_used: bool = False

    @property
    def is_open(self) -> bool:
        return not self.reader.at_eof() and not self.writer.is_closing()

    def abort(self) -> None:
        self.writer.transport.abort()

    async def exchange(self, message: bytes) -> tuple[Reply, bool]:
        """Return the answer, and whether the connection can be used again."""
        try:
            self.writer.write(message)
            await self.writer.drain()
            head = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            raise self._gone(error, is_silent=not error.partial) from error
        except asyncio.LimitOverrunError as error:
            raise WireError("the head of an answer does not end") from error
        except OSError as error:
            raise self._gone(error, is_silent=True) from error
        self.was_used = True
        return await self._rest(head)

    async def _rest(self, head: bytes) -> tuple[Reply, bool]:
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status, length = first[STATUS], fields.get("content-length", "")
        if not (first.startswith("HTTP/1.") and status.isdigit() and length.isdigit()):
            raise WireError(f"not an answer of a worker: {first[:80]!r}")
        try:
            body = await self.reader.readexactly(int(length))
        except (asyncio.IncompleteReadError, OSError) as error:
            raise WireError(f"the answer broke off: {error}") from error
        reply = Reply(int(status), body, _seconds(fields.get(CPU_HEADER, "")))
        return reply, fields.get("connection", "").lower() != "close"

    def _gone(self, error: Exception, *, is_silent: bool) -> Exception:
        if self.was_used and is_silent:
            return _ClosedWhileIdleError()
        return WireError(f"the connection closed: {error}")


class UnfinishedError(Exception):
    """The worker cannot take the unit now, or went silent: another one may do it."""


class StartingError(UnfinishedError):
    """The worker is alive and soon takes units again."""


class CrashedError(UnfinishedError):
    """The worker's reader process ended by itself while it ran the unit."""


class BusyError(Exception):
    """The worker has enough units of this organisation waiting."""


_REFUSALS: dict[str, type[QueryError]] = {
    LimitExceededError.code: LimitExceededError,
    TooLargeError.code: TooLargeError,
    OVER_BUDGET: LimitExceededError,
    EvaluationError.code: EvaluationError,
    PipelineError.code: EvaluationError,
}
"""Errors of workers that callers see, by code."""
_RETURNS: dict[str, type[Exception]] = {BUSY: BusyError, CRASHED: CrashedError, UNFINISHED: StartingError}


class _Envelope(msgspec.Struct):
    code: str = ""
    message: str = ""


def returned(reply: Reply) -> Exception:
    """Return the error of a unit that came back undone."""
    envelope = _envelope(reply)
    return _RETURNS.get(envelope.code, UnfinishedError)(envelope.message)


def is_over_budget(reply: Reply) -> bool:
    """Tell whether the unit used more CPU time than one may."""
    return reply.status == LimitExceededError.status and _envelope(reply).code == OVER_BUDGET


def refusal(reply: Reply) -> Exception:
    """Return the error that a unit ended with."""
    envelope = _envelope(reply)
    message = envelope.message or f"worker answered {reply.status}"
    return _REFUSALS.get(envelope.code, WorkFailedError)(message)


def _envelope(reply: Reply) -> _Envelope:
    try:
        return msgspec.json.decode(reply.body, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Envelope(message=reply.body[:200].decode(errors="replace"))
