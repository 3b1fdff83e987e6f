"""Portals hold streams of record batches, which clients take in portions.

LakeQL works in a task of its own, so that a statement may rest half-read while others run; it makes the next
batch when the one before has been taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa

from lakerunner_query.api.postgres.messages import NOT_SUPPORTED, VIOLATION, SqlError
from lakerunner_query.protocol.units import Missing

CHUNK_ROWS, CHUNK_BYTES = 16_384, 4 << 20
"""Rows and bytes that are encoded at a time: a few milliseconds of work."""


class Answer(Protocol):
    """The part of LakeQL's answer that is used here; tables in memory are the other one."""

    schema: pa.Schema
    notices: list[str]

    @property
    def missing(self) -> Mapping[str, Missing]: ...

    def batches(self) -> AsyncGenerator[pa.RecordBatch, None]: ...

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class TableAnswer:
    """Rows that are already here: of `SHOW`, and of the catalog."""

    def __init__(self, table: pa.Table, notices: Sequence[str] = ()) -> None:
        self.schema = table.schema
        self.notices = list(notices)
        self.missing: dict[str, Missing] = {}
        self._table = table

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        for batch in self._table.to_batches():
            yield batch

    async def __aenter__(self) -> object:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


async def ready_made(table: pa.Table) -> Answer:
    return TableAnswer(table)


@dataclass(frozen=True, slots=True)
class _End:
    """The task has ended, well or not."""


class Stream:
    """An answer that is read in portions."""

    def __init__(self, opening: Callable[[], Awaitable[Answer]]) -> None:
        self._opening = opening
        self._queue: asyncio.Queue[Answer | pa.RecordBatch | _End] = asyncio.Queue()
        self._room = asyncio.Semaphore(1)
        self._task = asyncio.create_task(self._read())
        self._task.add_done_callback(self._ended)
        self._answer: Answer | None = None
        self._rest: pa.RecordBatch | None = None
        self.is_done = False

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Tell the reader; one that left does not ask what went wrong."""
        self._queue.put_nowait(_End())
        if not task.cancelled():
            task.exception()

    async def _read(self) -> None:
        answer = await self._opening()
        async with answer:
            self._queue.put_nowait(answer)
            batches = answer.batches()
            try:
                async for batch in batches:
                    await self._room.acquire()
                    self._queue.put_nowait(batch)
            finally:
                await batches.aclose()

    async def _next(self) -> Answer | pa.RecordBatch | None:
        if self.is_done:
            return None
        found = await self._queue.get()
        if isinstance(found, _End):
            self.is_done = True
            await self._task  # raises what went wrong
            return None
        return found

    async def answer(self) -> Answer:
        """Wait until the statement is accepted, and its columns are known."""
        while self._answer is None:
            found = await self._next()
            if found is None:
                raise RuntimeError("a statement ended without an answer")
            self._answer = found  # the first of the queue
        return self._answer

    async def take(self, most: int) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield up to so many rows, 0 for all, in chunks of bounded size."""
        await self.answer()
        left = most or 1 << 62
        while left:
            batch = self._rest if self._rest is not None else await self._next()
            self._rest = None
            if not isinstance(batch, pa.RecordBatch):
                return
            rows = min(left, _chunk(batch))
            if rows < batch.num_rows:
                self._rest = batch.slice(rows)
            else:
                self._room.release()
            left -= rows
            if rows:
                yield batch.slice(0, rows)

    async def close(self) -> None:
        """Stop the work, if it goes on."""
        self._task.cancel()
        await asyncio.wait({self._task})
        self.is_done = True


def _chunk(batch: pa.RecordBatch) -> int:
    rows = int(batch.num_rows)
    if batch.nbytes <= CHUNK_BYTES:
        return min(rows, CHUNK_ROWS)
    return max(1, min(CHUNK_ROWS, rows * CHUNK_BYTES // int(batch.nbytes)))


@dataclass(slots=True)
class Portal:
    """A bound statement, or a cursor, with what has not been sent of its rows."""

    text: str
    word: str
    stream: Stream | None = None
    formats: tuple[int, ...] = ()
    described: Sequence[pa.DataType] | None = None
    """Types that the client was told when the statement was described, not the portal."""
    most: int = 0
    """Rows of a `FETCH`; 0: all that there are."""
    is_borrowed: bool = False
    """True for a `FETCH`: the stream is its cursor's."""
    is_held: bool = False
    """True for a cursor that outlives its transaction."""
    is_complete: bool = False
    declares: tuple[Any, tuple[object, ...]] | None = None
    """The query of a cursor, and the values of its parameters."""
    warned: set[str] = field(default_factory=set)

    async def close(self) -> None:
        if self.stream is not None and not self.is_borrowed:
            await self.stream.close()


def spread(formats: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return one format per value; none means text, one means that one for all."""
    if len(formats) <= 1:
        return (formats or (0,)) * count
    if len(formats) != count:
        raise SqlError(VIOLATION, f"{len(formats)} formats are named for {count} values")
    return formats


def with_types(schema: pa.Schema | None) -> pa.Schema | None:
    """Promise text for columns that have no type yet."""
    if schema is None:
        return None
    return pa.schema([one.with_type(pa.string()) if pa.types.is_null(one.type) else one for one in schema])


def promised_types(described: Sequence[pa.DataType] | None, schema: pa.Schema) -> Sequence[pa.DataType]:
    """Return the types that the client knows; those of the rows, unless the statement was described."""
    if described is None:
        return list(schema.types)
    if len(described) != len(schema):
        raise SqlError(NOT_SUPPORTED, "cached plan must not change result type")
    return described


def as_types(columns: Sequence[pa.Array], told: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return columns in the types that the client was told."""
    try:
        return [
            column if column.type == kind else column.cast(kind)
            for column, kind in zip(columns, told, strict=True)
        ]
    except pa.ArrowException as error:
        raise SqlError(NOT_SUPPORTED, "cached plan must not change result type") from error
