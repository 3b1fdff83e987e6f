"""The query worker answers `POST /work` behind the internal token, and health checks.

A unit runs in a thread while the event loop watches the connection: when the coordinator hangs up, the scan
is interrupted. `lakerunner query-worker` calls `serve`.
"""

from __future__ import annotations

import asyncio
import ctypes
import hmac
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import anyio
import duckdb
import msgspec
import numpy as np
import uvicorn
from anyio.to_thread import run_sync
from litestar import Litestar, MediaType, Request, Response, get, post
from litestar.datastructures import State
from litestar.di import Provide

from lakerunner_query.errors import InvalidRequestError, UnauthorizedError
from lakerunner_query.protocol.units import TOKEN_HEADER, Unit
from lakerunner_query.serving import Counters, handlers, respond_plain, watch
from lakerunner_query.warmup import preload
from lakerunner_query.worker.logs.segment_opener import SegmentOpener
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.segment_cache import (
    SegmentCache,
    SegmentsInPlace,
    SegmentStore,
    folder_of,
)
from lakerunner_query.worker.units import AnswerCache, Readers, answer_unit
from resources.duckdb import Cancellation, CancelledQueryError, DuckLimits, DuckSession
from resources.objects.client import ObjectStore
from resources.objects.store import open_store, render_store_metrics
from resources.settings import Settings

ARROW = "application/vnd.apache.arrow.stream"
CLIENT_GONE = 499
TOUCHED_SHARE = 16
"""A worker touches this part of its memory before it is ready."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Options of `mallopt` in the GNU C library."""
RETAINED_BYTES = 512 << 20
"""Free memory at the end of the heap that is not given back."""
LARGEST_RETAINED = 1 << 30
"""Larger arrays go back to the system as soon as they are free."""
PAGE = 4096


@dataclass(frozen=True, slots=True)
class Worker:
    """Everything that one worker process shares between units."""

    token: str
    readers: Readers
    answers: AnswerCache
    cache: SegmentCache
    session: DuckSession
    threads: anyio.CapacityLimiter
    counters: Counters
    warming_up: threading.Thread

    async def run(self, request_body: bytes, request: Request[object, object, State]) -> bytes:
        unit = _decode(request_body)
        cancellation = Cancellation()
        watcher = asyncio.create_task(watch(request, cancellation.cancel))
        try:
            work = partial(answer_unit, unit, self.readers, self.answers, cancellation)
            body, counts = await run_sync(work, limiter=self.threads)
        except CancelledQueryError:
            self.counters.add("lakerunner_worker_cancelled_total")
            raise
        finally:
            cancellation.cancel()
            watcher.cancel()
        for series, increment in counts.items():
            self.counters.add(series, increment)
        return body


@post("/work", status_code=200, include_in_schema=False, request_max_body_size=None)
async def work(request: Request[object, object, State], worker: Worker) -> Response[bytes]:
    """Answer one unit of work."""
    if not hmac.compare_digest(request.headers.get(TOKEN_HEADER, "").encode(), worker.token.encode()):
        raise UnauthorizedError("this endpoint is for the query API only")
    body = await request.body()
    try:
        return Response(await worker.run(body, request), media_type=ARROW)
    except CancelledQueryError:
        return Response(b"", status_code=CLIENT_GONE)


@get(["/livez", "/healthz"], media_type=MediaType.TEXT, sync_to_thread=False)
def alive() -> str:
    return "ok\n"


@get("/readyz", media_type=MediaType.TEXT)
async def ready(worker: Worker) -> Response[str]:
    """Answer 200 once kernels are loaded and a statement runs."""
    if worker.warming_up.is_alive():
        return Response("loading kernels\n", status_code=503)
    await run_sync(_probe, worker.session)
    return Response("ok\n")


@get("/metrics", media_type=MediaType.TEXT, sync_to_thread=False)
def metrics(worker: Worker) -> str:
    cache = {
        "lakerunner_worker_cache_bytes": worker.cache.used_bytes,
        "lakerunner_worker_cache_budget_bytes": worker.cache.budget_bytes,
    }
    return worker.counters.render(gauges=cache) + render_store_metrics()


def create_worker_app(settings: Settings, store: SegmentStore | None = None) -> Litestar:
    """Create the ASGI application; needs `internal_token`, and `lake_url` unless a store is given."""
    token = settings.require("internal_token")
    lake = store or open_store(settings.require("lake_url"), settings)

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        app.state.worker = await run_sync(_open_worker, settings, token, lake)
        try:
            yield
        finally:
            app.state.worker.session.close()

    return Litestar(
        route_handlers=[work, alive, ready, metrics],
        lifespan=[lifespan],
        dependencies={"worker": Provide(_worker, sync_to_thread=False)},
        exception_handlers=handlers(respond_plain),
        openapi_config=None,
    )


def serve(settings: Settings) -> int:
    """Run until the process is told to stop."""
    retain_freed_memory()
    app = create_worker_app(settings)
    uvicorn.run(
        app,
        host=settings.worker_host,
        port=settings.worker_port,
        log_level=settings.log_level.lower(),
        access_log=False,
        timeout_graceful_shutdown=5,
    )
    return 0


def _open_worker(settings: Settings, token: str, store: SegmentStore) -> Worker:
    # two workers of one machine share a data directory, never a cache
    home = settings.data_dir / "query-worker" / str(settings.worker_port)
    cache = SegmentCache(home / "cache", settings.cache_max_bytes, store)
    limits = DuckLimits(settings.worker_memory_mb, settings.worker_threads, home / "spill", (home / "cache",))
    session = DuckSession(limits)
    logs = SegmentOpener(cache, store)
    lake = folder_of(settings.lake_url) if isinstance(store, ObjectStore) else None
    in_place = None if lake is None else SegmentsInPlace(lake)
    opener = MetricOpener(in_place or cache, store, settings.worker_memory_mb * 1024 * 1024 // 3)
    threads = anyio.CapacityLimiter(max(2, settings.worker_threads))
    warming_up = threading.Thread(target=_warm_up, args=(settings.worker_memory_mb,), daemon=True)
    warming_up.start()
    return Worker(
        token,
        Readers.of(logs, opener, session),
        AnswerCache(settings.worker_answers_mb * 1024 * 1024),
        cache,
        session,
        threads,
        Counters(),
        warming_up,
    )


def retain_freed_memory() -> bool:
    """Make the C library keep freed arrays, before threads start; False where it has no such option.

    The first touch of a page costs microseconds, on a virtual machine more than decoding the samples that it
    then holds. By default the C library gives large arrays back, and the next query pays again.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGEST_RETAINED), (_TRIM_THRESHOLD, RETAINED_BYTES))
    return all(mallopt(option, value) == 1 for option, value in options)


def touch_memory(size: int) -> None:
    """Allocate and free memory, every page of it touched: the first queries find it in the heap."""
    np.empty(size, np.uint8)[::PAGE] = 0


def _warm_up(memory_mb: int) -> None:
    touch_memory((memory_mb << 20) // TOUCHED_SHARE)
    preload()


def _worker(state: State) -> Worker:
    found: Worker = state.worker
    return found


def _decode(body: bytes) -> Unit:
    try:
        found: Unit = msgspec.json.decode(body, type=Unit)
    except msgspec.MsgspecError as error:
        raise InvalidRequestError(f"not a unit of work: {error}") from error
    return found


def _probe(session: DuckSession) -> None:
    with session.cursor() as cursor, suppress(duckdb.InterruptException):
        cursor.execute("SELECT 1").fetchall()
