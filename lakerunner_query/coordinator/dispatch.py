"""Sending units to query workers and getting their answers back in order.

A unit goes to the worker its affinity ranks first; when that one dies in the middle, to the next, a bounded
number of times. Later units run a little ahead, at first one at a time, since most queries end early.
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
from lakerunner_query.protocol.units import TOKEN_HEADER, MetricUnit, ShardUnit, Unit

Answer = TypeVar("Answer")
OK = 200
ATTEMPTS = 4
DECODED_HERE = 4 * 1024 * 1024
"""A small answer is decoded faster than another thread is asked to."""
ASK_ALIVE_S = 5.0
AVOID_S = 30.0
"""A worker that failed is asked last for so long."""


class Dispatcher:
    """The coordinator's side of `POST /work`."""

    def __init__(self, workers: tuple[str, ...], token: str, *, in_flight: int = 16) -> None:
        self._workers = workers
        self._avoid: dict[str, float] = {}
        self._slots = asyncio.Semaphore(in_flight)
        self._ahead = max(2, 2 * len(workers))
        self._wires = {url: Wire(url, {TOKEN_HEADER: token}) for url in workers}

    @property
    def count(self) -> int:
        """Workers that there are."""
        return len(self._workers)

    async def close(self) -> None:
        for wire in self._wires.values():
            wire.close()

    async def run(
        self, units: Iterable[Unit], decode: Callable[[bytes], Answer], *, ahead: int = 1
    ) -> AsyncGenerator[Answer, None]:
        """Answers in the order of `units`; `ahead` of them at once from the start, more as it goes on."""
        running: deque[asyncio.Task[Answer]] = deque()
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
        """How many workers say that they can work."""
        answers = await asyncio.gather(*(self._answers(worker, "/readyz") for worker in self._workers))
        return sum(answers)

    async def _answers(self, worker: str, path: str) -> bool:
        try:
            async with asyncio.timeout(ASK_ALIVE_S):
                return (await self._wires[worker].ask("GET", path)).status == OK
        except (WireError, TimeoutError):
            return False

    async def _one(self, unit: Unit, decode: Callable[[bytes], Answer]) -> Answer:
        body = msgspec.json.encode(unit)
        failures: list[str] = []
        async with self._slots:
            for attempt in range(ATTEMPTS):
                worker = self._choose(
                    unit.affinity, attempt, unit.turn if isinstance(unit, MetricUnit | ShardUnit) else 0
                )
                try:
                    return await self._ask(worker, body, decode)
                except (WireError, _UnfinishedError) as error:
                    self._avoid[worker] = time.monotonic() + AVOID_S
                    failures.append(f"{worker}: {type(error).__name__} {error}".strip())
                    await asyncio.sleep(0.1 * attempt)
        raise WorkerUnavailableError("no query worker finished a unit of work; tried " + "; ".join(failures))

    async def _ask(self, worker: str, body: bytes, decode: Callable[[bytes], Answer]) -> Answer:
        response = await self._while_alive(worker, self._wires[worker].ask("POST", "/work", body))
        if response.status != OK:
            raise _refusal(response)
        if len(response.body) < DECODED_HERE:
            return decode(response.body)
        return await asyncio.to_thread(decode, response.body)

    async def _while_alive(self, worker: str, asked: Coroutine[Any, Any, Reply]) -> Reply:
        """A machine that lost its power sends no farewell: ask whether it is there, now and then."""
        task = asyncio.create_task(asked)
        try:
            while not (await asyncio.wait({task}, timeout=ASK_ALIVE_S))[0]:
                if not await self._answers(worker, "/livez") and not task.done():
                    raise _UnfinishedError("stopped answering")
            return task.result()
        finally:
            task.cancel()

    def _choose(self, affinity: str, attempt: int, turn: int = 0) -> str:
        """Rendezvous hashing: adding or losing a worker moves only that worker's units."""
        if not self._workers:
            raise WorkerUnavailableError("no query workers are configured (LAKERUNNER_WORKER_URLS)")
        now = time.monotonic()
        ranked = sorted(self._workers, key=lambda w: xxhash.xxh3_64_intdigest(f"{affinity}@{w}".encode()))
        fresh = [worker for worker in ranked if self._avoid.get(worker, 0.0) <= now]
        return fresh[turn % len(fresh)] if fresh else ranked[(turn + attempt) % len(ranked)]


class _UnfinishedError(Exception):
    """The worker cannot take the unit now, or went silent over it: another one may do it."""


_SAID: dict[str, type[QueryError]] = {
    LimitExceededError.code: LimitExceededError,
    EvaluationError.code: EvaluationError,
    PipelineError.code: EvaluationError,
}
"""Refusals that are the caller's business."""


class _Envelope(msgspec.Struct):
    code: str = ""
    message: str = ""


def _refusal(response: Reply) -> Exception:
    try:
        said = msgspec.json.decode(response.body, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = _Envelope(message=response.body[:200].decode(errors="replace"))
    if response.status in {502, 503, 504}:
        return _UnfinishedError(said.message)
    return _SAID.get(said.code, WorkFailedError)(said.message or f"worker answered {response.status}")
