"""The query worker answers `POST /work` behind the internal token, and health checks.

This process is the front. It queues units, whose organisations share the threads of the reader process
(`worker_reader.py`), watches that process, and replaces it: a unit may use so many CPU seconds, then it is
cancelled, and if it does not obey, its process is killed. While the process is silent or starts anew, nothing
waits here: units go back to the dispatcher. When the coordinator hangs up, a unit is cancelled.
`lakerunner query-worker` calls `serve`.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
import psutil
import uvicorn
from litestar import Litestar, MediaType, Request, Response, delete, get, post
from litestar.datastructures import State
from litestar.di import Provide

from lakerunner_query.errors import QueryError, UnauthorizedError
from lakerunner_query.fairness import FairTurns, QueueFullError, Turn, WithdrawnError
from lakerunner_query.protocol.frames import (
    BUSY,
    CANCELLED,
    CPU_HEADER,
    CRASHED,
    OK,
    ORG_HEADER,
    OVER_BUDGET,
    TOKEN_HEADER,
    UNFINISHED,
    UNIT_HEADER,
    Answered,
    Pong,
    Progress,
)  # fmt: skip
from lakerunner_query.serving import Counters, Failure, handlers, respond_plain, unless_gone
from lakerunner_query.worker_health import gets_on, verdict
from lakerunner_query.worker_process import Nursery, ReaderProcess, Spawn, UnitReturnedError
from resources.exposition import series
from resources.http_server import server_options
from resources.index.worker_leases import LOST, beat, withdraw
from resources.settings import Settings

ARROW = "application/vnd.apache.arrow.stream"
TICK_S, IDLE_TICK_S = 0.25, 1.0
"""Seconds between two looks at a reader with units, and at one without."""
SILENT_S = 1.0
"""Seconds without a sign of life after which a reader gets no further units."""
GRACE_S = 1.0
"""Seconds for a unit to obey its cancellation."""
START_AGAIN_S = 1.0
START_S = 120.0
"""Seconds that a reader may take until it takes units."""
METRICS_S = 1.0
"""Seconds that a scrape waits for the reader's part."""
WorkT = TypeVar("WorkT")
KILLS = "lakerunner_worker_kills_total"
_log = logging.getLogger(__name__)


class Supervisor:
    """One reader process at a time, and the queue in front of its threads."""

    def __init__(self, settings: Settings, counters: Counters, spawn: Spawn) -> None:
        self._settings = settings
        self._counters = counters
        self._spawn = spawn
        threads = max(2, settings.worker_threads)
        self._slots = threads + 1
        self.turns = FairTurns(threads, reserve=1, waiting_per_org=settings.worker_queue)
        self._reader: ReaderProcess | None = None
        self._numbers = itertools.count(1)
        self._ids: dict[str, int] = {}
        """Numbers of units by the dispatcher's id."""
        self._has_units = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Start the first reader; raise if it ends before it takes units."""
        if not await self._start():
            raise RuntimeError("the reader process ended while it started: see its log")
        self._keep(self._supervise())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._reader is not None:
            await self._reader.close()
            self._reader.kill("the worker ends")
            await asyncio.to_thread(self._reader.handle.wait)

    @property
    def is_ready(self) -> bool:
        reader = self._reader
        return reader is not None and reader.is_warm and reader.silent_s < SILENT_S

    async def run(self, org: str, unit_id: str, body: bytes) -> Answered:
        """Answer a unit in the organisation's turn; cancelling it cancels the unit."""
        self._living_reader()
        number = next(self._numbers)
        unit_id = unit_id or str(number)
        self._ids[unit_id] = number
        try:
            turn = await self.turns.acquire(org)
            # the slot is taken until the thread is free, even if nobody waits for the answer any more
            return await asyncio.shield(self._keep(self._work(turn, number, body)))
        except QueueFullError as error:
            raise UnitReturnedError(BUSY, str(error)) from error
        except WithdrawnError as error:
            raise UnitReturnedError(UNFINISHED, str(error)) from error
        except asyncio.CancelledError:
            if self._reader is not None:
                self._reader.cancel(number)
            raise
        finally:
            del self._ids[unit_id]

    def progress(self, unit_id: str) -> Progress:
        """Tell how far a unit is."""
        number = self._ids.get(unit_id)
        if number is None:
            return Progress("unknown")
        reader = self._reader
        if reader is None or number not in reader.running:
            return Progress("queued")
        unit, is_silent = reader.running[number], reader.silent_s > SILENT_S / 2
        advances = gets_on(unit, reader.running.values(), is_silent=is_silent)
        return Progress("running" if advances else "stalled", unit.cpu_s)

    def stop(self, unit_id: str) -> None:
        """Stop a unit of which a copy used more than it may, whether it obeys or not."""
        reader, unit = self._reader, None
        if reader is not None:
            unit = reader.running.get(self._ids.get(unit_id, 0))
        if reader is not None and unit is not None:
            reader.stop(unit)

    async def metrics(self) -> Pong:
        return Pong() if self._reader is None else await self._reader.metrics(METRICS_S)

    def gauges(self) -> dict[str, float]:
        return {
            "lakerunner_worker_units_waiting": self.turns.waiting,
            "lakerunner_worker_units_running": self.turns.running,
            "lakerunner_worker_unit_cpu_seconds_total": self.turns.used_s,
            "lakerunner_worker_reader_ready": float(self.is_ready),
        }

    async def _work(self, turn: Turn, number: int, body: bytes) -> Answered:
        turn.cost_s = 0.0
        try:
            reader = self._living_reader()
            self._has_units.set()
            answered = await reader.run(turn, number, body)
        finally:
            turn.release()
        if answered.outcome.status == CANCELLED:
            self._counters.add("lakerunner_worker_cancelled_total")
        return answered

    def _living_reader(self) -> ReaderProcess:
        """Return the process that takes units now; send the unit elsewhere when there is none."""
        reader = self._reader
        if reader is None or reader.ended.is_set() or reader.killed_for:
            raise UnitReturnedError(UNFINISHED, "the reader process of this worker is starting")
        if reader.silent_s > SILENT_S:
            raise UnitReturnedError(UNFINISHED, "the reader process of this worker is silent")
        return reader

    async def _start(self) -> bool:
        """Start a reader and wait until it takes units; False if it ends before."""
        try:
            reader = await ReaderProcess.start(self._settings, self._slots, self._spawn)
        except (OSError, RuntimeError, psutil.NoSuchProcess):
            _log.exception("the reader process did not start")
            return False
        self._keep(reader.listen())
        began = time.monotonic()
        while not reader.opened.is_set() and not reader.ended.is_set():
            await _wait(reader.opened, TICK_S)
            with suppress(psutil.NoSuchProcess):
                if reader.look().is_stopped or time.monotonic() - began > START_S:
                    reader.kill("start")
        if reader.opened.is_set():
            self._reader = reader
            return True
        await self._bury(reader)
        return False

    async def _supervise(self) -> None:
        while True:
            if self._reader is not None:
                await self._watch(self._reader)
                self._reader = None
            if not await self._start():
                _log.error("the reader process ended while it started: trying again in %s s", START_AGAIN_S)
                await asyncio.sleep(START_AGAIN_S)

    async def _watch(self, reader: ReaderProcess) -> None:
        """Look at the process until it ends, and kill it when there is a reason."""
        while not reader.ended.is_set():
            with suppress(psutil.NoSuchProcess):  # it ends just now
                self._judge(reader)
                reader.ping()
            await self._tick(reader)
        self.turns.withdraw("the reader process of this worker ended")
        why = reader.killed_for or CRASHED
        _log.warning("the reader process %s ended (%s): starting another one", reader.handle.pid, why)
        self._counters.add(series(KILLS, reason=why))
        await self._bury(reader)

    async def _tick(self, reader: ReaderProcess) -> None:
        if not reader.running:
            self._has_units.clear()
            await _wait(self._has_units, IDLE_TICK_S)
        await _wait(reader.ended, TICK_S)

    def _judge(self, reader: ReaderProcess) -> None:
        why = verdict(reader.look())
        budget_s, now = self._settings.worker_unit_cpu_s, time.monotonic()
        for unit in reader.running.values():
            if unit.over_budget_at and now - unit.over_budget_at > GRACE_S:
                why = OVER_BUDGET
            elif unit.cpu_s > budget_s:
                reader.stop(unit)
        if why:
            reader.kill(why)
        elif reader.silent_s > SILENT_S:
            self.turns.withdraw("the reader process of this worker is silent")

    async def _bury(self, reader: ReaderProcess) -> None:
        await reader.close()
        reader.handle.kill()
        await asyncio.to_thread(reader.handle.wait)

    def _keep(self, work: Coroutine[Any, Any, WorkT]) -> asyncio.Task[WorkT]:
        """Run the work to its end, whoever still waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, QueryError):  # whoever waits for a unit gets its error
            _log.error("the supervision of the reader process failed", exc_info=error)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but not longer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def keep_registered(settings: Settings, supervisor: Supervisor) -> None:
    """Extend the lease in the index while the reader gives signs of life; when cancelled, withdraw."""
    dsn, url = settings.require("index_dsn"), settings.worker_advertise_url.rstrip("/")
    try:
        while True:
            pause_s = TICK_S
            if supervisor.is_ready:
                pause_s = settings.worker_lease_s / 3
                try:
                    await asyncio.to_thread(beat, dsn, url)
                except LOST as error:
                    _log.warning("the lease of this worker was not extended: %s", error)
            await asyncio.sleep(pause_s)
    finally:
        with suppress(*LOST):
            await asyncio.to_thread(withdraw, dsn, url)


@dataclass(frozen=True, slots=True)
class Worker:
    """Everything that the handlers share."""

    token: str
    counters: Counters
    supervisor: Supervisor

    def authorise(self, request: Request[object, object, State]) -> None:
        if not hmac.compare_digest(request.headers.get(TOKEN_HEADER, "").encode(), self.token.encode()):
            raise UnauthorizedError("this endpoint is for the query API only")


@post("/work", status_code=200, include_in_schema=False, request_max_body_size=None)
async def work(request: Request[object, object, State], worker: Worker) -> Response[bytes]:
    """Answer one unit of work."""
    worker.authorise(request)
    body = await request.body()
    org, unit_id = unquote(request.headers.get(ORG_HEADER, "")), request.headers.get(UNIT_HEADER, "")
    answered = await unless_gone(request, worker.supervisor.run(org, unit_id, body))
    outcome, headers = answered.outcome, {CPU_HEADER: f"{answered.cpu_s:.6f}"}
    if outcome.status == OK:
        for name, increment in outcome.counts.items():
            worker.counters.add(name, increment)
        return Response(answered.body, media_type=ARROW, headers=headers)
    failure = msgspec.json.encode(Failure(outcome.status, outcome.code, outcome.message))
    return Response(failure, status_code=outcome.status, media_type=MediaType.JSON, headers=headers)


@get("/work/{unit_id:str}", include_in_schema=False)
async def progress(request: Request[object, object, State], unit_id: str, worker: Worker) -> Response[bytes]:
    """Tell the dispatcher how far a unit is."""
    worker.authorise(request)
    return Response(msgspec.json.encode(worker.supervisor.progress(unit_id)), media_type=MediaType.JSON)


@delete("/work/{unit_id:str}", status_code=200, include_in_schema=False)
async def stop(request: Request[object, object, State], unit_id: str, worker: Worker) -> Response[bytes]:
    """Stop a unit for what its copy at another worker used."""
    worker.authorise(request)
    worker.supervisor.stop(unit_id)
    return Response(b"{}", media_type=MediaType.JSON)


@get(["/livez", "/healthz"], media_type=MediaType.TEXT, sync_to_thread=False)
def alive() -> str:
    return "ok\n"


@get("/readyz", media_type=MediaType.TEXT)
async def ready(worker: Worker) -> Response[str]:
    """Answer 200 once kernels are loaded and the reader process gives signs of life."""
    if not worker.supervisor.is_ready:
        return Response("the reader process is starting or silent\n", status_code=503)
    return Response("ok\n")


@get("/metrics", media_type=MediaType.TEXT)
async def metrics(worker: Worker) -> str:
    of_reader = await worker.supervisor.metrics()
    return worker.counters.render(gauges={**worker.supervisor.gauges(), **of_reader.gauges}) + of_reader.text


def create_worker_app(settings: Settings, spawn: Spawn | None = None) -> Litestar:
    """Create the ASGI application; needs `internal_token` and `lake_url`."""
    token = settings.require("internal_token")
    settings.require("lake_url")

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        counters = Counters()
        nursery = Nursery()
        supervisor = Supervisor(settings, counters, spawn or nursery)
        registration: asyncio.Task[None] | None = None
        try:
            await supervisor.open()
            app.state.worker = Worker(token, counters, supervisor)
            if settings.worker_advertise_url:
                registration = asyncio.create_task(keep_registered(settings, supervisor))
            yield
        finally:
            if registration is not None:
                registration.cancel()
                await asyncio.gather(registration, return_exceptions=True)
            await supervisor.close()
            nursery.close()

    return Litestar(
        route_handlers=[work, progress, stop, alive, ready, metrics],
        lifespan=[lifespan],
        dependencies={"worker": Provide(_worker, sync_to_thread=False)},
        exception_handlers=handlers(respond_plain),
        openapi_config=None,
    )


def serve(settings: Settings) -> int:
    """Run until the process is told to stop."""
    app = create_worker_app(settings)
    uvicorn.run(
        app,
        host=settings.worker_host,
        port=settings.worker_port,
        timeout_graceful_shutdown=5,
        **server_options(settings),
    )
    return 0


def _worker(state: State) -> Worker:
    found: Worker = state.worker
    return found
