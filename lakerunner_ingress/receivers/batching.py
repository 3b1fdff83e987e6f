"""Batches: pushes of one lane share an object, gathered while the object before it is written.

A push to an idle lane is written at once, so that a sender that waits for each answer is answered as fast as
the store allows. Pushes that arrive meanwhile go together with the next object. A budget of puts per minute
widens the intervals when many lanes are busy, up to the age of a batch. Batching runs on the event loop,
writing in threads. A push is answered when its object is written, or with the error that prevented it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.receivers.forms import Lane
from lakerunner_ingress.receivers.turns import Turns

log = logging.getLogger(__name__)
WRITERS = 8
BURST_S = 10.0
"""Puts that may be made at once after a quiet time, in seconds of the budget."""

Write = Callable[[Lane, Sequence[bytes]], None]
"""Writer of an object, which blocks until the object is durable."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Bounds of a batch, and the puts per minute below which no batch waits for others."""

    max_bytes: int
    max_age_s: float
    puts_per_minute: int


@dataclass(slots=True, eq=False)
class Batch:
    """An object that still takes pushes."""

    lane: Lane
    timer: asyncio.TimerHandle
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class PutBudget:
    """A token bucket of puts; one that is made without a token costs nothing more."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_minute / 60.0
        self._clock = clock
        self._tokens = self._most = max(1.0, self._rate * BURST_S) if per_minute else 0.0
        self._moment = clock()

    def take(self) -> bool:
        """Take a token, if there is one."""
        now = self._clock()
        self._tokens = min(self._most, self._tokens + (now - self._moment) * self._rate)
        self._moment = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    @property
    def wait_s(self) -> float | None:
        """Seconds until the next token; None: never."""
        return (1.0 - self._tokens) / self._rate if self._rate else None


class Batcher:
    """The open batches of a process."""

    def __init__(self, write: Write, limits: BatchLimits) -> None:
        self._write = write
        self._limits = limits
        self._budget = PutBudget(limits.puts_per_minute)
        self._open: dict[Lane, Batch] = {}
        self._thrifty: Turns[Lane] = Turns()
        """Lanes whose batch could be written and waits for a token."""
        self._token_timer: asyncio.TimerHandle | None = None
        self._sealed: Turns[Batch] = Turns()
        """Batches that take no more pushes and wait for a thread."""
        self._unwritten: Counter[Lane] = Counter()
        self._running = 0
        self._writes: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(WRITERS, "push-write")
        self.draining = False

    async def offer(self, lane: Lane, data: bytes) -> None:
        """Add `data` to a batch; return when its object is durable, or raise the error."""
        if self.draining:
            raise UnavailableError("the receiver is stopping; send this again")
        batch = self._open.get(lane)
        if batch is not None and batch.size + len(data) > self._limits.max_bytes:
            self._seal(batch)
            batch = None
        if batch is None:
            batch = self._begin(lane)
        batch.parts.append(data)
        batch.size += len(data)
        durable = asyncio.get_running_loop().create_future()
        batch.waiting.append(durable)
        if batch.size >= self._limits.max_bytes:
            self._seal(batch)
        await durable

    async def drain(self) -> None:
        """Refuse new pushes, write all batches, and return when all pushes are answered."""
        self.draining = True
        for batch in list(self._open.values()):
            self._seal(batch)
        while self._writes:
            await asyncio.wait(self._writes)

    async def close(self) -> None:
        await self.drain()
        self._threads.shutdown()

    def _begin(self, lane: Lane) -> Batch:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._limits.max_age_s, self._seal_expired, lane)
        batch = self._open[lane] = Batch(lane, timer)
        loop.call_soon(self._consider, batch)  # those that arrived together with it go along
        return batch

    def _consider(self, batch: Batch) -> None:
        """Seal a batch whose lane is idle, now or when there is a token for it."""
        if self._open.get(batch.lane) is not batch or self._unwritten[batch.lane]:
            return
        if not self._thrifty and self._budget.take():
            self._seal(batch)
        elif self._budget.wait_s is not None:
            self._thrifty.add(batch.lane.org, batch.lane)
            self._wait_for_token()

    def _wait_for_token(self) -> None:
        wait_s = self._budget.wait_s
        if self._token_timer is None and self._thrifty and wait_s is not None:
            self._token_timer = asyncio.get_running_loop().call_later(max(0.0, wait_s), self._spend)

    def _spend(self) -> None:
        self._token_timer = None
        while self._thrifty and self._budget.take():
            self._seal(self._open[self._thrifty.take()])
        self._wait_for_token()

    def _seal_expired(self, lane: Lane) -> None:
        self._seal(self._open[lane])  # sealing cancels the timer, so this is the batch it was made for

    def _seal(self, batch: Batch) -> None:
        batch.timer.cancel()
        del self._open[batch.lane]
        self._thrifty.discard(batch.lane.org, batch.lane)  # it waits no longer, whatever sealed it
        self._unwritten[batch.lane] += 1
        self._sealed.add(batch.lane.org, batch)
        self._start_writes()

    def _start_writes(self) -> None:
        while self._sealed and self._running < WRITERS:
            self._running += 1
            write = asyncio.get_running_loop().create_task(self._write_batch(self._sealed.take()))
            self._writes.add(write)
            write.add_done_callback(self._writes.discard)

    async def _write_batch(self, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        error: Exception | None = None
        try:
            await loop.run_in_executor(self._threads, self._write, batch.lane, batch.parts)
        except Exception as caught:  # noqa: BLE001 - every push of the batch gets it
            error = caught
            log.warning("%d pushes of %s are refused: %s", len(batch.waiting), batch.lane.org, error)
        self._running -= 1
        self._unwritten[batch.lane] -= 1
        if not self._unwritten[batch.lane]:
            del self._unwritten[batch.lane]
        for waiting in batch.waiting:
            if waiting.done():  # a request that was cancelled meanwhile
                continue
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)
        self._start_writes()
        if next_batch := self._open.get(batch.lane):
            self._consider(next_batch)
