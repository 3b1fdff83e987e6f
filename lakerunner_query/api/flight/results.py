"""Answers of LakeQL become results that threads of the Flight server take batch by batch.

An answer is opened, read and left by one task of the event loop, which waits until the batch before was
taken. Tickets are signed and hold the statement with its parameters and organisation: any query API of the
same deployment serves them until they expire. Prepared statements are kept here.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

import msgspec
import pyarrow as pa

from lakerunner_query.api.shared.requests import missing_warnings
from lakerunner_query.api.shared.services import Services
from lakerunner_query.errors import (
    InvalidRequestError,
    QueryError,
    QueryTimeoutError,
    SegmentsMissingError,
    TooManyQueriesError,
)
from lakerunner_query.plan.lakeql import LakeQLRequest
from resources.exposition import series

API = "flight"
TICKET_S, PREPARED_S = 600.0, 3600.0
"""Seconds for which a ticket is good, and for which a prepared statement is kept without a use."""
MAX_PREPARED = 1000
"""Prepared statements of one organisation; a further one replaces the one without a use for longest."""
MAX_TEXT = 1 << 20
MAX_CANCELLED = 10_000
_DIGEST = hashlib.sha256().digest_size


PlainValue = str | float | int | bool | None
"""A parameter as LakeQL takes it."""


class CancelledError(QueryError):
    """Its client, or another one of the organisation, cancelled the statement."""

    status = 499
    code = "cancelled"


class Statement(msgspec.Struct, frozen=True, array_like=True):
    """A statement that a ticket stands for."""

    id: str
    org: str
    text: str
    parameters: tuple[PlainValue, ...]
    expires_s: float

    @property
    def request(self) -> LakeQLRequest:
        return LakeQLRequest(self.org, parameters=self.parameters)


class Tickets:
    """Statements signed with a key that all query APIs of a deployment derive from their common token."""

    def __init__(self, token: str) -> None:
        self._key = hmac.digest(token.encode(), b"tickets of Flight SQL", "sha256")

    def issue(self, org: str, text: str, parameters: tuple[object, ...] = ()) -> bytes:
        values = tuple(map(plain_value, parameters))
        return self.sign(Statement(secrets.token_hex(16), org, text, values, time.time() + TICKET_S))

    def sign(self, statement: Statement) -> bytes:
        try:
            body = msgspec.msgpack.encode(statement)
        except OverflowError as error:
            raise InvalidRequestError("an integer parameter is beyond 64 bits") from error
        return hmac.digest(self._key, body, "sha256") + body

    def read(self, ticket: bytes, org: str) -> Statement:
        """Return the statement of a ticket that was issued to this organisation and is still good."""
        body = ticket[_DIGEST:]
        if not hmac.compare_digest(ticket[:_DIGEST], hmac.digest(self._key, body, "sha256")):
            raise InvalidRequestError("unknown ticket")
        statement = msgspec.msgpack.decode(body, type=Statement)
        if statement.org != org:
            raise InvalidRequestError("unknown ticket")
        if statement.expires_s < time.time():
            raise InvalidRequestError("the ticket has expired; send the statement again")
        return statement


def plain_value(value: object) -> PlainValue:
    """Return a parameter as LakeQL takes it; times become text in UTC.

    >>> plain_value(datetime.fromisoformat("2026-01-01T02:00:00+02:00"))
    '2026-01-01 00:00:00'
    """
    if value is None or isinstance(value, str | float | int | bool):
        return value
    if isinstance(value, datetime):
        return (value - (value.utcoffset() or timedelta())).replace(tzinfo=None).isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    raise InvalidRequestError(
        f"parameters are text, numbers, booleans or times; found {type(value).__name__}"
    )


@dataclass(slots=True)
class PreparedStatement:
    """A statement that is asked with parameters of several requests."""

    org: str
    text: str
    count: int
    parameters: tuple[PlainValue, ...]
    used_s: float

    def complete(self) -> tuple[PlainValue, ...]:
        """Return the bound parameters; a value that is missing is never taken for a null."""
        if len(self.parameters) != self.count:
            raise InvalidRequestError(
                f"the statement has {self.count} parameters, {len(self.parameters)} are bound"
            )
        return self.parameters


class PreparedStatements:
    """Prepared statements by handle."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, PreparedStatement] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, org: str, text: str, count: int) -> bytes:
        now, handle = time.monotonic(), secrets.token_bytes(16)
        with self._lock:
            old = [one for one, known in self._known.items() if known.used_s < now - PREPARED_S]
            own = [one for one, known in self._known.items() if known.org == org]
            for one in {*old, *own[: max(0, len(own) - MAX_PREPARED + 1)]}:
                del self._known[one]
            self._known[handle] = PreparedStatement(org, text, count, (), now)
        return handle

    def find(self, handle: bytes, org: str) -> PreparedStatement:
        with self._lock:
            found = self._known.get(handle)
            if found is None or found.org != org:
                raise InvalidRequestError(
                    "unknown prepared statement; it was closed, or not used for an hour"
                )
            found.used_s = time.monotonic()
            self._known.move_to_end(handle)
            return found

    def close(self, handle: bytes, org: str) -> None:
        self.find(handle, org)
        with self._lock:
            self._known.pop(handle, None)


@dataclass(frozen=True, slots=True)
class Opened:
    """Columns of a result, and remarks about how the statement was understood."""

    schema: pa.Schema
    notices: list[str]


@dataclass(frozen=True, slots=True)
class Finished:
    """End of a result."""

    notices: list[str]
    missing: list[str]
    statistics: dict[str, int]

    @property
    def metadata(self) -> bytes:
        told = {"notices": self.notices, "partial": self.missing, "statistics": self.statistics}
        return msgspec.json.encode(told)


Piece: TypeAlias = "Opened | pa.RecordBatch | Finished"


class RunningResult:
    """One answer, read by a task no faster than its pieces are taken."""

    def __init__(self, results: Results, statement: Statement, takes_partial: bool) -> None:
        self.statement = statement
        self.is_cancelled = False
        self._results = results
        self._takes_partial = takes_partial
        self._pieces: asyncio.Queue[Piece] = asyncio.Queue(1)
        self._task = asyncio.create_task(self._read())

    async def take(self) -> Piece:
        """Return the next piece: first `Opened`, last `Finished`; raise what ended the answer."""
        getting = asyncio.ensure_future(self._pieces.get())
        try:
            await asyncio.wait({getting, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                return getting.result()
        finally:
            getting.cancel()
        if not self._pieces.empty():
            return self._pieces.get_nowait()
        if self._task.cancelled():
            raise CancelledError("the statement was cancelled")
        self._task.result()
        raise CancelledError("the result was already read to its end")

    async def leave(self) -> None:
        """End the work; pieces that nobody took are dropped."""
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.exception()  # an error that nobody waits for is counted, and told to nobody

    async def _read(self) -> None:
        services, request = self._results.services, self.statement.request
        with services.watch(API) as watch:
            rows = 0
            answer = await services.lakeql.open(self.statement.text, request)
            async with answer:
                await self._hand_over(Opened(answer.schema, list(answer.notices)))
                async with aclosing(answer.batches()) as batches:
                    async for batch in batches:
                        rows += batch.num_rows
                        await self._hand_over(batch)
                missing = missing_warnings(answer.missing)
                if missing and not self._takes_partial:
                    raise SegmentsMissingError("; ".join(missing))
                await self._hand_over(Finished(list(answer.notices), missing, dict(answer.statistics)))
            services.counters.add(series("lakerunner_query_rows_total", api=API), rows)
            watch.end(partial=bool(missing))

    async def _hand_over(self, piece: Piece) -> None:
        patience_s = self._results.services.settings.query_stall_s
        try:
            async with asyncio.timeout(patience_s or None):
                await self._pieces.put(piece)
        except TimeoutError as error:
            raise QueryTimeoutError(f"the client took nothing for {patience_s:.0f} s") from error


class Results:
    """Running results by organisation; all methods belong to the event loop."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._running: set[RunningResult] = set()
        self._by_org: Counter[str] = Counter()
        self._cancelled: OrderedDict[str, None] = OrderedDict()

    @property
    def count(self) -> int:
        return len(self._running)

    async def start(self, statement: Statement, takes_partial: bool) -> RunningResult:
        most = self.services.settings.query_max_streams
        if statement.id in self._cancelled:
            raise CancelledError("the statement was cancelled")
        if self._by_org[statement.org] >= most:
            raise TooManyQueriesError(f"{most} results of this organisation are being read: read them first")
        result = RunningResult(self, statement, takes_partial)
        self._running.add(result)
        self._by_org[statement.org] += 1
        return result

    async def end(self, result: RunningResult) -> None:
        if result in self._running:
            self._running.discard(result)
            self._by_org[result.statement.org] -= 1
            await result.leave()

    async def cancel(self, statement: Statement) -> None:
        """Cancel the results of a ticket, also those that nobody has begun to read."""
        self._cancelled[statement.id] = None
        while len(self._cancelled) > MAX_CANCELLED:
            self._cancelled.popitem(last=False)
        for result in [one for one in self._running if one.statement.id == statement.id]:
            await result.leave()

    async def close(self) -> None:
        for result in tuple(self._running):
            await self.end(result)


def check_text(text: str) -> str:
    """Refuse a statement that is no statement for its size."""
    if len(text) > MAX_TEXT:
        raise InvalidRequestError(f"a statement has at most {MAX_TEXT} characters, this one has {len(text)}")
    return text


def only_row(batches: Sequence[pa.RecordBatch]) -> tuple[PlainValue, ...]:
    """Return the one row of parameters."""
    rows = sum(batch.num_rows for batch in batches)
    if rows != 1:
        raise InvalidRequestError(f"expected one row of parameters, found {rows}")
    (batch,) = (batch for batch in batches if batch.num_rows)
    return tuple(plain_value(column[0].as_py()) for column in batch.columns)
