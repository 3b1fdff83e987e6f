"""Batches of requests: those of one lane wait, up to a size and an age, and share one object.

Batching runs on the event loop, writing in threads of its own. A request is answered when its object is
written, or with the error that prevented it. After `drain` no request is accepted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.receivers.forms import Lane

log = logging.getLogger(__name__)
WRITERS = 8

Write = Callable[[Lane, Sequence[bytes]], None]
"""Writer of an object, which blocks until the object is durable."""


@dataclass(slots=True)
class Batch:
    """An object that still takes requests."""

    lane: Lane
    timer: asyncio.TimerHandle
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class Batcher:
    """The open batches of a process."""

    def __init__(self, write: Write, max_bytes: int, max_age_s: float) -> None:
        self._write = write
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._open: dict[Lane, Batch] = {}
        self._writes: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(WRITERS, "push-write")
        self.draining = False

    async def offer(self, lane: Lane, data: bytes) -> None:
        """Add `data` to a batch; return when its object is durable, or raise the error."""
        if self.draining:
            raise UnavailableError("the receiver is stopping; send this again")
        batch = self._open.get(lane)
        if batch is not None and batch.size + len(data) > self._max_bytes:
            self._seal(batch)
            batch = None
        if batch is None:
            batch = self._begin(lane)
        batch.parts.append(data)
        batch.size += len(data)
        durable = asyncio.get_running_loop().create_future()
        batch.waiting.append(durable)
        if batch.size >= self._max_bytes:
            self._seal(batch)
        await durable

    async def drain(self) -> None:
        """Refuse new requests, write all batches, and return when all requests are answered."""
        self.draining = True
        for batch in list(self._open.values()):
            self._seal(batch)
        while self._writes:
            await asyncio.wait(self._writes)

    async def close(self) -> None:
        await self.drain()
        self._threads.shutdown()

    def _begin(self, lane: Lane) -> Batch:
        timer = asyncio.get_running_loop().call_later(self._max_age_s, self._seal_expired, lane)
        batch = self._open[lane] = Batch(lane, timer)
        return batch

    def _seal_expired(self, lane: Lane) -> None:
        self._seal(self._open[lane])  # sealing cancels the timer, so this is the batch it was made for

    def _seal(self, batch: Batch) -> None:
        batch.timer.cancel()
        del self._open[batch.lane]
        write = asyncio.get_running_loop().create_task(self._write_batch(batch))
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)

    async def _write_batch(self, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._threads, self._write, batch.lane, batch.parts)
        except Exception as error:  # noqa: BLE001 - every request of the batch gets it
            log.warning("%d pushes of %s are refused: %s", len(batch.waiting), batch.lane.org, error)
            for waiting in batch.waiting:
                if not waiting.done():
                    waiting.set_exception(error)
        else:
            for waiting in batch.waiting:
                if not waiting.done():  # a request that was cancelled meanwhile
                    waiting.set_result(None)
