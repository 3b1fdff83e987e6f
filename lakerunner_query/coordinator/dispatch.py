"""The dispatcher sends units to query workers and returns their answers in order.

A unit goes to the worker that its affinity ranks first; when that one fails, to the next, a bounded number of
times. Later units run a little ahead, at first one at a time, since most queries end early.
Closing the iterator cancels what is running, and a worker whose connection closes stops its scan.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

import msgspec
import xxhash

from lakerunner_query.coordinator.http import Reply, Wire, WireError
from lakerunner_query.errors import (
    EvaluationError,
    LimitExceededError,
    QueryError,
    WorkerUnavailableError,
    WorkFailedError,
)
from lakerunner_query.logql.metrics.errors import PipelineError
from lakerunner_query.protocol.units import TOKEN_HEADER, LogMetricUnit, MetricUnit, ShardUnit, Unit

AnswerT = TypeVar("AnswerT")
OK = 200
ATTEMPTS = 4
INLINE_BYTES = 4 * 1024 * 1024
"""Size up to which an answer is decoded faster than handed to another thread."""
ASK_ALIVE_S = 5.0
AVOID_S = 30.0
"""Seconds for which a worker that failed is the last choice."""


class Dispatcher:
    """Client of the workers' `POST /work`."""

    def __init__(self, workers: tuple[str, ...], token: str, *, in_flight: int = 16) -> None:
        self._workers = workers
        self._avoid: dict[str, float] = {}
        self._slots = asyncio.Semaphore(in_flight)
        self._ahead = max(2, 2 * len(workers))
        self._wires = {url: Wire(url, {TOKEN_HEADER: token}) for url in workers}

    @property
    def count(self) -> int:
        """Number of workers."""
        return len(self._workers)

    async def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    async def run(
        self, units: Iterable[Unit], decode: Callable[[bytes], AnswerT], *, ahead: int = 1
    ) -> AsyncGenerator[AnswerT, None]:
        """Yield answers in the order of `units`; `ahead` run from the start, twice as many after each."""
        running: deque[asyncio.Task[AnswerT]] = deque()
        try:
            for unit in units:
                running.append(asyncio.create_task(self._one(unit, decode)))
                if len(running) >= ahead:
                    yield await running[0]
                    running.popleft()
                    ahead = min(self._ahead, ahead * 2)
            while running:
                yield await running[0]
                running.popleft()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def ready(self) -> int:
        """Count the workers that are ready."""
        answers = await asyncio.gather(*(self._responds(worker, "/readyz") for worker in self._workers))
        return sum(answers)

    async def _responds(self, worker: str, path: str) -> bool:
        try:
            async with asyncio.timeout(ASK_ALIVE_S):
                return (await self._wires[worker].ask("GET", path)).status == OK
        except (WireError, TimeoutError):
            return False

    async def _one(self, unit: Unit, decode: Callable[[bytes], AnswerT]) -> AnswerT:
        body = msgspec.json.encode(unit)
        failures: list[str] = []
        turn = unit.turn if isinstance(unit, MetricUnit | ShardUnit | LogMetricUnit) else 0
        async with self._slots:
            for attempt in range(ATTEMPTS):
                worker = self._choose(unit.affinity, attempt, turn)
                try:
                    return await self._ask(worker, body, decode)
                except (WireError, _UnfinishedError) as error:
                    self._avoid[worker] = time.monotonic() + AVOID_S
                    failures.append(f"{worker}: {type(error).__name__} {error}".strip())
                    await asyncio.sleep(0.1 * attempt)
        raise WorkerUnavailableError("no query worker finished a unit of work; tried " + "; ".join(failures))

    async def _ask(self, worker: str, body: bytes, decode: Callable[[bytes], AnswerT]) -> AnswerT:
        response = await self._while_alive(worker, self._wires[worker].ask("POST", "/work", body))
        if response.status != OK:
            raise _refusal(response)
        if len(response.body) < INLINE_BYTES:
            return decode(response.body)
        return await asyncio.to_thread(decode, response.body)

    async def _while_alive(self, worker: str, reply: Coroutine[Any, Any, Reply]) -> Reply:
        """Await the reply and probe the worker: a machine without power closes no connection."""
        task = asyncio.create_task(reply)
        try:
            while not (await asyncio.wait({task}, timeout=ASK_ALIVE_S))[0]:
                if not await self._responds(worker, "/livez") and not task.done():
                    raise _UnfinishedError("stopped answering")
            return task.result()
        finally:
            task.cancel()

    def _choose(self, affinity: str, attempt: int, turn: int = 0) -> str:
        """Rank workers by rendezvous hashing: adding or losing one moves only its units."""
        if not self._workers:
            raise WorkerUnavailableError("no query workers are configured (LAKERUNNER_WORKER_URLS)")
        now = time.monotonic()
        ranked = sorted(self._workers, key=lambda w: xxhash.xxh3_64_intdigest(f"{affinity}@{w}".encode()))
        fresh = [worker for worker in ranked if self._avoid.get(worker, 0.0) <= now]
        return fresh[turn % len(fresh)] if fresh else ranked[(turn + attempt) % len(ranked)]


class _UnfinishedError(Exception):
    """The worker cannot take the unit now, or went silent: another one may do it."""


_REFUSALS: dict[str, type[QueryError]] = {
    LimitExceededError.code: LimitExceededError,
    EvaluationError.code: EvaluationError,
    PipelineError.code: EvaluationError,
}
"""Errors of workers that callers see, by code."""


class _Envelope(msgspec.Struct):
    code: str = ""
    message: str = ""


def _refusal(response: Reply) -> Exception:
    try:
        envelope = msgspec.json.decode(response.body, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError):
        envelope = _Envelope(message=response.body[:200].decode(errors="replace"))
    if response.status in {502, 503, 504}:
        return _UnfinishedError(envelope.message)
    return _REFUSALS.get(envelope.code, WorkFailedError)(
        envelope.message or f"worker answered {response.status}"
    )
