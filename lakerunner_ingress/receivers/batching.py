"""Requests of one lane wait for each other, up to a size and an age, and share the fate of their object.

Runs on the event loop; writing an object happens in threads of its own. A request is answered when its object
is written, or with what prevented that. After `drain` nothing is taken any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.receivers.received import Lane

log = logging.getLogger(__name__)
WRITERS = 8

Write = Callable[[Lane, Sequence[bytes]], None]
"""Returns when the object is durable; blocks."""


@dataclass(slots=True)
class Batch:
    """One object in the making."""

    lane: Lane
    timer: asyncio.TimerHandle
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class Batcher:
    def __init__(self, write: Write, max_bytes: int, max_age_s: float) -> None:
        self._write = write
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._open: dict[Lane, Batch] = {}
        self._flights: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(WRITERS, "push-write")
        self.draining = False

    async def offer(self, lane: Lane, data: bytes) -> None:
        """Returns when `data` is in a durable object, else raises what prevented it."""
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
        """Take nothing more, write everything now, and return when all of it is answered."""
        self.draining = True
        for batch in list(self._open.values()):
            self._seal(batch)
        while self._flights:
            await asyncio.wait(self._flights)

    async def close(self) -> None:
        await self.drain()
        self._threads.shutdown()

    def _begin(self, lane: Lane) -> Batch:
        timer = asyncio.get_running_loop().call_later(self._max_age_s, self._ripe, lane)
        batch = self._open[lane] = Batch(lane, timer)
        return batch

    def _ripe(self, lane: Lane) -> None:
        self._seal(self._open[lane])  # sealing cancels the timer, so this is the batch it was made for

    def _seal(self, batch: Batch) -> None:
        batch.timer.cancel()
        del self._open[batch.lane]
        flight = asyncio.get_running_loop().create_task(self._fly(batch))
        self._flights.add(flight)
        flight.add_done_callback(self._flights.discard)

    async def _fly(self, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._threads, self._write, batch.lane, batch.parts)
        except Exception as error:  # noqa: BLE001 - told to every request that is in the batch
            log.warning("%d pushes of %s are refused: %s", len(batch.waiting), batch.lane.org, error)
            for waiting in batch.waiting:
                if not waiting.done():
                    waiting.set_exception(error)
        else:
            for waiting in batch.waiting:
                if not waiting.done():  # a request that was cancelled meanwhile
                    waiting.set_result(None)
