"""Sending units to query workers and getting their answers back in order.

A unit goes to the worker its affinity ranks first; when that one dies in the middle, to the next, a bounded
number of times. Later units run a little ahead, at first one at a time, since most queries end early.
Closing the iterator cancels what is running, and a worker whose connection closes stops its scan.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

import httpx
import msgspec
import xxhash

from lakerunner_query.errors import LimitExceededError, QueryError, WorkerUnavailableError, WorkFailedError
from lakerunner_query.evaluate.failures import EvaluationError
from lakerunner_query.execute.work import TOKEN_HEADER, MetricUnit, Unit

logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for every unit of work is nobody's interest
Answer = TypeVar("Answer")
ATTEMPTS = 4
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
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=in_flight)
        timeout = httpx.Timeout(None, connect=2.0)  # the query's own deadline bounds the rest
        self._client = httpx.AsyncClient(headers={TOKEN_HEADER: token}, limits=limits, timeout=timeout)

    @property
    def count(self) -> int:
        """Workers that there are."""
        return len(self._workers)

    async def close(self) -> None:
        await self._client.aclose()

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
        answers = await asyncio.gather(*(self._answers(f"{worker}/readyz") for worker in self._workers))
        return sum(answers)

    async def _answers(self, url: str) -> bool:
        try:
            return (await self._client.get(url, timeout=ASK_ALIVE_S)).is_success
        except httpx.HTTPError:
            return False

    async def _one(self, unit: Unit, decode: Callable[[bytes], Answer]) -> Answer:
        body = msgspec.json.encode(unit)
        failures: list[str] = []
        async with self._slots:
            for attempt in range(ATTEMPTS):
                worker = self._choose(
                    unit.affinity, attempt, unit.turn if isinstance(unit, MetricUnit) else 0
                )
                try:
                    return await self._ask(worker, body, decode)
                except (httpx.TransportError, _UnfinishedError) as error:
                    self._avoid[worker] = time.monotonic() + AVOID_S
                    failures.append(f"{worker}: {type(error).__name__} {error}".strip())
                    await asyncio.sleep(0.1 * attempt)
        raise WorkerUnavailableError("no query worker finished a unit of work; tried " + "; ".join(failures))

    async def _ask(self, worker: str, body: bytes, decode: Callable[[bytes], Answer]) -> Answer:
        response = await self._while_alive(worker, self._client.post(f"{worker}/work", content=body))
        if response.status_code == 200:
            return await asyncio.to_thread(decode, response.content)
        raise _refusal(response)

    async def _while_alive(self, worker: str, asked: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
        """A machine that lost its power sends no farewell: ask whether it is there, now and then."""
        task = asyncio.create_task(asked)
        try:
            while not (await asyncio.wait({task}, timeout=ASK_ALIVE_S))[0]:
                if not await self._answers(f"{worker}/livez") and not task.done():
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


_SAID: dict[str, type[QueryError]] = {kind.code: kind for kind in (LimitExceededError, EvaluationError)}
"""Refusals that are the caller's business."""


class _Envelope(msgspec.Struct):
    code: str = ""
    message: str = ""


def _refusal(response: httpx.Response) -> Exception:
    try:
        said = msgspec.json.decode(response.content, type=_Envelope)
    except msgspec.DecodeError:
        said = _Envelope(message=response.text[:200])
    if response.status_code in {502, 503, 504}:
        return _UnfinishedError(said.message)
    return _SAID.get(said.code, WorkFailedError)(said.message or f"worker answered {response.status_code}")
