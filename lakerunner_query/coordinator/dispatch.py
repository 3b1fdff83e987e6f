"""The dispatcher sends units to query workers and returns their answers in order.

A unit goes to the worker that its affinity ranks first, unless that one has more than its part of the work;
when it fails or is full, to the next. A unit that does not get on is sent to a second worker, and the first
answer wins; where that says that the unit used too much, the other worker ends it, too. Later units run a
little ahead, at first one at a time, since most queries end early. Closing the iterator cancels what is
running, and a worker whose connection closes stops its scan.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import xxhash

from lakerunner_query.coordinator.http import (
    BusyError,
    CrashedError,
    Reply,
    StartingError,
    UnfinishedError,
    Wire,
    WireError,
    is_over_budget,
    refusal,
    returned,
)
from lakerunner_query.errors import WorkerUnavailableError, WorkFailedError
from lakerunner_query.fairness import FairTurns
from lakerunner_query.protocol.frames import ORG_HEADER, TOKEN_HEADER, UNIT_HEADER, Progress
from lakerunner_query.protocol.units import LogMetricUnit, MetricUnit, ShardUnit, TableUnit, Unit

AnswerT = TypeVar("AnswerT")
OK = 200
PLACED = MetricUnit | ShardUnit | LogMetricUnit | TableUnit
"""Units that say which of the workers takes them."""
ATTEMPTS = 4
CRASHES = 2
"""Workers that a unit may crash before nobody else tries it."""
INLINE_BYTES = 4 * 1024 * 1024
"""Size up to which an answer is decoded faster than handed to another thread."""
LOOK_AFTER_S, LOOK_EVERY_S = 0.5, 1.0
"""Seconds after which a worker is asked for the progress of a unit, and then again."""
ASK_ALIVE_S, ASK_ALIVE_PARTS = 1.0, 4
"""Seconds that a worker has to tell, and the parts in which they pass.

This process may have been frozen with the worker: a part that is long over is one part."""
AVOID_S = 30.0
"""Seconds for which a worker that failed is the last choice, unless it is ready before."""
STARTING_S = 20.0
"""Seconds for which a unit waits for workers of which none takes units, but one tells that it starts."""
ASK_AGAIN_S = 0.5
WAITING_BYTES = 32 << 20
"""Bytes of answers that wait for a slow reader from which on no further unit of the query is sent."""
BUSY_S = 0.2
"""Seconds until a unit that every worker was too busy for is sent again."""
SLACK, ALWAYS = 1.25, 4
"""A worker has up to this times the mean number of units, and always room for some."""
HEDGES, MOST_HEDGES = 0.1, 8.0
"""Part of all units that may be sent to a second worker, and how many may be saved up."""


@dataclass(slots=True)
class _Work:
    """One unit on its way to an answer."""

    org: str
    affinity: str
    turn: int
    body: bytes
    failures: list[str] = field(default_factory=list)
    crashes: int = 0
    at: dict[str, str] = field(default_factory=dict)
    """Workers that have it now, with the id that it has there."""
    slow: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Done once a worker does not get on with it."""


class _Window:
    """Finished answers of one query that wait for a reader who is slower than the workers."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._under_way = 0
        self._head = 0
        """Place of the unit whose answer is taken next."""
        self._sizes: dict[int, int] = {}
        self._bytes = 0
        self._changed = asyncio.Event()

    async def enter(self, place: int) -> None:
        """Wait until there is room for another answer; there always is for the one that is taken next."""
        while place > self._head and (self._bytes >= WAITING_BYTES or self._under_way >= self._at_once):
            await self._changed.wait()
        self._under_way += 1

    def put(self, place: int, size: int) -> None:
        """Note an answer, or 0 for a unit that has none."""
        self._sizes[place] = size
        self._bytes += size
        self._under_way -= 1
        self._wake()

    def take(self) -> None:
        """Note that the reader came back for the next answer."""
        self._bytes -= self._sizes.pop(self._head, 0)
        self._head += 1
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Dispatcher:
    """Client of the workers' `POST /work`."""

    def __init__(self, workers: tuple[str, ...], token: str, *, in_flight: int = 16) -> None:
        self._workers = workers
        self._avoid: dict[str, float] = {}
        self._in_flight = in_flight
        self._turns = FairTurns(in_flight, reserve=max(1, in_flight // 4), waiting_per_org=100_000)
        self._token = token
        self._wires = {url: Wire(url, {TOKEN_HEADER: token}) for url in workers}
        self._load: Counter[str] = Counter()
        """Units at each worker."""
        self._ids = (f"{time.time_ns():x}-{number}" for number in itertools.count())
        self._hedges = MOST_HEDGES
        self._recoveries: dict[str, asyncio.Task[None]] = {}
        self.counts: Counter[str] = Counter()
        """Units by what happened to them, for `/metrics`."""

    @property
    def count(self) -> int:
        """Number of workers."""
        return len(self._workers)

    def set_workers(self, workers: tuple[str, ...]) -> None:
        """Send further units to these; units at a worker that left are finished there, or sent again."""
        for url in workers:
            if url not in self._wires:
                self._wires[url] = Wire(url, {TOKEN_HEADER: self._token})
        self._workers = workers
        for url in set(self._wires) - set(workers):
            self._leave(url)

    def _leave(self, worker: str) -> None:
        """Close the wire to a worker that left, unless it still has units."""
        if worker not in self._workers and not self._load[worker] and worker in self._wires:
            self._wires.pop(worker).close()
            del self._load[worker]
            self._avoid.pop(worker, None)

    def gauges(self) -> dict[str, float]:
        names = ("units", "hedged", "overflowed", "redispatched")
        counts = {f"lakerunner_query_units_{name}_total": float(self.counts[name]) for name in names}
        return {
            **counts,
            "lakerunner_query_workers": len(self._workers),
            "lakerunner_query_units_waiting": self._turns.waiting,
            "lakerunner_query_units_running": self._turns.running,
            "lakerunner_query_unit_cpu_seconds_total": self._turns.used_s,
        }

    async def close(self) -> None:
        recoveries = list(self._recoveries.values())
        for task in recoveries:
            task.cancel()
        await asyncio.gather(*recoveries, return_exceptions=True)
        for wire in self._wires.values():
            wire.close()
        await asyncio.sleep(0)  # connections end in the next step of the loop

    async def run(
        self, units: Iterable[Unit], decode: Callable[[bytes], AnswerT], *, org: str, ahead: int = 1
    ) -> AsyncGenerator[AnswerT, None]:
        """Yield answers in the order of `units`; `ahead` run from the start, twice as many after each.

        Units stay where they are while the answers that nobody takes are large.
        """
        running: deque[asyncio.Task[AnswerT]] = deque()
        window = _Window(self._in_flight)
        try:
            for place, unit in enumerate(units):
                running.append(asyncio.create_task(self._one(org, unit, decode, window, place)))
                if len(running) >= ahead:
                    yield await running[0]
                    running.popleft()
                    window.take()
                    ahead = min(max(2, 2 * len(self._workers)), ahead * 2)
            while running:
                yield await running[0]
                running.popleft()
                window.take()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def ready(self) -> int:
        """Count the workers that are ready."""
        answers = await asyncio.gather(*(self._is_ready(worker) for worker in self._workers))
        return sum(answers)

    async def _is_ready(self, worker: str) -> bool:
        wire = self._wires.get(worker)
        if wire is None:
            return False
        try:
            return (await _soon(wire.ask("GET", "/readyz"))).status == OK
        except (WireError, TimeoutError):
            return False

    async def _one(
        self, org: str, unit: Unit, decode: Callable[[bytes], AnswerT], window: _Window, place: int
    ) -> AnswerT:
        await window.enter(place)
        size = 0
        try:
            reply = await self._run_unit(org, unit)
            size = len(reply.body)
        finally:
            window.put(place, size)
        if len(reply.body) < INLINE_BYTES:
            return decode(reply.body)
        return await asyncio.to_thread(decode, reply.body)

    async def _run_unit(self, org: str, unit: Unit) -> Reply:
        """Return the answer of a worker; raise the error that it is."""
        turn = unit.turn if isinstance(unit, PLACED) else 0
        work = _Work(org, unit.affinity, turn, msgspec.json.encode(unit))
        self.counts["units"] += 1
        self._hedges = min(MOST_HEDGES, self._hedges + HEDGES)
        async with self._turns.turn(org) as slot:
            slot.cost_s = 0.0
            reply = await self._answer(work)
            # a unit that broke a limit says nothing of its cost: it is charged as long as it took
            slot.cost_s = reply.cpu_s if reply.cpu_s or reply.status == OK else None
        if reply.status != OK:
            raise refusal(reply)
        return reply

    async def _answer(self, work: _Work) -> Reply:
        """Return the first answer: of the first worker, or of a second one when the first does not get on."""
        attempts = {asyncio.create_task(self._persist(work))}
        try:
            first: set[asyncio.Future[Any]] = {*attempts, work.slow}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if work.slow.done() and not any(task.done() for task in attempts):
                self.counts["hedged"] += 1
                attempts.add(asyncio.create_task(self._persist(work)))
            while True:
                done, pending = await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
                answered = [task for task in done if task.exception() is None]
                if answered or not pending:
                    reply: Reply = (answered or list(done))[0].result()
                    if is_over_budget(reply):
                        await self._stop_copies(work)
                    return reply
                attempts = pending
        finally:
            work.slow.cancel()
            await _end(attempts)

    async def _stop_copies(self, work: _Work) -> None:
        """End a unit wherever it still runs: one that obeys nobody would burn the next worker, too."""
        asked = [
            _soon(self._wires[worker].ask("DELETE", f"/work/{unit_id}"))
            for worker, unit_id in work.at.items()
        ]
        for failure in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(failure, BaseException) and not isinstance(failure, WireError | TimeoutError):
                raise failure

    async def _persist(self, work: _Work) -> Reply:
        """Ask one worker after the other until one finishes the unit."""
        full: set[str] = set()
        attempt, began = 0, time.monotonic()
        while attempt < ATTEMPTS:
            worker = self._choose(work.affinity, attempt, work.turn, avoid=full.union(work.at))
            try:
                return await self._ask(worker, work)
            except BusyError:
                self.counts["overflowed"] += 1
                full.add(worker)
                if full >= set(self._workers):
                    full.clear()
                    await asyncio.sleep(BUSY_S)
                continue
            except (WireError, UnfinishedError) as error:
                self._avoid_for_now(worker)
                work.failures.append(f"{worker}: {type(error).__name__} {error}".strip())
                work.crashes += isinstance(error, CrashedError)
                is_starting = isinstance(error, StartingError) and time.monotonic() - began < STARTING_S
            if work.crashes >= CRASHES:
                raise WorkFailedError(
                    f"{work.crashes} query workers ended while they ran a part of this query: "
                    "it is not tried again; narrow the time range or select less"
                )
            self.counts["redispatched"] += 1
            await asyncio.sleep(0.1 * attempt)
            # a worker that tells that it starts is worth waiting for when there is no other
            attempt = min(attempt + 1, ATTEMPTS - 1) if is_starting else attempt + 1
        raise WorkerUnavailableError(
            "no query worker finished a unit of work; tried " + "; ".join(work.failures)
        )

    async def _ask(self, worker: str, work: _Work) -> Reply:
        unit_id = next(self._ids)
        headers = {ORG_HEADER: quote(work.org, safe=""), UNIT_HEADER: unit_id}
        task = asyncio.create_task(self._wires[worker].ask("POST", "/work", work.body, headers))
        self._load[worker] += 1
        work.at[worker] = unit_id
        try:
            patience = LOOK_AFTER_S
            while not (await asyncio.wait({task}, timeout=patience))[0]:
                await self._look(worker, unit_id, work, task)
                patience = LOOK_EVERY_S
            reply = task.result()
        finally:
            self._load[worker] -= 1
            del work.at[worker]
            await _end({task})  # its connection is closed
            self._leave(worker)
        if reply.status in {502, 503, 504}:
            raise returned(reply)
        return reply

    async def _look(self, worker: str, unit_id: str, work: _Work, task: asyncio.Task[Reply]) -> None:
        """Ask how far a unit is: a machine without power closes no connection, and some are just slow."""
        try:
            reply = await _soon(self._wires[worker].ask("GET", f"/work/{unit_id}"))
            found = msgspec.json.decode(reply.body, type=Progress) if reply.status == OK else Progress("")
        except (WireError, TimeoutError, msgspec.MsgspecError) as error:
            if not task.done():
                raise UnfinishedError("stopped answering") from error
            return
        avoided = self._avoided()
        others = [self._load[one] for one in self._workers if one != worker and one not in avoided]
        if is_slow(found, self._load[worker], others) and self._hedges >= 1.0 and not work.slow.done():
            self._hedges -= 1.0
            work.slow.set_result(None)

    def _avoid_for_now(self, worker: str) -> None:
        """Make the worker the last choice until it is ready again, or for some time."""
        self._avoid[worker] = time.monotonic() + AVOID_S
        if worker not in self._recoveries:
            self._recoveries[worker] = asyncio.create_task(self._until_ready(worker))

    async def _until_ready(self, worker: str) -> None:
        try:
            while time.monotonic() < self._avoid.get(worker, 0.0):
                await asyncio.sleep(ASK_AGAIN_S)
                if await self._is_ready(worker):
                    self._avoid[worker] = 0.0
        finally:
            del self._recoveries[worker]

    def _avoided(self) -> set[str]:
        now = time.monotonic()
        return {worker for worker, until in self._avoid.items() if until > now}

    def _choose(self, affinity: str, attempt: int, turn: int = 0, avoid: Iterable[str] = frozenset()) -> str:
        """Rank workers by rendezvous hashing: adding or losing one moves only its units.

        A worker with more than its part of all units is passed over.
        """
        if not self._workers:
            raise WorkerUnavailableError("no query workers are known (LAKERUNNER_WORKER_URLS)")
        ranked = sorted(self._workers, key=lambda w: xxhash.xxh3_64_intdigest(f"{affinity}@{w}".encode()))
        avoided = self._avoided() | set(avoid)
        fresh = [worker for worker in ranked if worker not in avoided]
        if not fresh:
            return ranked[(turn + attempt) % len(ranked)]
        most = max(ALWAYS, SLACK * (sum(self._load[one] for one in fresh) + 1) / len(fresh))
        first = turn % len(fresh)
        in_order = [*fresh[first:], *fresh[:first]]
        return next((worker for worker in in_order if self._load[worker] < most), in_order[0])


def is_slow(found: Progress, load: int, others: Sequence[int]) -> bool:
    """Tell whether a second worker is likely to be faster; `load` and `others` are units at each worker.

    A unit that runs is left alone, however little its machine gives it: it takes as long elsewhere, and one
    that obeys nobody would burn the second worker, too.

    >>> [is_slow(Progress(state), 3, [1]) for state in ("running", "stalled", "queued")]
    [False, True, False]
    >>> is_slow(Progress("queued"), 3, [2, 0]), is_slow(Progress("stalled"), 3, [])
    (True, False)
    """
    if found.state == "queued":
        return any(one < load // 2 for one in others)
    return found.state == "stalled" and bool(others)


async def _soon(request: Coroutine[Any, Any, Reply]) -> Reply:
    """Return the answer to a short request; raise TimeoutError if the worker tells nothing in time."""
    task = asyncio.create_task(request)
    try:
        for _ in range(ASK_ALIVE_PARTS):
            if (await asyncio.wait({task}, timeout=ASK_ALIVE_S / ASK_ALIVE_PARTS))[0]:
                return task.result()
        raise TimeoutError("the worker told nothing")
    finally:
        await _end({task})


async def _end(tasks: Collection[asyncio.Task[Reply]]) -> None:
    """Cancel what still runs, and wait until it has ended."""
    if all(task.done() for task in tasks):
        _ = [task.exception() for task in tasks if not task.cancelled()]  # nobody else may look at it
        return
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
